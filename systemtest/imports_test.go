// Package systemtest tests the whole system: who may import whom, what the documents promise, and
// runs from end to end.
package systemtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/trancheflow/tranche/"

// rooms in the order of dependence: a room imports only those that stand before it.
var rooms = []string{
	"interval", "retry", "pipeline", "step", "launch", "gaps", "connection", "extract", "warehouse", "command", "activities",
	"workflows", "schedules", "dial", "worker", "starter", "pipelines", "systemtest",
}

// forbidden pairs are closer than the order would allow, with the reason.
var forbidden = map[string]map[string]string{
	"warehouse": {"extract": "rows cross as iter.Seq2, so that neither knows the other"},
	"workflows": {
		"extract": "workflows touch no outside system", "warehouse": "workflows touch no outside system",
		"connection": "workflows touch no outside system", "command": "workflows touch no outside system", "activities": "workflows name activities by package step, so that the starter links no driver",
	},
	"starter": {
		"extract": "the starter holds no data credentials", "warehouse": "the starter holds no data credentials",
		"connection": "the starter holds no data credentials", "command": "the starter runs nothing", "activities": "the starter holds no data credentials",
	},
}

// pure rooms take nothing from outside: no clock that decides, no I/O, no Temporal.
var impure = []string{"os", "net", "net/http", "database/sql", "go.temporal.io/sdk/client", "go.temporal.io/sdk/workflow"}

func TestRoomsImportOnlyWhatStandsAboveThem(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		room, _, _ := strings.Cut(file, "/")
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if runByHand(parsed) {
			continue
		}
		at := slices.Index(rooms, room)
		if at < 0 {
			t.Errorf("%s lies in a room that the house does not have: %s", file, room)
			continue
		}
		for _, imported := range parsed.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, file, room, at, path)
		}
	}
}

// runByHand says whether a file is a program of its own that no package contains, such as one for
// go generate.
func runByHand(file *ast.File) bool {
	for _, group := range file.Comments {
		if group.Pos() < file.Package && strings.Contains(group.List[0].Text, "go:build ignore") {
			return true
		}
	}
	return false
}

func checkImport(t *testing.T, file, room string, at int, path string) {
	t.Helper()
	test := strings.HasSuffix(file, "_test.go")
	if slices.Contains([]string{"interval", "retry", "pipeline", "step"}, room) && !test && slices.Contains(impure, path) &&
		!strings.Contains(file, "/generate/") && !(room == "retry" && path == "net") {
		t.Errorf("%s imports %s, but %s is pure", file, path, room)
	}
	inside, ours := strings.CutPrefix(path, module)
	if !ours {
		return
	}
	target, _, _ := strings.Cut(inside, "/")
	if target == room {
		return
	}
	if slices.Index(rooms, target) > at && !test {
		t.Errorf("%s imports %s, which stands below it", file, target)
	}
	if reason := forbidden[room][target]; reason != "" && !test {
		t.Errorf("%s imports %s: %s", file, target, reason)
	}
}

func TestRoomsHaveTellingNames(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		for _, part := range strings.Split(filepath.ToSlash(filepath.Dir(file)), "/") {
			if slices.Contains([]string{"util", "utils", "common", "helpers", "helper", "shared", "types", "models", "misc", "lib"}, part) {
				t.Errorf("%s: %s says nothing about what is in it", file, part)
			}
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		data, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc init()") {
			t.Errorf("%s has an init function: dependencies are passed, not registered", file)
		}
	}
}

// goFiles lists the Go files of the main module, relative to its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	root := ".."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if relative == "devserver" || relative == "bin" || strings.HasPrefix(entry.Name(), ".") && relative != "." {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(relative, ".go") {
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d Go files below %s: the test looks in the wrong place", len(files), root)
	}
	return files
}
