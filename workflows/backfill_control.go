package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/step"
)

// What can be asked of a backfill while it runs: a query, and updates, each of which answers a BackfillProgress.
// An update returns when it has taken effect: after a pause or a cancel nothing more is started.
const (
	QueryBackfill  = "progress"
	UpdatePause    = "pause"
	UpdateResume   = "resume"
	UpdateResize   = "resize" // takes a ResizeOrder
	UpdateCancel   = "cancel" // takes a CancelOrder
	UpdateRetry    = "retry"
	PhaseRunning   = "running"
	PhasePaused    = "paused"
	PhaseCancelled = "cancelling"
)

// ResizeOrder says how many runs may be open at a time.
type ResizeOrder struct {
	// Window is 1 to MaximumBackfillWindow.
	Window int `json:"window"`
}

// CancelOrder ends a backfill.
type CancelOrder struct {
	// Runs says that its open runs are cancelled, too. Otherwise they are waited for.
	Runs bool `json:"runs,omitempty"`
}

// BackfillProgress is how far a backfill has come. The state of a window that is held is newer in the heartbeat
// details of its activity.
type BackfillProgress struct {
	Pipeline  string         `json:"pipeline"`
	Kind      step.Kind      `json:"kind"`
	Range     step.Range     `json:"range"`
	Reprocess step.Reprocess `json:"reprocess"`
	Newest    bool           `json:"newest,omitempty"`
	FailFast  bool           `json:"fail_fast,omitempty"`
	// Window is how many runs may be open at a time.
	Window int `json:"window"`
	// Phase is running, paused or cancelling.
	Phase    string           `json:"phase"`
	Expected step.PlanCounts  `json:"expected,omitzero"`
	State    step.WindowState `json:"state"`
	Begun    time.Time        `json:"begun"`
	Mark     BackfillMark     `json:"mark"`
	// Retried is how many failed intervals the update has put in again.
	Retried int64 `json:"retried,omitempty"`
}

// order is an update that is carried out between two windows, when the state is at hand.
type order struct {
	do   func(ctx workflow.Context) error
	err  error
	done bool
}

// listen sets the handlers.
func (b *backfill) listen(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandler(ctx, QueryBackfill, func() (BackfillProgress, error) { return b.progress(), nil }),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdatePause, func(ctx workflow.Context) (BackfillProgress, error) {
			return b.obey(ctx, func(ctx workflow.Context) error {
				b.input.Paused = true
				return nil
			})
		}, workflow.UpdateHandlerOptions{Validator: func() error { return b.obeys("paused") }}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResume, func(ctx workflow.Context) (BackfillProgress, error) {
			return b.obey(ctx, func(ctx workflow.Context) error {
				b.input.Paused = false
				b.mark(workflow.Now(ctx))
				return nil
			})
		}, workflow.UpdateHandlerOptions{Validator: b.mayResume}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResize, func(ctx workflow.Context, to ResizeOrder) (BackfillProgress, error) {
			return b.obey(ctx, func(ctx workflow.Context) error {
				b.input.Window = to.Window
				b.mark(workflow.Now(ctx))
				return nil
			})
		}, workflow.UpdateHandlerOptions{Validator: b.mayResize}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateCancel, func(ctx workflow.Context, how CancelOrder) (BackfillProgress, error) {
			return b.obey(ctx, func(workflow.Context) error { b.cancel(how); return nil })
		}, workflow.UpdateHandlerOptions{Validator: func(CancelOrder) error { return b.isSteered() }}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateRetry, func(ctx workflow.Context) (BackfillProgress, error) {
			var retried int64
			progress, err := b.obey(ctx, func(ctx workflow.Context) error {
				if retried = b.input.State.Retry(b.passed()); retried == 0 {
					return temporal.NewNonRetryableApplicationError("no interval of this backfill has failed so far", ErrorBadOrder, nil)
				}
				b.mark(workflow.Now(ctx))
				return nil
			})
			progress.Retried = retried
			return progress, err
		}, workflow.UpdateHandlerOptions{Validator: func() error { return b.obeys("retried") }}),
	)
}

// isSteered refuses orders to a catchup, which is steered by its Schedule.
func (b *backfill) isSteered() error {
	if b.input.Kind == step.Catchup {
		return refused("this is a catchup: pause and unpause its Schedule instead")
	}
	return nil
}

func (b *backfill) obeys(what string) error {
	if b.input.Cancel != nil {
		return refused("this backfill is being cancelled, and cannot be %s", what)
	}
	return b.isSteered()
}

func (b *backfill) mayResume() error {
	if err := b.obeys("resumed"); err != nil {
		return err
	}
	if !b.input.Paused {
		return refused("this backfill is not paused")
	}
	return nil
}

