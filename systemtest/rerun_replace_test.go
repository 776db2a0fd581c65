package systemtest

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// TestRerunReplaces an open run, one at work and one that waits for a slot, only when it is told to.
func TestRerunReplaces(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-11", 2)
		a.set("2026-01-12", 3)
		d := a.door()
		w.worker(w.connect(a.URL))
		file := w.limited(1)
		runs := w.startDays(file, 11, 12)
		<-d.entered
		w.untilGate(1, 1)
		got := w.starter("rerun", file, "--interval", "2026-01-11")
		for _, part := range []string{runs[0].RunID, "of kind manual", "with the same definition (digest ", "--replace"} {
			if got.code != 1 || !strings.Contains(got.talk, part) || got.out != "" {
				w.t.Fatalf("it exits %d and says %s%s", got.code, got.talk, got.out)
			}
		}
		for i, day := range []string{"2026-01-12", "2026-01-11"} {
			if got := w.starter("rerun", file, "--interval", day, "--replace"); got.code != 0 {
				w.t.Fatalf("it exits %d: %s", got.code, got.talk)
			}
			w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, runs[1-i])
		}
		close(d.open)
		for _, old := range runs {
			w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, report{WorkflowID: old.WorkflowID})
		}
		if got := w.content().rows; got != 5 {
			w.t.Errorf("the table holds %d rows, want 5", got)
		}
		w.untilGate(0, 0)
	})
}

// TestRerunsThatReplaceEachOther at the same time end: each runs or says who was there, and nothing is left open.
func TestRerunsThatReplaceEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 4)
	var mutex sync.Mutex
	busy, most := 0, 0
	d := a.door()
	w.worker(w.connect(a.URL))
	file := w.orders()
	first := w.start(file, "2026-01-15")
	<-d.entered
	a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		busy++
		most = max(most, busy)
		mutex.Unlock()
		writePage(out, r, 4, "row")
		mutex.Lock()
		busy--
		mutex.Unlock()
		return true
	})
	answers := make([]answer, 4)
	var terminals sync.WaitGroup
	for i := range answers {
		terminals.Go(func() { answers[i] = w.starter("rerun", file, "--interval", "2026-01-15", "--replace") })
	}
	terminals.Wait()
	started := 0
	for _, got := range answers {
		switch {
		case got.code == 0:
			started++
		case got.code != 1 || !strings.Contains(got.talk, "was started before this one could be, and is left alone"):
			t.Errorf("one exits %d: %s", got.code, got.talk)
		}
	}
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, first)
	last := report{WorkflowID: first.WorkflowID}
	if err := w.temporal.GetWorkflow(w.ctx, last.WorkflowID, "").Get(w.ctx, nil); err != nil {
		t.Error(err)
	}
	if started == 0 || most > 1 || w.content().rows != 4 {
		t.Errorf("%d were started, %d worked at the same time, %d rows", started, most, w.content().rows)
	}
}

// TestRerunReplacesNothingWithoutAWorker: what could not react is not even cancelled.
func TestRerunReplacesNothingWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	file := w.orders()
	r := w.start(file, "2026-01-15")
	got := w.starter("rerun", file, "--interval", "2026-01-15", "--replace")
	if got.code != 4 || !strings.Contains(got.talk, "it was not cancelled") || !strings.Contains(got.talk, "no worker polls task queue "+w.name) {
		t.Errorf("it exits %d: %s", got.code, got.talk)
	}
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED {
			t.Error("the run was asked to cancel")
		}
	}
}

// TestRerunTellsOfARunThatDoesNotEnd: its worker was killed a moment ago, and nobody is there to notice the cancel.
func TestRerunTellsOfARunThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 4)
	d := a.door()
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	file := w.orders("defaults: { timeout: { heartbeat: 2s } }\n")
	r := w.start(file, "2026-01-15")
	<-d.entered
	worker.Kill()
	got := w.starter("rerun", file, "--interval", "2026-01-15", "--replace", "--replace-within", "7s")
	if got.code != 4 || !strings.Contains(got.talk, "waiting for a worker on task queue "+w.name) || !strings.Contains(got.talk, "has not ended within 7s, so nothing was started") {
		t.Errorf("it exits %d: %s", got.code, got.talk)
	}
	close(d.open)
	w.worker(connections)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, r)
	w.rerun(file, "2026-01-15", 0)
}
