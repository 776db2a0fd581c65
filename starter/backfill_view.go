package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// States of a backfill beside the phases of one that is open.
const (
	stateNothing    = "nothing to run"
	stateDone       = "done"
	stateFailed     = "failed"
	stateCancelled  = "cancelled"
	stateTerminated = "terminated"
	// stateSilent is that of an open one that no worker answers for: what is told of it is what was last known.
	stateSilent = "not answering"
)

// backfillView is the JSON of a backfill.
type backfillView struct {
	ID         string         `json:"id"`
	WorkflowID string         `json:"workflow_id"`
	RunID      string         `json:"run_id"`
	Pipeline   string         `json:"pipeline"`
	State      string         `json:"state"`
	Range      step.Range     `json:"range"`
	Reprocess  step.Reprocess `json:"reprocess"`
	Order      string         `json:"order,omitempty"`
	Window     int            `json:"max_active_runs,omitempty"`
	FailFast   bool           `json:"fail_fast,omitempty"`
	Started    *time.Time     `json:"started_at,omitempty"`
	Closed     *time.Time     `json:"closed_at,omitempty"`
	// Expected is what the plan had found; zero: nobody has looked.
	Expected step.PlanCounts `json:"expected,omitzero"`
	// Counts of the intervals that are behind.
	Counts step.WindowCounts `json:"counts"`
	// Running are the intervals that are open, with the ids of their runs.
	Running []runningRow `json:"running,omitempty"`
	// Position is how far it has come.
	Position   time.Time          `json:"position,omitzero"`
	Failed     []step.Range       `json:"failed_ranges,omitempty"`
	FailedMore bool               `json:"failed_more,omitempty"`
	Again      []step.Range       `json:"again,omitempty"`
	Blocked    *interval.Interval `json:"blocked_by,omitempty"`
	NotRun     int64              `json:"not_run,omitempty"`
	// PerHour is how many runs end in an hour, as measured since the width was last changed; ETA follows from it.
	PerHour float64    `json:"per_hour,omitempty"`
	ETA     *time.Time `json:"eta,omitempty"`
	Note    string     `json:"note,omitempty"`

	queue string
	open  bool
}

type runningRow struct {
	Interval   interval.Interval `json:"interval"`
	WorkflowID string            `json:"workflow_id"`
	RunID      string            `json:"run_id"`
}

// bad reports whether the backfill's end is worth an exit code.
func (v *backfillView) bad() bool {
	return !v.open && v.State != stateDone && v.State != stateNothing || v.NotRun > 0 || v.Counts.Failed+v.Counts.Cancelled > 0 || v.Blocked != nil
}

// look bounds one question about a backfill.
const look = 5 * time.Second

