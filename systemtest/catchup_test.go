package systemtest

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// definition reads a pipeline file as the starter does.
func (w *world) definition(file string) *pipeline.Pipeline {
	w.t.Helper()
	parsed, problems := pipeline.Parse(pipeline.Source{File: file, Data: []byte(w.read(file))})
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	return parsed.Effective()
}

// day returns midnight of a day.
func day(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// backfill starts a backfill over days [from, to).
func (w *world) backfill(id string, file, from, to string, change func(in *workflows.BackfillInput)) client.WorkflowRun {
	w.t.Helper()
	input := workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: w.definition(file), Kind: step.Backfill,
		Range: step.Range{From: day(w.t, from), To: day(w.t, to)},
	}
	if change != nil {
		change(&input)
	}
	run, err := w.temporal.ExecuteWorkflow(w.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: w.name}, workflows.BackfillType, input)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// patiently waits for the result of a workflow, also of a server that goes away meanwhile.
func (w *world) patiently(run client.WorkflowRun) workflows.BackfillResult {
	w.t.Helper()
	var result workflows.BackfillResult
	for {
		err := run.Get(w.ctx, &result)
		if err == nil {
			return result
		}
		if !strings.Contains(err.Error(), "connect") && !strings.Contains(err.Error(), "Unavailable") && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "shutdown") || w.ctx.Err() != nil {
			w.t.Fatal(err)
		}
	}
}

// executions counts the executions under the ids of the pipeline's intervals.
func (w *world) executions() map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: client.DefaultNamespace, PageSize: 1000, Query: "WorkflowId STARTS_WITH '" + w.name + "-' AND WorkflowType = '" + launch.RunType + "'",
	}
	page, err := w.temporal.ListWorkflow(w.ctx, request)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, execution := range page.GetExecutions() {
		counts[execution.GetExecution().GetWorkflowId()]++
	}
	return counts
}

// hurdles is an API of one row a day that tells how many days were asked for, and holds some days back.
type hurdles struct {
	mutex   sync.Mutex
	asked   map[string]bool
	held    map[string]chan struct{} // days that wait until it is closed
	reached map[int]chan struct{}    // closed when so many days were asked for
	entered map[string]chan struct{} // closed when a held day was asked for
	broken  map[string]bool          // days that are refused
}

func newHurdles(a *api, held []string, counts ...int) *hurdles {
	h := &hurdles{broken: map[string]bool{}, asked: map[string]bool{}, held: map[string]chan struct{}{}, reached: map[int]chan struct{}{}, entered: map[string]chan struct{}{}}
	for _, each := range held {
		h.held[each], h.entered[each] = make(chan struct{}), make(chan struct{})
	}
	for _, count := range counts {
		h.reached[count] = make(chan struct{})
	}
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		held, broken := h.ask(strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z"))
		if broken {
			return answer404(answer, r)
		}
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
				return true
			}
		}
		writePage(answer, r, 1, "row")
		return true
	})
	return h
}

// fail has days refused, heal has them answered again.
func (h *hurdles) fail(days ...string) { h.set(true, days) }
func (h *hurdles) heal(days ...string) { h.set(false, days) }

func (h *hurdles) set(broken bool, days []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, each := range days {
		h.broken[each] = broken
	}
}

func (h *hurdles) ask(day string) (held chan struct{}, broken bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.asked[day] {
		h.asked[day] = true
		if reached := h.reached[len(h.asked)]; reached != nil {
			close(reached)
		}
		if entered := h.entered[day]; entered != nil {
			close(entered)
		}
	}
	return h.held[day], h.broken[day]
}

func (w *world) await(what string, happened <-chan struct{}) {
	w.t.Helper()
	select {
	case <-happened:
	case <-w.ctx.Done():
		w.t.Fatalf("%s: %v", what, w.ctx.Err())
	}
}

