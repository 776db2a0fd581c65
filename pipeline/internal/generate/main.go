// Command generate writes pipeline/schema.json and docs/pipeline-reference.md from the declaration of
// the language: the types of package pipeline with their comments and tags. Run it as `go generate`
// in the folder pipeline.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes both files; folder is that of package pipeline.
func run(folder string) error {
	files, err := generated(folder)
	if err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated returns the content of the generated files by their paths, relative to package pipeline.
func generated(folder string) (map[string][]byte, error) {
	declared, err := readDeclaration(folder)
	if err != nil {
		return nil, fmt.Errorf("read the declaration: %w", err)
	}
	schema, err := declared.schema()
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return map[string][]byte{
		"schema.json":                   schema,
		"../docs/pipeline-reference.md": declared.reference(),
	}, nil
}
