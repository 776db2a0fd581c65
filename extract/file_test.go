package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

func gzipped(parts ...string) []byte {
	var out bytes.Buffer
	for _, part := range parts { // a member each, as cat of several files makes them
		w := gzip.NewWriter(&out)
		io.WriteString(w, part)
		w.Close()
	}
	return out.Bytes()
}

func zstandard(parts ...string) []byte {
	var out bytes.Buffer
	for _, part := range parts {
		w, _ := zstd.NewWriter(&out)
		io.WriteString(w, part)
		w.Close()
	}
	return out.Bytes()
}

func write(t testing.TB, folder, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func openFile(t testing.TB, files *connection.Files, spec pipeline.File) (*File, error) {
	t.Helper()
	return OpenFile(t.Context(), files, &spec, day(15), nil)
}

func readFile(t testing.TB, files *connection.Files, spec pipeline.File) ([]string, error) {
	t.Helper()
	f, err := openFile(t, files, spec)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return collect(f.Rows())
}

const (
	jsonRows   = `[{"id":9007199254740993,"n":{"name":"Größe, \"x\"\r\n"},"zip":"02134","none":null},{"id":2,"n":{"name":""},"zip":"007"}]`
	ndjsonRows = "{\"id\":9007199254740993,\"n\":{\"name\":\"Größe, \\\"x\\\"\\r\\n\"},\"zip\":\"02134\",\"none\":null}\n{\"id\":2,\"n\":{\"name\":\"\"},\"zip\":\"007\"}\n"
	csvRows    = "zip,id,none,n.name\r\n02134,9007199254740993,,\"Größe, \"\"x\"\"\r\n\"\r\n007,2,,\"\"\r\n"
)

// TestSourcesAgree holds every kind of source to the same rows.
func TestSourcesAgree(t *testing.T) {
	t.Parallel()
	want := []string{`"9007199254740993" "Größe, \"x\"\r\n" "02134" NULL`, `"2" "" "007" NULL`}
	jsonColumns := columns("id", "name=n.name", "zip", "none")
	csvColumns := columns("id", "name=n.name", "zip", "none")
	half := strings.Index(ndjsonRows, "\n") + 1
	folder := t.TempDir()
	files := filesAt(t, folder)
	for name, data := range map[string][]byte{
		"a.json": []byte(jsonRows), "a.ndjson": []byte(ndjsonRows), "a.jsonl": []byte(strings.TrimSpace(ndjsonRows)), "a.csv": []byte(csvRows),
		"bom.json": []byte("\xef\xbb\xbf" + jsonRows), "bom.ndjson": []byte("\xef\xbb\xbf" + ndjsonRows), "bom.csv": []byte("\xef\xbb\xbf" + csvRows),
		"a.json.gz": gzipped(jsonRows), "a.ndjson.gz": gzipped(ndjsonRows), "a.csv.GZ": gzipped(csvRows),
		"a.json.zst": zstandard(jsonRows), "a.ndjson.zst": zstandard(ndjsonRows), "a.csv.zstd": zstandard(csvRows),
		"parts.ndjson.gz": gzipped(ndjsonRows[:half], ndjsonRows[half:]), "parts.ndjson.zst": zstandard(ndjsonRows[:half], ndjsonRows[half:]),
	} {
		write(t, folder, name, data)
		cols := jsonColumns
		if strings.Contains(name, ".csv") {
			cols = csvColumns
		}
		rows, err := readFile(t, files, pipeline.File{Path: pipeline.Template(name), Columns: cols})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantRows(t, rows, want...)
	}
	for format, answer := range map[string]struct{ media, body string }{
		"json": {"application/json", jsonRows}, "ndjson": {"application/x-ndjson", ndjsonRows}, "csv": {"text/csv", csvRows},
	} {
		cols := jsonColumns
		if format == "csv" {
			cols = csvColumns
		}
		rows, _, err := readListing(t.Context(), openListing(t, answering(t, answer.media, answer.body), pipeline.HTTP{Path: "/x", Format: format, Columns: cols}))
		if err != nil {
			t.Errorf("%s: %v", format, err)
		}
		wantRows(t, rows, want...)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := filesAt(t, folder)
	large := strings.Repeat("1,2\n", 100_000)
	for name, test := range map[string]struct {
		data []byte
		spec pipeline.File
		kind string
		says string
	}{
		"cut.csv.gz":     {gzipped("a,b\n" + large)[:200], pipeline.File{}, TypeTruncated, "the gzip file ends too early"},
		"cut.csv.zst":    {zstandard("a,b\n" + large)[:20], pipeline.File{}, TypeTruncated, "the zstd file ends too early"},
		"foot.csv.gz":    {gzipped("a,b\n1,2\n")[:28], pipeline.File{}, TypeTruncated, "the gzip file ends too early"},
		"empty.csv.gz":   {nil, pipeline.File{}, TypeTruncated, "empty, which is not a gzip file"},
		"empty.csv.zst":  {nil, pipeline.File{}, TypeTruncated, "empty, which is not a zstd file"},
		"plain.csv.gz":   {[]byte("first,second\n1,2\n"), pipeline.File{}, TypeBadRecord, "not a sound gzip file"},
		"plain.csv.zst":  {[]byte("a,b\n1,2\n"), pipeline.File{}, TypeBadRecord, "not a sound zstd file"},
		"tail.csv.gz":    {append(gzipped("a,b\n1,2\n"), "garbage garbage"...), pipeline.File{}, TypeBadRecord, "not a sound gzip file"},
		"packed.csv":     {gzipped("a,b\n1,2\n"), pipeline.File{}, TypeUnexpectedBody, "compressed with gzip"},
		"packed2.csv":    {zstandard("a,b\n1,2\n"), pipeline.File{}, TypeUnexpectedBody, "compressed with zstd"},
		"book.csv":       {[]byte("PK\x03\x04xxxx"), pipeline.File{}, TypeUnexpectedBody, "Excel"},
		"empty.csv":      {nil, pipeline.File{}, TypeUnexpectedBody, "no header line"},
		"empty.json":     {nil, pipeline.File{}, TypeUnexpectedBody, "the file is empty"},
		"cut.json":       {[]byte(`[{"a":1}`), pipeline.File{}, TypeTruncated, "ends in the middle"},
		"cut.ndjson":     {[]byte("{\"a\":1}\n{\"a\""), pipeline.File{}, TypeTruncated, "cut.ndjson record 2: the data ends in the middle"},
		"ragged.csv":     {[]byte("a,b\n1,2\n3\n"), pipeline.File{}, TypeBadRecord, "ragged.csv line 3: the record has 1 field, the header has 2"},
		"data.parquet":   {[]byte("PAR1"), pipeline.File{}, TypeBadSource, `"data.parquet" does not tell the format`},
		"odd.csv":        {nil, pipeline.File{Compression: "bz2"}, TypeBadSource, `compression "bz2" is not one of`},
		"odd2.csv":       {nil, pipeline.File{Format: "xml"}, TypeBadSource, `format "xml"`},
		"as-json.csv":    {[]byte("a,b\n1,2\n"), pipeline.File{Format: "json"}, TypeBadRecord, "not JSON"},
		"declared.dat":   {[]byte("a,b\n1\n"), pipeline.File{Format: "csv", Compression: "none"}, TypeBadRecord, "declared.dat line 2"},
		"packed.dat":     {gzipped("a,b\n1\n"), pipeline.File{Format: "csv", Compression: "gzip"}, TypeBadRecord, "packed.dat line 2"},
		"missing.ndjson": {[]byte("x"), pipeline.File{Missing: "perhaps", Path: "none.ndjson"}, TypeBadSource, `missing: "perhaps"`},
	} {
		write(t, folder, name, test.data)
		spec := test.spec
		spec.Columns = columns("a", "b")
		if spec.Path == "" {
			spec.Path = pipeline.Template(name)
		}
		_, err := readFile(t, files, spec)
		t.Run(name, func(t *testing.T) {
			wantVerdict(t, err, retry.Permanent, test.kind)
			wantText(t, err, test.says)
		})
	}
	for path, kind := range map[string]string{"../x.csv": "BadPath", "/etc/passwd.csv": "BadPath", ".": TypeBadSource, "{{ .Now }}": TypeBadSource} {
		_, err := readFile(t, files, pipeline.File{Path: pipeline.Template(path), Columns: columns("a")})
		wantVerdict(t, err, retry.Permanent, kind)
	}
	if err := os.Mkdir(filepath.Join(folder, "folder.csv"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := readFile(t, files, pipeline.File{Path: "folder.csv", Columns: columns("a")})
	wantVerdict(t, err, retry.Permanent, "BadPath")
}

func TestEmptyFilesThatAreHonest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := filesAt(t, folder)
	for name, data := range map[string][]byte{"a.ndjson": nil, "b.ndjson.gz": gzipped(""), "c.json": []byte("[]"), "d.csv": []byte("a\n"), "e.ndjson.zst": zstandard("")} {
		write(t, folder, name, data)
		if rows, err := readFile(t, files, pipeline.File{Path: pipeline.Template(name), Columns: columns("a")}); err != nil || len(rows) != 0 {
			t.Errorf("%s: %q, %v", name, rows, err)
		}
	}
}

func TestFileOfTheInterval(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "2026-01-15.csv", []byte("a\n1\n"))
	f, err := openFile(t, filesAt(t, folder), pipeline.File{Path: `{{ date .Interval.Start }}.csv`, Columns: columns("a")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pin := f.Pin(); pin.Path != "2026-01-15.csv" || pin.Size != 4 || pin.ETag == "" {
		t.Errorf("%+v", pin)
	}
	for row, err := range f.Rows() {
		if err != nil || show(row) != `"1"` || f.Where() != "2026-01-15.csv line 2" {
			t.Errorf("%s: %s, %v", f.Where(), show(row), err)
		}
	}
	if rows, err := collect(f.Rows()); err == nil || len(rows) != 0 {
		t.Error("the rows were read twice")
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := filesAt(t, folder)
	spec := pipeline.File{Path: "a.csv", Columns: columns("a")}
	for missing, class := range map[string]retry.Class{"": retry.Permanent, "fail": retry.Permanent, "wait": retry.Throttled} {
		spec.Missing = missing
		_, err := openFile(t, files, spec)
		wantVerdict(t, err, class, connection.TypeFileMissing)
		wantText(t, err, "a.csv in the connection local")
		if after := retry.Classify(err).After; missing == "wait" && after != missingWaitFor {
			t.Error(after)
		}
	}
	spec.Missing = "empty"
	f, err := openFile(t, files, spec)
	if err != nil || !f.Pin().Missing {
		t.Fatalf("%+v, %v", f, err)
	}
	if rows, err := collect(f.Rows()); err != nil || len(rows) != 0 {
		t.Errorf("%q, %v", rows, err)
	}
	if _, err := OpenPinned(t.Context(), files, &spec, f.Pin()); err != nil {
		t.Error(err)
	}
	write(t, folder, "a.csv", []byte("a\n1\n"))
	_, err = OpenPinned(t.Context(), files, &spec, f.Pin())
	wantVerdict(t, err, retry.Transient, connection.TypeSourceChanged)
	wantText(t, err, "was missing when it was looked up")
}

func TestPinnedFileThatChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := filesAt(t, folder)
	spec := pipeline.File{Path: "a.csv", Columns: columns("a")}
	write(t, folder, "a.csv", []byte("a\n1\n2\n"))
	f, err := openFile(t, files, spec)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(f.Pin()) // as it travels from the extract to the load
	if err != nil {
		t.Fatal(err)
	}
	var pin Pin
	if err := json.Unmarshal(text, &pin); err != nil {
		t.Fatal(err)
	}
	same, err := OpenPinned(t.Context(), files, &spec, pin)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := collect(same.Rows())
	if err != nil {
		t.Error(err)
	}
	wantRows(t, rows, `"1"`, `"2"`)

	for what, change := range map[string]func(){
		"rewritten": func() { write(t, folder, "a.csv", []byte("a\n3\n4\n")) },
		"longer":    func() { write(t, folder, "a.csv", []byte("a\n3\n4\n5\n6\n")) },
		"shorter":   func() { write(t, folder, "a.csv", []byte("a\n")) },
		"broken":    func() { write(t, folder, "a.csv", []byte("a\n\"x\ny")) },
		"gone":      func() { os.Remove(filepath.Join(folder, "a.csv")) },
	} {
		write(t, folder, "a.csv", []byte("a\n1\n2\n"))
		pinned, err := openFile(t, files, spec)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range pinned.Rows() { // changed while it is read
			change()
			last = err
		}
		t.Run("while reading, "+what, func(t *testing.T) {
			wantVerdict(t, last, retry.Transient, connection.TypeSourceChanged)
		})
		_, err = OpenPinned(t.Context(), files, &spec, pinned.Pin())
		t.Run("before opening, "+what, func(t *testing.T) {
			wantVerdict(t, err, retry.Transient, connection.TypeSourceChanged)
			wantText(t, err, "a.csv")
		})
	}
}

// TestFieldThatAppearsLate: a name that the first records do not have is not lost.
func TestFieldThatAppearsLate(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 600 {
		if i < 500 {
			fmt.Fprintf(&text, "{\"id\":%d}\n", i)
		} else {
			fmt.Fprintf(&text, "{\"coupon\":\"c\",\"id\":%d}\n", i)
		}
	}
	rows, _, err := decodeText(t, decoderSettings{format: formatNDJSON, columns: columns("id", "coupon")}, strings.NewReader(text.String()))
	if err != nil || len(rows) != 600 || rows[499] != `"499" NULL` || rows[500] != `"500" "c"` {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
