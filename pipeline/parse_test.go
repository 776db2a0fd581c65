package pipeline

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// readSource returns a file of testdata, with the SQL files beside it.
func readSource(t testing.TB, path string) Source {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Source{File: filepath.Base(path), Data: data, ReadFile: func(name string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return nil, fmt.Errorf("%s: no such file", name)
		}
		return data, nil
	}}
}

func testFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files for %s (%v)", pattern, err)
	}
	return files
}

func name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".yaml") }

// golden compares text with a file of testdata.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew). Got:\n%s\nwant:\n%s", path, got, want)
	}
}

// Each bad file has all of its problems, at their places, in the words that users see.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, path := range testFiles(t, "bad/*.yaml") {
		t.Run(name(path), func(t *testing.T) {
			t.Parallel()
			p, problems := Parse(readSource(t, path))
			if p != nil || problems.Err() == nil {
				t.Fatal("no problem was found")
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".problems", problems.Error()+"\n")
		})
	}
}

// A good file has no problem, and its effective form is what people expect of the defaults.
func TestEffectiveDefinitions(t *testing.T) {
	t.Parallel()
	for _, path := range testFiles(t, "good/*.yaml") {
		t.Run(name(path), func(t *testing.T) {
			t.Parallel()
			p := mustParse(t, readSource(t, path))
			data, err := json.MarshalIndent(p.Effective(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".effective.json", string(data)+"\n")
		})
	}
}

func mustParse(t testing.TB, src Source) *Pipeline {
	t.Helper()
	p, problems := Parse(src)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return p
}

// minimal is a good file, for tests that change something in it.
func minimal(t testing.TB) string {
	t.Helper()
	return string(readSource(t, "testdata/good/minimal.yaml").Data)
}

func parseText(text string) (*Pipeline, Problems) {
	return Parse(Source{File: "p.yaml", Data: []byte(text)})
}

// What cannot stand in a file of testdata: bytes that are no text, and much of it.
func bytesCases(t testing.TB) map[string]string {
	ok := minimal(t)
	return map[string]string{
		"latin-1":          strings.Replace(ok, "pipeline:", "owner: Gr\xf6\xdfe\npipeline:", 1),
		"utf-16":           "\xff\xfep\x00i\x00p\x00e\x00",
		"nul":              strings.Replace(ok, "orders", "ord\x00ers", 1),
		"bell":             ok + "# \a\n",
		"delete":           ok + "# \x7f\n",
		"next line":        ok + "# \u0085\n",
		"carriage return":  strings.ReplaceAll(ok, "\n", "\r"),
		"too large":        ok + "#" + strings.Repeat("x", MaximumSize),
		"deep":             ok + "  - name: deep\n    activity: { type: Deep, input: { a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + " } }\n",
		"deep syntax":      strings.Repeat("[", 20000),
		"deep indentation": strings.Repeat("- ", 20000),
		"many columns":     manyColumns(ok, 3000),
	}
}

// manyColumns makes a file below the limit whose effective definition is above it.
func manyColumns(ok string, count int) string {
	columns := make([]string, count)
	for i := range columns {
		columns[i] = fmt.Sprintf("        - { name: c%d, type: date }\n", i)
	}
	return strings.Replace(ok, "      columns:\n", "      columns:\n"+strings.Join(columns, ""), 1)
}

func TestBytes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"latin-1":          "p.yaml:1:10: not-utf-8",
		"utf-16":           "p.yaml:1:1: not-utf-8",
		"nul":              "p.yaml:1:14: control-character",
		"bell":             "p.yaml:16:3: control-character",
		"delete":           "p.yaml:16:3: control-character",
		"next line":        "p.yaml:16:3: control-character",
		"carriage return":  "p.yaml:1:17: control-character",
		"too large":        "p.yaml:1:1: too-large",
		"deep":             "p.yaml:17:74: steps[2].activity.input.a" + strings.Repeat("[0]", 33) + ": too-large",
		"deep syntax":      "p.yaml:1:1: yaml-syntax",
		"deep indentation": "p.yaml:1:1: yaml-syntax",
		"many columns":     "p.yaml:1:1: too-large",
	}
	for name, text := range bytesCases(t) {
		p, problems := parseText(text)
		if p != nil || len(problems) != 1 || !strings.HasPrefix(problems.Error(), want[name]) {
			t.Errorf("%s: %s, want %s", name, problems, want[name])
		}
	}
}

// A byte order mark and Windows line ends are no problem, and move no place.
func TestMarkAndLineEnds(t *testing.T) {
	t.Parallel()
	ok := minimal(t)
	want := mustParse(t, Source{Data: []byte(ok)})
	windows := "\uFEFF" + strings.ReplaceAll(ok, "\n", "\r\n")
	if got := mustParse(t, Source{Data: []byte(windows)}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, problems := parseText(strings.Replace(windows, "warehouse:", "warehose:", 1))
	if got := problems.Error(); !strings.HasPrefix(got, "p.yaml:2:1: warehose: unknown-field: ") || len(problems) != 1 {
		t.Error(got)
	}
}

// Every code that is listed is produced by some case, and no case produces another one.
func TestCodes(t *testing.T) {
	t.Parallel()
	produced := map[string]bool{}
	add := func(problems Problems) {
		for _, p := range problems {
			produced[p.Code] = true
		}
	}
	for _, path := range testFiles(t, "bad/*.yaml") {
		_, problems := Parse(readSource(t, path))
		add(problems)
	}
	for _, text := range bytesCases(t) {
		_, problems := parseText(text)
		add(problems)
	}
	for _, secret := range secretCases() {
		_, problems := parseText(secret.file(minimal(t)))
		add(problems)
	}
	for _, code := range Codes() {
		if !produced[code.Name] {
			t.Errorf("the code %s is documented, but no case produces it", code.Name)
		}
		if code.Meaning == "" || !strings.HasSuffix(code.Meaning, ".") {
			t.Errorf("the code %s has no sentence", code.Name)
		}
		delete(produced, code.Name)
	}
	for code := range produced {
		t.Errorf("the code %s is produced, but not documented", code)
	}
}

// Problems are an error that is nil when there are none.
func TestProblemsErr(t *testing.T) {
	t.Parallel()
	if err := Problems(nil).Err(); err != nil {
		t.Error(err)
	}
	p := Problem{File: "a.yaml", Line: 3, Column: 7, Code: "bad-name", Message: "why"}
	if got := (Problems{p}).Err().Error(); got != "a.yaml:3:7: bad-name: why" {
		t.Error(got)
	}
	if p.Path = "steps[2].name"; p.Error() != "a.yaml:3:7: steps[2].name: bad-name: why" {
		t.Error(p.Error())
	}
}

// Reading twice gives the same problems in the same order: nothing depends on the order of a map.
func TestProblemsAreDeterministic(t *testing.T) {
	t.Parallel()
	for _, path := range testFiles(t, "bad/*.yaml") {
		_, first := Parse(readSource(t, path))
		for range 5 {
			if _, again := Parse(readSource(t, path)); !reflect.DeepEqual(first, again) {
				t.Fatalf("%s: %s\nand then\n%s", path, first, again)
			}
		}
	}
}
