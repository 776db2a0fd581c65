package systemtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// chain is a pipeline of two sources and two loads, the second after the first, into orders and into a table of this
// name. More steps may follow.
func (w *world) chain(name, second string, more ...string) string {
	w.t.Helper()
	first := read(w.t, w.orders())
	_, source, _ := strings.Cut(first, "  - name: extract\n")
	source, _, _ = strings.Cut(source, "  - name: load\n")
	return w.write(name, first+`  - name: extract2
`+source+fmt.Sprintf(`  - name: load2
    needs: [load]
    load: { from: extract2, table: %s, disposition: delete+insert, time_column: at }
`, second)+strings.Join(more, ""))
}

// rerun runs an interval again to its end and wants this exit code.
func (w *world) rerun(name, start string, wantCode int, args ...string) (report, answer) {
	w.t.Helper()
	got := w.starter(append([]string{"rerun", name, "--interval", start, "--wait", "--json"}, args...)...)
	var r report
	if got.code != wantCode {
		w.t.Fatalf("starter rerun exits %d, want %d\n%s%s", got.code, wantCode, got.talk, got.out)
	}
	if got.out != "" {
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			w.t.Fatalf("starter rerun --json: %v\n%s%s", err, got.out, got.talk)
		}
	}
	return r, got
}

// states lists the steps of a run with their states.
func (r report) states() string {
	var parts []string
	for _, s := range r.Result.Steps {
		parts = append(parts, s.Name+" "+s.State)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// table returns what a table of the API's rows holds.
func (w *world) table(name string) content {
	w.t.Helper()
	rows, sum, err := w.database.Checksum(w.ctx, name, columns, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return content{rows, sum}
}

// receipt returns that of a step, for a day that has only one.
func (w *world) receipt(step string) warehouse.Receipt {
	w.t.Helper()
	receipts, err := w.database.Receipts(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Step == step {
			return r
		}
	}
	w.t.Fatalf("there is no receipt of %s", step)
	return warehouse.Receipt{}
}

// ledgerSays returns the only outcome.
func (w *world) ledgerSays() warehouse.Outcome {
	w.t.Helper()
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil || len(outcomes) != 1 {
		w.t.Fatalf("the ledger has %d outcomes: %v", len(outcomes), err)
	}
	return outcomes[0]
}

// say changes what the API tells in its rows.
func (a *api) say(note string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.note = note
}

// TestRerunAsAWhole takes what the source has by now, and leaves one copy of it.
func TestRerunAsAWhole(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 5)
		w.worker(w.connect(a.URL))
		file := w.chain("pipeline.yaml", "seconds")
		w.run(file, "2026-01-15", 0)
		before, first := w.content(), w.receipt("load")
		a.set("2026-01-15", 7)
		a.say("second")
		r, _ := w.rerun(file, "2026-01-15", 0)
		if got, want := r.states(), "extract done, extract2 done, load done, load2 done"; got != want || r.Kind != "manual" {
			w.t.Errorf("a %s run: %s, want %s", r.Kind, got, want)
		}
		after, second := w.content(), w.receipt("load")
		if after.rows != 7 || after.checksum == before.checksum || w.table("seconds") != after || second.Fence <= first.Fence || second.Deleted != 5 {
			w.t.Errorf("the tables hold %v and %v, receipt %+v", after, w.table("seconds"), second)
		}
		if got := w.ledgerSays(); got.Status != "loaded" || got.RunID != r.RunID || got.Note != "" {
			w.t.Errorf("the ledger says %+v", got)
		}
	})
}

