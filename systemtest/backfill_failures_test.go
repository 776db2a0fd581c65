package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// TestBackfillFails: days that fail are told, by exit code too, and run again by a retry: into a backfill that is open,
// or by a new one.
func TestBackfillFails(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		h := newHurdles(a, []string{"2026-01-08"})
		h.fail("2026-01-02", "2026-01-03", "2026-01-06")
		w.worker(w.connect(a.URL))
		file := w.orders()
		id := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-10").ID
		w.await("the last day is open", h.entered["2026-01-08"])
		w.eventually("three days have failed", func() bool { return w.steer("show", id).Counts.Failed == 3 })
		h.heal("2026-01-03")
		if got := w.starter("backfill", "retry", id); got.code != 0 || !strings.Contains(got.talk, "3 intervals again") {
			w.t.Errorf("retry exits %d: %s", got.code, got.talk)
		}
		w.eventually("the two that are still broken have failed again", func() bool { return w.steer("show", id).Counts.Failed == 2 })
		close(h.held["2026-01-08"])
		got := w.starter("backfill", "show", id, "--wait")
		if got.code != 5 || !strings.Contains(got.talk, "2 intervals failed") {
			w.t.Errorf("show --wait exits %d: %s%s", got.code, got.out, got.talk)
		}
		view := w.steer("show", id)
		want := []step.Range{{From: january(2).Start, To: january(2).End}, {From: january(6).Start, To: january(6).End}}
		if view.Counts.Loaded != 7 || view.Counts.Failed != 2 || view.Counts.Started != 12 || !slices.Equal(view.Failed, want) {
			w.t.Errorf("the backfill answers %+v", view)
		}
		h.heal("2026-01-02", "2026-01-06")
		again := w.backfills(0, "retry", id)
		if len(again) != 1 || again[0].Expected.Run != 2 {
			w.t.Fatalf("retry of one that has ended answers %+v", again)
		}
		if got := w.starter("backfill", "show", again[0].ID, "--wait"); got.code != 0 {
			w.t.Errorf("the retry exits %d: %s", got.code, got.talk)
		}
		if got := w.startedBy(again[0].WorkflowID); !slices.Equal(got, []string{"2026-01-02T00:00:00Z", "2026-01-06T00:00:00Z"}) {
			w.t.Errorf("the retry ran %v", got)
		}
		if got := w.starter("backfill", "retry", again[0].ID); got.code != 2 || !strings.Contains(got.talk, "nothing to run again") {
			w.t.Errorf("retry of one without failures exits %d: %s", got.code, got.talk)
		}
		if rows := w.content().rows; rows != 9 {
			w.t.Errorf("the table holds %d rows", rows)
		}
	})
}

// TestBackfillFailsFast starts nothing after the first failure; a retry goes on from there.
func TestBackfillFailsFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, nil)
	h.fail("2026-01-03")
	w.worker(w.connect(a.URL))
	view := w.backfills(5, w.orders(), "--from", "2026-01-01", "--to", "2026-01-11", "--fail-fast", "--max-active-runs", "1", "--wait")[0]
	if view.Counts.Started != 3 || view.NotRun != 7 || view.By == nil || !view.By.Start.Equal(january(3).Start) {
		t.Errorf("the backfill answers %+v", view)
	}
	h.heal("2026-01-03")
	again := w.backfills(0, "retry", view.ID)[0]
	if got := w.starter("backfill", "show", again.ID, "--wait", "--json"); got.code != 0 {
		t.Errorf("the retry exits %d: %s%s", got.code, got.out, got.talk)
	}
	if again := w.steer("show", again.ID); again.Counts.Loaded != 8 || again.Counts.Started != 8 || w.content().rows != 10 {
		t.Errorf("the retry answers %+v", again)
	}
}

// TestBackfillOfAChain: with depends_on_past the newest first is refused, days after one that fails are reported as
// blocked by it, and a retry goes on from there.
func TestBackfillOfAChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, nil)
	h.fail("2026-01-13")
	w.worker(w.connect(a.URL))
	file := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, depends_on_past: true`)
	within := []string{file, "--from", "2026-01-11", "--to", "2026-01-16"}
	if got := w.starter(append([]string{"backfill", "--order", "newest"}, within...)...); got.code != 2 || !strings.Contains(got.talk, "depends on the past") {
		t.Errorf("newest first exits %d: %s", got.code, got.talk)
	}
	view := w.backfills(5, append(within, "--wait")...)[0]
	if view.Counts.Loaded != 2 || view.Counts.Failed != 1 || view.NotRun != 2 || view.By == nil || !view.By.Start.Equal(january(13).Start) {
		t.Errorf("the backfill answers %+v", view)
	}
	rows, talk := w.dryRun(within...)
	if got := fmt.Sprintf("%s %s %s", rows[2].Verdict, rows[3].Verdict, rows[4].Verdict); got != "leave blocked blocked" || !strings.Contains(talk, "--reprocess missing leaves it") {
		t.Errorf("the plan of the rest is %s: %s", got, talk)
	}
	if got := w.starter(append([]string{"backfill"}, within...)...); got.code != 5 || !strings.Contains(got.talk, "nothing to run") {
		t.Errorf("the rest exits %d: %s", got.code, got.talk)
	}
	h.heal("2026-01-13")
	again := w.backfills(0, "retry", view.ID)[0]
	if got := w.starter("backfill", "show", again.ID, "--wait"); got.code != 0 {
		t.Errorf("the retry exits %d: %s%s", got.code, got.out, got.talk)
	}
	if again := w.steer("show", again.ID); again.Counts.Loaded != 3 || again.Counts.Started != 3 || w.content().rows != 5 {
		t.Errorf("the retry answers %+v", again)
	}
}

// TestBackfillLeavesWhatWasTerminated: a run that was terminated has failed, although no outcome says so yet. The plan
// knows, and the backfill runs what was planned; it tells of the failure, since nobody else has.
func TestBackfillLeavesWhatWasTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, []string{"2026-01-02"})
	w.worker(w.connect(a.URL))
	file := w.orders()
	r := w.start(file, "2026-01-02")
	w.await("the run is open", h.entered["2026-01-02"])
	if err := w.temporal.TerminateWorkflow(w.ctx, r.WorkflowID, r.RunID, "by the test"); err != nil {
		t.Fatal(err)
	}
	close(h.held["2026-01-02"])
	args := []string{file, "--from", "2026-01-01", "--to", "2026-01-04"}
	w.eventually("the plan leaves the day", func() bool { // Temporal's list may lag behind
		rows, _ := w.dryRun(args...)
		return len(rows) == 3 && rows[0].Verdict == step.VerdictRun && rows[1].Verdict == step.VerdictLeave && rows[1].Status == warehouse.OutcomeFailed
	})
	view := w.backfills(5, append(args, "--wait")...)[0]
	if view.Expected.Run != 2 || view.Counts.Started != 2 || view.Counts.Loaded != 2 || view.Counts.Failed != 1 {
		t.Errorf("planned was %+v, and it counts %+v", view.Expected, view.Counts)
	}
	if view = w.backfills(0, append(args, "--wait", "--reprocess", "failed")...)[0]; view.Counts.Loaded != 1 || view.Counts.Left != 2 {
		t.Errorf("asked for what has failed it counts %+v", view.Counts)
	}
}
