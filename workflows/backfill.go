package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

const (
	// windowChunk is how many runs, in widths of the window, end before its activity is scheduled anew.
	windowChunk = 8
	// minimumChunk keeps that from happening every moment where the window is narrow.
	minimumChunk = 50
	// backfillChunks is after how many chunks the workflow continues as new, if its history has not grown too
	// long before.
	backfillChunks = 300

	windowHeartbeat    = 10 * time.Second
	windowStartToClose = 24 * time.Hour
)

// Types of the errors that a backfill ends with.
const (
	ErrorBadBackfill = "BadBackfill"
)

// Backfill runs the intervals of a range, a number of them at a time. Its window is held by one long activity, whose
// state passes from one execution to the next; so does the workflow's own when it continues as new, and the runs in
// flight go on meanwhile. What it holds is bounded by the width, whatever the range.
//
// A run that fails does not fail the backfill: the result counts. When the backfill is cancelled it starts no more
// runs, and those that are open go on.
func Backfill(ctx workflow.Context, input BackfillInput) (BackfillResult, error) {
	if err := input.Unreadable(); err != nil {
		// A panic fails the workflow task, not the workflow: Temporal tries again until a worker
		// can read the input.
		panic(fmt.Sprintf("this backfill needs a newer worker: %v", err))
	}
	if err := input.check(); err != nil {
		return BackfillResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrorBadBackfill, err)
	}
	b := &backfill{input: input, width: input.width()}
	b.show(ctx)
	for chunk := 0; !b.input.State.Done; chunk++ {
		if chunk >= backfillChunks || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return BackfillResult{}, workflow.NewContinueAsNewError(ctx, BackfillType, b.input)
		}
		err := b.hold(ctx)
		b.show(ctx)
		switch {
		case ctx.Err() != nil && (err == nil || temporal.IsCanceledError(err)):
			return BackfillResult{}, temporal.NewCanceledError(b.result())
		case err != nil:
			return BackfillResult{}, err
		}
	}
	return b.result(), nil
}

type backfill struct {
	input BackfillInput
	width int
}

// hold has the window held for a chunk.
func (b *backfill) hold(ctx workflow.Context) error {
	info := workflow.GetInfo(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           launch.ControlQueue(info.TaskQueueName),
		StartToCloseTimeout: windowStartToClose,
		HeartbeatTimeout:    windowHeartbeat,
		// What is in flight comes back with the state, also on a cancel.
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
		Summary:             fmt.Sprintf("%s, %d at a time", b.input.Definition.Name, b.width),
	})
	request := step.WindowRequest{
		Definition: b.input.Definition, Kind: b.input.Kind, Campaign: info.WorkflowExecution.ID, Seed: info.FirstRunID,
		Range: b.input.Range, Reprocess: b.input.Reprocess, Newest: b.input.Newest,
		Width: b.width, Chunk: max(minimumChunk, windowChunk*b.width), State: b.input.State,
	}
	var state step.WindowState
	if err := workflow.ExecuteActivity(ctx, step.ActivityWindow, request).Get(ctx, &state); err != nil {
		return err
	}
	b.input.State = state
	return nil
}

// result is what the backfill answers.
func (b *backfill) result() BackfillResult {
	state := b.input.State
	return BackfillResult{
		Pipeline: b.input.Definition.Name, Kind: b.input.Kind, Range: b.input.Range, Reprocess: b.input.Reprocess,
		WindowCounts: state.Counts, FailedRanges: state.Failed, Blocked: state.Blocked, Open: len(state.InFlight),
	}
}
