package systemtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// fire starts what a Schedule starts when it fires at this time.
func (w *world) fire(file string, at time.Time) report {
	w.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	parsed, problems := pipeline.Parse(pipeline.Source{File: file, Data: data})
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	started, err := w.temporal.ExecuteWorkflow(w.ctx, client.StartWorkflowOptions{
		ID: step.WorkflowID(w.name, at), TaskQueue: w.name,
		TypedSearchAttributes: temporal.NewSearchAttributes(launch.ScheduledStartTime.ValueSet(at)),
	}, launch.RunType, launch.Input{Version: launch.Version, Kind: step.Scheduled, Definition: parsed.Effective()})
	if err != nil {
		w.t.Fatal(err)
	}
	return report{WorkflowID: started.GetID(), RunID: started.GetRunID()}
}

// result waits for a run and returns what it answered.
func (w *world) result(r report) (workflows.RunResult, error) {
	var result workflows.RunResult
	err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, &result)
	return result, err
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestTriggerAtAnOddMoment runs the interval that was the last to end, under that interval's id, or joins its open
// run, and ends as that does.
func TestTriggerAtAnOddMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 5)
	d := a.door()
	w.worker(w.connect(a.URL))
	file := w.orders()
	const id = "-2026-01-16T00:00:00Z"
	first := w.fire(file, instant(t, "2026-01-16T10:17:03Z"))
	<-d.entered
	second := w.fire(file, instant(t, "2026-01-16T10:18:03Z"))
	w.untilDetails(second, "handed over to "+w.name+id)
	close(d.open)
	for _, r := range []report{first, second} {
		got, err := w.result(r)
		w.replays(r)
		if err != nil || got.Outcome != "handed over to "+w.name+id || got.Interval.Start != instant(t, "2026-01-15T00:00:00Z") {
			t.Errorf("%s answers %+v, %v", r.WorkflowID, got, err)
		}
	}
	if asked := a.seen(); len(asked) != 1 || w.slice("2026-01-15") != 5 {
		t.Errorf("the API was asked for %v, the day holds %d rows", asked, w.slice("2026-01-15"))
	}
	a.intercept(answer404)
	if _, err := w.result(w.fire(file, instant(t, "2026-01-16T11:00:00Z"))); err == nil || !strings.Contains(err.Error(), w.name+id) || !strings.Contains(err.Error(), "404") {
		t.Errorf("handed over to a run that fails, it ends with %v", err)
	}
	if _, err := w.result(w.fire(file, instant(t, "2026-01-01T00:00:03Z"))); err == nil || !strings.Contains(err.Error(), workflows.ErrorNoInterval) {
		t.Errorf("before the end of the first interval it ends with %v", err)
	}
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil || len(outcomes) != 1 {
		t.Errorf("the ledger holds %+v, %v", outcomes, err)
	}
}

// TestAFiringOnATick owns the interval of its tick.
func TestAFiringOnATick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 5)
	w.worker(w.connect(a.URL))
	fired := w.fire(w.orders(), instant(t, "2026-01-16T00:00:00Z"))
	if got, err := w.result(fired); err != nil || got.Outcome != step.OutcomeLoaded || got.Rows != 5 {
		t.Errorf("it answers %+v, %v", got, err)
	}
	w.replays(fired)
}

// TestLookbackOfARun starts the intervals before a scheduled run again, after it, none before the beginning, and not by
// anything but a scheduled run.
func TestLookbackOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	w.worker(w.connect(a.URL))
	file := w.limited(1, "lookback: 3")
	w.run(file, "2026-01-02", 0)
	scheduled := w.fire(file, instant(t, "2026-01-04T00:00:00Z"))
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, scheduled)
	for _, day := range []string{"2026-01-02", "2026-01-03"} {
		// The first of January is the third; the grid has none before it.
		w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, report{WorkflowID: w.name + "-" + day + "T00:00:00Z"})
	}
	w.untilGate(0, 0)
	var asked []string
	for _, request := range a.seen() {
		asked = append(asked, request[:len("2026-01-02")])
	}
	// Which of two that are started in the same moment asks for the only slot first is not said.
	slices.Sort(asked[min(2, len(asked)):])
	if got, want := strings.Join(asked, " "), "2026-01-02 2026-01-03 2026-01-01 2026-01-02"; got != want {
		t.Errorf("the API was asked for %s, want %s", got, want)
	}
}
