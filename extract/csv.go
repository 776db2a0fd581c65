package extract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// csvBuffer is the initial size of the buffer and the least that is asked of the source at a time, in
// bytes.
const csvBuffer = 64 << 10

// errOpenQuote is what ends a text in the middle of a field in quotes.
var errOpenQuote = errors.New("a quote is opened here and never closed")

// csvField is one field of a record.
type csvField struct {
	text   []byte
	quoted bool // it stood in quotes: then it is never NULL
}

// csvReader reads records as RFC 4180 has them. Other than encoding/csv it keeps a line end inside
// quotes as it is, tells an empty field from an empty text in quotes, and knows no blank lines: they are
// records of one empty field.
type csvReader struct {
	source io.Reader
	comma  byte
	buf    []byte
	start  int   // of what is not yet read in buf
	end    int   // of what is in buf
	err    error // with which the source ended
	line   int   // of the next record, from 1
	at     int   // line of the current record
	torn   bool  // the source ended before the current record had its line end
	marks  []csvMark
	fields []csvField
	record []byte // the current record as it stands in the source, until its fields are made
}

// csvMark is the place of a field in the record.
type csvMark struct {
	start, end int
	quoted     bool
	doubled    bool // holds doubled quotes
}

func newCSVReader(source io.Reader, comma byte) *csvReader {
	return &csvReader{source: source, comma: comma, buf: make([]byte, csvBuffer), line: 1}
}

// read returns the fields of the next record, valid until the next call, or io.EOF.
func (c *csvReader) read() ([]csvField, error) {
	c.at = c.line
	for {
		data := c.buf[c.start:c.end]
		final := c.err == io.EOF
		if len(data) == 0 && final {
			return nil, io.EOF
		}
		length, err := c.scan(data, final)
		c.torn = errors.Is(err, errOpenQuote) || err == nil && length > 0 && data[length-1] != '\n'
		if err != nil {
			return nil, err
		}
		if length > 0 {
			c.start += length
			return c.finish(data[:length])
		}
		if c.err != nil && c.err != io.EOF {
			return nil, c.err
		}
		if err := c.fill(len(data)); err != nil {
			return nil, err
		}
	}
}

// fill reads more. It reads at least as much as is there already once that is large, so that scanning
// a large record again and again takes time in proportion to its size.
func (c *csvReader) fill(have int) error {
	if have > maximumRecord {
		return badRecord("%w; perhaps a quote is missing", errTooLarge)
	}
	want := have + 1
	if have >= csvBuffer {
		want = 2 * have
	}
	if size := max(want, csvBuffer); size > len(c.buf) {
		grown := make([]byte, size)
		copy(grown, c.buf[c.start:c.end])
		c.buf = grown
	} else {
		copy(c.buf, c.buf[c.start:c.end])
	}
	c.start, c.end = 0, have
	for idle := 0; c.end < want && c.err == nil; {
		n, err := c.source.Read(c.buf[c.end:])
		c.end += n
		c.err = err
		if idle++; n > 0 {
			idle = 0
		} else if idle > 100 {
			c.err = io.ErrNoProgress
		}
	}
	return nil
}

// scan looks for a whole record at the beginning of data and returns its length with its line end, or 0
// when there must be more.
func (c *csvReader) scan(data []byte, final bool) (int, error) {
	c.marks = c.marks[:0]
	for i := 0; ; {
		var next int
		var done bool
		var err error
		if i < len(data) && data[i] == '"' {
			next, done, err = c.scanQuoted(data, i, final)
		} else {
			next, done, err = c.scanPlain(data, i, final)
		}
		if err != nil || done || next == 0 {
			return next, err
		}
		i = next
	}
}

// scanPlain reads a field without quotes. It returns where the next field begins, or the length of the
// record when it is done, or 0 when there must be more.
func (c *csvReader) scanPlain(data []byte, i int, final bool) (next int, done bool, err error) {
	comma := c.comma
	for j := i; j < len(data); j++ {
		switch b := data[j]; {
		case b > '"' && b != comma:
		case b == comma:
			c.marks = append(c.marks, csvMark{start: i, end: j})
			return j + 1, false, nil
		case b == '\n':
			c.marks = append(c.marks, csvMark{start: i, end: withoutCR(data, i, j)})
			return j + 1, true, nil
		case b == '"':
			return 0, false, c.bad(data[:j], "a quote stands inside a field that does not begin with one; a field with quotes in it is put into quotes, and they are doubled")
		}
	}
	if !final {
		return 0, false, nil
	}
	c.marks = append(c.marks, csvMark{start: i, end: withoutCR(data, i, len(data))})
	return len(data), true, nil
}

func withoutCR(data []byte, start, end int) int {
	if end > start && data[end-1] == '\r' {
		return end - 1
	}
	return end
}

// scanQuoted is scanPlain for a field in quotes.
func (c *csvReader) scanQuoted(data []byte, i int, final bool) (next int, done bool, err error) {
	mark := csvMark{start: i + 1, quoted: true}
	j := i + 1
	for {
		at := bytes.IndexByte(data[j:], '"')
		if at < 0 && final {
			c.at += bytes.Count(data[:i], []byte{'\n'})
			return 0, false, badRecord("%w", errOpenQuote)
		}
		if at < 0 {
			return 0, false, nil
		}
		j += at + 1
		if j < len(data) && data[j] == '"' {
			mark.doubled = true
			j++
			continue
		}
		break
	}
	if j == len(data) && !final {
		return 0, false, nil // the quote may be the first of two
	}
	mark.end = j - 1
	rest := data[j:]
	switch {
	case len(rest) > 0 && rest[0] == c.comma:
		next = j + 1
	case len(rest) > 0 && rest[0] == '\n':
		next, done = j+1, true
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		next, done = j+2, true
	case len(rest) == 1 && rest[0] == '\r' && !final:
		return 0, false, nil
	case len(rest) == 0 || len(rest) == 1 && rest[0] == '\r':
		next, done = len(data), true
	default:
		return 0, false, c.bad(data[:j], "text follows the closing quote of a field; a quote inside quotes is doubled")
	}
	c.marks = append(c.marks, mark)
	return next, done, nil
}

// bad is an error after before, which begins at the current record.
func (c *csvReader) bad(before []byte, message string) error {
	c.at += bytes.Count(before, []byte{'\n'})
	return badRecord("%s", message)
}

// finish makes the fields of a record that was found.
func (c *csvReader) finish(record []byte) ([]csvField, error) {
	c.record = record
	if !utf8.Valid(record) {
		return nil, badRecord("the text is not UTF-8")
	}
	c.line++
	c.fields = c.fields[:0]
	for _, mark := range c.marks {
		if mark.quoted {
			c.line += bytes.Count(record[mark.start:mark.end], []byte{'\n'})
		}
		c.fields = append(c.fields, csvField{text: record[mark.start:mark.end], quoted: mark.quoted})
	}
	return c.fields, nil
}

// unquote resolves doubled quotes, in place. It is apart from finish so that the record can be looked
// at as it was sent before.
func (c *csvReader) unquote() {
	for i, mark := range c.marks {
		if !mark.doubled {
			continue
		}
		text := c.fields[i].text
		out := text[:0]
		for j := 0; j < len(text); j++ {
			out = append(out, text[j])
			if text[j] == '"' {
				j++
			}
		}
		c.fields[i].text = out
	}
}

func (c *csvReader) where() string { return fmt.Sprintf("line %d", max(c.at, 1)) }
