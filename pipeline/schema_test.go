package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// asEditorsSeeIt is what an editor validates: YAML 1.2, in which a plain date is text.
func asEditorsSeeIt(t testing.TB, node *yaml.Node) any {
	t.Helper()
	switch node.Kind {
	case yaml.DocumentNode:
		return asEditorsSeeIt(t, node.Content[0])
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = asEditorsSeeIt(t, node.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = asEditorsSeeIt(t, item)
		}
		return list
	}
	switch node.Tag {
	case "!!bool":
		return node.Value == "true"
	case "!!null":
		return nil
	case "!!int", "!!float":
		number, err := strconv.ParseFloat(node.Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	return node.Value
}

func validate(t testing.TB, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	return s.Validate(asEditorsSeeIt(t, &document))
}

// What Parse accepts, an editor accepts: the examples of the repository too.
func TestSchemaAcceptsGoodFiles(t *testing.T) {
	t.Parallel()
	s := schema(t)
	examples, err := filepath.Glob("../pipelines/*/pipeline.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for _, path := range append(examples, testFiles(t, "good/*.yaml")...) {
		if err := validate(t, s, readSource(t, path).Data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range testFiles(t, "good/*.rendered") {
		if err := validate(t, s, readSource(t, path).Data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What a schema can know, an editor knows too.
func TestSchemaRefusesBadFiles(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for _, file := range []string{
		"misspelt", "missing", "missing-everything", "empty-values", "no-steps", "words", "numbers", "slots", "durations",
		"cron-and-every", "cron-missing", "kinds", "format-zero",
	} {
		if err := validate(t, s, readSource(t, "testdata/bad/"+file+".yaml").Data); err == nil {
			t.Errorf("%s.yaml is accepted", file)
		}
	}
	for _, change := range [][2]string{
		{"warehouse:", "warehose:"},
		{"type: bigint", "type: 1"},
		{"table: orders", "tabel: orders"},
		{"disposition: delete+insert", "disposition: merge"},
		{"path: /orders", "path: [/orders]"},
		{"  - name: load\n", "  - name: load\n    timeout: { heartbeat: 30 }\n"},
		{"  - name: load\n", "  - name: load\n    retry: { jitter: 2 }\n"},
		{"  - name: load\n", "  - name: load\n    retry: { rules: [{ error_types: [A], action: skip }] }\n"},
		{"  - name: load\n", "  - name: load\n    retry: { rules: [{ action: fail }] }\n"},
	} {
		if err := validate(t, s, []byte(strings.Replace(minimal(t), change[0], change[1], 1))); err == nil {
			t.Errorf("%q for %q is accepted", change[1], change[0])
		}
	}
}
