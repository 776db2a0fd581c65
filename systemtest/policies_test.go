package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// daily is the timeline of whole days in UTC from a day on.
func daily(t *testing.T, start time.Time) *interval.Timeline {
	t.Helper()
	line, err := interval.NewTimeline(interval.Spec{Cron: "0 0 * * *", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// today is the last midnight in UTC.
func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

// TestLateActivation: a pipeline that becomes active nine days late runs the nine, oldest first and strictly one
// after another, and nothing else.
func TestLateActivation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	var mutex sync.Mutex
	var order []string
	active, most := 0, 0
	a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		order = append(order, r.URL.Query().Get("from"))
		active++
		most = max(most, active)
		mutex.Unlock()
		writePage(out, r, 1, "row")
		mutex.Lock()
		active--
		mutex.Unlock()
		return true
	})
	w.worker(w.connect(a.URL))
	start := today().AddDate(0, 0, -9)
	w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all`, start.Format(time.DateOnly))))
	w.awaitLoaded(daily(t, start), start, today())
	w.onceEach()
	mutex.Lock()
	defer mutex.Unlock()
	if len(order) != 9 || !slices.IsSorted(order) || most != 1 {
		t.Errorf("at most %d at a time, in the order %v", most, order)
	}
}

// TestDelay: a scheduled run begins that long after its tick; its interval is the same.
func TestDelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	var mutex sync.Mutex
	asked := map[string]time.Time{}
	a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		asked[r.URL.Query().Get("to")] = time.Now()
		mutex.Unlock()
		writePage(out, r, 1, "row")
		return true
	})
	w.worker(w.connect(a.URL))
	start := ago(0)
	w.apply(w.ticking(every(start, ", delay: 4s")))
	w.awaitLoaded(beats(t, start), start.Add(beat), start.Add(3*beat))
	mutex.Lock()
	defer mutex.Unlock()
	for _, tick := range []time.Time{start.Add(2 * beat), start.Add(3 * beat)} {
		if at := asked[tick.Format(time.RFC3339)]; at.Sub(tick) < 4*time.Second {
			t.Errorf("the run of the tick %s began %s after it", tick, at.Sub(tick))
		}
	}
}

// TestLookback: a scheduled run that has loaded starts the intervals before it again.
func TestLookback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(0)
	file := w.ticking(every(start, ", lookback: 2"))
	w.apply(file)
	w.awaitLoaded(beats(t, start), start, start.Add(4*beat))
	w.sched("pause", w.name, "--reason", "enough")
	w.awaitRuns(func(runs map[string]int) bool {
		return runs[w.name+"-"+start.Add(2*beat).Format(time.RFC3339)] == 3
	})
	w.awaitIdle()
	for _, o := range w.outcomes(start, start.Add(2*beat)) {
		if o.Kind != string(step.Lookback) || o.Status != warehouse.OutcomeLoaded {
			t.Errorf("the newest outcome of %s is %s of a run of kind %s", o.Interval, o.Status, o.Kind)
		}
	}
	w.awaitLoaded(beats(t, start), start, start.Add(2*beat))
}

// TestEndDate: after the last tick there are no more runs, and the list says so.
func TestEndDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(4 * time.Second)
	end := start.Add(4 * beat)
	w.apply(w.ticking(every(start, fmt.Sprintf(", catchup: all, end_date: %q", end.Format(time.RFC3339)))))
	w.awaitLoaded(beats(t, start), start, end)
	w.until(end.Add(2 * beat))
	w.sched("reconcile", w.name)
	if runs := w.runsOf(); len(runs) != 4 {
		t.Errorf("there are runs %v", runs)
	}
	if got := w.sched("list"); !strings.Contains(got.out, "no further runs") {
		t.Errorf("list says %s", got.out)
	}
}

// TestDependsOnPastCatchesUpInOrder: each interval waits for the one before it, also when all are missing.
func TestDependsOnPastCatchesUpInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := today().AddDate(0, 0, -6)
	w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all, depends_on_past: true, max_active_runs: 5`, start.Format(time.DateOnly))))
	w.awaitLoaded(daily(t, start), start, today())
	receipts, err := w.database.Receipts(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(receipts, func(a, b warehouse.Receipt) int { return a.LoadedAt.Compare(b.LoadedAt) }) {
		t.Errorf("the intervals were not loaded in order: %+v", receipts)
	}
}

