package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"iter"
)

// streamJSON prints one JSON object: the fields of head, a list of any length, which is not held in memory, and the
// fields of tail, which is asked for when the list is done. Where the list ends with an error, the object is cut off.
func (p *program) streamJSON(head any, name string, list iter.Seq2[any, error], tail func() (any, error)) error {
	out := bufio.NewWriterSize(p.out, 64<<10)
	defer out.Flush()
	fields, err := jsonFields(head)
	if err != nil {
		return err
	}
	out.WriteString("{" + fields + ",\n  \"" + name + "\": [")
	separator := "\n    "
	for item, err := range list {
		if err != nil {
			return err
		}
		text, err := plainJSON(item, "")
		if err != nil {
			return err
		}
		out.WriteString(separator + text)
		separator = ",\n    "
	}
	if separator != "\n    " {
		out.WriteString("\n  ")
	}
	last, err := tail()
	if err != nil {
		return err
	}
	if fields, err = jsonFields(last); err != nil {
		return err
	}
	out.WriteString("]," + fields + "\n}\n")
	return out.Flush()
}

// jsonFields returns an object without its braces.
func jsonFields(object any) (string, error) {
	text, err := plainJSON(object, "  ")
	if err != nil {
		return "", err
	}
	return text[1 : len(text)-len("\n}")], nil
}

func plainJSON(value any, indent string) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), err
}
