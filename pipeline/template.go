package pipeline

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// Template is text that may hold templates over the run's interval, such as
// `{{ date .Interval.Start }}`. Nothing else can be named in it.
//
// `.Interval.Start` and `.Interval.End` print as RFC 3339 in UTC. The functions are:
//
//   - `date`: the date in the pipeline's time zone, such as 2026-01-15
//   - `local`: the instant in the pipeline's time zone, as RFC 3339 with its offset
//   - `format "2006/01/02"`: the instant in the pipeline's time zone, in a Go reference layout
//   - `unix` and `unixms`: whole seconds and milliseconds since 1970
//   - `last_instant .Interval.End`: one microsecond before it, for an API whose end is inclusive
//
// They can be chained with `|`, as in `{{ .Interval.End | last_instant | unixms }}`.
type Template string

const (
	// maximumTemplateOutput bounds what one template may become. It is far above any request that
	// makes sense and far below what hurts a worker.
	maximumTemplateOutput = 256 << 10
	// sampleYear is in the past of every zone's last known rule, so that checks do not depend on it.
	sampleYear = 2026
)

var errTemplateOutput = fmt.Errorf("the text becomes longer than %d KiB", maximumTemplateOutput>>10)

// templateInstant is what a template gets for an instant. It prints as RFC 3339 in its own zone.
type templateInstant struct{ time.Time }

func (t templateInstant) String() string { return t.Format(time.RFC3339Nano) }

type templateInterval struct{ Start, End templateInstant }

type templateData struct{ Interval templateInterval }

// Execute fills the interval into the text. The location is the pipeline's, and nil means UTC. It
// fails when the text is no valid template, which Parse has already reported for every checked
// pipeline. The result depends on nothing but the arguments.
func (t Template) Execute(iv interval.Interval, loc *time.Location) (string, error) {
	if !strings.Contains(string(t), "{{") {
		return string(t), nil
	}
	if loc == nil {
		loc = time.UTC
	}
	functions := templateFunctions(loc)
	if err := t.check(functions); err != nil {
		return "", err
	}
	parsed, err := template.New("").Funcs(functions).Parse(string(t))
	if err != nil {
		return "", templateError(err)
	}
	out := limitedText{limit: maximumTemplateOutput}
	data := templateData{templateInterval{templateInstant{iv.Start.UTC()}, templateInstant{iv.End.UTC()}}}
	if err := parsed.Execute(&out, data); err != nil {
		return "", templateError(err)
	}
	return out.String(), nil
}

func templateFunctions(loc *time.Location) template.FuncMap {
	return template.FuncMap{
		"date":         func(t templateInstant) string { return t.In(loc).Format(time.DateOnly) },
		"local":        func(t templateInstant) templateInstant { return templateInstant{t.In(loc)} },
		"unix":         func(t templateInstant) int64 { return t.Unix() },
		"unixms":       func(t templateInstant) int64 { return t.UnixMilli() },
		"last_instant": func(t templateInstant) templateInstant { return templateInstant{t.Add(-time.Microsecond)} },
		"format": func(layout string, t templateInstant) (string, error) {
			if err := checkTemplateLayout(layout, loc); err != nil {
				return "", err
			}
			return t.In(loc).Format(layout), nil
		},
	}
}

var literalZ = regexp.MustCompile(`Z(0[0-9:]*)?`)

// checkTemplateLayout refuses layouts that do not mean what they seem to.
func checkTemplateLayout(layout string, loc *time.Location) error {
	if err := checkLayout(layout); err != nil {
		return err
	}
	for _, found := range literalZ.FindAllString(layout, -1) {
		if found == "Z" && loc != time.UTC {
			return fmt.Errorf("layout %q says Z, which means UTC, but format writes the time of %s: write Z07:00 for the offset, or .Interval.Start alone, which is in UTC", layout, loc)
		}
	}
	return nil
}

// check accepts text and chains of the functions over the two instants, and nothing else of the
// language of text/template: no variables, no conditions, no loops, none of its built-in functions.
func (t Template) check(functions template.FuncMap) error {
	trees, err := parse.Parse("", string(t), "", "", functions)
	if err != nil {
		return templateError(err)
	}
	main := trees[""]
	if len(trees) > 1 || main == nil && strings.Contains(string(t), "define") {
		return errors.New("define and block are not supported: " + templateAdvice)
	}
	if main == nil {
		return nil
	}
	for _, node := range main.Root.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
		case *parse.ActionNode:
			if err := checkPipe(n.Pipe); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is not supported: %s", clip(node.String()), templateAdvice)
		}
	}
	return nil
}

const templateAdvice = "write .Interval.Start or .Interval.End and the functions date, local, unix, unixms, format and last_instant, chained with |"

func checkPipe(pipe *parse.PipeNode) error {
	if len(pipe.Decl) > 0 {
		return fmt.Errorf("variables are not supported: %s", templateAdvice)
	}
	for _, command := range pipe.Cmds {
		for _, argument := range command.Args {
			if err := checkArgument(argument); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkArgument(node parse.Node) error {
	switch n := node.(type) {
	case *parse.IdentifierNode, *parse.StringNode:
		return nil
	case *parse.PipeNode:
		return checkPipe(n)
	case *parse.FieldNode:
		if slices.Equal(n.Ident, []string{"Interval", "Start"}) || slices.Equal(n.Ident, []string{"Interval", "End"}) {
			return nil
		}
		return fmt.Errorf("%s is not known: only .Interval.Start and .Interval.End are", clip(n.String()))
	}
	return fmt.Errorf("%s is not supported: %s", clip(node.String()), templateAdvice)
}

// templatePrefix is what text/template puts before its messages: a name, a line, a column, the
// action. The problem has a position of its own.
var templatePrefix = regexp.MustCompile(`^template: [^:]*:\d+(:\d+)?: (executing "[^"]*" at <[^>]*>: )?`)

func templateError(err error) error {
	if errors.Is(err, errTemplateOutput) {
		return errTemplateOutput
	}
	message := templatePrefix.ReplaceAllString(err.Error(), "")
	if name, ok := strings.CutPrefix(message, "function "); ok && strings.HasSuffix(name, " not defined") {
		return fmt.Errorf("there is no function %s: %s", strings.TrimSuffix(name, " not defined"), templateAdvice)
	}
	if strings.HasPrefix(message, "wrong type") {
		return errors.New("a function gets an instant: .Interval.Start, .Interval.End, or what local and last_instant make of them")
	}
	return errors.New(strings.TrimPrefix(message, "error calling format: "))
}

// clip shortens a text that is quoted in a message.
func clip(text string) string {
	const limit = 60
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// limitedText is a strings.Builder that refuses to grow beyond a limit.
type limitedText struct {
	strings.Builder
	limit int
}

func (w *limitedText) Write(p []byte) (int, error) {
	if w.Len()+len(p) > w.limit {
		return 0, errTemplateOutput
	}
	return w.Builder.Write(p)
}
