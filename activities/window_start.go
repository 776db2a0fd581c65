package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// takenAgain is how often an interval is taken up again after what was waited for turned out to be no run of it.
const takenAgain = 3

// timelineOf returns the timeline that the ledger knows of a pipeline. One that never had a Schedule has the grid of
// its definition.
func timelineOf(ctx context.Context, ledger *warehouse.Warehouse, pipelineName string, schedule pipeline.Schedule) (*interval.Timeline, error) {
	history, err := gridHistory(ctx, ledger, pipelineName)
	if err != nil {
		return nil, err
	}
	var timeline *interval.Timeline
	if len(history) > 0 {
		timeline, err = history.Timeline()
	} else {
		var spec interval.Spec
		if spec, err = specOf(pipelineName, schedule); err == nil {
			timeline, err = interval.NewTimeline(spec)
		}
	}
	if err != nil {
		return nil, retry.PermanentError("BadSchedule", err)
	}
	return timeline, nil
}

// fill starts runs until the window is full or nothing is left to start.
func (w *window) fill(ctx context.Context, await func(step.Flight)) error {
	for len(w.state.InFlight) < w.request.Width && !w.exhausted && w.ended < w.request.Chunk && !w.stopped(ctx) {
		if w.failsFast() {
			w.exhausted = true
			return nil
		}
		t, ok, err := w.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			w.exhausted = true
			return nil
		}
		if err := w.take(ctx, t, await); err != nil {
			return err
		}
	}
	return nil
}

// failsFast reports whether nothing is to be started any more, since an interval has failed.
func (w *window) failsFast() bool {
	counts := w.state.Counts
	if !w.request.FailFast || counts.Failed+counts.Cancelled == 0 {
		return false
	}
	if failed := w.state.Failed; w.state.Blocked == nil && len(failed) > 0 {
		if iv, ok := w.timeline.StartingAt(failed[0].From); ok {
			w.change(func(state *step.WindowState) { state.Blocked = &iv })
		}
	}
	return true
}

// turn is the next interval, and why it is its turn.
type turn struct {
	gaps.Standing
	walk      *walk
	reprocess step.Reprocess
}

// next returns the next interval, with its outcome as the ledger has it now, or had it a moment ago if that is reason
// enough to leave it. What is to be run again comes first.
func (w *window) next(ctx context.Context) (turn, bool, error) {
	for len(w.state.Again) > 0 {
		head := w.state.Again[0]
		if !w.again.within.To.Equal(head.To) {
			w.again = walk{timeline: w.timeline, within: head}
		}
		t, ok, err := w.peek(ctx, turn{walk: &w.again, reprocess: step.ReprocessFailed}, head.From)
		if ok || err != nil {
			return t, ok, err
		}
		w.change(func(state *step.WindowState) { state.Again = slices.Clone(state.Again[1:]) })
	}
	return w.peek(ctx, turn{walk: &w.walk, reprocess: w.request.Reprocess}, w.state.Position)
}

func (w *window) peek(ctx context.Context, t turn, position time.Time) (turn, bool, error) {
	look := outcomesFrom(ctx, w.ledger, w.request.Definition.Name)
	at, ok, err := t.walk.peek(position, w.now(), look)
	if err == nil && ok && !t.reprocess.Leaves(at.Status) && !t.walk.isFresh(w.now()) {
		t.walk.forget()
		at, ok, err = t.walk.peek(position, w.now(), look)
	}
	t.Standing = at
	return t, ok, err
}

// clocks is how far the clocks of two workers may be apart.
const clocks = time.Minute

// now is the time by which intervals are over. A range that was planned on a worker whose clock is ahead ends a
// moment from now: its last interval is not passed over, and its run waits for its end.
func (w *window) now() time.Time {
	now, to := w.activities.now(), w.request.Range.To
	if w.request.Kind == step.Backfill && to.After(now) && !to.After(now.Add(clocks)) {
		return to
	}
	return now
}

// pass goes on behind an interval, and changes the state with that.
func (w *window) pass(t turn, more func(state *step.WindowState)) {
	t.walk.pass()
	w.change(func(state *step.WindowState) {
		more(state)
		if t.walk == &w.again {
			state.Again = slices.Clone(state.Again)
			state.Again[0].From = t.Interval.End
			return
		}
		state.Position = t.walk.after(t.Interval)
	})
}

// take passes over an interval, or has it run.
func (w *window) take(ctx context.Context, t turn, await func(step.Flight)) error {
	if t.reprocess.Leaves(t.Status) {
		count, err := w.counted(ctx, t)
		if err == nil {
			w.pass(t, count)
		}
		return err
	}
	blocked, err := w.blocked(ctx, t)
	if err != nil {
		return err
	}
	if blocked != nil {
		w.exhausted = true
		w.change(func(state *step.WindowState) { state.Blocked = blocked })
		return nil
	}
	flight := step.Flight{Interval: t.Interval}
	if t.walk == &w.again {
		flight.Round = w.state.Round
	}
	if err := w.begin(ctx, flight, await); err != nil {
		return err
	}
	w.pass(t, func(*step.WindowState) {})
	return nil
}

