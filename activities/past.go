package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// Past says whether a run that depends on the past may begin: when the interval before its own is loaded or
// accepted, when there is none, or when nobody is going to run that one.
func (a *Activities) Past(ctx context.Context, request step.PastRequest) (step.PastAnswer, error) {
	answer, err := a.past(ctx, request)
	if err != nil {
		err = fmt.Errorf("look up the interval before %s of %s in warehouse %s: %w", request.Interval, request.Pipeline, request.Warehouse, err)
		return answer, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return answer, nil
}

func (a *Activities) past(ctx context.Context, request step.PastRequest) (step.PastAnswer, error) {
	opened, err := a.warehouse(ctx, request.Warehouse)
	if err != nil {
		return step.PastAnswer{}, err
	}
	history, err := gridHistory(ctx, opened, request.Pipeline)
	if err != nil {
		return step.PastAnswer{}, err
	}
	before, ok, err := intervalBefore(request, history)
	if err != nil {
		return step.PastAnswer{}, retry.PermanentError("BadSchedule", err)
	}
	if !ok {
		return step.PastAnswer{Go: true}, nil
	}
	status, err := outcomeOf(ctx, opened, request.Pipeline, before)
	if err != nil {
		return step.PastAnswer{}, err
	}
	if status == warehouse.OutcomeLoaded || status == warehouse.OutcomeAccepted {
		return step.PastAnswer{Go: true}, nil
	}
	state, err := a.runState(ctx, step.Seat{WorkflowID: step.WorkflowID(request.Pipeline, before.End)})
	if err != nil && !gone(err) {
		return step.PastAnswer{}, retry.TransientError(retry.TypeNetwork, err)
	}
	if status == "" && !state.Open && unexpected(request, history, before) {
		return step.PastAnswer{Go: true}, nil
	}
	return step.PastAnswer{Note: waitsForPast(request, before, status, state.Open)}, nil
}

// intervalBefore returns the interval that ends where the run's own starts: of its own grid or, at the beginning of
// that, of the one before it. ok is false when there is none.
func intervalBefore(request step.PastRequest, history gaps.History) (before interval.Interval, ok bool, err error) {
	spec, err := specOf(request.Pipeline, request.Schedule)
	if err != nil {
		return interval.Interval{}, false, err
	}
	grid, err := interval.New(spec)
	if err != nil {
		return interval.Interval{}, false, err
	}
	if before, ok = grid.At(request.Interval.Start); ok || len(history) == 0 {
		return before, ok, nil
	}
	timeline, err := history.Timeline()
	if err != nil {
		return interval.Interval{}, false, err
	}
	before, ok = timeline.At(request.Interval.Start)
	return before, ok, nil
}

// outcomeOf returns the status of an interval's outcome; empty when it has none.
func outcomeOf(ctx context.Context, opened *warehouse.Warehouse, pipelineName string, of interval.Interval) (string, error) {
	outcomes, err := opened.Outcomes(ctx, warehouse.Query{Pipeline: pipelineName, From: of.Start, To: of.Start.Add(time.Second)})
	if err != nil {
		return "", err
	}
	for _, outcome := range outcomes {
		if outcome.Interval == of {
			return outcome.Status, nil
		}
	}
	return "", nil
}

// unexpected reports whether nobody is going to run an interval that was never run and is not open: the run that
// asks is the first of those that somebody wants, or the interval ended before the pipeline had a Schedule and
// is not to be caught up with.
//
// A run of a backfill follows the order of its range, also there: only the first is exempt, and is told so.
func unexpected(request step.PastRequest, history gaps.History, before interval.Interval) bool {
	if request.Exempt || request.Kind == step.Backfill {
		return request.Exempt
	}
	active := history.ActiveSince()
	return request.Schedule.Catchup != pipeline.CatchupAll && (active.IsZero() || !before.End.After(active))
}

// waitsForPast says in a sentence what a run waits for.
func waitsForPast(request step.PastRequest, before interval.Interval, status string, open bool) string {
	name := before.Start.UTC().Format(time.RFC3339)
	if location, err := interval.LoadLocation(request.Timezone); err == nil {
		name = launch.IntervalName(before, location)
	}
	text := "waits for the interval before, " + name
	switch {
	case status == "" && open:
		return text + ", whose run is open"
	case status == "":
		return text + ", which has no run yet: it goes on when that one is loaded"
	case open:
		return text + ", which " + past(status) + " and is run again"
	default:
		return text + ", which " + past(status) + ": run it again, and this one goes on when it is loaded"
	}
}

// past puts an outcome into a sentence.
func past(status string) string {
	if status == warehouse.OutcomeCancelled {
		return "was cancelled"
	}
	return status
}
