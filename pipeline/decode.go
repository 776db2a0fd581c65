package pipeline

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maximumInputDepth bounds how deep the free-form input of an activity may be nested.
const maximumInputDepth = 32

// decoder fills the declared structs from a tree of nodes, strictly: what it does not know, finds
// twice or finds in another form than declared is a problem with a place. It goes on after each.
type decoder struct {
	*report
	// tag is the struct tag that names the fields: "yaml", or "json" for a definition that travels.
	tag string
	// structureOnly leaves the declared rules alone: values are taken as they are.
	structureOnly bool
}

// field is one declared field of a struct.
type field struct {
	name  string
	index int
	tag   reflect.StructTag
}

// fieldsOf lists the fields of a struct in the order of their declaration.
func fieldsOf(t reflect.Type, tag string) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get(tag), ",")
		if name != "" && name != "-" {
			fields = append(fields, field{name, i, t.Field(i).Tag})
		}
	}
	return fields
}

var (
	durationType = reflect.TypeFor[Duration]()
	catchupType  = reflect.TypeFor[Catchup]()
	templateType = reflect.TypeFor[Template]()
)

// value decodes one node into v. The rules are those of the field that holds it.
func (d *decoder) value(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	if d.structureOnly {
		rules = ""
	}
	d.place(path, node)
	if !d.plainYAML(node, path) {
		return
	}
	if isNull(node) && v.Kind() != reflect.Interface {
		if d.structureOnly && path != "" {
			return // how Go writes a list or a pointer that is not there
		}
		d.fail(path, codeMissingValue, "%s has no value: write one or leave the key out", lastOf(path))
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(node, path, v, rules)
	case v.Type() == catchupType:
		d.catchup(node, path, v, rules)
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		d.value(node, path, target.Elem(), rules)
		v.Set(target)
	case v.Kind() == reflect.Struct:
		d.mapping(node, path, v)
	case v.Kind() == reflect.Slice:
		d.list(node, path, v, rules)
	case v.Kind() == reflect.Map:
		d.dictionary(node, path, v)
	default:
		d.scalar(node, path, v, rules)
	}
}

// plainYAML refuses what makes a document harder to read than what it says: anchors, aliases, merge
// keys and tags. Without aliases a document cannot grow while it is read, either.
func (d *decoder) plainYAML(node *yaml.Node, path string) bool {
	switch {
	case node.Kind == yaml.AliasNode:
		d.fail(path, codeNotSupported, "aliases (*%s) are not supported: repeat the text; what holds for every step belongs under defaults", clip(node.Value))
	case node.Anchor != "":
		d.fail(path, codeNotSupported, "anchors (&%s) are not supported: repeat the text; what holds for every step belongs under defaults", clip(node.Anchor))
	case node.Style&yaml.TaggedStyle != 0:
		d.fail(path, codeNotSupported, "tags (%s) are not supported: write the value without it, and text in quotes", clip(node.Tag))
	default:
		return true
	}
	return false
}

func (d *decoder) mapping(node *yaml.Node, path string, v reflect.Value) {
	if node.Kind != yaml.MappingNode {
		d.wrongType(node, path, "a mapping with "+keyList(fieldsOf(v.Type(), d.tag)))
		return
	}
	fields := fieldsOf(v.Type(), d.tag)
	seen := d.pairs(node, path, func(key, value *yaml.Node) {
		inner := join(path, key.Value)
		for _, f := range fields {
			if f.name == key.Value {
				d.value(value, inner, v.Field(f.index), f.tag)
				return
			}
		}
		d.unknownField(key, path, v.Type())
	})
	for _, f := range fields {
		if f.tag.Get("required") == "true" && !seen[f.name] && !d.structureOnly {
			d.placeAt(join(path, f.name), node.Line, node.Column)
			d.missing(path, f.name)
		}
	}
}

// pairs visits the keys of a mapping, each once, and returns which there are.
func (d *decoder) pairs(node *yaml.Node, path string, visit func(key, value *yaml.Node)) map[string]bool {
	first := make(map[string]*yaml.Node, len(node.Content)/2)
	seen := make(map[string]bool, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		inner := join(path, key.Value)
		switch {
		case key.Tag == "!!merge":
			d.failAt(key, inner, codeNotSupported, "merge keys (<<) are not supported: repeat the text; what holds for every step belongs under defaults")
			d.spoil(path) // which keys the mapping has is not known
		case key.Kind != yaml.ScalarNode || key.Tag != "!!str" || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			d.failAt(key, path, codeWrongType, "%s cannot be a key: keys are text%s", describe(key), quoteAdvice(key))
		case first[key.Value] != nil:
			d.failAt(key, inner, codeRepeatedKey, "%s is already set in line %d: write each key once", clip(key.Value), first[key.Value].Line)
		default:
			first[key.Value] = key
			seen[key.Value] = true
			visit(key, value)
		}
	}
	return seen
}