// TestRerunFromAStep loads the second table again, from its source as it is by now; the rows and the receipt of the
// first one are those of the run before.
func TestRerunFromAStep(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 5)
		w.worker(w.connect(a.URL))
		file := w.chain("pipeline.yaml", "seconds")
		w.run(file, "2026-01-15", 0)
		before, first := w.content(), w.receipt("load")
		a.set("2026-01-15", 7)
		a.say("second")
		asked := len(a.seen())
		r, _ := w.rerun(file, "2026-01-15", 0, "--from-step", "load2")
		if got, want := r.states(), "extract kept, extract2 done, load kept, load2 done"; got != want || r.Result.Rows != 7 {
			w.t.Errorf("%s with %d rows, want %s", got, r.Result.Rows, want)
		}
		if w.content() != before || w.receipt("load") != first {
			w.t.Errorf("what was kept has changed: %v, %+v", w.content(), w.receipt("load"))
		}
		if got := w.table("seconds"); got.rows != 7 || w.receipt("load2").Deleted != 5 || len(a.seen()) != asked+1 {
			w.t.Errorf("the second table holds %v, after %d requests more", got, len(a.seen())-asked)
		}
		got := w.ledgerSays()
		if got.Status != "loaded" || got.Digest != first.Digest || !strings.HasPrefix(got.Note, "from step load2 on; kept load, loaded 20") {
			w.t.Errorf("the ledger says %+v", got)
		}
		// By another definition what was kept shows as older.
		edited := w.write("edited.yaml", strings.Replace(read(w.t, file), "from: extract2,", "from: extract2, checks: [{ not_null: id }],", 1))
		r, said := w.rerun(edited, "2026-01-15", 0, "--from-step", "extract2")
		if w.receipt("load") != first || w.receipt("load2").Digest == first.Digest || !strings.Contains(said.out, fmt.Sprintf("by another definition (digest %.12s)", first.Digest)) {
			w.t.Errorf("receipts %+v and %+v; it says %s", w.receipt("load"), w.receipt("load2"), said.out)
		}
		if got := w.ledgerSays(); got.Status != "loaded" || got.Digest != first.Digest || got.RunID != r.RunID {
			w.t.Errorf("the ledger says %+v", got)
		}
	})
}

// TestRerunKeepsOnlyWhatIsLoaded: a step whose load has no receipt, or none for the table that the definition names, is
// not kept, and nothing changes.
func TestRerunKeepsOnlyWhatIsLoaded(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 5)
		w.worker(w.connect(a.URL))
		w.run(w.orders(), "2026-01-15", 0)
		loaded := w.ledgerSays()
		asked := len(a.seen())
		third := `  - name: load3
    load: { from: extract2, table: thirds, disposition: delete+insert, time_column: at }
`
		more := w.chain("more.yaml", "seconds", third)
		moved := w.write("moved.yaml", strings.Replace(read(w.t, more), "table: orders", "table: elsewhere", 1))
		for _, c := range []struct{ file, from, missing string }{
			{more, "load3", "load2"}, {moved, "load2", "load, load3"}, {more, "extract", "load3"},
		} {
			r, _ := w.rerun(c.file, "2026-01-15", 5, "--from-step", c.from)
			if want := "to keep " + c.missing + ", of which the ledger has no receipt"; r.Outcome != "failed" || !strings.Contains(r.Error, want) {
				w.t.Errorf("%+v: %s, %s", c, r.Outcome, r.Error)
			}
		}
		if got := w.ledgerSays(); got != loaded || len(a.seen()) != asked {
			w.t.Errorf("the ledger says %+v, and the API was asked %v", got, a.seen())
		}
		w.rerun(more, "2026-01-15", 0)
		w.rerun(more, "2026-01-15", 0, "--from-step", "load3")
	})
}

