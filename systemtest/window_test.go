package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// With depends_on_past a backfill goes one by one. The first day begins although the one before was never run,
// and after a day that fails nothing is started, now or by the next backfill, until that one is run again.
func TestBackfillDependsOnPast(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		var mutex sync.Mutex
		broken := "2026-01-13T00:00:00Z"
		a.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			mutex.Lock()
			defer mutex.Unlock()
			if r.URL.Query().Get("from") == broken {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		})
		w.worker(w.connect(a.URL))
		file := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, depends_on_past: true`)
		run := func(name string, reprocess step.Reprocess) workflows.BackfillResult {
			return w.patiently(w.backfill("tranche/backfill/"+w.name+"/"+name, file, "2026-01-11", "2026-01-16", func(in *workflows.BackfillInput) {
				in.Window, in.Newest, in.Reprocess = 5, true, reprocess
			}))
		}
		first := run("first", step.ReprocessMissing)
		if first.Started != 3 || first.Loaded != 2 || first.Failed != 1 || first.Blocked == nil || *first.Blocked != january(13) {
			w.t.Errorf("the first answers %+v", first)
		}
		if got := a.seen(); len(got) != 3 || !slices.IsSorted(got) {
			w.t.Errorf("the API was asked for %v", got)
		}
		if second := run("second", step.ReprocessMissing); second.Started != 0 || second.Left != 3 || second.Blocked == nil || *second.Blocked != january(13) {
			w.t.Errorf("the second answers %+v", second)
		}
		mutex.Lock()
		broken = ""
		mutex.Unlock()
		if third := run("third", step.ReprocessFailed); third.Started != 3 || third.Loaded != 3 || third.Left != 2 || third.Blocked != nil {
			w.t.Errorf("the third answers %+v", third)
		}
		if got := a.seen(); len(got) != 6 || !slices.IsSorted(got) {
			w.t.Errorf("the API was asked for %v", got)
		}
	})
}

// A worker that stops hands its window to the next at once, with the runs that are in flight.
func TestBackfillHandsItsWindowOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, []string{"2026-01-02"}, 4)
	connections := w.connect(a.URL)
	first := w.worker(connections, "--stop-timeout", "1s")
	file := w.orders()
	run := w.backfill("tranche/backfill/"+w.name+"/stop", file, "2026-01-01", "2026-01-09", func(in *workflows.BackfillInput) { in.Window = 2 })
	w.await("four days", h.reached[4])
	if code, err := first.Stop(patience / 2); code != 0 || err != nil {
		t.Fatalf("the worker exits %d: %v", code, err)
	}
	close(h.held["2026-01-02"])
	w.worker(connections)
	if result := w.patiently(run); result.Loaded != 8 || result.Started != 8 || result.Left != 0 {
		t.Errorf("the backfill answers %+v", result)
	}
	var windows, failures int
	for _, event := range w.events(run.GetID(), run.GetRunID()) {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			windows++
		case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
			failures++
		}
	}
	if windows != 2 || failures != 0 {
		t.Errorf("the window was held %d times and lost %d times, want 2 and 0", windows, failures)
	}
}

// Two backfills over the same range at the same time run each day once: each waits for what the other has started.
func TestBackfillsOfTheSameRange(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		newHurdles(a, nil)
		w.worker(w.connect(a.URL))
		file := w.orders()
		var results []workflows.BackfillResult
		for i, running := range []func() workflows.BackfillResult{w.backfilling(file, "one", false), w.backfilling(file, "two", true)} {
			results = append(results, running())
			if results[i].Passed() != 20 || results[i].Failed+results[i].Cancelled != 0 {
				w.t.Errorf("backfill %d answers %+v", i, results[i])
			}
		}
		if started := results[0].Started + results[1].Started; started != 20 {
			w.t.Errorf("%d runs were started for 20 days", started)
		}
		for id, count := range w.executions() {
			if count != 1 {
				w.t.Errorf("%s was run %d times", id, count)
			}
		}
	})
}

func (w *world) backfilling(file, name string, newest bool) func() workflows.BackfillResult {
	run := w.backfill("tranche/backfill/"+w.name+"/"+name, file, "2026-01-01", "2026-01-21", func(in *workflows.BackfillInput) {
		in.Newest, in.Window = newest, 3
	})
	return func() workflows.BackfillResult { return w.patiently(run) }
}

// What is not over yet is left out, and a history stays short however many intervals there are.
func TestBackfillStopsAtNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newHurdles(a, nil)
	w.worker(w.connect(a.URL))
	start := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -60)
	file := w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s`, start.Format(time.DateOnly)))
	run := w.backfill("tranche/backfill/"+w.name+"/now", file, start.Format(time.DateOnly), start.AddDate(1, 0, 0).Format(time.DateOnly), func(in *workflows.BackfillInput) {
		in.Window = 6
	})
	if result := w.patiently(run); result.Loaded != 60 {
		t.Errorf("the backfill answers %+v", result)
	}
	events := w.events(run.GetID(), run.GetRunID())
	var windows []string
	for _, event := range events {
		windows = append(windows, event.GetEventType().String())
	}
	if len(events) > 20 {
		t.Errorf("%d events for 60 intervals: %s", len(events), strings.Join(windows, " "))
	}
}