func (d *decoder) list(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	if node.Kind != yaml.SequenceNode {
		d.wrongType(node, path, "a list, even if it has one entry: [a] or lines that begin with -")
		return
	}
	if rules.Get("required") == "true" && len(node.Content) == 0 {
		d.fail(path, codeMissingValue, "%s is empty: write at least one entry", lastOf(path))
		return
	}
	if len(node.Content) == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	items := reflect.StructTag(`required:"true"`)
	if rules.Get("items") == "maybe-empty" {
		items = ""
	}
	if words, ok := rules.Lookup("enum"); ok {
		items += reflect.StructTag(` enum:"` + words + `"`)
	}
	for i, item := range node.Content {
		d.value(item, index(path, i), v.Index(i), items)
	}
}

func (d *decoder) dictionary(node *yaml.Node, path string, v reflect.Value) {
	if node.Kind != yaml.MappingNode {
		d.wrongType(node, path, "a mapping of names to values")
		return
	}
	if len(node.Content) == 0 {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(node.Content)/2))
	d.pairs(node, path, func(key, value *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(value, join(path, key.Value), item, "")
		v.SetMapIndex(reflect.ValueOf(key.Value), item)
	})
}

func (d *decoder) scalar(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	switch v.Kind() {
	case reflect.String:
		d.text(node, path, v, rules)
	case reflect.Bool:
		if node.Tag != "!!bool" || node.Kind != yaml.ScalarNode {
			d.wrongType(node, path, "true or false, without quotes")
			return
		}
		v.SetBool(strings.EqualFold(node.Value, "true"))
	case reflect.Int, reflect.Int64:
		d.integer(node, path, v, rules)
	case reflect.Float64:
		d.float(node, path, v, rules)
	case reflect.Interface:
		if value, ok := d.free(node, path, 0); ok && value != nil {
			v.Set(reflect.ValueOf(value))
		}
	}
}

// text takes quoted text, plain text, and plain dates, which YAML would make something else of.
func (d *decoder) text(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" && node.Tag != "!!timestamp" {
		d.wrongType(node, path, "text"+quoteAdvice(node))
		return
	}
	if !d.printable(node, path) {
		return
	}
	if node.Value == "" && rules.Get("required") == "true" {
		d.fail(path, codeMissingValue, "%s is an empty text", lastOf(path))
		return
	}
	v.SetString(node.Value)
	d.oneOf(path, node.Value, rules)
}

// printable refuses control characters, which an escape can bring into a quoted text: they could
// move the cursor of a terminal or end a line of a log.
func (d *decoder) printable(node *yaml.Node, path string) bool {
	for _, r := range node.Value {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			d.fail(path, codeControlCharacter, "the text holds the control character U+%04X: leave it out", r)
			return false
		}
	}
	return true
}

func (d *decoder) oneOf(path, value string, rules reflect.StructTag) {
	allowed := rules.Get("enum")
	if allowed == "" {
		return
	}
	options := strings.Split(allowed, ",")
	for _, option := range options {
		if value == option {
			return
		}
	}
	d.fail(path, codeInvalidValue, "%q is not possible here: write %s%s", clip(value), orList(options), didYouMean(value, options))
}

func (d *decoder) integer(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	number, err := strconv.ParseInt(node.Value, 10, 64)
	if node.Kind != yaml.ScalarNode || node.Tag != "!!int" || err != nil || v.OverflowInt(number) {
		d.wrongType(node, path, "a whole number in decimal digits")
		return
	}
	v.SetInt(number)
	d.within(path, float64(number), rules, func(bound string) float64 {
		limit, _ := strconv.ParseInt(bound, 10, 64)
		return float64(limit)
	})
}

func (d *decoder) float(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	number, err := strconv.ParseFloat(node.Value, 64)
	isNumber := node.Tag == "!!int" || node.Tag == "!!float"
	if node.Kind != yaml.ScalarNode || !isNumber || err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		d.wrongType(node, path, "a number")
		return
	}
	v.SetFloat(number)
	d.within(path, number, rules, func(bound string) float64 {
		limit, _ := strconv.ParseFloat(bound, 64)
		return limit
	})
}

