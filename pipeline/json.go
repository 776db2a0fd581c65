package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// NewerFormatError says that a definition was written by a newer release than this one. It is not
// the definition's fault: the run must wait for a worker that knows it.
type NewerFormatError struct {
	// Format is the format of the definition, 0 when it has none that can be read.
	Format int
	// Field is the path of a field that this release does not know; "" when the format says it all.
	Field string
}

// Error says what is newer and that a newer worker is needed.
func (e *NewerFormatError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("the definition has the field %s, which this release does not know: it needs a newer worker", e.Field)
	}
	return fmt.Sprintf("the definition has format %d, and this release reads up to %d: it needs a newer worker", e.Format, FormatVersion)
}

// Decode reads the effective definition that a run takes along: the JSON of Effective. It is as
// strict as Parse about the form: a field that this release does not know and a format above
// FormatVersion are a *NewerFormatError; a repeated key, a wrong type or text after the end are
// errors that name the path. What the definition says is not checked again: a run that has started
// must not fail because a later release is stricter.
func Decode(data []byte) (*Pipeline, error) {
	root, err := nodeOfJSON(data)
	if err != nil {
		return nil, fmt.Errorf("decode the pipeline's definition: %w", err)
	}
	if format := formatOf(root); format > FormatVersion {
		return nil, &NewerFormatError{Format: format}
	}
	p, r := &Pipeline{}, newReport("definition")
	d := &decoder{report: r, tag: "json", structureOnly: true}
	d.value(root, "", reflect.ValueOf(p).Elem(), "")
	for _, problem := range r.problems {
		if problem.Code == codeUnknownField {
			return nil, &NewerFormatError{Format: p.Format, Field: problem.Path}
		}
	}
	if len(r.problems) > 0 {
		first := r.problems[0]
		return nil, fmt.Errorf("decode the pipeline's definition: %s: %s", first.Path, first.Message)
	}
	return p, nil
}

// formatOf looks for the format before anything else is decoded: what a newer format means by a
// field is not known here.
func formatOf(root *yaml.Node) int {
	for i := 0; i+1 < len(root.Content) && root.Kind == yaml.MappingNode; i += 2 {
		if root.Content[i].Value == "format" {
			format, _ := strconv.Atoi(root.Content[i+1].Value)
			return format
		}
	}
	return 0
}

// maximumJSONDepth is above any depth that the declared types can have.
const maximumJSONDepth = maximumInputDepth + 16

// nodeOfJSON makes of JSON the tree that the strict decoder reads. encoding/json alone would match
// keys in any case and take the last of repeated ones.
func nodeOfJSON(data []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	root, err := readJSONValue(decoder, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the JSON ends too early")
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is more text after the end, at byte %d", decoder.InputOffset())
	}
	return root, nil
}

func readJSONValue(decoder *json.Decoder, depth int) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if depth > maximumJSONDepth {
		return nil, fmt.Errorf("nested more than %d levels deep at byte %d", maximumJSONDepth, decoder.InputOffset())
	}
	switch t := token.(type) {
	case json.Delim:
		return readJSONGroup(decoder, t, depth)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(t)}, nil
	case json.Number:
		return numberNode(t.String()), nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
}

func numberNode(text string) *yaml.Node {
	tag := "!!float"
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		tag = "!!int"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// readJSONGroup reads an object or an array to its end. The keys of an object are tokens like its
// values, so the two differ in nothing but the kind of the node.
func readJSONGroup(decoder *json.Decoder, open json.Delim, depth int) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	if open == '[' {
		node.Kind = yaml.SequenceNode
	}
	for decoder.More() {
		item, err := readJSONValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, item)
	}
	_, err := decoder.Token()
	return node, err
}