// view looks at a backfill: its workflow, and what it answers. Of one that does not answer the view is what was last
// known, beside the error that says so; nil when not even that is.
func (o *online) view(ctx context.Context, id string) (*backfillView, error) {
	described, err := o.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", id, err)
	}
	v := o.viewOf(described.RawResponse.GetWorkflowExecutionInfo())
	switch {
	case !v.open:
		err = o.addResult(ctx, v)
		if err == nil {
			o.addSettings(ctx, v)
		}
	default:
		if err = o.addProgress(ctx, v, described.RawResponse); err != nil && ctx.Err() == nil {
			return o.lastKnown(ctx, v, described.RawResponse, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// viewOf is what a list says of a backfill.
func (o *online) viewOf(info *workflow.WorkflowExecutionInfo) *backfillView {
	started := info.GetStartTime().AsTime()
	v := &backfillView{
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Started: &started,
		queue: info.GetTaskQueue(), ID: info.GetExecution().GetWorkflowId(),
	}
	if name, short, ok := launch.ParseBackfillID(v.WorkflowID); ok {
		v.Pipeline, v.ID = name, name+"/"+short
	}
	if closed := info.GetCloseTime(); closed != nil {
		at := closed.AsTime()
		v.Closed = &at
	}
	// The SDK encodes a memo as it does inputs, with the codec where there is one.
	fields := info.GetMemo().GetFields()
	if payload := fields[memoRange]; payload != nil {
		_ = o.Converter.FromPayload(payload, &v.Range)
	}
	if payload := fields[memoReprocess]; payload != nil {
		_ = o.Converter.FromPayload(payload, &v.Reprocess)
	}
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		v.State, v.open = workflows.PhaseRunning, true
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		v.State = stateDone
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		v.State = stateCancelled
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		v.State = stateFailed
	default:
		v.State = stateTerminated
	}
	return v
}

// addProgress asks the backfill how far it is. The window that is held has said it last in its heartbeat.
func (o *online) addProgress(ctx context.Context, v *backfillView, described *workflowservice.DescribeWorkflowExecutionResponse) error {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	answer, err := o.QueryWorkflow(ctx, v.WorkflowID, "", workflows.QueryBackfill)
	var progress workflows.BackfillProgress
	if err == nil {
		err = answer.Get(&progress)
	}
	if err != nil {
		return fmt.Errorf("ask %s how far it is: %w", v.WorkflowID, err)
	}
	if state := o.beaten(described); state != nil {
		progress.State = *state
	}
	v.add(progress, time.Now())
	return nil
}

// beaten is what the window that is held has said in its heartbeat; nil: nothing.
func (o *online) beaten(described *workflowservice.DescribeWorkflowExecutionResponse) *step.WindowState {
	for _, pending := range described.GetPendingActivities() {
		var state step.WindowState
		if details := pending.GetHeartbeatDetails(); pending.GetActivityType().GetName() == step.ActivityWindow && details != nil &&
			o.Converter.FromPayloads(details, &state) == nil {
			return &state
		}
	}
	return nil
}

// add takes over what a backfill says of itself.
func (v *backfillView) add(p workflows.BackfillProgress, now time.Time) {
	begun := p.Begun
	v.Pipeline, v.State, v.Range, v.Reprocess = p.Pipeline, p.Phase, p.Range, p.Reprocess
	v.Order, v.Window, v.FailFast, v.Started, v.Expected = orderOf(p.Newest), p.Window, p.FailFast, &begun, p.Expected
	s := p.State
	v.Counts, v.Position, v.Failed, v.FailedMore, v.Again, v.Blocked = s.Counts, s.Position, s.Failed, s.FailedMore, s.Again, s.Blocked
	v.Running, v.PerHour, v.ETA = nil, 0, nil
	for _, flight := range s.InFlight {
		v.Running = append(v.Running, runningRow{flight.Interval, step.WorkflowID(p.Pipeline, flight.Interval.End), flight.RunID})
	}
	elapsed, ended := now.Sub(p.Mark.At), s.Counts.Ended()-p.Mark.Ended
	if p.Phase != workflows.PhaseRunning || ended < 1 || elapsed < time.Second {
		return
	}
	v.PerHour = float64(ended) / elapsed.Hours()
	// Those that are left take no time worth mentioning.
	if left := p.Expected.Run + p.Expected.Wait - s.Counts.Ended(); left > 0 {
		eta := now.Add(time.Duration(float64(left) / v.PerHour * float64(time.Hour))).UTC().Truncate(time.Second)
		v.ETA = &eta
	}
}

// addResult takes over how a backfill has ended.
func (o *online) addResult(ctx context.Context, v *backfillView) error {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	var result workflows.BackfillResult
	return v.end(o.GetWorkflow(ctx, v.WorkflowID, v.RunID).Get(ctx, &result), result)
}

// end takes over the result of a backfill, or the error that waiting for it returned. An error that says nothing of
// its end is returned.
func (v *backfillView) end(err error, result workflows.BackfillResult) error {
	var cancelled *temporal.CanceledError
	var execution *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		v.State = stateDone
	case !errors.As(err, &execution):
		return fmt.Errorf("wait for %s: %w", v.WorkflowID, err)
	case errors.As(err, &cancelled):
		v.State = stateCancelled
		_ = cancelled.Details(&result) // a catchup of an older worker may have none
	default:
		v.State, v.Note, v.open = stateFailed, plainly(errors.Unwrap(execution)).Error(), false
		if terminated := new(temporal.TerminatedError); errors.As(err, &terminated) {
			v.State = stateTerminated
		}
		return nil
	}
	v.open, v.Running, v.ETA = false, nil, nil
	if result.Pipeline == "" {
		return nil
	}
	v.Pipeline, v.Range, v.Reprocess, v.Expected, v.Counts = result.Pipeline, result.Range, result.Reprocess, result.Expected, result.WindowCounts
	v.Failed, v.FailedMore, v.Blocked, v.NotRun, v.Position, v.Note = result.FailedRanges, result.FailedMore, result.Blocked, result.NotRun, result.Position, result.Note
	return nil
}

// result waits until a backfill has ended, however it does, also through a Temporal that goes away for a while.
func (o *online) result(ctx context.Context, id, runID string) error {
	for told := false; ; {
		err := o.GetWorkflow(ctx, id, runID).Get(ctx, nil)
		var ended *temporal.WorkflowExecutionError
		if err == nil || errors.As(err, &ended) {
			return nil
		}
		if ctx.Err() != nil || !isAway(err) {
			return fmt.Errorf("wait for %s: %w", id, err)
		}
		if !told {
			fmt.Fprintf(o.talk, "starter: wait for %s: %v; trying again\n", id, err)
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
