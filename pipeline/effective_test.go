package pipeline

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/retry"
)

// with makes a change to the minimal file that is only about its steps' settings.
func with(t testing.TB, replacements ...string) *Pipeline {
	t.Helper()
	return mustParse(t, Source{File: "p.yaml", Data: []byte(strings.NewReplacer(replacements...).Replace(minimal(t)))})
}

// The limits that nobody wrote fit into those that somebody wrote.
func TestEffectiveTimeouts(t *testing.T) {
	t.Parallel()
	const load = "  - name: load\n"
	for _, c := range []struct{ top, step, want string }{
		{"", "", "5m 30m 30s"},
		{"run_timeout: 10m\n", "", "5m 10m 30s"},
		{"run_timeout: 2m\n", "", "2m 2m 30s"},
		{"run_timeout: 10s\n", "", "10s 10s 10s"},
		{"run_timeout: 0s\n", "", "5m 30m 30s"},
		{"defaults: { timeout: { schedule_to_close: 1h } }\n", "", "5m 1h 30s"},
		{"defaults: { timeout: { schedule_to_close: 1h, start_to_close: 50m } }\n", "start_to_close: 10m", "10m 1h 30s"},
		{"", "schedule_to_close: 1m", "1m 1m 30s"},
		{"", "start_to_close: 5s", "5s 30m 5s"},
		{"", "start_to_close: 5s, heartbeat: 3s", "5s 30m 3s"},
	} {
		timeout := ""
		if c.step != "" {
			timeout = "    timeout: { " + c.step + " }\n"
		}
		p := with(t, "warehouse:", c.top+"warehouse:", load, load+timeout)
		got := p.Effective().Step("load").Timeout
		if text := strings.Join([]string{got.StartToClose.String(), got.ScheduleToClose.String(), got.Heartbeat.String()}, " "); text != c.want {
			t.Errorf("%q, %q: %s, want %s", c.top, c.step, text, c.want)
		}
	}
}

// A step takes over from the defaults what it does not say itself, also where its value is zero.
func TestEffectiveRetry(t *testing.T) {
	t.Parallel()
	zero, quarter := 0.0, 0.25
	const defaults = "defaults: { retry: { maximum_attempts: 9, jitter: 0.5, non_retryable_error_types: [BadValue] } }\nwarehouse:"
	for step, want := range map[string]Retry{
		"maximum_attempts: 2": {MaximumAttempts: 2, Jitter: ptr(0.5), NonRetryableErrorTypes: []string{"BadValue"}},
		"jitter: 0":           {MaximumAttempts: 9, Jitter: &zero, NonRetryableErrorTypes: []string{"BadValue"}},
		"jitter: 0.25, non_retryable_error_types: [CheckFailed]": {MaximumAttempts: 9, Jitter: &quarter, NonRetryableErrorTypes: []string{"CheckFailed"}},
	} {
		want.InitialInterval, want.BackoffCoefficient, want.MaximumInterval = Duration(500*time.Millisecond), 2, Duration(30*time.Second)
		want.JitterKind = JitterAdd
		p := with(t, "warehouse:", defaults, "  - name: load\n", "  - name: load\n    retry: { "+step+" }\n")
		if got := p.Effective().Step("load").Retry; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", step, got, want)
		}
	}
	long := with(t, "  - name: load\n", "  - name: load\n    retry: { initial_interval: 2m }\n").Effective().Step("load").Retry
	if long.MaximumInterval != Duration(2*time.Minute) {
		t.Errorf("a pause of 2m is capped at %s", long.MaximumInterval)
	}
}

func ptr[T any](v T) *T { return &v }

