package extract

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/retry"
)

// source remembers the error with which a body ended, which decoders would wrap or hide, and bounds what
// is read between two records.
type source struct {
	reader io.Reader
	err    error
	since  int // bytes read since the last record
}

func (s *source) Read(p []byte) (int, error) {
	if s.since > maximumRecord+readAhead {
		return 0, errTooLarge
	}
	n, err := s.reader.Read(p)
	s.since += n
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// readAhead is what a decoder may have read beyond the current record, in bytes.
const readAhead = 1 << 20

// records decodes JSON records with their fields; jsonDecoder and ndjsonDecoder share it.
type records struct {
	fields *fields
	digest *xxhash.Digest // of the records of a page; nil when nobody asks
	number int64          // of the record being decoded, from 1
	source *source
	tokens *jsontext.Decoder
}

func (r *records) begin(reader io.Reader) {
	r.source = &source{reader: reader}
	r.tokens = jsontext.NewDecoder(r.source)
}

// next reads one record and yields its row.
func (r *records) next(yield func([][]byte) bool) error {
	r.number++
	value, err := r.tokens.ReadValue()
	if err != nil {
		return err
	}
	if len(value) > maximumRecord {
		return errTooLarge
	}
	r.source.since = 0
	row, err := r.fields.take(value)
	if err != nil {
		return err
	}
	if r.digest != nil {
		r.digest.Write(value)
	}
	if !yield(row) {
		return errStopped
	}
	return nil
}

func (r *records) where() string { return fmt.Sprintf("record %d", max(r.number, 1)) }

// explain says in our words what is wrong with the JSON.
func (r *records) explain(err error) error {
	var known *retry.Error
	var syntax *jsontext.SyntacticError
	switch {
	case err != nil && r.source.err != nil && errors.Is(err, r.source.err):
		return r.source.err // without what the decoder says around it
	case err == nil, err == errStopped, errors.As(err, &known):
		return err
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, errTooLarge):
		return badRecord("%w", errTooLarge)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errTruncated
	case errors.Is(err, jsontext.ErrDuplicateName):
		return badRecord("an object repeats the name %s, and nobody can tell which value is meant (byte %d)", duplicateName(err), r.tokens.InputOffset())
	case errors.As(err, &syntax):
		return badRecord("not JSON at byte %d: %s", syntax.ByteOffset, inOurWords(syntax.Err))
	default:
		return badRecord("not JSON: %s", inOurWords(err))
	}
}

func inOurWords(err error) string {
	return connection.Snippet(strings.ReplaceAll(err.Error(), "jsontext: ", ""))
}

func duplicateName(err error) string {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return quote(syntax.JSONPointer.LastToken())
	}
	return "twice"
}

// ndjsonDecoder reads one record after another. A record may span lines.
type ndjsonDecoder struct {
	records
}

func (d *ndjsonDecoder) decode(reader io.Reader, yield func([][]byte) bool) error {
	d.begin(reader)
	for {
		err := d.next(yield)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && d.source.err == nil {
			return nil
		}
		if err != nil {
			return d.explain(err)
		}
	}
}

// jsonDecoder reads the records of a JSON document, and the values beside them that say what the next
// page is, wherever they stand.
type jsonDecoder struct {
	records
	root       *docNode
	path       string // of the records as it stands in the step; "" for the document itself
	nullIsDone bool   // null in place of the list is an empty list
	found      bool   // the list was there
	null       bool   // and it was null
	keys       []string
	mask       func(string) string
	complaint  complaint // of the answer, beside the list
}

// docNode is a place in the document.
type docNode struct {
	node     *node
	records  bool
	capture  *jsontext.Value
	children []*docNode
}

func newJSONDecoder(f *fields, path string, captures map[string]*jsontext.Value) (*jsonDecoder, error) {
	d := &jsonDecoder{records: records{fields: f}, path: path, root: &docNode{node: newNode("")}}
	at := d.root
	if path != "" {
		elements, err := parsePath(path)
		if err != nil {
			return nil, retry.Permanentf(TypeBadSource, "records: %w", err)
		}
		at = d.root.add(elements)
	}
	at.records = true
	for text, into := range captures {
		elements, err := parsePath(text)
		if err != nil {
			return nil, retry.Permanentf(TypeBadSource, "pagination: %w", err)
		}
		leaf := d.root.add(elements)
		leaf.capture = into
	}
	if d.root.overlaps() {
		return nil, retry.Permanentf(TypeBadSource, "the paths of the records and of the pagination must lead to different places, none inside another")
	}
	return d, nil
}

func (n *docNode) add(path []string) *docNode {
	if len(path) == 0 {
		return n
	}
	for _, child := range n.children {
		if child.node.name == path[0] {
			return child.add(path[1:])
		}
	}
	child := &docNode{node: newNode(path[0])}
	n.children = append(n.children, child)
	return child.add(path[1:])
}

func (n *docNode) isLeaf() bool { return n.records || n.capture != nil }

