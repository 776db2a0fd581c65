package pipeline

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// report collects the problems of one file. It knows where each path of the document stands, so that
// a check that only knows the path can still say the line.
type report struct {
	file     string
	problems Problems
	places   map[string]position
	// failed holds the paths that have a problem already: what follows from it is not worth saying.
	// holds has the paths that hold a failed one, and itself.
	failed, holds map[string]bool
	// secrets are the credentials that were found in the file: no message may repeat one.
	secrets []string
}

type position struct {
	line, column int
	// text is the column of the first character of a scalar that stands in one piece, else 0.
	text int
}

func newReport(file string) *report {
	return &report{file: file, places: map[string]position{}, failed: map[string]bool{}, holds: map[string]bool{}}
}

// place remembers where a path stands.
func (r *report) place(path string, node *yaml.Node) { r.places[path] = positionOfNode(node) }

func (r *report) placeAt(path string, line, column int) {
	r.places[path] = position{line: line, column: column}
}

func positionOfNode(node *yaml.Node) position {
	at := position{line: node.Line, column: node.Column}
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		at.text = node.Column
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			at.text++
		}
	}
	return at
}

// fail records a problem at a path, unless the path or one that holds it has one already.
func (r *report) fail(path, code, format string, args ...any) {
	for at := path; ; at = parentOf(at) {
		if r.failed[at] {
			return
		}
		if at == "" {
			break
		}
	}
	r.add(path, r.positionOf(path), code, fmt.Sprintf(format, args...))
}

// failInside records a problem at a character of a scalar, counted from 1; 0 means the whole.
func (r *report) failInside(path string, character int, code, message string) {
	if at := r.positionOf(path); at.text > 0 && character > 0 {
		at.column = at.text + character - 1
		r.add(path, at, code, message)
		return
	}
	r.fail(path, code, "%s", message)
}

// failAt records a problem at a node of its own, such as a key, whatever else is wrong.
func (r *report) failAt(node *yaml.Node, path, code, format string, args ...any) {
	r.add(path, positionOfNode(node), code, fmt.Sprintf(format, args...))
}

func (r *report) add(path string, at position, code, message string) {
	if path != "" {
		r.spoil(path)
	}
	r.problems = append(r.problems, Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Code: code, Message: message})
}

// positionOf is where a path stands, or the closest one that holds it.
func (r *report) positionOf(path string) position {
	for at := path; ; at = parentOf(at) {
		if found, ok := r.places[at]; ok {
			return found
		}
		if at == "" {
			return position{line: 1, column: 1}
		}
	}
}

// spoil marks a path as one that has a problem already.
func (r *report) spoil(path string) {
	r.failed[path] = true
	for at := path; at != "" && !r.holds[at]; at = parentOf(at) {
		r.holds[at] = true
	}
}

// broken reports whether something at or below the path has a problem already.
func (r *report) broken(path string) bool { return r.holds[path] }

// finish sorts the problems and takes every credential out of them.
func (r *report) finish() Problems {
	for i := range r.problems {
		for _, secret := range r.secrets {
			r.problems[i].Message = strings.ReplaceAll(r.problems[i].Message, secret, "…")
			r.problems[i].Path = strings.ReplaceAll(r.problems[i].Path, secret, "…")
		}
	}
	return r.problems.sorted()
}

func (r *report) missing(path, name string) {
	if r.failed[join(path, name)] {
		return // a misspelt key has said it
	}
	where := "the pipeline"
	if path != "" {
		where = lastOf(path)
	}
	r.fail(join(path, name), codeMissingField, "%s is missing in %s", name, where)
}

// unknownField says what was probably meant: a field of this mapping, of one below, or of another
// tool's language.
func (r *report) unknownField(key *yaml.Node, path string, t reflect.Type) {
	fields := fieldsOf(t, "yaml")
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	advice := "the keys here are " + keyList(fields)
	if meant := suggest(key.Value, names); meant != "" {
		r.spoil(join(path, meant))
		advice = "did you mean " + meant + "?"
	} else if meant := suggestBelow(key.Value, t); meant != "" {
		advice = "did you mean " + meant + "?"
	} else if meant := suggest(key.Value, sortedNames(foreignWords)); meant != "" {
		advice = "write " + foreignWords[meant]
	}
	r.failAt(key, join(path, key.Value), codeUnknownField, "%s is not known here: %s", clip(key.Value), advice)
}

func keyList(fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

func orList(options []string) string {
	if len(options) == 1 {
		return options[0]
	}
	return strings.Join(options[:len(options)-1], ", ") + " or " + options[len(options)-1]
}

const keyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// join adds a key to a path; a key with other characters than names have is quoted.
func join(path, key string) string {
	if key == "" || prefixLength(key, keyCharacters) < len(key) {
		return path + "[" + strconv.Quote(clip(key)) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// parentOf cuts the last key or index off a path.
func parentOf(path string) string {
	if strings.HasSuffix(path, `"]`) {
		if i := strings.LastIndex(path, `["`); i >= 0 {
			return path[:i]
		}
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// lastOf is the last part of a path, as a sentence names it.
func lastOf(path string) string {
	name := strings.TrimPrefix(path[len(parentOf(path)):], ".")
	if strings.HasPrefix(name, "[") {
		return lastOf(parentOf(path)) + name
	}
	return name
}
