package extract

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// csvDecoder turns CSV into rows.
//
// All records must have as many fields as the first one. A blank line is a record of one empty field: a
// row where there is one column, an error where there are more, except at the end, where blank lines are
// left alone.
type csvDecoder struct {
	columns []pipeline.Column
	comma   byte
	header  bool
	null    string
	digest  *xxhash.Digest
	// unended says that nothing but a line end tells a last record from a torn one.
	unended bool

	reader *csvReader
	width  int   // fields per record; 0 before the first
	places []int // of each column in the record
	row    [][]byte
}

func newCSVDecoder(settings *pipeline.CSV, columns []pipeline.Column) (*csvDecoder, error) {
	if len(columns) == 0 {
		return nil, retry.Permanentf(TypeBadSource, "the source declares no columns")
	}
	d := &csvDecoder{columns: columns, comma: ',', header: true, row: make([][]byte, len(columns))}
	if settings != nil {
		if settings.Delimiter != "" {
			d.comma = settings.Delimiter[0]
		}
		if len(settings.Delimiter) > 1 || d.comma == '"' || d.comma == '\n' || d.comma == '\r' || d.comma >= 0x80 {
			return nil, retry.Permanentf(TypeBadSource, "csv.delimiter %q must be one ASCII character, neither a quote nor a line end", settings.Delimiter)
		}
		if settings.Header != nil {
			d.header = *settings.Header
		}
		if settings.Null != nil {
			d.null = *settings.Null
		}
	}
	if !d.header {
		return d, d.placeByNumber()
	}
	return d, nil
}

func (d *csvDecoder) where() string {
	if d.reader == nil {
		return "line 1"
	}
	return d.reader.where()
}

func (d *csvDecoder) decode(source io.Reader, yield func([][]byte) bool) error {
	d.reader = newCSVReader(source, d.comma)
	if err := d.dropBOM(); err != nil {
		return err
	}
	if d.header {
		if err := d.readHeader(); err != nil {
			return err
		}
	}
	for {
		record, err := d.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if isBlank(record) && d.width > 1 {
			return d.onlyBlankLinesFollow()
		}
		if err := d.checkWidth(len(record)); err != nil {
			return err
		}
		if d.digest != nil {
			d.digest.Write(d.reader.record)
		}
		d.reader.unquote()
		for i, place := range d.places {
			field := d.reader.fields[place]
			if !field.quoted && string(field.text) == d.null {
				d.row[i] = nil
			} else {
				d.row[i] = notNil(field.text)
			}
		}
		if !yield(d.row) {
			return errStopped
		}
	}
}

// next reads a record. A torn one is never passed on: what is left of a value may be another value, or one that the
// column's type refuses for good.
func (d *csvDecoder) next() ([]csvField, error) {
	record, err := d.reader.read()
	if d.unended && d.reader.torn {
		return nil, errTruncated
	}
	return record, err
}

// notNil keeps an empty text apart from NULL.
func notNil(text []byte) []byte {
	if text == nil {
		return []byte{}
	}
	return text
}

func isBlank(record []csvField) bool {
	return len(record) == 1 && !record[0].quoted && len(record[0].text) == 0
}

func (d *csvDecoder) onlyBlankLinesFollow() error {
	line := d.reader.at
	for {
		record, err := d.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !isBlank(record) {
			d.reader.at = line
			return badRecord("a blank line stands between records, which have %d fields", d.width)
		}
	}
}

func (d *csvDecoder) checkWidth(fields int) error {
	if d.width == 0 {
		d.width = fields
		if most := slices.Max(d.places); most >= fields {
			return badRecord("the record has %s, and a column is taken from field %d", numberOf(fields), most+1)
		}
	}
	if fields != d.width {
		first := "the first record has"
		if d.header {
			first = "the header has"
		}
		return badRecord("the record has %s, %s %d", numberOf(fields), first, d.width)
	}
	return nil
}

func numberOf(fields int) string {
	if fields == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", fields)
}

// dropBOM drops the byte order mark that Excel writes, and recognises UTF-16, which it also writes.
func (d *csvDecoder) dropBOM() error {
	c := d.reader
	for c.end-c.start < 3 && c.err == nil {
		if err := c.fill(c.end - c.start); err != nil {
			return err
		}
	}
	head := string(c.buf[c.start:min(c.start+3, c.end)])
	switch {
	case head == "\xef\xbb\xbf":
		c.start += 3
	case len(head) >= 2 && (head[:2] == "\xff\xfe" || head[:2] == "\xfe\xff"):
		return badRecord("the text is UTF-16; only UTF-8 is read")
	}
	return nil
}

// readHeader finds the columns by their names.
func (d *csvDecoder) readHeader() error {
	record, err := d.next()
	if err == io.EOF {
		return unexpected("there is no header line: the CSV is empty")
	}
	if err != nil {
		return err
	}
	d.reader.unquote()
	byName := make(map[string]int, len(record))
	list := make([]string, len(record))
	for i, field := range d.reader.fields {
		name := string(field.text)
		if first, repeated := byName[name]; repeated {
			return badRecord("the header names %s twice, as field %d and field %d", quote(name), first+1, i+1)
		}
		byName[name], list[i] = i, name
	}
	d.width = len(record)
	d.places = make([]int, len(d.columns))
	for i, column := range d.columns {
		name := column.Path
		if name == "" {
			name = column.Name
		}
		place, ok := byName[name]
		if !ok {
			return badRecord("the header does not name %q, which column %q is taken from; %s", name, column.Name, describeHeader(list))
		}
		d.places[i] = place
	}
	return nil
}

// describeHeader says what was taken for a header without quoting it: it may be a row.
func describeHeader(names []string) string {
	text := "its line has " + numberOf(len(names))
	for _, name := range names {
		if strings.ContainsRune(name, '\r') {
			return text + ", and lines seem to end with a carriage return only: they must end with a line feed"
		}
	}
	if len(names) == 1 {
		return text + ": is the delimiter right?"
	}
	return text + ": names are compared exactly, also in upper and lower case; a file without a header needs csv: { header: false }"
}

// placeByNumber finds the columns of CSV without a header.
func (d *csvDecoder) placeByNumber() error {
	d.places = make([]int, len(d.columns))
	for i, column := range d.columns {
		d.places[i] = i
		if column.Path == "" {
			continue
		}
		number, err := strconv.ParseUint(column.Path, 10, 16)
		if err != nil || number == 0 {
			return retry.Permanentf(TypeBadSource, "column %q: without a header line its path is the field's number, counted from 1, not %q", column.Name, column.Path)
		}
		d.places[i] = int(number) - 1
	}
	return nil
}
