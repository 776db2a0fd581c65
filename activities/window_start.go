package activities

import (
	"context"
	"fmt"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// takenAgain is how often an interval is taken up again after what was waited for turned out to be no run of it.
const takenAgain = 3

func timelineOf(definition *pipeline.Pipeline) (*interval.Timeline, error) {
	spec, err := definition.GridSpec()
	if err != nil {
		return nil, err
	}
	return interval.NewTimeline(spec)
}

// fill starts runs until the window is full or the range is at its end.
func (w *window) fill(ctx context.Context, await func(step.Flight)) error {
	for len(w.state.InFlight) < w.request.Width && !w.exhausted && w.ended < w.request.Chunk && !w.stopped(ctx) {
		at, ok, err := w.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			w.exhausted = true
			return nil
		}
		if err := w.take(ctx, at, await); err != nil {
			return err
		}
	}
	return nil
}

// next returns the interval at the position, with its outcome as the ledger has it now, or had it a moment ago if
// that is reason enough to leave it.
func (w *window) next(ctx context.Context) (gaps.Standing, bool, error) {
	at, ok, err := w.walk.peek(w.state.Position, w.activities.now(), w.lookUp(ctx))
	if err != nil || !ok || w.request.Reprocess.Leaves(at.Status) || w.walk.isFresh(w.activities.now()) {
		return at, ok, err
	}
	w.walk.forget()
	return w.walk.peek(w.state.Position, w.activities.now(), w.lookUp(ctx))
}

// take passes over an interval, or has it run.
func (w *window) take(ctx context.Context, at gaps.Standing, await func(step.Flight)) error {
	after := w.walk.after(at.Interval)
	if w.request.Reprocess.Leaves(at.Status) {
		w.walk.pass()
		w.change(func(state *step.WindowState) {
			state.Position = after
			state.Counts.Left++
			if state.Bad = nil; at.Status != step.OutcomeLoaded && at.Status != step.OutcomeAccepted {
				state.Bad = &at.Interval
			}
		})
		return nil
	}
	blocked, err := w.blocked(ctx, at.Interval)
	if err != nil {
		return err
	}
	if blocked != nil {
		w.exhausted = true
		w.change(func(state *step.WindowState) { state.Blocked = blocked })
		return nil
	}
	if err := w.begin(ctx, step.Flight{Interval: at.Interval}, await); err != nil {
		return err
	}
	w.walk.pass()
	w.change(func(state *step.WindowState) { state.Position = after })
	return nil
}

// blocked returns the interval before, if the pipeline depends on the past and that one has failed: a run would
// wait for it.
func (w *window) blocked(ctx context.Context, iv interval.Interval) (*interval.Interval, error) {
	if !w.request.Definition.Schedule.DependsOnPast {
		return nil, nil
	}
	if iv != w.first {
		return w.state.Bad, nil
	}
	before, ok := w.timeline.At(iv.Start)
	if !ok {
		return nil, nil
	}
	outcome, err := outcomeOf(ctx, w.ledger, w.request.Definition.Name, before)
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
		OnlyFirst: w.request.Reprocess == step.ReprocessMissing,
		RequestID: fmt.Sprintf("backfill/%s/%s", w.request.Seed, flight.Interval),
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

func (w *window) start(ctx context.Context, request launch.Request) (launch.Started, error) {
	started, err := w.activities.temporal.Start(ctx, request)
	if err != nil {
		return started, temporalError(err)
	}
	return started, nil
}