// A backfill of forty days. The worker and the server are killed in the middle; one day's run is open elsewhere, one
// was terminated, and two ids are taken by workflows that are none of ours. Every day gets its outcome, and none is
// run twice.
func TestBackfillThroughKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	kill, restart := w.stateful()
	const open, terminated, taken, waiting = "2026-01-05", "2026-01-20", "2026-01-10", "2026-01-30"
	a := newAPI(t)
	h := newHurdles(a, []string{open, terminated}, 10, 25)
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	file := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 4`,
		"defaults: { timeout: { heartbeat: 3s }, retry: { maximum_attempts: 100, maximum_interval: 1s } }\n")

	elsewhere, victim := w.start(file, open), w.start(file, terminated)
	w.await("the run elsewhere asks", h.entered[open])
	w.await("the run to be terminated asks", h.entered[terminated])
	if err := w.temporal.TerminateWorkflow(w.ctx, victim.WorkflowID, victim.RunID, "by the test"); err != nil {
		t.Fatal(err)
	}
	foreign := func(start string) string {
		id := step.WorkflowID(w.name, day(t, start).AddDate(0, 0, 1))
		if _, err := w.temporal.ExecuteWorkflow(w.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: w.name + "-nobody"}, "foreign"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	end := func(id string) {
		if err := w.temporal.TerminateWorkflow(w.ctx, id, "", "enough"); err != nil {
			t.Fatal(err)
		}
	}
	end(foreign(taken))
	blocker := foreign(waiting)

	run := w.backfill("tranche/backfill/"+w.name+"/kills", file, "2026-01-01", "2026-02-10", nil)
	w.await("ten days", h.reached[10])
	worker.Kill()
	w.worker(connections)
	w.await("twenty-five days", h.reached[25])
	kill()
	restart()
	close(h.held[open])
	end(blocker)
	result := w.patiently(run)

	if got := result.Loaded + result.Left + result.Failed; got != 40 || result.Failed != 1 || result.Cancelled != 0 {
		t.Errorf("the backfill answers %+v", result)
	}
	if want := []step.Range{{From: day(t, terminated), To: day(t, "2026-01-21")}}; !slices.Equal(result.FailedRanges, want) {
		t.Errorf("failed are %v, want %v", result.FailedRanges, want)
	}
	outcomes := w.outcomes(time.Time{}, time.Time{})
	if len(outcomes) != 40 {
		t.Errorf("%d outcomes, want 40", len(outcomes))
	}
	for _, o := range outcomes {
		want, kind := warehouse.OutcomeLoaded, string(step.Backfill)
		switch o.Interval.Start.Format(time.DateOnly) {
		case terminated:
			want, kind = warehouse.OutcomeFailed, string(step.Manual)
			if o.Note != "terminated: by the test" || o.RunID != victim.RunID {
				t.Errorf("the terminated run has the outcome %+v", o)
			}
		case open:
			if kind = string(step.Manual); o.RunID != elsewhere.RunID {
				t.Errorf("the open run was not waited for: %+v", o)
			}
		}
		if o.Status != want || o.Kind != kind {
			t.Errorf("%s is %s by %s, want %s by %s: %s", o.Interval, o.Status, o.Kind, want, kind, o.Note)
		}
	}
	executions := w.executions()
	for id, count := range executions {
		if count != 1 {
			t.Errorf("%s was run %d times", id, count)
		}
	}
	if len(executions) != 40 {
		t.Errorf("%d ids were run, want 40", len(executions))
	}
	if got := w.content().rows; got != 39 {
		t.Errorf("the table holds %d rows, want 39", got)
	}
	if again := w.patiently(w.backfill("tranche/backfill/"+w.name+"/again", file, "2026-01-01", "2026-02-10", nil)); again.Left != 40 || again.Started != 0 {
		t.Errorf("a second backfill does something: %+v", again)
	}
	if again := w.patiently(w.backfill("tranche/backfill/"+w.name+"/failed", file, "2026-01-01", "2026-02-10", func(in *workflows.BackfillInput) {
		in.Reprocess = step.ReprocessFailed
		close(h.held[terminated])
	})); again.Left != 39 || again.Started != 1 || again.Loaded != 1 {
		t.Errorf("the failed one is not run again: %+v", again)
	}
}

// Which runs are redone, and the one that is open is never touched.
func TestBackfillModes(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		h := newHurdles(a, []string{"2026-01-04"})
		w.worker(w.connect(a.URL))
		file := w.orders()
		w.run(file, "2026-01-01", 0)
		w.run(file, "2026-01-05", 0)
		failed := warehouse.Outcome{
			Pipeline: w.name, Status: warehouse.OutcomeFailed, Kind: "manual", RunID: "earlier", Fence: 1,
		}
		failed.Interval.Start, failed.Interval.End = day(w.t, "2026-01-02"), day(w.t, "2026-01-03")
		if _, err := w.database.RecordOutcome(w.ctx, failed); err != nil {
			w.t.Fatal(err)
		}
		running := w.start(file, "2026-01-04")
		w.await("the run is open", h.entered["2026-01-04"])
		modes := []struct {
			reprocess step.Reprocess
			started   int64
			run       client.WorkflowRun
		}{{reprocess: step.ReprocessMissing, started: 1}, {reprocess: step.ReprocessFailed, started: 1}, {reprocess: step.ReprocessAll, started: 4}}
		for i, mode := range modes {
			modes[i].run = w.backfill("tranche/backfill/"+w.name+"/"+string(mode.reprocess), file, "2026-01-01", "2026-01-06", func(in *workflows.BackfillInput) {
				in.Reprocess, in.Newest, in.Window = mode.reprocess, mode.reprocess == step.ReprocessAll, 2
			})
			w.awaitOpen(modes[i].run, 1)
		}
		close(h.held["2026-01-04"])
		for _, mode := range modes {
			if result := w.resultOf(mode.run); result.Started != mode.started || result.Passed() != 5 {
				w.t.Errorf("%s: %+v", mode.reprocess, result)
			}
		}
		// Day by day: by hand or by the first backfill that needed it, and by the last one but for the open run.
		for id, count := range w.executions() {
			if want := 2; count != want && id != running.WorkflowID || id == running.WorkflowID && count != 1 {
				w.t.Errorf("%s was run %d times", id, count)
			}
		}
		for _, o := range w.outcomes(time.Time{}, time.Time{}) {
			if o.Interval.Start.Equal(day(w.t, "2026-01-04")) && o.RunID != running.RunID {
				w.t.Errorf("the open run was replaced: %+v", o)
			}
			if o.Status != warehouse.OutcomeLoaded {
				w.t.Errorf("%s is %s", o.Interval, o.Status)
			}
		}
	})
}

// resultOf returns the result of a backfill, also of one that was cancelled.
func (w *world) resultOf(run client.WorkflowRun) workflows.BackfillResult {
	w.t.Helper()
	var result workflows.BackfillResult
	err := run.Get(w.ctx, &result)
	var cancelled *temporal.CanceledError
	if errors.As(err, &cancelled) {
		err = cancelled.Details(&result)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// awaitOpen waits until a backfill has nothing left to do but to wait for so many runs.
func (w *world) awaitOpen(run client.WorkflowRun, open int) {
	w.t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		described, err := w.temporal.DescribeWorkflow(w.ctx, run.GetID(), run.GetRunID())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, pending := range described.RawResponse.GetPendingActivities() {
			var state step.WindowState
			if err := converter.GetDefaultDataConverter().FromPayloads(pending.GetHeartbeatDetails(), &state); err == nil && len(state.InFlight) == open && state.Counts.Passed() == int64(5-open) {
				return
			}
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatal("the backfill never comes to wait")
		case <-ticker.C:
		}
	}
}
