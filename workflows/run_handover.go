package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// handOver is a run that owns no interval, because its Schedule fired at no tick: somebody pressed its trigger.
// It starts the run of the interval that was the last to end by then, or joins the open one, waits for it and ends
// as that does. It records nothing: the other run does.
func handOver(ctx workflow.Context, input launch.Input, last interval.Interval) (RunResult, error) {
	result := RunResult{Pipeline: input.Definition.Name, Interval: last, Kind: input.Kind, Steps: []StepReport{}}
	id := step.WorkflowID(input.Definition.Name, last.End)
	show := func(text string) {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** owns no interval: its Schedule fired between two ticks\n\nhanded over to %s, for %s → %s, %s\n",
			result.Pipeline, id, last.Start.UTC().Format(time.RFC3339), last.End.UTC().Format(time.RFC3339), cell(text)))
	}
	show("which is being started")
	state, err := startOther(ctx, step.HandOverRequest{Definition: input.Definition, Interval: last})
	if err != nil {
		return result, err
	}
	for look := 0; state.Open; look++ {
		show("which is open")
		summary := "handed over to " + id
		if _, err := pause(ctx, min(time.Second<<min(look, 6), time.Minute), summary, func() bool { return false }); err != nil {
			return result, err
		}
		var now step.RunState
		err := workflow.ExecuteLocalActivity(turnOptions(ctx, "look at "+id), step.ActivityRunState, state.Seat).Get(ctx, &now)
		if temporal.IsCanceledError(err) {
			return result, err
		}
		if err == nil {
			state = now
		}
	}
	show("which " + ended(state))
	if !state.Loaded() {
		return result, temporal.NewNonRetryableApplicationError(fmt.Sprintf("%s, to which this run was handed over, %s", id, ended(state)), ErrorHandedOver, nil)
	}
	result.Outcome = "handed over to " + id
	return result, nil
}

// startOther starts the run, or finds the open one, as long as it takes.
func startOther(ctx workflow.Context, request step.HandOverRequest) (step.RunState, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: lookBackFor,
		StartToCloseTimeout:    turnAct,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
		Summary:                "hand over to " + step.WorkflowID(request.Definition.Name, request.Interval.End),
	})
	var state step.RunState
	err := workflow.ExecuteLocalActivity(ctx, step.ActivityHandOver, request).Get(ctx, &state)
	return state, err
}

// ended says how an execution has ended.
func ended(state step.RunState) string {
	text := "ended as " + strings.ToLower(state.Status)
	if state.Reason != "" {
		text += ": " + state.Reason
	}
	return text
}
