package pipeline

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/interval"
)

// Render returns the YAML of what a run of this interval does: the effective definition with every
// template filled in. It reads as a pipeline file again, of this one interval.
func (p *Pipeline) Render(iv interval.Interval) ([]byte, error) {
	loc, err := p.Location()
	if err != nil {
		return nil, fmt.Errorf("render pipeline %q: %w", p.Name, err)
	}
	full := p.Effective()
	if err := fillTemplates(reflect.ValueOf(full).Elem(), "", iv, loc); err != nil {
		return nil, fmt.Errorf("render pipeline %q for %s: %w", p.Name, iv, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", iv)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(full); err != nil {
		return nil, fmt.Errorf("render pipeline %q: %w", p.Name, err)
	}
	return out.Bytes(), encoder.Close()
}

// fillTemplates executes every Template at or below v.
func fillTemplates(v reflect.Value, path string, iv interval.Interval, loc *time.Location) error {
	return eachTemplate(v, path, func(at string, t Template) (Template, error) {
		text, err := t.Execute(iv, loc)
		if err != nil {
			return t, fmt.Errorf("%s: %w", at, err)
		}
		return Template(text), nil
	})
}

// eachTemplate visits every Template at or below v, in the order of the declaration and of the keys,
// and puts what visit returns in its place.
func eachTemplate(v reflect.Value, path string, visit func(path string, t Template) (Template, error)) error {
	switch {
	case v.Type() == templateType:
		if v.String() == "" {
			return nil
		}
		changed, err := visit(path, Template(v.String()))
		if err == nil && string(changed) != v.String() {
			v.SetString(string(changed))
		}
		return err
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return eachTemplate(v.Elem(), path, visit)
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type(), "yaml") {
			if err := eachTemplate(v.Field(f.index), join(path, f.name), visit); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if err := eachTemplate(v.Index(i), index(path, i), visit); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Map && v.Type().Elem() == templateType:
		for _, key := range sortedKeys(v) {
			item := reflect.New(templateType).Elem()
			item.Set(v.MapIndex(reflect.ValueOf(key)))
			if err := eachTemplate(item, join(path, key), visit); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(key), item)
		}
	}
	return nil
}

func sortedKeys(v reflect.Value) []string {
	keys := make([]string, 0, v.Len())
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}