// TestRerunWithTheDefinitionOfTheRun, with the current one of a file, and with that which was applied.
func TestRerunWithTheDefinitionOfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	day := today().AddDate(0, 0, -3).Format("2006-01-02")
	file := w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: none`, day))
	w.run(file, day, 0)
	was := w.ledgerSays()
	w.apply(w.write("new.yaml", strings.Replace(read(t, file), "table: orders", "checks: [{ not_null: id }], table: orders", 1)))
	r, _ := w.rerun(w.name, day, 0, "--definition", "run")
	if got := w.ledgerSays(); got.Digest != was.Digest || got.RunID != r.RunID {
		t.Errorf("the ledger says %+v", got)
	}
	r, _ = w.rerun(w.name, day, 0)
	is := w.ledgerSays()
	if is.Digest == was.Digest || is.RunID != r.RunID {
		t.Errorf("the ledger says %+v", is)
	}
	r, said := w.rerun(file, day, 0)
	if got := w.ledgerSays(); got.Digest != was.Digest || got.RunID != r.RunID || !strings.Contains(said.out, `"definition": "current"`) {
		t.Errorf("the ledger says %+v, it says %s", got, said.out)
	}
	if _, said := w.rerun(w.name, today().AddDate(0, 0, -2).Format("2006-01-02"), 1, "--definition", "run"); !strings.Contains(said.talk, "does not keep it any more") {
		t.Errorf("of an interval that was never run it says %s", said.talk)
	}
	for args, want := range map[string]string{
		"nobody|--interval|" + day:                                      "2 no pipeline of this name",
		w.name + "|--interval|2020-01-01":                               "2 --interval",
		w.name + "|--interval|" + day + "|--from-step|lod":              "2 its steps are extract, load",
		w.name + "|--interval|" + day + "|--interval|2026-01-02":        "2 a range is run again by `starter backfill`",
		w.name + "|--interval|" + today().Format("2006-01-02"):          "2 not over yet",
		w.name + "|--interval|" + day + "|--definition|old":             "2 neither current nor run",
		w.name + "|--interval|" + day + "|--replace-within|1s":          "2 --replace",
		w.name + "|--interval|" + day + "|--from-step|":                 "2 --from-step is empty",
		w.name + "|--interval|" + day + "|--replace-within=0|--replace": "2 more than 0",
		w.name: "2 --interval is missing",
	} {
		code, part, _ := strings.Cut(want, " ")
		if got := w.starter(append([]string{"rerun"}, strings.Split(args, "|")...)...); fmt.Sprint(got.code) != code || !strings.Contains(got.talk, part) || got.out != "" {
			t.Errorf("rerun %s exits %d: %s%s", args, got.code, got.talk, got.out)
		}
	}
}

// TestRerunAfterTheScheduleWasChanged: an interval of the schedule before is run again as it was, and is no interval of
// the current definition.
func TestRerunAfterTheScheduleWasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	day := today().AddDate(0, 0, -3)
	start := day.Format("2006-01-02")
	file := w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: none`, start))
	w.apply(file)
	w.run(file, start, 0)
	was := w.receipt("load")
	w.apply(w.write("hourly.yaml", strings.Replace(read(t, file), `"0 0 * * *"`, `"0 */6 * * *"`, 1)))
	if _, said := w.rerun(w.name, start, 2); !strings.Contains(said.talk, "--interval") {
		t.Errorf("it says %s", said.talk)
	}
	r, _ := w.rerun(w.name, start, 0, "--definition", "run", "--from-step", "load")
	if got := w.receipt("load"); got.RunID != r.RunID || got.Interval != was.Interval || got.Digest != was.Digest || got.Deleted != 1 {
		t.Errorf("the receipt is %+v", got)
	}
	if _, said := w.rerun(w.name, day.Add(24*time.Hour).Format("2006-01-02"), 2, "--definition", "run"); !strings.Contains(said.talk, "Temporal has no run of an interval that starts then") {
		t.Errorf("it says %s", said.talk)
	}
}

// TestRerunSurvivesItsWorker, killed while the step is at work from which it began.
func TestRerunSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 5)
		connections := w.connect(a.URL)
		worker := w.worker(connections)
		file := w.write("beating.yaml", read(w.t, w.chain("pipeline.yaml", "seconds"))+"defaults: { timeout: { heartbeat: 2s } }\n")
		w.run(file, "2026-01-15", 0)
		before, first := w.content(), w.receipt("load")
		a.say("second")
		d := a.door()
		got := w.starter("rerun", file, "--interval", "2026-01-15", "--from-step", "load2", "--json")
		var r report
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 {
			w.t.Fatalf("it exits %d: %v %s", got.code, err, got.talk)
		}
		<-d.entered
		if details := w.details(r); !strings.Contains(details, "| load") || !strings.Contains(details, "kept") || !strings.Contains(details, "loaded 20") {
			w.t.Errorf("the current details say\n%s", details)
		}
		worker.Kill()
		a.intercept(nil)
		w.worker(connections)
		w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, r)
		if w.content() != before || w.receipt("load") != first || w.receipt("load2").RunID != r.RunID || w.table("seconds") == before {
			w.t.Errorf("the tables hold %v and %v", w.content(), w.table("seconds"))
		}
		close(d.open)
	})
}
