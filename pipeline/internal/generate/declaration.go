package main

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// declaration is what the source of package pipeline says about its types.
type declaration struct {
	structs map[string]*structure
	docs    map[string]string
}

type structure struct {
	doc    string
	fields []field
}

type field struct {
	key  string // in YAML
	typ  ast.Expr
	doc  string
	tags reflect.StructTag
}

func (f field) required() bool { return f.tags.Get("required") == "true" }

// readDeclaration parses the package's files, without their tests.
func readDeclaration(folder string) (*declaration, error) {
	d := &declaration{structs: map[string]*structure{}, docs: map[string]string{}}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if err := d.add(file); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *declaration) add(file *ast.File) error {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			typ := spec.(*ast.TypeSpec)
			d.docs[typ.Name.Name] = group.Doc.Text()
			if err := d.addType(typ, group.Doc.Text()); err != nil {
				return err
			}
		}
	}
	return nil
}

// addType keeps the exported structs; only those that are reached from Pipeline are written.
func (d *declaration) addType(typ *ast.TypeSpec, doc string) error {
	body, ok := typ.Type.(*ast.StructType)
	if !ok || !typ.Name.IsExported() {
		return nil
	}
	s := &structure{doc: strings.TrimSpace(doc)}
	for _, f := range body.Fields.List {
		if f.Tag == nil {
			continue
		}
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", typ.Name.Name, err)
		}
		tags := reflect.StructTag(text)
		key, _, _ := strings.Cut(tags.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		if f.Doc.Text() == "" {
			return fmt.Errorf("%s.%s has no comment", typ.Name.Name, f.Names[0].Name)
		}
		s.fields = append(s.fields, field{key, f.Type, sentence(f.Doc.Text(), f.Names[0].Name), tags})
	}
	d.structs[typ.Name.Name] = s
	return nil
}

// sentence joins the lines of a comment and takes the field's name in Go away where the comment
// begins with it as a subject: "Cron has five fields" becomes "Has five fields".
func sentence(doc, name string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if rest, ok := strings.CutPrefix(text, name+" "); ok && !strings.HasPrefix(rest, "of ") {
		for _, verb := range []string{"is ", "are ", "has ", "says ", "names ", "holds ", "bounds ", "hold "} {
			if strings.HasPrefix(rest, verb) {
				return capital(strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are "))
			}
		}
		return capital(rest)
	}
	return text
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// markdown turns a Go doc comment with lists into Markdown.
func markdown(doc string) string {
	var parse comment.Parser
	printer := comment.Printer{HeadingLevel: 3}
	text := string(printer.Markdown(parse.Parse(doc)))
	// Go comments have no code spans, and ours do: what the printer escapes in them is meant.
	return strings.TrimSpace(strings.NewReplacer("\\`", "`", `\_`, "_").Replace(text))
}

// nameOf returns the struct that a field's type leads to, through pointers, lists and maps, or "".
func (d *declaration) nameOf(typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return d.nameOf(t.X)
	case *ast.ArrayType:
		return d.nameOf(t.Elt)
	case *ast.MapType:
		return d.nameOf(t.Value)
	case *ast.Ident:
		if d.structs[t.Name] != nil {
			return t.Name
		}
	}
	return ""
}

// reached lists the structs that the language has, each after the one that first names it.
func (d *declaration) reached() []string {
	var order []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if name == "" || seen[name] {
			return
		}
		seen[name] = true
		order = append(order, name)
		for _, f := range d.structs[name].fields {
			visit(d.nameOf(f.typ))
		}
	}
	visit("Pipeline")
	return order
}
