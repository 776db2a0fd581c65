package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/step"
)

// leave is what a run does after its outcome is recorded, also when it was cancelled: it gives its slot back,
// tells the run of the next interval, and starts the ones before it again.
func (r *run) leave(ctx workflow.Context, outcome string) {
	if r.input.Version < versionWaiting {
		return
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if r.seat != nil {
		// Whoever waits for the slot finds out by itself, later, if this fails.
		r.tell(ctx, "give the slot back", step.ActivityReleaseGate, step.GateRelease{Pipeline: r.owner.Pipeline, Seat: *r.seat})
	}
	schedule := r.input.Definition.Schedule
	neighbours := step.Neighbours{Definition: r.input.Definition, Interval: r.owner.Interval}
	if schedule.DependsOnPast {
		r.tell(ctx, "tell the run of the next interval", step.ActivityWakeNext, neighbours)
	}
	if r.input.Kind == step.Scheduled && schedule.Lookback > 0 && outcome == step.OutcomeLoaded {
		r.lookBack(ctx, neighbours)
	}
	// A slot that was granted as the run ended, a word of the run before: nobody needs them any more.
	drain(workflow.GetSignalChannel(ctx, step.SignalGranted))
	drain(workflow.GetSignalChannel(ctx, step.SignalPast))
}

// tell has something told that others find out by themselves, too.
func (r *run) tell(ctx workflow.Context, summary, activity string, input any) {
	if err := workflow.ExecuteLocalActivity(turnOptions(ctx, summary), activity, input).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("could not "+summary, "reason", err)
	}
}

// lookBackFor is how long it is tried to start the lookback. The interval itself is loaded all the same.
const lookBackFor = 10 * time.Minute

// lookBack starts the runs of the intervals before again, the oldest first.
func (r *run) lookBack(ctx workflow.Context, neighbours step.Neighbours) {
	count := r.input.Definition.Schedule.Lookback
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: lookBackFor,
		StartToCloseTimeout:    time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
		Summary:                fmt.Sprintf("start %d %s before it again", count, plural(count, "interval")),
	})
	if err := workflow.ExecuteLocalActivity(ctx, step.ActivityLookback, neighbours).Get(ctx, nil); err != nil {
		r.note = "the intervals before were not all started again: " + reason(err)
	}
}