func (d *decoder) duration(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	if node.Kind == yaml.ScalarNode && (node.Tag == "!!int" || node.Tag == "!!float") {
		d.fail(path, codeBadDuration, "%s has no unit: write %ss for seconds or %sm for minutes", clip(node.Value), clip(node.Value), clip(node.Value))
		return
	}
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
		d.wrongType(node, path, "a duration such as 30s or 1h30m")
		return
	}
	parsed, err := ParseDuration(node.Value)
	if err != nil {
		d.fail(path, codeBadDuration, "%s", err)
		return
	}
	v.SetInt(int64(parsed))
	d.within(path, float64(parsed), rules, func(bound string) float64 {
		limit, _ := ParseDuration(bound)
		return float64(limit)
	})
}

// within checks the declared bounds; read makes a number of a bound's text.
func (d *decoder) within(path string, number float64, rules reflect.StructTag, read func(string) float64) {
	minimum, hasMinimum := rules.Lookup("minimum")
	maximum, hasMaximum := rules.Lookup("maximum")
	if hasMinimum && number < read(minimum) || hasMaximum && number > read(maximum) {
		d.fail(path, codeOutOfRange, "%s must be %s", lastOf(path), rangeText(minimum, maximum))
	}
}

func rangeText(minimum, maximum string) string {
	switch {
	case maximum == "":
		return "at least " + minimum
	case minimum == "":
		return "at most " + maximum
	}
	return "from " + minimum + " to " + maximum
}

// catchup reads the policy; true and false are what Airflow's users write.
func (d *decoder) catchup(node *yaml.Node, path string, v reflect.Value, rules reflect.StructTag) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!bool" {
		policy := CatchupLatest
		if strings.EqualFold(node.Value, "true") {
			policy = CatchupAll
		}
		v.SetString(string(policy))
		return
	}
	d.text(node, path, v, rules)
}

// free decodes a part of an activity's input, which may be anything that JSON can say.
func (d *decoder) free(node *yaml.Node, path string, depth int) (any, bool) {
	d.place(path, node)
	if depth > maximumInputDepth {
		d.fail(path, codeTooLarge, "the input is nested more than %d levels deep", maximumInputDepth)
		return nil, false
	}
	if !d.plainYAML(node, path) {
		return nil, false
	}
	switch node.Kind {
	case yaml.MappingNode:
		result := make(map[string]any, len(node.Content)/2)
		d.pairs(node, path, func(key, value *yaml.Node) {
			result[key.Value], _ = d.free(value, join(path, key.Value), depth+1)
		})
		return result, true
	case yaml.SequenceNode:
		result := make([]any, len(node.Content))
		for i, item := range node.Content {
			result[i], _ = d.free(item, index(path, i), depth+1)
		}
		return result, true
	}
	return d.freeScalar(node, path)
}

func (d *decoder) freeScalar(node *yaml.Node, path string) (any, bool) {
	switch node.Tag {
	case "!!null":
		return nil, true
	case "!!bool":
		return strings.EqualFold(node.Value, "true"), true
	case "!!int":
		if number, err := strconv.ParseInt(node.Value, 10, 64); err == nil {
			return number, true
		}
	case "!!float":
		number, err := strconv.ParseFloat(node.Value, 64)
		if isWhole := prefixLength(node.Value, "+-0123456789") == len(node.Value); isWhole && !d.structureOnly {
			break // it would lose digits
		}
		if err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
			return number, true
		}
	case "!!str", "!!timestamp":
		return node.Value, d.printable(node, path)
	}
	d.wrongType(node, path, "a value that JSON has exactly"+quoteAdvice(node))
	return nil, false
}

func (d *decoder) wrongType(node *yaml.Node, path, expected string) {
	if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle != 0 && strings.HasPrefix(expected, "text") {
		d.fail(path, codeWrongType, "found %s, expected text: a text that begins with { must be in quotes", describe(node))
		return
	}
	d.fail(path, codeWrongType, "found %s, expected %s", describe(node), expected)
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// describe says what a node is, in words.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch node.Tag {
	case "!!null":
		return "no value"
	case "!!bool":
		return "the word " + node.Value
	case "!!int", "!!float":
		return "the number " + clip(node.Value)
	}
	return "the text " + strconv.Quote(clip(node.Value))
}

// quoteAdvice says how to write a plain scalar that was meant as text.
func quoteAdvice(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!str" || node.Style&yaml.TaggedStyle != 0 || node.Value == "" {
		return ""
	}
	return ": write " + strconv.Quote(clip(node.Value)) + " in quotes"
}