// What the file says about types of errors reaches the room that applies it; a step takes the lists of the
// defaults over whole, and an activity only those that can reach it.
func TestEffectiveOverrides(t *testing.T) {
	t.Parallel()
	const defaults = `defaults: { retry: { retry_only: [Network], non_retryable_error_types: [BadValue], rules: [{ error_types: [CheckFailed, Database], action: retry, delay: 90s }, { error_types: ["*"], action: fail }] } }
warehouse:`
	fail := retry.Rule{Types: []string{retry.AnyType}, Action: retry.ActionFail}
	inherited := retry.Overrides{NonRetryable: []string{"BadValue"}, Only: []string{"Network"},
		Rules: []retry.Rule{{Types: []string{"CheckFailed", "Database"}, Action: retry.ActionRetry, Delay: 90 * time.Second}, fail}}
	for name, test := range map[string]struct {
		step string
		want retry.Overrides
	}{
		"nothing":  {"load: { from: extract, table: orders2, disposition: replace }", inherited},
		"its own":  {"load: { from: extract, table: orders2, disposition: replace }\n    retry: { rules: [{ error_types: [Signal], action: default }], retry_only: [ExitCode] }", retry.Overrides{NonRetryable: []string{"BadValue"}, Only: []string{"ExitCode"}, Rules: []retry.Rule{{Types: []string{"Signal"}, Action: retry.ActionDefault}}}},
		"activity": {"activity: { type: Clean }", retry.Overrides{NonRetryable: []string{"BadValue"}, Rules: []retry.Rule{fail}}},
	} {
		p := with(t, "warehouse:", defaults, "  - name: load\n", "  - name: more\n    "+test.step+"\n  - name: load\n")
		if got := p.Effective().Step("more").Retry.Overrides(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// A quick schedule has a default window that holds no more ticks than Temporal can start.
func TestEffectiveCatchupWindow(t *testing.T) {
	t.Parallel()
	for every, want := range map[string]string{"1s": "16m40s", "3s": "50m", "4s": "1h", "1h": "1h"} {
		p := with(t, `cron: "0 0 * * *"`, "every: "+every)
		if got := p.Effective().Schedule.CatchupWindow.String(); got != want {
			t.Errorf("every %s: %s, want %s", every, got, want)
		}
	}
}

// What a file is follows from its name, and where a column's value stands from its format.
func TestEffectiveNotify(t *testing.T) {
	for _, test := range []struct {
		written  []string
		deadline Duration
		want     string
	}{
		{nil, 0, "failure recovery"},
		{nil, 1, "failure deadline recovery"},
		{[]string{EventRecovery}, 1, "recovery"},
	} {
		p := Pipeline{Deadline: test.deadline, Notify: &Notify{Connection: "ops", On: test.written}}
		full := p.Effective()
		if got := strings.Join(full.Notify.On, " "); got != test.want || len(p.Notify.On) != len(test.written) {
			t.Errorf("%v becomes %q, want %q", test.written, got, test.want)
		}
		for _, event := range []string{EventFailure, EventDeadline, EventRecovery} {
			if full.Notify.Tells(event) != strings.Contains(test.want, event) {
				t.Errorf("%v: %s", test.written, event)
			}
		}
	}
	if (*Notify)(nil).Tells(EventFailure) {
		t.Error("nobody has asked")
	}
}

func TestEffectiveFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want, path string }{
		{"path: a.csv", "csv none", "id"},
		{"path: a.CSV.GZ", "csv gzip", "id"},
		{`path: "{{ date .Interval.Start }}.ndjson.zst"`, "ndjson zstd", "id"},
		{"path: a.jsonl", "ndjson none", "id"},
		{"path: a.json.gz", "json gzip", "id"},
		{"path: a.gz, format: csv", "csv gzip", "id"},
		{"path: a.csv.gz, compression: none", "csv none", "id"},
		{"path: data, format: json, compression: zstd", "json zstd", "id"},
		{"path: a.csv, csv: { header: false }", "csv none", "1"},
	} {
		p := mustParse(t, Source{Data: []byte(minimal(t) + "  - name: f\n    file: { connection: drop, " + c.file + ", columns: [{ name: id, type: int }] }\n")})
		got := p.Effective().Step("f").File
		if text := got.Format + " " + got.Compression; text != c.want || got.Columns[0].Path != c.path || got.Columns[0].Type != "integer" || got.Missing != MissingFail {
			t.Errorf("%s: %s, %+v", c.file, text, got)
		}
		if (got.CSV != nil) != (got.Format == FormatCSV) {
			t.Errorf("%s: csv is %+v", c.file, got.CSV)
		}
	}
}

// A column whose name holds a dot or a slash is not a path of two names.
func TestEffectivePathsOfOddNames(t *testing.T) {
	t.Parallel()
	p := with(t, "        - { name: id, type: bigint }\n", `        - { name: id, type: bigint }
        - { name: a.b, type: text }
        - { name: /c~d, type: text }
        - { name: e/f, type: text }
`)
	var paths []string
	for _, column := range p.Effective().Steps[0].SourceColumns() {
		paths = append(paths, column.Path)
	}
	if want := []string{"id", "/a.b", "/~1c~0d", "e/f", "ordered_at"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
}

// The effective form shares nothing with what it was made of.
func TestEffectiveIsACopy(t *testing.T) {
	t.Parallel()
	src := readSource(t, "testdata/good/everything.yaml")
	p, untouched := mustParse(t, src), mustParse(t, src)
	full := p.Effective()
	scribble(reflect.ValueOf(full).Elem())
	if !reflect.DeepEqual(p, untouched) {
		t.Error("a change to the effective form changed the pipeline")
	}
}

// scribble changes everything at or below v.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Interface:
		v.SetZero()
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(-1)
	case reflect.Float64:
		v.SetFloat(-1)
	}
}