// counted returns how an interval counts whose outcome says that it needs no run. After a worker was lost it may be one
// that this backfill itself has had run or waited for, of which nobody has told: where it has failed that is to be known.
func (w *window) counted(ctx context.Context, t turn) (func(state *step.WindowState), error) {
	if slices.ContainsFunc(w.state.InFlight, func(f step.Flight) bool { return f.Interval == t.Interval }) {
		return func(*step.WindowState) {}, nil // it counts when it lands
	}
	if w.inherited && isBad(t.Status) {
		found, err := w.activities.newest(ctx, step.WorkflowID(w.request.Definition.Name, t.Interval.End))
		if err != nil {
			return nil, err
		}
		if found.known && found.campaign == w.request.Campaign {
			return func(state *step.WindowState) {
				state.Counts.Started++
				landed(state, t.Interval, t.Status)
			}, nil
		}
		written, err := outcomeRow(ctx, w.ledger, w.request.Definition.Name, t.Interval)
		if err != nil {
			return nil, err
		}
		if written.RecordedAt.After(w.since) {
			return func(state *step.WindowState) { landed(state, t.Interval, t.Status) }, nil
		}
	}
	return func(state *step.WindowState) { leave(state, t.Interval, t.Status) }, nil
}

func isBad(outcome string) bool {
	return outcome != step.OutcomeLoaded && outcome != step.OutcomeAccepted
}

// leave counts an interval that is left as it is.
func leave(state *step.WindowState, iv interval.Interval, status string) {
	state.Counts.Left++
	if state.Bad = nil; isBad(status) {
		state.Bad = &iv
	}
}

// blocked returns the interval before, if the pipeline depends on the past and that one has failed: a run would
// wait for it.
func (w *window) blocked(ctx context.Context, t turn) (*interval.Interval, error) {
	if !w.request.Definition.Schedule.DependsOnPast {
		return nil, nil
	}
	if t.Interval != w.first && t.walk != &w.again {
		return w.state.Bad, nil
	}
	return failedBefore(ctx, w.timeline, w.ledger, w.request.Definition.Name, t.Interval)
}

// failedBefore returns the interval before another one, if its outcome is failed or cancelled.
func failedBefore(ctx context.Context, timeline *interval.Timeline, ledger *warehouse.Warehouse, pipelineName string, iv interval.Interval) (*interval.Interval, error) {
	before, ok := timeline.At(iv.Start)
	if !ok {
		return nil, nil
	}
	outcome, err := outcomeOf(ctx, ledger, pipelineName, before)
	if err != nil || outcome != step.OutcomeFailed && outcome != step.OutcomeCancelled {
		return nil, err
	}
	return &before, nil
}

// begin starts the run of an interval, or finds that there is one to wait for, or that none is needed.
func (w *window) begin(ctx context.Context, flight step.Flight, await func(step.Flight)) error {
	request := launch.Request{
		Definition: w.request.Definition, Interval: flight.Interval, Kind: w.request.Kind, Campaign: w.request.Campaign,
		Exempt:    w.request.Definition.Schedule.DependsOnPast && flight.Interval == w.first,
		OnlyFirst: w.request.Reprocess == step.ReprocessMissing && flight.Round == 0,
		RequestID: fmt.Sprintf("backfill/%s/%s", w.request.Seed, flight.Interval),
	}
	if flight.Round > 0 {
		request.RequestID += fmt.Sprintf("/%d", flight.Round)
	}
	started, err := w.start(ctx, request)
	if err != nil {
		return err
	}
	if started.Taken && request.OnlyFirst {
		c, err := w.herald().closing(ctx, w.ledger, flight.Interval, false)
		if err != nil {
			return err
		}
		if c.outcome != "" {
			w.land(flight.Interval, c.outcome)
			return nil
		}
		started.RunID = c.runID
		if !c.open {
			// Whatever has ended under the id left no outcome, and the ledger decides. Everybody who finds it
			// so asks for the same run.
			request.OnlyFirst, request.RequestID = false, fmt.Sprintf("after/%s/%s", c.runID, flight.Interval)
			if started, err = w.start(ctx, request); err != nil {
				return err
			}
		}
	}
	flight.RunID = started.RunID
	if w.fly(flight); !started.Taken {
		w.change(func(state *step.WindowState) { state.Counts.Started++ })
	}
	await(flight)
	return nil
}

// herald tells of runs that could not tell themselves.
func (w *window) herald() herald {
	return herald{w.activities, w.request.Definition.TaskQueue, w.request.Definition}
}

// startWithin bounds a start.
const startWithin = 10 * time.Second

// start is not cut short by a cancel: whoever cancels is told what was started.
func (w *window) start(ctx context.Context, request launch.Request) (launch.Started, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWithin)
	defer cancel()
	started, err := w.activities.temporal.Start(ctx, request)
	if err != nil {
		return started, temporalError(err)
	}
	return started, nil
}
