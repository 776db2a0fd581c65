package connection

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/pipeline"
)

// The stable codes of the problems in connections.yaml.
const (
	CodeBadYAML       = "bad-yaml"       // not YAML, or not one document
	CodeUnknownField  = "unknown-field"  // a key that means nothing here
	CodeRepeatedField = "repeated-field" // a key that stands twice
	CodeMissingField  = "missing-field"  // a key that must be there
	CodeWrongType     = "wrong-type"     // a list where a text is meant, and its kind
	CodeBadValue      = "bad-value"      // of the right type, but not valid
	CodeBadURL        = "bad-url"        // a URL that cannot be used
	CodeSecretInFile  = "secret-in-file" // a credential that is written down
	CodeUnsetVariable = "unset-variable" // a variable that is missing or empty
	CodeConflict      = "conflict"       // keys of which only one may be set
)

// maximumFile bounds connections.yaml, in bytes; thousands of connections fit.
const maximumFile = 1 << 20

// Parse reads connections.yaml. file is its name: it begins each problem, and relative paths in it are
// taken from its folder. env looks up a variable of the environment, as os.LookupEnv does.
//
// Every problem is reported at once, as [pipeline.Problems] with file, line and column. Problems
// never quote a value that may be a secret. Nothing is opened or asked: a wrong password shows
// itself at the first use.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Set, error) {
	d := &decoder{file: file, env: env, queues: map[string]float64{}}
	set := &Set{http: map[string]*HTTP{}, files: map[string]*Files{}, databases: map[string]Database{}, webhooks: map[string]*Webhook{},
		masker: &masker{}, log: &atomic.Pointer[slog.Logger]{}}
	if root := d.document(data); root != nil {
		d.connections(root, set)
	}
	slices.SortStableFunc(d.problems, func(a, b pipeline.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if err := d.problems.Err(); err != nil {
		return nil, err
	}
	set.masker.pattern = newMasker(d.secrets).pattern
	set.queues = d.queues
	for _, files := range set.files {
		files.masker = set.masker
	}
	return set, nil
}

// decoder collects problems and secrets while it walks the document.
type decoder struct {
	file     string
	env      func(string) (string, bool)
	problems pipeline.Problems
	secrets  []string
	queues   map[string]float64 // steps per second of the task queues so far
}

func (d *decoder) problem(node *yaml.Node, path, code, message string) {
	line, column := 1, 1
	if node != nil && node.Line > 0 {
		line, column = node.Line, node.Column
	}
	d.problems = append(d.problems, pipeline.Problem{
		File: d.file, Line: line, Column: column, Path: path, Code: code, Message: message,
	})
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `) // "yaml: line 3: mapping values are not allowed in this context"

// document returns the root of the only document, or nil after a problem.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > maximumFile {
		d.problem(nil, "", CodeBadYAML, "the file is larger than 1 MiB")
		return nil
	}
	stream := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := stream.Decode(&document)
	if errors.Is(err, io.EOF) {
		d.problem(nil, "", CodeMissingField, "the file is empty: it needs the key connections")
		return nil
	}
	if err == nil {
		if err = stream.Decode(&second); errors.Is(err, io.EOF) {
			return document.Content[0]
		}
		if err == nil {
			d.problem(&second, "", CodeBadYAML, "the file holds a second document: write one only")
			return nil
		}
	}
	at := &yaml.Node{Line: 1, Column: 1}
	text := err.Error()
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		at.Line, _ = strconv.Atoi(match[1])
		text = strings.TrimPrefix(text, match[0])
	}
	d.problem(at, "", CodeBadYAML, "not YAML: "+strings.TrimPrefix(text, "yaml: "))
	return nil
}

// fields says what is to be done with the value of each key of a mapping.
type fields map[string]func(value *yaml.Node, path string)

// mapping walks a mapping and returns the keys that it has; nil when it is none.
func (d *decoder) mapping(node *yaml.Node, path string, known fields) map[string]bool {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return d.entries(node, path, func(key, value *yaml.Node, at string) {
		read, ok := known[key.Value]
		if !ok {
			d.problem(key, at, CodeUnknownField, "there is no such key here; known are "+strings.Join(names, ", "))
			return
		}
		read(value, at)
	})
}

// entries calls each for every entry of a mapping, the repeated ones left out.
func (d *decoder) entries(node *yaml.Node, path string, each func(key, value *yaml.Node, path string)) map[string]bool {
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		d.problem(node, path, CodeWrongType, "a mapping (key: value) is wanted here")
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := join(path, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			d.problem(key, path, CodeWrongType, "a key must be a text")
		case seen[key.Value]:
			d.problem(key, at, CodeRepeatedField, "the key stands here twice: keep one")
		default:
			seen[key.Value] = true
			each(key, value, at)
		}
	}
	return seen
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// reference is a variable of the environment in a value.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// scalar returns the text of a scalar as it stands, references and all.
func (d *decoder) scalar(node *yaml.Node, path string) (string, bool) {
	node = resolve(node)
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		d.problem(node, path, CodeWrongType, "a text is wanted here")
		return "", false
	}
	return node.Value, true
}

// expand puts the variables into a text and returns their values.
func (d *decoder) expand(node *yaml.Node, path, text string) (expanded string, values []string, ok bool) {
	ok = true
	expanded = reference.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		value, set := d.env(name)
		if !set || value == "" {
			state := "is not set"
			if set {
				state = "is empty"
			}
			d.problem(node, path, CodeUnsetVariable, "the variable "+name+" "+state+" in the environment of the worker")
			ok = false
		}
		values = append(values, value)
		return value
	})
	if rest := reference.ReplaceAllString(text, ""); strings.Contains(rest, "${") {
		d.problem(node, path, CodeBadValue, "a variable is written ${NAME}, with letters, digits and _ in its name")
		ok = false
	}
	return expanded, values, ok
}

// text reads a text that may name variables.
func (d *decoder) text(node *yaml.Node, path string) (string, bool) {
	raw, ok := d.scalar(node, path)
	if !ok {
		return "", false
	}
	text, _, ok := d.expand(node, path, raw)
	return text, ok
}

// secret reads a credential: one variable and nothing beside it.
func (d *decoder) secret(node *yaml.Node, path string) string {
	raw, ok := d.scalar(node, path)
	if !ok {
		return ""
	}
	if match := reference.FindString(raw); match == "" || match != raw {
		d.problem(node, path, CodeSecretInFile, "a secret must not be written into the file: name a variable of the worker's environment, such as ${API_TOKEN}, and nothing beside it")
		return ""
	}
	value, _, _ := d.expand(node, path, raw)
	d.secrets = append(d.secrets, value)
	return value
}

func (d *decoder) duration(into *pipeline.Duration) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		text, ok := d.text(node, path)
		if !ok {
			return
		}
		value, err := pipeline.ParseDuration(text)
		switch {
		case err != nil:
			d.problem(node, path, CodeBadValue, err.Error())
		case value <= 0:
			d.problem(node, path, CodeBadValue, "a duration above 0 is wanted here, such as 30s")
		default:
			*into = value
		}
	}
}

func (d *decoder) integer(into *int, least, most int) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		text, ok := d.text(node, path)
		if !ok {
			return
		}
		value, err := strconv.Atoi(text)
		if err != nil || value < least || value > most {
			d.problem(node, path, CodeBadValue, "a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most)+" is wanted here")
			return
		}
		*into = value
	}
}

func (d *decoder) number(into *float64) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		text, ok := d.text(node, path)
		if !ok {
			return
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value > 0) || value > 1e6 {
			d.problem(node, path, CodeBadValue, "a number above 0 and up to 1000000 is wanted here")
			return
		}
		*into = value
	}
}

// list reads a list with each.
func (d *decoder) list(each func(*yaml.Node, string)) func(*yaml.Node, string) {
	return func(node *yaml.Node, path string) {
		node = resolve(node)
		if node.Kind != yaml.SequenceNode {
			d.problem(node, path, CodeWrongType, "a list is wanted here, such as [a, b]")
			return
		}
		for i, item := range node.Content {
			each(item, path+"["+strconv.Itoa(i)+"]")
		}
	}
}

// relative takes a path from the folder of the file.
func (d *decoder) relative(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(d.file), path)
}
