package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// WakeNext tells the run of the next interval, if one is open, that it may look at the past again. By the
// definition of another grid the next interval ends elsewhere; its run finds out by itself.
func (a *Activities) WakeNext(ctx context.Context, of step.Neighbours) error {
	spec, err := of.Definition.GridSpec()
	if err != nil {
		return badSchedule(err)
	}
	return a.wakeAfter(ctx, of.Definition.Name, spec, of.Interval)
}

func (a *Activities) wakeAfter(ctx context.Context, pipelineName string, spec interval.Spec, of interval.Interval) error {
	grid, err := interval.New(spec)
	if err != nil {
		return badSchedule(err)
	}
	next, ok := grid.Next(of.End)
	if !ok {
		return nil
	}
	id := step.WorkflowID(pipelineName, next)
	if err := a.temporal.SignalWorkflow(ctx, id, "", step.SignalPast, nil); err != nil && !gone(err) {
		return fmt.Errorf("tell %s that the interval before it has ended: %w", id, err)
	}
	return nil
}

// Lookback starts the runs of the intervals before a scheduled run's own again, the oldest first, and none from before
// the beginning of its grid. An interval whose run is open is left alone. Starting them twice starts them once.
func (a *Activities) Lookback(ctx context.Context, of step.Neighbours) error {
	grid, err := of.Definition.Grid()
	if err != nil {
		return badSchedule(err)
	}
	execution := activity.GetInfo(ctx).WorkflowExecution
	for _, before := range earlier(grid, of.Interval, of.Definition.Schedule.Lookback) {
		id := step.WorkflowID(of.Definition.Name, before.End)
		_, err := a.temporal.Start(ctx, launch.Request{
			Definition: of.Definition, Interval: before, Kind: step.Lookback, Campaign: execution.ID,
			RequestID: fmt.Sprintf("lookback/%s/%s", execution.RunID, id),
		})
		if err != nil {
			return fmt.Errorf("look back from %s: %w", execution.ID, err)
		}
	}
	return nil
}

// earlier returns the intervals of a grid before one, oldest first, at most count.
func earlier(grid *interval.Grid, owned interval.Interval, count int) []interval.Interval {
	intervals := make([]interval.Interval, count)
	at := owned.Start
	for i := count - 1; i >= 0; i-- {
		before, ok := grid.At(at)
		if !ok {
			return intervals[i+1:]
		}
		intervals[i], at = before, before.Start
	}
	return intervals
}

// HandOver starts the run of an interval for a run that owns none, or finds the one that is open. Doing it twice
// starts one.
func (a *Activities) HandOver(ctx context.Context, request step.HandOverRequest) (step.RunState, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	started, err := a.temporal.Start(ctx, launch.Request{
		Definition: request.Definition, Interval: request.Interval, Kind: step.Scheduled, Campaign: execution.ID,
		RequestID: "handover/" + execution.RunID,
	})
	if err != nil {
		return step.RunState{}, fmt.Errorf("hand over: %w", err)
	}
	return step.RunState{Seat: step.Seat{WorkflowID: started.WorkflowID, RunID: started.RunID}, Open: true}, nil
}

// RunState says how an execution stands, with the error of one that failed.
func (a *Activities) RunState(ctx context.Context, seat step.Seat) (step.RunState, error) {
	state, err := a.runState(ctx, seat)
	if gone(err) {
		return step.RunState{Seat: seat, Status: "unknown", Reason: "Temporal does not know it any more"}, nil
	}
	if err != nil {
		return state, fmt.Errorf("look at %s: %w", seat.WorkflowID, err)
	}
	if !state.Open && !state.Loaded() {
		state.Reason = reasonOf(a.temporal.GetWorkflow(ctx, state.WorkflowID, state.RunID).Get(ctx, nil))
	}
	return state, nil
}

// reasonOf returns the words of the run itself, where it had any.
func reasonOf(err error) string {
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return application.Message()
	}
	return ""
}

// badSchedule is the error of a schedule that was not checked before it was run.
func badSchedule(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), "BadSchedule", nil)
}
