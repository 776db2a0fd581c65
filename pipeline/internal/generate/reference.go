package main

import (
	"fmt"
	"go/ast"
	"strings"

	"github.com/trancheflow/tranche/pipeline"
)

const introduction = `<!-- Generated from the types of package pipeline by go generate; edit their comments instead. -->

# Pipeline reference

A pipeline is one YAML file. This page lists every key that it can have. Reading is strict: a key that
is not listed here, a repeated key, a wrong type or a number without a unit where a duration is meant is
a problem, reported with file, line, column, path and a code, all at once, by ` + "`starter validate FILE`" + `.
For editors the same rules are in [pipeline/schema.json](../pipeline/schema.json), for example with

    # yaml-language-server: $schema=../../pipeline/schema.json

A file that has everything it needs and little else:

` + "```yaml" + `
pipeline: orders
warehouse: analytics
schedule:
  cron: "0 0 * * *"
  timezone: Asia/Jakarta
  start_date: 2026-01-01
steps:
  - name: extract
    http:
      connection: shop
      path: /orders
      query: { from: "{{ .Interval.Start }}", to: "{{ .Interval.End }}" }
      pagination: { kind: page, size_parameter: per_page, size: 100 }
      records: data
      columns:
        - { name: id, type: bigint }
        - { name: ordered_at, type: timestamptz, path: created_at }
        - { name: total, type: "numeric(14,2)" }
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: ordered_at }
` + "```" + `

The file is one document in UTF-8 of at most 128 KiB; so is the definition with its SQL and defaults.
Anchors, aliases, merge keys and tags of YAML are not supported. Text that YAML would read as a number,
as true or as false must be in quotes; so must text that begins with ` + "`*`, `@`, `{` or `%`" + `.

`

const closing = `## Digest

Every run shows the digest of its definition: the SHA-256 of what decides the rows, as written. That is
the warehouse, the time zone, and of each step its name, its needs and its kind with the columns and the
text of its SQL. The order and form of the file, the description, the owner, the rest of the schedule,
retries and time limits do not change it.
`

// titles are the headings of the structs in the reference; the key says where each stands.
var titles = map[string]string{
	"Pipeline": "Top level", "Schedule": "`schedule`", "Notify": "`notify`", "Defaults": "`defaults`",
	"Retry": "`retry`", "RetryRule": "`rules`", "Timeout": "`timeout`", "Step": "`steps`", "HTTP": "`http`",
	"Pagination": "`pagination`", "File": "`file`", "CSV": "`csv`", "Column": "`columns`",
	"Query": "`query`", "Load": "`load`", "Check": "`checks`", "SQL": "`sql`", "Exec": "`exec`",
	"Activity": "`activity`",
}

// reference returns the Markdown page.
func (d *declaration) reference() []byte {
	var b strings.Builder
	b.WriteString(introduction)
	for _, name := range d.reached() {
		d.section(&b, name)
	}
	fmt.Fprintf(&b, "## Durations\n\n%s\n\n", markdown(d.docs["Duration"]))
	fmt.Fprintf(&b, "## Templates\n\n%s\n\n", markdown(d.docs["Template"]))
	b.WriteString("## Not supported by this version\n\nThese are known and checked, and then refused with the code `not-supported`:\n\n")
	for _, line := range pipeline.NotSupported() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n## Problems\n\n| code | meaning |\n| --- | --- |\n")
	for _, code := range pipeline.Codes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", code.Name, code.Meaning)
	}
	b.WriteString("\n" + closing)
	return []byte(b.String())
}

func (d *declaration) section(b *strings.Builder, name string) {
	s := d.structs[name]
	fmt.Fprintf(b, "## %s\n\n%s\n\n", titles[name], sentence(s.doc, name))
	b.WriteString("| key | value | |\n| --- | --- | --- |\n")
	for _, f := range s.fields {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.key, d.valueWord(f), strings.ReplaceAll(f.doc, "|", `\|`))
	}
	b.WriteString("\n")
}

// valueWord says in a word or two what a field's value is, and whether it must be there.
func (d *declaration) valueWord(f field) string {
	word := d.typeWord(f.typ)
	if options := f.tags.Get("enum"); options != "" {
		word = "word"
		if _, many := f.typ.(*ast.ArrayType); many {
			word = "list of words"
		}
	}
	if f.required() {
		word += ", required"
	}
	return word
}

func (d *declaration) typeWord(typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return d.typeWord(t.X)
	case *ast.ArrayType:
		if name := d.nameOf(t.Elt); name != "" {
			return "list of [" + titles[name] + "](#" + anchor(titles[name]) + ")"
		}
		return "list of " + d.typeWord(t.Elt)
	case *ast.MapType:
		return "mapping to " + d.typeWord(t.Value)
	case *ast.Ident:
		switch t.Name {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		case "int", "int64":
			return "whole number"
		case "float64":
			return "number"
		case "any":
			return "any value"
		case "Duration", "Template":
			return "[" + strings.ToLower(t.Name) + "](#" + strings.ToLower(t.Name) + "s)"
		case "Catchup":
			return "word"
		}
		return "[" + titles[t.Name] + "](#" + anchor(titles[t.Name]) + ")"
	}
	return ""
}

func anchor(title string) string {
	return strings.ToLower(strings.ReplaceAll(strings.Trim(title, "`"), " ", "-"))
}
