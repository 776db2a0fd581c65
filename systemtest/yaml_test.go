package systemtest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/pipeline"
)

// notOurs are folders whose YAML nobody reads as an example: what tools make, and the files of tests
// that must be wrong.
var notOurs = []string{".git", ".demo", ".test", "bin", "testdata", "node_modules", "vendor"}

// repositoryFiles returns the files of the repository with one of the extensions.
func repositoryFiles(t *testing.T, extensions ...string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(notOurs, entry.Name()):
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every YAML file of the repository can be read, and every pipeline among them is one that runs.
func TestYAMLFiles(t *testing.T) {
	t.Parallel()
	pipelines := 0
	for _, path := range repositoryFiles(t, ".yaml", ".yml") {
		if checkYAML(t, path, mustRead(t, path)) {
			pipelines++
		}
	}
	if examples, err := filepath.Glob("../pipelines/*/pipeline.yaml"); err != nil || len(examples) == 0 || pipelines < len(examples) {
		t.Errorf("%d pipelines were checked, and the examples are %v (%v)", pipelines, examples, err)
	}
}

// Whatever the documents show as a pipeline is one: a reader who copies it has no problem.
func TestYAMLInDocuments(t *testing.T) {
	t.Parallel()
	pipelines := 0
	for _, path := range repositoryFiles(t, ".md") {
		for _, fence := range yamlFences(string(mustRead(t, path))) {
			if checkYAML(t, path, []byte(fence)) {
				pipelines++
			}
		}
	}
	if pipelines == 0 {
		t.Error("no document shows a pipeline")
	}
}

// checkYAML reports what is wrong with a text, and whether it is a pipeline.
func checkYAML(t *testing.T, path string, data []byte) (isPipeline bool) {
	t.Helper()
	stream := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := stream.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return false
		}
		isPipeline = isPipeline || hasKey(&document, "pipeline")
	}
	if !isPipeline {
		return false
	}
	folder := os.DirFS(filepath.Dir(path))
	_, problems := pipeline.Parse(pipeline.Source{File: path, Data: data, ReadFile: func(name string) ([]byte, error) {
		return fs.ReadFile(folder, name)
	}})
	if err := problems.Err(); err != nil {
		t.Error(err)
	}
	return true
}

func hasKey(document *yaml.Node, key string) bool {
	root := document.Content[0]
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			return true
		}
	}
	return false
}

var fenceBegin = regexp.MustCompile("^( *)(```+)(yaml|yml)\\b")

// yamlFences returns the YAML blocks of a Markdown text. Each has as many empty lines before it as
// the text has, so that a problem names the line of the document.
func yamlFences(text string) []string {
	var fences []string
	var block strings.Builder
	indent, end := "", "" // end is "" outside of a block
	for i, line := range strings.Split(text, "\n") {
		switch begin := fenceBegin.FindStringSubmatch(line); {
		case end == "" && begin != nil:
			indent, end = begin[1], begin[2]
			block.Reset()
			block.WriteString(strings.Repeat("\n", i+1))
		case end != "" && strings.TrimSpace(line) == end:
			fences = append(fences, block.String())
			end = ""
		case end != "":
			block.WriteString(strings.TrimPrefix(line, indent) + "\n")
		}
	}
	return fences
}

func TestYAMLFences(t *testing.T) {
	t.Parallel()
	text := "# T\n```yaml\na: 1\n```\n```sh\nx\n```\n- list\n  ```yaml title\n  b:\n    - 2\n  ```\n"
	want := []string{"\n\na: 1\n", strings.Repeat("\n", 9) + "b:\n  - 2\n"}
	if got := yamlFences(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
