package extract

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// The values of pipeline.File.Missing, which are also those that a step without one has.
const (
	missingFail  = "fail"
	missingWait  = "wait"
	missingEmpty = "empty"
)

// missingWaitFor is how long a step with missing: wait stays away before it looks again.
const missingWaitFor = 30 * time.Second

// Pin says which version of which file an extract has seen. It holds no secrets.
type Pin struct {
	connection.Object
	// Missing says that there was no file, and that the step takes this for no rows.
	Missing bool `json:"missing,omitempty"`
}

// File is a file that was pinned: what is read is that version of it or an error. It is not safe for
// concurrent use.
type File struct {
	ctx     context.Context
	files   *connection.Files
	pin     Pin
	decoder decoder
	unpack  string // none, gzip or zstd
	body    io.ReadCloser
	begun   bool
}

// OpenFile looks up the file of an interval and pins it. loc is the pipeline's zone for its templates;
// nil means UTC. ctx holds for all of the file's reading.
//
// A missing file is an error of the type FileMissing: permanent, throttled with missing: wait, so that
// it is looked up again half a minute later, or none with missing: empty.
func OpenFile(ctx context.Context, files *connection.Files, spec *pipeline.File, iv interval.Interval, loc *time.Location) (*File, error) {
	name, err := spec.Path.Execute(iv, loc)
	if err != nil {
		return nil, retry.Permanentf(TypeBadSource, "path of a file step: %w", err)
	}
	f, err := newFile(ctx, files, spec, name)
	if err != nil {
		return nil, err
	}
	f.pin.Object, err = files.Stat(ctx, name)
	if retry.Classify(err).Type != connection.TypeFileMissing {
		return f, err
	}
	switch spec.Missing {
	case missingEmpty:
		f.pin = Pin{Object: connection.Object{Path: name}, Missing: true}
		return f, nil
	case missingWait:
		return nil, retry.ThrottledError(connection.TypeFileMissing, missingWaitFor, err)
	case missingFail, "":
		return nil, err
	default:
		return nil, retry.Permanentf(TypeBadSource, "missing: %q is not one of fail, wait and empty", spec.Missing)
	}
}

// OpenPinned opens the version of a file that an extract has pinned. When the file is another one by now it
// is a transient error of the type SourceChanged: the extract must pin it anew.
func OpenPinned(ctx context.Context, files *connection.Files, spec *pipeline.File, pin Pin) (*File, error) {
	f, err := newFile(ctx, files, spec, pin.Path)
	if err != nil {
		return nil, err
	}
	f.pin = pin
	return f, f.verify()
}

func newFile(ctx context.Context, files *connection.Files, spec *pipeline.File, name string) (*File, error) {
	unpack, rest, err := compressionOf(spec.Compression, name)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(spec.Format, rest)
	if err != nil {
		return nil, err
	}
	d, err := decoderSettings{format: format, records: spec.Records, csv: spec.CSV, columns: spec.Columns}.decoder()
	if err != nil {
		return nil, err
	}
	return &File{ctx: ctx, files: files, decoder: d, unpack: unpack}, nil
}

// verify looks whether the file is still the one that was pinned.
func (f *File) verify() error {
	now, err := f.files.Stat(f.ctx, f.pin.Path)
	missing := retry.Classify(err).Type == connection.TypeFileMissing
	switch {
	case missing && f.pin.Missing:
		return nil
	case missing:
		return changed("%s is gone since it was looked up", f.pin.Path)
	case err != nil:
		return err
	case f.pin.Missing:
		return changed("%s was missing when it was looked up, and is there now", f.pin.Path)
	case !now.Same(f.pin.Object):
		return changed("%s was changed since it was looked up", f.pin.Path)
	}
	return nil
}

func changed(format string, args ...any) error {
	return retry.TransientError(connection.TypeSourceChanged, fmt.Errorf(format, args...))
}

// Pin says which version of the file this is.
func (f *File) Pin() Pin { return f.pin }

// Where says where in the file the last row was, for errors: "orders.csv line 17".
func (f *File) Where() string { return f.pin.Path + " " + f.decoder.where() }

// Close gives up what of the file has not been read. It is idempotent.
func (f *File) Close() error {
	if f.body == nil {
		return nil
	}
	body := f.body
	f.body = nil
	return body.Close()
}

// Rows streams the file's rows. Whether they may be kept is known only when the iteration has ended without an
// error: a file that was changed while it was read says so at its end.
func (f *File) Rows() Rows {
	return func(yield func([][]byte, error) bool) {
		if f.begun {
			yield(nil, errors.New("the rows of a file can be read once"))
			return
		}
		f.begun = true
		defer f.Close()
		err := f.read(yield)
		if err != nil && err != errStopped {
			yield(nil, fmt.Errorf("%s: %w", f.Where(), err))
		}
	}
}

