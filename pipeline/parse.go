package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaximumSize is the greatest size of a pipeline file, and of the definition that a run takes along
// with its SQL, in bytes. Temporal warns about payloads above 256 KiB, and the definition shares that
// room with the rest of a run's input.
const MaximumSize = 128 << 10

// Source is a pipeline file with what belongs to it.
type Source struct {
	// File is the name that problems give, usually as the user typed it.
	File string
	// Data is the content: one YAML document in UTF-8, at most MaximumSize.
	Data []byte
	// ReadFile returns an SQL file that the pipeline names, by its path relative to the pipeline
	// file, with slashes. Parse has refused absolute paths and those with "..". Nil: a pipeline that
	// names a file is a problem.
	ReadFile func(name string) ([]byte, error)
}

// Parse reads a pipeline as it is written, puts the text of the SQL files it names in the place of
// their names, and computes its digest. With a problem there is no pipeline; all problems are
// returned at once, sorted by position.
func Parse(src Source) (*Pipeline, Problems) {
	r := newReport(src.File)
	root := r.readYAML(src.Data)
	if root == nil {
		return nil, r.finish()
	}
	p := &Pipeline{}
	r.findSecrets(root, string(src.Data))
	(&decoder{report: r, tag: "yaml"}).value(root, "", reflect.ValueOf(p).Elem(), "")
	(&checker{report: r, p: p, readFile: src.ReadFile}).check()
	if len(r.problems) > 0 {
		return nil, r.finish()
	}
	p.Digest = p.digest()
	if size := p.size(); size > MaximumSize {
		r.fail("", codeTooLarge, "the definition has %d KiB with its SQL and its defaults, which is more than %d: split the pipeline", size>>10, MaximumSize>>10)
		return nil, r.finish()
	}
	return p, nil
}

// size is what the definition takes in the input of a run.
func (p *Pipeline) size() int {
	data, err := json.Marshal(p.Effective())
	if err != nil {
		return MaximumSize + 1 // cannot be: every value came from text
	}
	return len(data)
}

// readYAML returns the only document of the file, or nil after a problem.
func (r *report) readYAML(data []byte) *yaml.Node {
	if len(data) > MaximumSize {
		r.fail("", codeTooLarge, "the file has %d KiB, which is more than %d: split the pipeline, or put rows where a source reads them", len(data)>>10, MaximumSize>>10)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if !r.readable(data) {
		return nil
	}
	stream := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	switch err := stream.Decode(&document); {
	case errors.Is(err, io.EOF):
		r.fail("", codeEmptyFile, "the file is empty: a pipeline begins with a line such as pipeline: orders")
		return nil
	case err != nil:
		r.syntaxProblem(data, err)
		return nil
	}
	switch err := stream.Decode(&second); {
	case err == nil:
		r.failAt(&second, "", codeSeveralDocuments, "a second document begins here: write each pipeline into a file of its own")
		return nil
	case !errors.Is(err, io.EOF):
		r.syntaxProblem(data, err)
		return nil
	}
	root := document.Content[0]
	switch {
	case isNull(root):
		r.fail("", codeEmptyFile, "the file is empty: a pipeline begins with a line such as pipeline: orders")
		return nil
	case root.Kind != yaml.MappingNode:
		r.failAt(root, "", codeWrongType, "found %s, expected a mapping that begins with a line such as pipeline: orders", describe(root))
		return nil
	}
	return root
}

// readable refuses bytes that YAML would refuse too, or read as another encoding, with a better
// place and sentence.
func (r *report) readable(data []byte) bool {
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && size == 1:
			r.add("", position{line: line, column: column}, codeNotUTF8, "the file is not in UTF-8: save it as UTF-8")
			return false
		case unicode.IsControl(c) && c != '\t' && c != '\n' && !(c == '\r' && bytes.HasPrefix(rest, []byte("\r\n"))):
			r.add("", position{line: line, column: column}, codeControlCharacter, fmt.Sprintf("the file holds the control character U+%04X: take it out", c))
			return false
		}
		if column++; c == '\n' {
			line, column = line+1, 1
		}
		rest = rest[size:]
	}
	return true
}
