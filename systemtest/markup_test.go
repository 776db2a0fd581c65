package systemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/warehouse"
)

// hostile is text that acts in a browser, in Markdown or on a terminal when it is not escaped.
const hostile = "<img src=x onerror=alert(1)></script> | [click](javascript:alert(1)) \x1b[31m\x1b]0;title\x07 \u202egnp.exe\r\n# heading"

// acting are its parts that no output may have as they are: those for terminals.
var acting = []string{"\x1b", "\x07", "\u202e", "\r"}

// TestHostileText: what an API says in an error, and what stands in a file, is text to people who read the output or the
// run's details.
func TestHostileText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		switch r.URL.Path {
		case "/final":
			rw.WriteHeader(http.StatusNotFound)
		default:
			rw.Header().Set("Retry-After", "600")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = rw.Write([]byte(hostile))
	})
	w.worker(w.connect(s.URL))
	shown := func(what, text string) {
		t.Helper()
		for _, each := range acting {
			if strings.Contains(text, each) {
				t.Errorf("%s has %q:\n%q", what, each, text)
			}
		}
	}

	got := w.starter("run", w.also("final", "path: /rows", "path: /final"), "--interval", "2026-01-15", "--wait")
	w.wantLines(got, "answered 404 Not Found: <img src=x onerror=alert(1)>")
	shown("the output of a failed run", got.out+got.talk)

	waiting := w.start(w.also("waiting", "path: /rows", "path: /waiting"), "2026-01-15")
	w.untilDetails(waiting, "answered 429")
	details := w.details(waiting)
	shown("the details of a run", details)
	for _, markup := range []string{"<img", "</script", " [click", "\n# heading"} {
		if strings.Contains(details, markup) {
			t.Errorf("the details have markup, %q:\n%s", markup, details)
		}
	}
	for line := range strings.Lines(details) {
		if strings.Contains(line, "429") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 7 {
			t.Errorf("the row has more cells than the table has columns:\n%s", line)
		}
	}
	if err := w.temporal.CancelWorkflow(w.ctx, waiting.WorkflowID, waiting.RunID); err != nil {
		t.Fatal(err)
	}

	w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,\""+strings.ReplaceAll(hostile, `"`, `""`)+"\"\n")
	w.write("files/2026-01-16.csv", "id,at,\""+hostile+"\"\n1,2026-01-16T00:00:00Z,x\n")
	w.write("files/2026-01-17.csv", "id,at,note\n\""+hostile+"\",2026-01-17T00:00:00Z,x\n")
	files := w.write("files.yaml", strings.ReplaceAll(`pipeline: NAME-files
warehouse: warehouse
task_queue: NAME
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
steps:
  - name: extract
    file:
      connection: files
      path: "{{ date .Interval.Start }}.csv"
      columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }]
  - name: load
    load: { from: extract, table: files, disposition: delete+insert, time_column: at }
`, "NAME", w.name))
	got = w.starter("run", files, "--interval", "2026-01-15", "--wait")
	shown("the output of a run", got.out+got.talk)
	if got.code != 0 || w.rowsIn("files") != 1 {
		t.Errorf("starter run exits %d: %s%s", got.code, got.out, got.talk)
	}
	for _, day := range []string{"2026-01-16", "2026-01-17"} {
		got := w.starter("run", files, "--interval", day, "--wait")
		t.Logf("\n%s%s", got.out, got.talk)
		shown("the output of a failed run", got.out+got.talk)
		if got.code != 5 || !strings.Contains(got.talk, day+".csv") {
			t.Errorf("starter run exits %d: %s", got.code, got.talk)
		}
	}
	list := w.starter("runs", w.name+"-files")
	shown("the list of runs", list.out+list.talk)
}
