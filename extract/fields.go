package extract

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// fields takes the declared columns out of JSON records. It reads only what jsontext has accepted
// before, so it can skip over values without looking at their grammar again.
type fields struct {
	root    *node
	raw     []bool // columns that keep the JSON as it was sent
	row     [][]byte
	scratch []byte
	found   int // columns that had a value or null in the current record
}

func newFields(columns []pipeline.Column) (*fields, error) {
	f := &fields{root: newNode(""), raw: make([]bool, len(columns)), row: make([][]byte, len(columns))}
	if len(columns) == 0 {
		return nil, retry.Permanentf(TypeBadSource, "the source declares no columns")
	}
	for i, column := range columns {
		kind, err := pipeline.ParseType(column.Type)
		if err != nil {
			return nil, retry.Permanentf(TypeBadSource, "column %q: %w", column.Name, err)
		}
		f.raw[i] = kind.Kind == pipeline.JSONB
		path := []string{column.Name} // a name is one name, also when it holds a dot
		if column.Path != "" {
			if path, err = parsePath(column.Path); err != nil {
				return nil, retry.Permanentf(TypeBadSource, "column %q: %w", column.Name, err)
			}
		}
		leaf := f.root.add(path)
		leaf.columns = append(leaf.columns, i)
	}
	return f, nil
}

// take fills the row from a record.
func (f *fields) take(record []byte) ([][]byte, error) {
	clear(f.row)
	f.scratch = f.scratch[:0]
	f.found = 0
	switch record[0] {
	case '{':
		f.object(f.root, record, 0)
	case '[':
		f.array(f.root, record, 0)
	default:
		return nil, badRecord("a record must be an object, and this is %s", kindName(jsontext.Kind(record[0])))
	}
	// A record without any of the columns is most likely no record at all: an error object, or the
	// path of the records is wrong. With a single column it may just be unset.
	if f.found == 0 && len(f.row) > 1 && record[0] == '[' {
		return nil, badRecord("the record is an array, and the path of no column leads to a place in it, such as 0")
	}
	if f.found == 0 && len(f.row) > 1 {
		return nil, badRecord("the record has none of the declared columns; it has the names %s", names(record))
	}
	return f.row, nil
}

// object walks the object that begins at i and returns the index after it.
func (f *fields) object(n *node, b []byte, i int) int {
	i = skipSpace(b, i+1)
	for b[i] != '}' {
		end := skipString(b, i)
		child := n.named(f.name(b[i:end]))
		i = skipSpace(b, end)
		i = skipSpace(b, i+1) // the colon
		if child == nil {
			i = skipValue(b, i)
		} else {
			i = f.value(child, b, i)
		}
		i = skipSpace(b, i)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return i + 1
}

func (f *fields) array(n *node, b []byte, i int) int {
	i = skipSpace(b, i+1)
	for index := 0; b[i] != ']'; index++ {
		if child := n.at(index); child != nil {
			i = f.value(child, b, i)
		} else {
			i = skipValue(b, i)
		}
		i = skipSpace(b, i)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return i + 1
}

// value takes what n wants from the value that begins at i and returns the index after it.
func (f *fields) value(n *node, b []byte, i int) int {
	end := i
	switch {
	case len(n.children) > 0 && b[i] == '{':
		end = f.object(n, b, i)
	case len(n.children) > 0 && b[i] == '[':
		end = f.array(n, b, i)
	default:
		end = skipValue(b, i)
	}
	for _, column := range n.columns {
		f.found++
		f.row[column] = f.text(b[i:end], f.raw[column])
	}
	return end
}

// text converts a value to a field.
func (f *fields) text(value []byte, raw bool) []byte {
	switch {
	case value[0] == 'n':
		return nil
	case raw:
		return value
	case value[0] == '"':
		if bytes.IndexByte(value, '\\') < 0 {
			return value[1 : len(value)-1]
		}
		return f.unquote(value)
	case value[0] == '{' || value[0] == '[':
		return f.compact(value)
	default:
		return value
	}
}

// name decodes the name of a member.
func (f *fields) name(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return f.unquote(quoted)
}

// unquote decodes a JSON text into the scratch. When that grows, fields of the same row keep pointing to
// the memory before it, which stays as it is.
func (f *fields) unquote(quoted []byte) []byte {
	start := len(f.scratch)
	f.scratch, _ = jsontext.AppendUnquote(f.scratch, quoted) // accepted by jsontext before
	return f.scratch[start:len(f.scratch):len(f.scratch)]
}

// compact copies JSON without the blanks between its tokens.
func (f *fields) compact(value []byte) []byte {
	start := len(f.scratch)
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := skipString(value, i)
			f.scratch = append(f.scratch, value[i:end]...)
			i = end
		default:
			f.scratch = append(f.scratch, value[i])
			i++
		}
	}
	return f.scratch[start:len(f.scratch):len(f.scratch)]
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the index after the text that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// maximumNames is how many names of an object an error lists.
const maximumNames = 10

// names lists the names of a record for an error.
func names(record []byte) string {
	var list []string
	for i := skipSpace(record, 1); record[i] != '}'; {
		end := skipString(record, i)
		name, _ := jsontext.AppendUnquote(nil, record[i:end])
		list = append(list, string(name))
		i = skipSpace(record, skipSpace(record, end)+1)
		i = skipSpace(record, skipValue(record, i))
		if record[i] == ',' {
			i = skipSpace(record, i+1)
		}
	}
	return listNames(list)
}

func listNames(list []string) string {
	if len(list) == 0 {
		return "(none)"
	}
	var out []byte
	for i, name := range list {
		if i == maximumNames {
			return string(out) + " and more"
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, quote(name)...)
	}
	return string(out)
}

// kindName names a kind of JSON value in a sentence.
func kindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}
