package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// durationPattern accepts what pipeline.ParseDuration accepts, in any order of the units.
const durationPattern = `^([0-9]+(\.[0-9]+)?(d|h|m|s|ms))+$`

// object is a JSON object whose keys encoding/json sorts.
type object map[string]any

// schema returns the JSON Schema of pipeline files, for editors. What a schema cannot say (the graph,
// durations against each other, cron texts) is said by validation only.
func (d *declaration) schema() ([]byte, error) {
	definitions := object{
		"Duration": object{"type": "string", "pattern": durationPattern, "description": plain(d.docs["Duration"])},
		"Template": object{"type": "string", "description": plain(d.docs["Template"])},
		"Catchup":  object{"enum": []any{"none", "latest", "all", true, false}, "description": plain(d.docs["Catchup"])},
	}
	for _, name := range d.reached() {
		s, err := d.structSchema(name)
		if err != nil {
			return nil, err
		}
		definitions[name] = s
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Tranche pipeline",
		"$ref":    "#/$defs/Pipeline",
		"$defs":   definitions,
	})
	return out.Bytes(), err
}

func (d *declaration) structSchema(name string) (object, error) {
	properties, required, choices := object{}, []string{}, map[string][]string{}
	for _, f := range d.structs[name].fields {
		property, err := d.property(f)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, f.key, err)
		}
		properties[f.key] = property
		if f.required() {
			required = append(required, f.key)
		}
		if choice := f.tags.Get("choice"); choice != "" {
			choices[choice] = append(choices[choice], f.key)
		}
	}
	s := object{"type": "object", "additionalProperties": false, "properties": properties, "description": plain(d.structs[name].doc)}
	if len(required) > 0 {
		s["required"] = required
	}
	for _, keys := range choices { // at most one in each struct
		var options []object
		for _, key := range keys {
			options = append(options, object{"required": []string{key}})
		}
		s["oneOf"] = options
	}
	return s, nil
}

func (d *declaration) property(f field) (object, error) {
	property, err := d.typeSchema(f.typ)
	if err != nil {
		return nil, err
	}
	property["description"] = f.doc
	if options := f.tags.Get("enum"); options != "" && property["type"] == "string" {
		property["enum"] = strings.Split(options, ",")
	}
	if options := f.tags.Get("enum"); options != "" && property["type"] == "array" {
		property["items"] = object{"type": "string", "enum": strings.Split(options, ",")}
	}
	if f.required() {
		switch property["type"] {
		case "array":
			property["minItems"] = 1
		case "string":
			property["minLength"] = 1
		}
	}
	if text, ok := f.tags.Lookup("default"); ok {
		property["default"] = valueOf(text, property["type"])
	}
	if property["type"] == "integer" || property["type"] == "number" {
		for _, bound := range []string{"minimum", "maximum"} {
			if text, ok := f.tags.Lookup(bound); ok {
				property[bound] = valueOf(text, property["type"])
			}
		}
	}
	return property, nil
}

// valueOf writes a tag's text as the JSON value that the property has.
func valueOf(text string, typ any) any {
	switch typ {
	case "integer", "number", "boolean":
		return json.RawMessage(text)
	}
	return text
}

func (d *declaration) typeSchema(typ ast.Expr) (object, error) {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return d.typeSchema(t.X)
	case *ast.ArrayType:
		items, err := d.typeSchema(t.Elt)
		return object{"type": "array", "items": items}, err
	case *ast.MapType:
		values, err := d.typeSchema(t.Value)
		return object{"type": "object", "additionalProperties": values}, err
	case *ast.Ident:
		return d.namedSchema(t.Name)
	}
	return nil, fmt.Errorf("a %T cannot be written as a schema", typ)
}

func (d *declaration) namedSchema(name string) (object, error) {
	if simple, ok := map[string]string{"string": "string", "bool": "boolean", "int": "integer", "int64": "integer", "float64": "number"}[name]; ok {
		return object{"type": simple}, nil
	}
	if name == "any" {
		return object{}, nil
	}
	if d.structs[name] != nil || slices.Contains([]string{"Duration", "Template", "Catchup"}, name) {
		return object{"$ref": "#/$defs/" + name}, nil
	}
	return nil, fmt.Errorf("the type %s cannot be written as a schema", strconv.Quote(name))
}

// plain is a comment on one line.
func plain(doc string) string { return strings.Join(strings.Fields(doc), " ") }