func (f *File) read(yield func([][]byte, error) bool) error {
	if f.pin.Missing {
		return f.verify()
	}
	body, err := f.files.Open(f.ctx, f.pin.Object)
	if err != nil {
		return err
	}
	f.body = body
	data, closeData, err := unpacked(f.unpack, body)
	if err == nil {
		err = f.decodeData(data, yield)
		closeData()
	}
	if err == errStopped {
		return err
	}
	// A file that is written to while it is read looks broken: that it was changed is the truth then.
	if changed := f.verify(); changed != nil && (err == nil || retry.Classify(err).Class == retry.Permanent) {
		return changed
	}
	return err
}

func (f *File) decodeData(data io.Reader, yield func([][]byte, error) bool) error {
	reader := bufio.NewReaderSize(data, readerSize)
	if err := f.checkHead(reader); err != nil {
		return err
	}
	err := f.decoder.decode(reader, func(row [][]byte) bool { return yield(row, nil) })
	if errors.Is(err, errTruncated) {
		return retry.PermanentError(TypeTruncated, errTruncated)
	}
	return err
}

// checkHead recognises what is not text at all, and drops a byte order mark before JSON.
func (f *File) checkHead(reader *bufio.Reader) error {
	head, err := reader.Peek(sniffed)
	if err != nil && err != io.EOF {
		return unpackError(f.unpack, err)
	}
	_, isCSV := f.decoder.(*csvDecoder)
	document, isJSON := f.decoder.(*jsonDecoder)
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return unexpected("the file is compressed with gzip: say so in compression")
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return unexpected("the file is compressed with zstd: say so in compression")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return unexpected("the file is a ZIP archive or an Excel workbook; csv, ndjson and json are read, plain or compressed with gzip or zstd")
	case isJSON && len(bytes.TrimSpace(head)) == 0 && len(head) < sniffed:
		return unexpected("the file is empty where a JSON document is wanted (records: %q)", document.path)
	case !isCSV && bytes.HasPrefix(head, byteOrderMark):
		reader.Discard(len(byteOrderMark))
	}
	return nil
}

// compressionOf says how a file is compressed, and its name without the ending that says so.
func compressionOf(declared, name string) (kind, rest string, err error) {
	rest = name
	byName := "none"
	switch ending := strings.ToLower(path.Ext(name)); ending {
	case ".gz", ".gzip":
		byName, rest = "gzip", name[:len(name)-len(ending)]
	case ".zst", ".zstd":
		byName, rest = "zstd", name[:len(name)-len(ending)]
	}
	switch declared {
	case "":
		return byName, rest, nil
	case "none", "gzip", "zstd":
		return declared, rest, nil
	default:
		return "", "", retry.Permanentf(TypeBadSource, "compression %q is not one of none, gzip and zstd", declared)
	}
}

// formatOf says what a file holds, by its declaration or its name.
func formatOf(declared, name string) (string, error) {
	if declared != "" {
		return declared, nil
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return formatCSV, nil
	case ".ndjson", ".jsonl":
		return formatNDJSON, nil
	case ".json":
		return formatJSON, nil
	default:
		return "", retry.Permanentf(TypeBadSource, "the name %q does not tell the format: say in format whether it is csv, ndjson or json", name)
	}
}

// maximumWindow bounds the memory of zstd, in bytes: what `zstd --long` makes by default.
const maximumWindow = 128 << 20

// unpacked decompresses a body. A compressed file that ends too early is an error, never an end.
func unpacked(kind string, body io.Reader) (data io.Reader, done func(), err error) {
	done = func() {}
	buffered := bufio.NewReaderSize(body, readerSize)
	if kind == "none" {
		return buffered, done, nil
	}
	if _, err := buffered.Peek(1); err == io.EOF {
		return nil, done, retry.Permanentf(TypeTruncated, "the file is empty, which is not a %s file", kind)
	}
	if kind == "gzip" {
		reader, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, done, unpackError(kind, err)
		}
		return &unpacking{kind: kind, reader: reader}, done, nil
	}
	reader, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maximumWindow))
	if err != nil {
		return nil, done, unpackError(kind, err)
	}
	return &unpacking{kind: kind, reader: reader}, reader.Close, nil
}

// unpacking names what goes wrong while a body is decompressed.
type unpacking struct {
	kind   string
	reader io.Reader
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.reader.Read(p)
	if err != nil && err != io.EOF {
		err = unpackError(u.kind, err)
	}
	return n, err
}

// unpackError keeps errors of the body apart from those of the compression.
func unpackError(kind string, err error) error {
	var known *retry.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return retry.Permanentf(TypeTruncated, "the %s file ends too early", kind)
	default:
		return retry.Permanentf(TypeBadRecord, "not a sound %s file: %w", kind, err)
	}
}