// Every tag of the declaration can be read, and every default is within its own bounds.
func TestTagsOfTheDeclaration(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				checkTags(t, typ, typ.Field(i))
				visit(typ.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[Pipeline]())
	if len(seen) != 19 {
		t.Errorf("the declaration has %d structs", len(seen))
	}
}

func checkTags(t *testing.T, typ reflect.Type, f reflect.StructField) {
	t.Helper()
	inYAML, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	inJSON, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if inYAML != inJSON && inYAML != "-" {
		t.Errorf("%s.%s is %s in YAML and %s in JSON", typ.Name(), f.Name, inYAML, inJSON)
	}
	for _, key := range []string{"minimum", "maximum", "default"} {
		text, ok := f.Tag.Lookup(key)
		if !ok {
			continue
		}
		d := &decoder{report: newReport("tags"), tag: "yaml"}
		var node yaml.Node
		if f.Type.Kind() == reflect.String || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.String {
			node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
		} else {
			var document yaml.Node
			if err := yaml.Unmarshal([]byte(text), &document); err != nil {
				t.Fatal(err)
			}
			node = *document.Content[0]
		}
		read := reflect.New(f.Type).Elem()
		if d.value(&node, f.Name, read, f.Tag); len(d.problems) > 0 {
			t.Errorf("%s.%s: the tag %s:%q is refused: %s", typ.Name(), f.Name, key, text, d.problems)
		}
		if key != "default" {
			continue
		}
		filled := reflect.New(f.Type).Elem()
		if setDefault(filled, text); !reflect.DeepEqual(filled.Interface(), read.Interface()) {
			t.Errorf("%s.%s: the default %q is read as %v and filled in as %v", typ.Name(), f.Name, text, read, filled)
		}
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	base := with(t).Digest
	if len(base) != 64 {
		t.Fatalf("digest %q", base)
	}
	for name, same := range map[string][]string{
		"description": {"warehouse:", "description: other words\nowner: other\nwarehouse:"},
		"task queue":  {"warehouse:", "task_queue: other\nwarehouse:"},
		"schedule":    {`"0 0 * * *"`, `"0 6 * * *"`, "2026-01-01", "2025-01-01"},
		"retry":       {"warehouse:", "run_timeout: 1h\ndefaults: { retry: { maximum_attempts: 2 }, timeout: { start_to_close: 1m } }\nwarehouse:"},
		"step":        {"  - name: load\n", "  - name: load\n    on_failure: skip\n    retry: { maximum_attempts: 2 }\n    timeout: { heartbeat: 5s }\n"},
		"resume":      {"      path: /orders\n", "      path: /orders\n      resume_within: 1m\n"},
		"needs":       {"  - name: load\n", "  - name: load\n    needs: [extract]\n"},
		"comments":    {"warehouse:", "# why\nwarehouse:"},
		"form":        {"{ name: id, type: bigint }", "{\"type\": 'bigint',\n            \"name\": \"id\"}"},
		"format":      {"pipeline:", "format: 1\npipeline:"},
	} {
		if got := with(t, same...).Digest; got != base {
			t.Errorf("%s changes the digest", name)
		}
	}
	others := map[string]string{base: "nothing"}
	for name, different := range map[string][]string{
		"warehouse":   {"analytics", "lake"},
		"timezone":    {"schedule:\n", "schedule:\n  timezone: Asia/Jakarta\n"},
		"path":        {"/orders", "/orders2"},
		"connection":  {"connection: shop", "connection: shop2"},
		"query":       {"      path: /orders\n", "      path: /orders\n      query: { a: b }\n"},
		"column":      {"name: id", "name: id2"},
		"type":        {"type: bigint", "type: text"},
		"table":       {"table: orders", "table: orders2"},
		"disposition": {"disposition: delete+insert, time_column: ordered_at", "disposition: upsert, unique_key: [id]"},
		"check":       {"time_column: ordered_at", "time_column: ordered_at, checks: [{ minimum_rows: 1 }]"},
		"step name":   {"name: load", "name: load2"},
		"time column": {", time_column: ordered_at", ""},
	} {
		got := with(t, different...).Digest
		if before, taken := others[got]; taken {
			t.Errorf("%s and %s have the same digest", name, before)
		}
		others[got] = name
	}
}

// The order of steps and of keys is form.
func TestDigestIgnoresTheOrder(t *testing.T) {
	t.Parallel()
	text := minimal(t)
	head, steps, _ := strings.Cut(text, "steps:\n")
	extract, load, _ := strings.Cut(steps, "  - name: load\n")
	swapped := "steps:\n  - name: load\n" + load + extract + head
	if got := mustParse(t, Source{Data: []byte(swapped)}).Digest; got != with(t).Digest {
		t.Error("the order of the file changes the digest")
	}
}

// The text of an SQL file takes the place of its name, and decides the digest.
func TestSQLFiles(t *testing.T) {
	t.Parallel()
	read := func(statement, file, content string) *Pipeline {
		p := &Pipeline{Steps: []Step{{Name: "a", SQL: &SQL{Statement: statement, File: file}}}}
		c := &checker{report: newReport("p.yaml"), p: p, readFile: func(name string) ([]byte, error) {
			if name != file {
				t.Errorf("%q is read, not %q", name, file)
			}
			return []byte(content), nil
		}}
		if c.inlineSQL(); len(c.problems) > 0 {
			t.Fatal(c.problems)
		}
		return p
	}
	inline := read("select 1\n", "", "")
	for _, p := range []*Pipeline{read("", "a.sql", "select 1\n"), read("", "sql/b.sql", "\uFEFFselect 1\n")} {
		if got := *p.Steps[0].SQL; got != *inline.Steps[0].SQL || p.digest() != inline.digest() {
			t.Errorf("got %+v", got)
		}
	}
	if read("", "a.sql", "select 2\n").digest() == inline.digest() {
		t.Error("the text of the SQL does not change the digest")
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, path := range testFiles(t, "good/*.yaml") {
		t.Run(name(path), func(t *testing.T) {
			t.Parallel()
			p := mustParse(t, readSource(t, path))
			grid, err := p.Grid()
			if err != nil {
				t.Fatal(err)
			}
			for iv := range grid.Between(instant(t, "2026-03-01T00:00:00Z"), instant(t, "2026-04-01T00:00:00Z")) {
				checkRendered(t, path, p, iv)
				break
			}
		})
	}
}

func checkRendered(t *testing.T, path string, p *Pipeline, iv interval.Interval) {
	t.Helper()
	out, err := p.Render(iv)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, strings.TrimSuffix(path, ".yaml")+".rendered", string(out))
	if strings.Contains(string(out), "{{") {
		t.Errorf("a template is left:\n%s", out)
	}
	again, problems := Parse(Source{File: "rendered.yaml", Data: out})
	if problems != nil {
		t.Fatalf("what is rendered is no pipeline file: %s", problems)
	}
	// Filling in the defaults again changes nothing, because all are there.
	again.Digest = ""
	if full := again.Effective(); !reflect.DeepEqual(full, again) {
		t.Errorf("defaults are missing in\n%s", out)
	}
}

func TestRenderNamesWhatFails(t *testing.T) {
	t.Parallel()
	p := with(t)
	p.Steps[0].HTTP.Query = map[string]Template{"a": "{{ now }}"}
	_, err := p.Render(interval.Interval{Start: instant(t, "2026-03-01T00:00:00Z"), End: instant(t, "2026-03-02T00:00:00Z")})
	if err == nil || !strings.Contains(err.Error(), "steps[0].http.query.a: there is no function") {
		t.Error(err)
	}
	p.Schedule.Timezone = "Mars/Olympus"
	if _, err = p.Render(interval.Interval{}); err == nil || !strings.Contains(err.Error(), "Mars/Olympus") {
		t.Error(err)
	}
}

// The grid is that of the schedule as written.
func TestGrid(t *testing.T) {
	t.Parallel()
	p := with(t, "schedule:\n", "schedule:\n  timezone: Asia/Jakarta\n")
	grid, err := p.Grid()
	if err != nil {
		t.Fatal(err)
	}
	want := interval.Interval{Start: instant(t, "2025-12-31T17:00:00Z"), End: instant(t, "2026-01-01T17:00:00Z")}
	for iv := range grid.Between(time.Time{}, instant(t, "2026-01-03T00:00:00Z")) {
		if iv != want {
			t.Errorf("the first interval is %s, want %s", iv, want)
		}
		break
	}
	for part, change := range map[string]func(s *Schedule){
		"schedule.timezone":   func(s *Schedule) { s.Timezone = "Mars/Olympus" },
		"schedule.start_date": func(s *Schedule) { s.StartDate = "soon" },
		"schedule.end_date":   func(s *Schedule) { s.EndDate = "never" },
		"schedule: ":          func(s *Schedule) { s.Cron = "often" },
	} {
		broken := with(t)
		change(broken.Schedule)
		if _, err := broken.Grid(); err == nil || !strings.Contains(err.Error(), `pipeline "orders": `+part) {
			t.Errorf("%s: %v", part, err)
		}
	}
	if _, err := (&Pipeline{}).Grid(); err == nil {
		t.Error("a pipeline without a schedule has a grid")
	}
}
