package workflows

import (
	"errors"
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

// Types of the errors that a backfill, and what is asked of one, ends with.
const (
	ErrorBadBackfill = "BadBackfill"
	ErrorBadOrder    = "BadOrder"
)

// Backfill runs the intervals of a range, a number of them at a time. Its window is held by one long activity, whose
// state passes from one execution to the next; so does the workflow's own when it continues as new, and the runs in
// flight go on meanwhile. What it holds is bounded by the width, whatever the range.
//
// A run that fails does not fail the backfill: the result counts. When the backfill is cancelled, by an update or by
// Temporal's own button, it starts no more runs, and ends when those that are open have ended. A catchup ends at once.
// What can be asked of it while it runs stands with BackfillProgress.
func Backfill(ctx workflow.Context, input BackfillInput) (BackfillResult, error) {
	if err := input.Unreadable(); err != nil {
		// A panic fails the workflow task, not the workflow: Temporal tries again until a worker
		// can read the input.
		panic(fmt.Sprintf("this backfill needs a newer worker: %v", err))
	}
	if err := input.check(); err != nil {
		return BackfillResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrorBadBackfill, err)
	}
	b := &backfill{input: input}
	if now := workflow.Now(ctx).UTC(); b.input.Begun.IsZero() {
		b.input.Begun = now
		b.mark(now)
	}
	if err := b.listen(ctx); err != nil {
		return BackfillResult{}, err
	}
	return b.run(ctx)
}

type backfill struct {
	input BackfillInput
	note  string
	// orders have come and are not carried out yet; stop ends the window that is held, nil: none is.
	orders []*order
	stop   func()
}

func (b *backfill) run(ctx workflow.Context) (BackfillResult, error) {
	// What is left to do after a cancel goes on under a context of its own.
	on := ctx
	for chunk := 0; ; chunk++ {
		if ctx.Err() != nil {
			if b.input.Version < versionDrains || b.input.Kind == step.Catchup {
				return BackfillResult{}, temporal.NewCanceledError(b.result())
			}
			b.cancel(CancelOrder{})
			if on == ctx {
				on, _ = workflow.NewDisconnectedContext(ctx)
			}
		}
		if err := b.carryOut(on); err != nil {
			continue // it was cancelled meanwhile
		}
		b.show(ctx)
		if b.over() {
			break
		}
		if chunk >= backfillChunks || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return BackfillResult{}, workflow.NewContinueAsNewError(on, BackfillType, b.input)
		}
		if err := b.act(on); err != nil && ctx.Err() == nil {
			return BackfillResult{}, err
		}
	}
	if b.input.Cancel != nil {
		return BackfillResult{}, temporal.NewCanceledError(b.result())
	}
	return b.result(), nil
}

// over reports whether nothing is left to do or to wait for.
func (b *backfill) over() bool {
	if cancel := b.input.Cancel; cancel != nil {
		return len(b.input.State.InFlight) == 0 && (!cancel.Runs || cancel.Asked)
	}
	return b.input.State.Done
}

// act does the next thing: it cancels runs, waits for an order, or has the window held.
func (b *backfill) act(ctx workflow.Context) error {
	cancel := b.input.Cancel
	switch {
	case cancel != nil && cancel.Runs && !cancel.Asked:
		b.cancelRuns(ctx)
		return nil
	case b.input.Paused && cancel == nil && len(b.input.State.InFlight) == 0:
		return workflow.Await(ctx, func() bool { return len(b.orders) > 0 })
	default:
		return b.hold(ctx)
	}
}

// hold has the window held for a chunk, or until an order comes.
func (b *backfill) hold(ctx workflow.Context) error {
	info, width := workflow.GetInfo(ctx), b.input.width()
	summary := fmt.Sprintf("%s, %d at a time", b.input.Definition.Name, width)
	if width == 0 {
		summary = b.input.Definition.Name + ", nothing new"
	}
	holding, stop := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           launch.ControlQueue(info.TaskQueueName),
		StartToCloseTimeout: windowStartToClose,
		HeartbeatTimeout:    windowHeartbeat,
		// What is in flight comes back with the state, also on a cancel.
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
		Summary:             summary,
	}))
	defer stop()
	b.stop = stop
	request := step.WindowRequest{
		Definition: b.input.Definition, Kind: b.input.Kind, Campaign: info.WorkflowExecution.ID, Seed: info.FirstRunID,
		Range: b.input.Range, Reprocess: b.input.Reprocess, Newest: b.input.Newest, FailFast: b.input.FailFast,
		Width: width, Chunk: max(minimumChunk, windowChunk*width), State: b.input.State,
	}
	var state step.WindowState
	err := workflow.ExecuteActivity(holding, step.ActivityWindow, request).Get(ctx, &state)
	b.stop = nil
	if err == nil {
		b.input.State = state
		return nil
	}
	if holding.Err() == nil || isPermanent(err) {
		return err
	}
	// It was told to stop and could not answer: its worker is lost, or it had not begun. What it had last said is
	// good enough: whether an interval needs a run is decided by the ledger.
	b.input.State = lastSaid(err, b.input.State)
	return nil
}

// lastSaid returns what a window that did not answer has said last; known, if it has said nothing.
func lastSaid(err error, known step.WindowState) step.WindowState {
	var timeout *temporal.TimeoutError
	var said step.WindowState
	if errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&said) == nil {
		return said
	}
	return known
}

func isPermanent(err error) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.NonRetryable()
}

// cancelRunsFor bounds how long it is tried to cancel the runs in flight.
const cancelRunsFor = 5 * time.Minute

// cancelRuns asks the runs of the backfill to cancel. They are waited for afterwards.
func (b *backfill) cancelRuns(ctx workflow.Context) {
	info := workflow.GetInfo(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(info.TaskQueueName),
		StartToCloseTimeout:    time.Minute,
		ScheduleToCloseTimeout: cancelRunsFor,
		HeartbeatTimeout:       windowHeartbeat,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
		Summary:                "cancel the runs of " + b.input.Definition.Name,
	})
	request := step.CancelRunsRequest{Pipeline: b.input.Definition.Name, Campaign: info.WorkflowExecution.ID, InFlight: b.input.State.InFlight}
	if err := workflow.ExecuteActivity(ctx, step.ActivityCancelRuns, request).Get(ctx, nil); err != nil {
		if temporal.IsCanceledError(err) {
			return // and is asked again, under a context of its own
		}
		b.note = "its runs could not be cancelled: " + reason(err)
	}
	b.input.Cancel.Asked = true
}

// result is what the backfill answers.
func (b *backfill) result() BackfillResult {
	state := b.input.State
	r := BackfillResult{
		Pipeline: b.input.Definition.Name, Kind: b.input.Kind, Range: b.input.Range, Reprocess: b.input.Reprocess,
		WindowCounts: state.Counts, FailedRanges: state.Failed, FailedMore: state.FailedMore, Blocked: state.Blocked, Open: len(state.InFlight),
		Expected: b.input.Expected, Position: state.Position, Note: b.note,
	}
	if total := r.Expected.Total(); total > 0 {
		r.NotRun = max(0, total-r.Passed()-int64(r.Open))
	}
	return r
}