func (b *backfill) mayResize(to ResizeOrder) error {
	if err := b.obeys("resized"); err != nil {
		return err
	}
	if to.Window < 1 || to.Window > MaximumBackfillWindow {
		return refused("%d runs at a time are not possible: it is 1 to %d", to.Window, MaximumBackfillWindow)
	}
	if b.input.Definition.Schedule.DependsOnPast && to.Window > 1 {
		return refused("%s depends on the past: its intervals are run one at a time", b.input.Definition.Name)
	}
	return nil
}

func refused(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrorBadOrder, nil)
}

// cancel ends the backfill. Who has asked for the runs to be cancelled once has asked for it.
func (b *backfill) cancel(how CancelOrder) {
	if b.input.Cancel == nil {
		b.input.Cancel = &BackfillCancel{}
	}
	if how.Runs {
		b.input.Cancel.Runs = true
	}
}

// obey has an order carried out as soon as the window that is held has given its state back.
func (b *backfill) obey(ctx workflow.Context, do func(ctx workflow.Context) error) (BackfillProgress, error) {
	o := &order{do: do}
	b.orders = append(b.orders, o)
	if b.stop != nil {
		b.stop()
	}
	// Also one that Temporal cancels meanwhile answers.
	waiting, _ := workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(waiting, func() bool { return o.done }); err != nil {
		return BackfillProgress{}, err
	}
	return b.progress(), o.err
}

// carryOut carries out the orders that have come, and lets their senders know.
func (b *backfill) carryOut(ctx workflow.Context) error {
	for {
		for _, o := range b.orders {
			o.err = o.do(ctx)
			o.done = true
		}
		b.orders = nil
		if workflow.AllHandlersFinished(ctx) {
			return nil
		}
		if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) || len(b.orders) > 0 }); err != nil {
			return err
		}
	}
}

// mark has the rate counted from now on.
func (b *backfill) mark(now time.Time) {
	b.input.Mark = BackfillMark{At: now.UTC(), Ended: b.input.State.Counts.Ended()}
}

// passed is the part of the range that the backfill has gone through.
func (b *backfill) passed() step.Range {
	within, position := b.input.Range, b.input.State.Position
	switch {
	case position.IsZero():
	case b.input.Newest && !b.input.Definition.Schedule.DependsOnPast:
		within.From = position
	default:
		within.To = position
	}
	return within
}

func (b *backfill) progress() BackfillProgress { return b.input.Progress() }

// Progress is how far a backfill has come by its input, which is what it was started with or, after it continued as
// new, how it stood then.
func (in *BackfillInput) Progress() BackfillProgress {
	p := BackfillProgress{
		Pipeline: in.Definition.Name, Kind: in.Kind, Range: in.Range, Reprocess: in.Reprocess, Newest: in.Newest, FailFast: in.FailFast,
		Window: (&BackfillInput{Kind: in.Kind, Definition: in.Definition, Window: in.Window}).width(), Phase: PhaseRunning,
		Expected: in.Expected, State: in.State, Begun: in.Begun, Mark: in.Mark,
	}
	if in.Paused {
		p.Phase = PhasePaused
	}
	if in.Cancel != nil {
		p.Phase = PhaseCancelled
	}
	return p
}

// show sets what an operator sees in the UI.
func (b *backfill) show(ctx workflow.Context) {
	progress, state, counts := b.progress(), b.input.State, b.input.State.Counts
	format := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	text := fmt.Sprintf("**%s** %s → %s · %s · %d at a time", progress.Pipeline, format(progress.Range.From), format(progress.Range.To), progress.Kind, progress.Window)
	if progress.Phase != PhaseRunning {
		text += " · " + progress.Phase
	}
	text += "\n\n"
	if !state.Position.IsZero() {
		text += fmt.Sprintf("Came to %s\n\n", format(state.Position))
	}
	if state.Blocked != nil {
		why := "it has failed, and the pipeline depends on the past"
		if b.input.FailFast {
			why = "it has failed, and the backfill fails fast"
		}
		text += fmt.Sprintf("Nothing is started after %s: %s\n\n", state.Blocked, why)
	}
	text += fmt.Sprintf("| started%[1]s | loaded%[1]s | failed%[1]s | cancelled%[1]s | left as they were%[1]s | open |\n| --- | --- | --- | --- | --- | --- |\n", gap)
	text += fmt.Sprintf("| %d | %d | %d | %d | %d | %d |\n", counts.Started, counts.Loaded, counts.Failed, counts.Cancelled, counts.Left, len(state.InFlight))
	if total := progress.Expected.Total(); total > 0 {
		text += fmt.Sprintf("\n%d of %d intervals\n", counts.Passed(), total)
	}
	if b.note != "" {
		text += "\n" + b.note + "\n"
	}
	workflow.SetCurrentDetails(ctx, text)
}
