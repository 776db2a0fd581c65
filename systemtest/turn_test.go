package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// eventually asks again and again until something is the case.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("it never happens that %s", what)
		case <-ticker.C:
		}
	}
}

// gate returns what the pipeline's gate knows; nothing while there is none.
func (w *world) gate() step.GateState {
	w.t.Helper()
	var state step.GateState
	if answer, err := w.temporal.QueryWorkflow(w.ctx, launch.GateID(w.name), "", step.QueryGate); err == nil {
		if err := answer.Get(&state); err != nil {
			w.t.Fatal(err)
		}
	}
	return state
}

func (w *world) untilGate(holders, waiters int) step.GateState {
	w.t.Helper()
	var state step.GateState
	w.eventually(fmt.Sprintf("%d have a slot and %d wait", holders, waiters), func() bool {
		state = w.gate()
		return len(state.Holders) == holders && len(state.Waiters) == waiters
	})
	return state
}

// details returns what an operator reads under a run's current details.
func (w *world) details(r report) string {
	w.t.Helper()
	answer, err := w.temporal.QueryWorkflow(w.ctx, r.WorkflowID, r.RunID, "__temporal_workflow_metadata")
	if err != nil {
		return ""
	}
	var metadata sdk.WorkflowMetadata
	if err := answer.Get(&metadata); err != nil {
		w.t.Fatal(err)
	}
	return metadata.GetCurrentDetails()
}

func (w *world) untilDetails(r report, text string) {
	w.t.Helper()
	w.eventually(r.WorkflowID+" says "+text, func() bool { return strings.Contains(w.details(r), text) })
}

// status waits for a run to end and returns how it did.
func (w *world) status(r report) enums.WorkflowExecutionStatus {
	w.t.Helper()
	_ = w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil)
	described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
	if err != nil {
		w.t.Fatal(err)
	}
	return described.Status
}

func (w *world) wantStatus(want enums.WorkflowExecutionStatus, runs ...report) {
	w.t.Helper()
	for _, r := range runs {
		if got := w.status(r); got != want {
			w.t.Errorf("%s ended as %s, want %s", r.WorkflowID, got, want)
		}
	}
}

func januaryDay(n int) string { return fmt.Sprintf("2026-01-%02d", n) }

// startDays starts the runs of these days of January.
func (w *world) startDays(file string, from, to int) []report {
	var runs []report
	for n := from; n <= to; n++ {
		runs = append(runs, w.start(file, januaryDay(n)))
	}
	return runs
}

// atWork returns when a run's first step began and its last one ended.
func (w *world) atWork(r report) (from, to time.Time) {
	w.t.Helper()
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			if from.IsZero() {
				from = event.GetEventTime().AsTime()
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED, enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
			to = event.GetEventTime().AsTime()
		}
	}
	return from, to
}

// peak returns how many of the runs were at work at the same time.
func (w *world) peak(runs []report) int {
	w.t.Helper()
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, r := range runs {
		from, to := w.atWork(r)
		if from.IsZero() || to.IsZero() {
			w.t.Fatalf("%s did no work", r.WorkflowID)
		}
		changes = append(changes, change{from, 1}, change{to, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	now, most := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

// door holds the requests of an API back until it is opened.
type door struct {
	entered chan string
	open    chan struct{}
}

func (a *api) door() *door {
	d := &door{entered: make(chan string, 100), open: make(chan struct{})}
	a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		d.entered <- strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z")
		select {
		case <-d.open:
		case <-r.Context().Done():
		}
		return false
	})
	return d
}

// limited is the pipeline of the API with this many slots, and more in its schedule.
func (w *world) limited(limit int, more ...string) string {
	settings := append([]string{fmt.Sprintf("max_active_runs: %d", limit)}, more...)
	return w.write("limited.yaml", strings.Replace(read(w.t, w.orders()), "start_date: 2026-01-01", "start_date: 2026-01-01, "+strings.Join(settings, ", "), 1))
}

// replays makes sure that another worker would come to the same, from what Temporal has kept of the pipeline's gate
// and of these runs.
func (w *world) replays(runs ...report) {
	w.t.Helper()
	for _, r := range append(runs, report{WorkflowID: launch.GateID(w.name)}) {
		w.replay(r)
	}
}

// replay makes sure of it for one workflow.
func (w *world) replay(r report) {
	w.t.Helper()
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: launch.RunType})
	replayer.RegisterWorkflowWithOptions(workflows.Gate, workflow.RegisterOptions{Name: launch.GateType})
	replayer.RegisterWorkflowWithOptions(workflows.Backfill, workflow.RegisterOptions{Name: workflows.BackfillType})
	kept := &history.History{Events: w.events(r.WorkflowID, r.RunID)}
	err := replayer.ReplayWorkflowHistoryWithOptions(quiet{}, kept, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: r.WorkflowID, RunID: r.RunID},
	})
	if err != nil {
		w.t.Errorf("%s does not replay: %v", r.WorkflowID, err)
	}
}
