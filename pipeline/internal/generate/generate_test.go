package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/pipeline"
)

var update = flag.Bool("update", false, "write the generated files anew")

const folder = "../.."

// The schema and the reference are what the declaration says now.
func TestGeneratedFilesAreFresh(t *testing.T) {
	if *update {
		if err := run(folder); err != nil {
			t.Fatal(err)
		}
	}
	files, err := generated(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate in the folder pipeline", name)
		}
	}
}

// Every key and every code stands in the reference, and every struct has a heading of its own.
func TestReferenceIsComplete(t *testing.T) {
	declared, err := readDeclaration(folder)
	if err != nil {
		t.Fatal(err)
	}
	page := string(declared.reference())
	for _, name := range declared.reached() {
		if titles[name] == "" {
			t.Errorf("the struct %s has no title in the reference", name)
		}
		for _, f := range declared.structs[name].fields {
			if !strings.Contains(page, "| `"+f.key+"` |") {
				t.Errorf("%s.%s is not in the reference", name, f.key)
			}
		}
	}
	for _, code := range pipeline.Codes() {
		if !strings.Contains(page, "| `"+code.Name+"` |") {
			t.Errorf("the code %s is not in the reference", code.Name)
		}
	}
}