func (n *docNode) overlaps() bool {
	if n.isLeaf() && len(n.children) > 0 || n.records && n.capture != nil {
		return true
	}
	return slices.ContainsFunc(n.children, (*docNode).overlaps)
}

func (d *jsonDecoder) decode(reader io.Reader, yield func([][]byte) bool) error {
	d.begin(reader)
	kind := d.tokens.PeekKind()
	if err := d.value(d.root, yield); err != nil {
		return d.explain(err)
	}
	if _, err := d.tokens.ReadToken(); err == nil {
		return badRecord("there is more after the end of the JSON document, at byte %d", d.tokens.InputOffset())
	} else if err != io.EOF {
		return d.explain(err)
	}
	switch {
	case d.found && d.number == 0 && d.mask != nil && d.complaint.name != "":
		return unexpected("the list of records is empty, and the answer %s", d.complaint.said(d.mask))
	case d.found:
		return nil
	case kind != '{':
		return unexpected("records %q is not in the answer, which is %s", d.path, kindName(kind))
	default:
		return unexpected("records %q is not in the answer, an object with the names %s", d.path, listNames(d.keys))
	}
}

// value reads the value at n.
func (d *jsonDecoder) value(n *docNode, yield func([][]byte) bool) error {
	d.source.since = 0
	switch kind := d.tokens.PeekKind(); {
	case n.records:
		return d.list(kind, yield)
	case n.capture != nil:
		value, err := d.tokens.ReadValue()
		*n.capture = value.Clone()
		return err
	case kind == '{' && len(n.children) > 0:
		return d.object(n, yield)
	case kind == '[' && len(n.children) > 0:
		return d.array(n, yield)
	default:
		return d.skip()
	}
}

func (d *jsonDecoder) object(n *docNode, yield func([][]byte) bool) error {
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	for d.tokens.PeekKind() != '}' {
		token, err := d.tokens.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if n == d.root && len(d.keys) <= maximumNames {
			d.keys = append(d.keys, name)
		}
		next := slices.IndexFunc(n.children, func(c *docNode) bool { return c.node.name == name })
		if n == d.root && next < 0 && d.mask != nil && complaintNames[strings.ToLower(name)] != nil {
			d.source.since = 0
			value, err := d.tokens.ReadValue()
			if err != nil {
				return err
			}
			if found := asComplaint(name, value); d.complaint.name == "" || found.names() && !d.complaint.names() {
				d.complaint = found
			}
			continue
		}
		if err := d.member(n, next, yield); err != nil {
			return err
		}
	}
	_, err := d.tokens.ReadToken()
	return err
}

func (d *jsonDecoder) array(n *docNode, yield func([][]byte) bool) error {
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	for index := 0; d.tokens.PeekKind() != ']'; index++ {
		next := slices.IndexFunc(n.children, func(c *docNode) bool { return c.node.index == index })
		if err := d.member(n, next, yield); err != nil {
			return err
		}
	}
	_, err := d.tokens.ReadToken()
	return err
}

func (d *jsonDecoder) member(n *docNode, next int, yield func([][]byte) bool) error {
	if next < 0 {
		return d.skip()
	}
	return d.value(n.children[next], yield)
}

// skip reads over a value that nobody wants, token by token: it may be larger than a record may be.
func (d *jsonDecoder) skip() error {
	depth := d.tokens.StackDepth()
	for {
		token, err := d.tokens.ReadToken()
		if err != nil {
			return err
		}
		d.source.since = 0
		if kind := token.Kind(); d.tokens.StackDepth() <= depth && kind != '{' && kind != '[' {
			return nil
		}
	}
}

// list reads the array of records.
func (d *jsonDecoder) list(kind jsontext.Kind, yield func([][]byte) bool) error {
	place := "the answer"
	if d.path != "" {
		place = fmt.Sprintf("records %q", d.path)
	}
	switch {
	case kind == 'n' && d.nullIsDone:
		d.found, d.null = true, true
		return d.skip()
	case kind == '{' && d.path == "":
		value, err := d.tokens.ReadValue()
		if err != nil {
			return err
		}
		return unexpected("the answer is an object with the names %s where an array of records is wanted: say in records under which name they are", names(value))
	case kind != '[' && kind != 0:
		return unexpected("%s is %s where an array of records is wanted", place, kindName(kind))
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return err
	}
	d.found = true
	for d.tokens.PeekKind() != ']' {
		if err := d.next(yield); err != nil {
			return err
		}
	}
	_, err := d.tokens.ReadToken()
	return err
}

// captured is the text of a value beside the records that names the next page: "" when it is absent, null or
// empty.
func captured(value jsontext.Value, path string) (string, error) {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return "", nil
	case value[0] == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err
	case strings.ContainsRune("-0123456789", rune(value[0])):
		return string(value), nil
	default:
		return "", retry.Permanentf(TypePagination, "%q in the answer is %s where a text is wanted that leads to the next page", path, kindName(value.Kind()))
	}
}