// TestTerminatedRun: an interval whose run was terminated is listed as failed, with the reason, and not run again
// by itself.
func TestTerminatedRun(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		entered, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("from") == today().AddDate(0, 0, -1).Format(time.RFC3339) {
				once.Do(func() { close(entered) })
				<-release
			}
			writePage(out, r, 1, "row")
			return true
		})
		w.t.Cleanup(func() { close(release) })
		w.worker(w.connect(a.URL))
		start := today().AddDate(0, 0, -2)
		w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all`, start.Format(time.DateOnly))))
		select {
		case <-entered:
		case <-w.ctx.Done():
			w.t.Fatal("the run did not begin")
		}
		id := w.name + "-" + today().Format(time.RFC3339)
		if err := w.temporal.TerminateWorkflow(w.ctx, id, "", "the shop moves house"); err != nil {
			w.t.Fatal(err)
		}
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		var outcomes []warehouse.Outcome
		for w.ctx.Err() == nil && len(outcomes) == 0 {
			<-ticker.C
			outcomes = w.outcomes(today().AddDate(0, 0, -1), today())
		}
		if len(outcomes) != 1 || outcomes[0].Status != warehouse.OutcomeFailed || !strings.Contains(outcomes[0].Note, "the shop moves house") {
			w.t.Errorf("the ledger says %+v", outcomes)
		}
		w.sched("reconcile", w.name)
		w.onceEach()
	})
}

// TestDeadline: an interval that is not loaded in time is told of once, whether a run was started or not.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	worker := w.worker(w.connect(a.URL))
	start := ago(0)
	w.apply(w.ticking(every(start, ", catchup: none"), "deadline: 3s\n"))
	w.sched("pause", w.name, "--reason", "nothing is started")
	paused := ago(0)
	w.until(paused.Add(10 * time.Second))
	told := map[interval.Interval]int{}
	for range 3 {
		w.sched("reconcile", w.name)
		for iv, err := range w.database.Noticed(w.ctx, w.name, "deadline", paused, paused.Add(3*beat)) {
			if err != nil {
				t.Fatal(err)
			}
			told[iv]++
		}
	}
	for iv := range beats(t, start).Between(paused.Add(beat), paused.Add(2*beat)) {
		if told[iv] != 3 {
			t.Errorf("the ledger has told of the deadline of %s: %v", iv, told)
		}
	}
	log := w.read(worker.Log)
	for iv := range told {
		if n := strings.Count(log, "interval="+iv.String()); n != 1 {
			t.Errorf("the worker has logged the deadline of %s %d times", iv, n)
		}
	}
}

// TestPauseStopsACatchup: what was being caught up stops when the Schedule is paused, by whomever, and goes on when it is
// unpaused.
func TestPauseStopsACatchup(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"starter", "ui"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			entered, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
				once.Do(func() { close(entered); <-release })
				writePage(out, r, 1, "row")
				return true
			})
			w.worker(w.connect(a.URL))
			start := today().AddDate(0, 0, -30)
			w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all`, start.Format(time.DateOnly))))
			<-entered
			if by == "ui" {
				w.patch(&schedulepb.SchedulePatch{Pause: "by the operator"})
			} else {
				w.sched("pause", w.name, "--reason", "by the operator")
			}
			w.sched("reconcile", w.name)
			close(release)
			w.awaitIdle()
			if runs := len(w.runsOf()); runs > 10 {
				t.Errorf("%d runs were started although the Schedule was paused", runs)
			}
			w.sched("unpause", w.name)
			w.awaitLoaded(daily(t, start), start, today())
			w.onceEach()
		})
	}
}
