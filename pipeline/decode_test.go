package pipeline

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func effectiveJSON(t testing.TB, p *Pipeline) string {
	t.Helper()
	data, err := json.Marshal(p.Effective())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What travels with a run arrives as it was.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, path := range testFiles(t, "good/*.yaml") {
		p := mustParse(t, readSource(t, path))
		sent := effectiveJSON(t, p)
		got, err := Decode([]byte(sent))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if !reflect.DeepEqual(got, p.Effective()) {
			t.Errorf("%s arrives as %+v", path, got)
		}
		if again := effectiveJSON(t, got); again != sent {
			t.Errorf("%s: the effective form of what arrived differs:\n%s\n%s", path, again, sent)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	ok := effectiveJSON(t, mustParse(t, readSource(t, "testdata/good/minimal.yaml")))
	for _, c := range []struct {
		name, json, message string
		newer               *NewerFormatError
	}{
		{"nothing", "", "ends too early", nil},
		{"half", ok[:len(ok)/2], "decode the pipeline's definition: ", nil},
		{"more", ok + " {}", "more text after the end", nil},
		{"no object", "[]", "expected a mapping", nil},
		{"null", "null", "has no value", nil},
		{"format", strings.Replace(ok, `"format":1`, `"format":2`, 1), "format 2", &NewerFormatError{Format: 2}},
		{"format and more", strings.Replace(ok, `"format":1`, `"format":7,"retry_budget":1`, 1), "format 7", &NewerFormatError{Format: 7}},
		{"unknown", strings.Replace(ok, `"format":1`, `"format":1,"retry_budget":1`, 1), "retry_budget", &NewerFormatError{Format: 1, Field: "retry_budget"}},
		{"unknown below", strings.Replace(ok, `"name":"id"`, `"name":"id","mask":true`, 1), "steps[0].http.columns[0].mask", &NewerFormatError{Format: 1, Field: "steps[0].http.columns[0].mask"}},
		{"unknown kind", strings.Replace(ok, `"http":`, `"grpc":`, 1), "steps[0].grpc", &NewerFormatError{Format: 1, Field: "steps[0].grpc"}},
		{"other case", strings.Replace(ok, `"pipeline":`, `"Pipeline":`, 1), "Pipeline", &NewerFormatError{Format: 1, Field: "Pipeline"}},
		{"twice", strings.Replace(ok, `"format":1`, `"format":1,"warehouse":"other"`, 1), "warehouse: warehouse is already set", nil},
		{"number for a duration", strings.Replace(ok, `"start_to_close":"5m"`, `"start_to_close":300`, 1), "300 has no unit", nil},
		{"text for a number", strings.Replace(ok, `"max_active_runs":1`, `"max_active_runs":"1"`, 1), "whole number", nil},
		{"fraction for a whole", strings.Replace(ok, `"max_active_runs":1`, `"max_active_runs":1.5`, 1), "whole number", nil},
		{"deep", strings.Repeat("[", 100000), "levels deep", nil},
	} {
		p, err := Decode([]byte(c.json))
		if err == nil || p != nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.message)
			continue
		}
		var newer *NewerFormatError
		if errors.As(err, &newer) != (c.newer != nil) || c.newer != nil && *newer != *c.newer {
			t.Errorf("%s: %#v, want %+v", c.name, err, c.newer)
		}
		if c.newer != nil && !strings.Contains(err.Error(), "needs a newer worker") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A run that has started outlives stricter checks: what a definition means is not checked again.
func TestDecodeDoesNotCheckMeaning(t *testing.T) {
	t.Parallel()
	p, err := Decode([]byte(`{"format":1,"pipeline":"Not A Name","schedule":{"catchup":"sometimes","lookback":1000},"steps":[]}`))
	if err != nil || p.Name != "Not A Name" || p.Schedule.Lookback != 1000 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The input of an activity keeps its numbers, through YAML, JSON and the effective form.
func TestActivityInput(t *testing.T) {
	t.Parallel()
	p := mustParse(t, Source{Data: []byte(minimal(t) + `  - name: call
    activity:
      type: Call
      input: { big: 9007199254740993, least: -9223372036854775808, half: 0.5, yes: true, none: null, day: 2026-01-15, list: [1, [2], { a: b }], no: no }
`)})
	want := map[string]any{
		"big": int64(9007199254740993), "least": int64(-9223372036854775808), "half": 0.5, "yes": true, "none": nil,
		"day": "2026-01-15", "list": []any{int64(1), []any{int64(2)}, map[string]any{"a": "b"}}, "no": "no",
	}
	if got := p.Step("call").Activity.Input; !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
	arrived, err := Decode([]byte(effectiveJSON(t, p)))
	if err != nil {
		t.Fatal(err)
	}
	if got := arrived.Step("call").Activity.Input; !reflect.DeepEqual(got, want) {
		t.Errorf("arrived as %#v", got)
	}
	for _, bad := range []string{"18446744073709551616", ".nan", "-.inf", "0x10", "!!binary aGk="} {
		_, problems := parseText(minimal(t) + "  - name: call\n    activity: { type: Call, input: { n: " + bad + " } }\n")
		if len(problems) != 1 || problems[0].Path != "steps[2].activity.input.n" {
			t.Errorf("%s: %v", bad, problems)
		}
	}
}

// checkReadable holds for every text: no panic, places inside the text, known codes; and what is read
// without a problem survives being written and read again, in YAML and in JSON.
func checkReadable(t *testing.T, text string) {
	t.Helper()
	p, problems := parseText(text)
	if (p == nil) != (len(problems) > 0) {
		t.Fatalf("%d problems, and the pipeline is %v", len(problems), p)
	}
	known := map[string]bool{}
	for _, code := range Codes() {
		known[code.Name] = true
	}
	for _, problem := range problems {
		if !known[problem.Code] || problem.Message == "" {
			t.Fatalf("%q: unknown code or no message: %+v", text, problem)
		}
		if problem.Line < 1 || problem.Column < 1 || problem.Line > strings.Count(text, "\n")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029")+1 {
			t.Fatalf("%q: a place outside of the text: %s", text, problem)
		}
	}
	if p == nil {
		return
	}
	written, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, problems := Parse(Source{File: "again.yaml", Data: written})
	if len(problems) > 0 || !reflect.DeepEqual(again, p) {
		t.Fatalf("%q\nis written\n%s\nwhich is read as %+v, not %+v (%s)", text, written, again, p, problems)
	}
	full := p.Effective()
	if !reflect.DeepEqual(full, full.Effective()) {
		t.Fatalf("%q: the effective form of the effective form differs", text)
	}
	arrived, err := Decode([]byte(effectiveJSON(t, p)))
	if err != nil || effectiveJSON(t, arrived) != effectiveJSON(t, p) {
		t.Fatalf("%q: what travels does not arrive: %v", text, err)
	}
	if order, err := p.TopologicalOrder(); err != nil || len(order) != len(p.Steps) {
		t.Fatalf("%q: order %v, %v", text, order, err)
	}
	if _, err := p.Grid(); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func TestReadableFiles(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		for _, path := range testFiles(t, pattern) {
			checkReadable(t, string(readSource(t, path).Data))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		for _, path := range testFiles(f, pattern) {
			f.Add(string(readSource(f, path).Data))
		}
	}
	f.Fuzz(checkReadable)
}

func FuzzDecode(f *testing.F) {
	for _, path := range testFiles(f, "good/*.yaml") {
		f.Add([]byte(effectiveJSON(f, mustParse(f, readSource(f, path)))))
	}
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"steps":[{"activity":{"input":{"a":[1e400,{"b":null}]}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if (p == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", data, p, err)
		}
		if err != nil {
			return
		}
		again, err := Decode([]byte(effectiveJSON(t, p)))
		if err != nil || !reflect.DeepEqual(again, p.Effective()) {
			t.Fatalf("%q: %v", data, err)
		}
		_, _ = p.TopologicalOrder()
		_, _ = p.Grid()
		for i := range p.Steps {
			_, _, _ = p.Needs(p.Steps[i].Name), p.Steps[i].Kind(), p.Steps[i].SourceColumns()
		}
	})
}

// An empty argument is one, other than an empty program; it also survives in the definition that a run takes along.
func TestEmptyArgument(t *testing.T) {
	t.Parallel()
	p, problems := parseText(`pipeline: p
warehouse: w
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
steps:
  - name: a
    exec: { command: [grep, "", file] }
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	definition, err := json.Marshal(p.Effective())
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(definition)
	if err != nil {
		t.Fatal(err)
	}
	if got := decoded.Steps[0].Exec.Command; !slices.Equal(got, []Template{"grep", "", "file"}) {
		t.Errorf("%q", got)
	}
}
