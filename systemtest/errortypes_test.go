package systemtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/pipeline"
)

// typeConstant finds the names of the constants that hold types of errors.
var typeConstant = regexp.MustCompile(`^Type[A-Z]`)

// rows finds the first column of the rows of a Markdown table.
var rows = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|")

// TestErrorTypesAreKnown: every type of error that a room declares, and a step can end with, stands in the table for
// operators, and `starter validate` takes it; and it takes no others.
func TestErrorTypesAreKnown(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "../docs/operations.md"), "\n## Errors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range rows.FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	known := pipeline.ErrorTypes()
	declared := declaredErrorTypes(t)
	if len(declared) < 40 {
		t.Errorf("found only %d declared types", len(declared))
	}
	for _, name := range append(declared, known...) {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/operations.md does not say what %s means", name)
		}
	}
	for _, name := range declared {
		if !slices.Contains(known, name) {
			t.Errorf("a pipeline cannot name the type %s", name)
		}
	}
	if !slices.IsSorted(known) {
		t.Errorf("not sorted: %v", known)
	}
}

func declaredErrorTypes(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, room := range []string{"retry", "connection", "extract", "warehouse", "command", "activities"} {
		files, err := filepath.Glob("../" + room + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				spec, ok := node.(*ast.ValueSpec)
				if !ok || len(spec.Values) != 1 || !typeConstant.MatchString(spec.Names[0].Name) {
					return true
				}
				if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
					name, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, name)
				}
				return true
			})
		}
	}
	return names
}
