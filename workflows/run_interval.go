package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// ownInterval returns the interval that the run owns, and refuses one that does not belong to the
// workflow's id: the id is what keeps two runs of one interval apart. A run that its Schedule started between
// two ticks owns none: last is then the interval whose run it hands over to.
func ownInterval(ctx workflow.Context, input launch.Input) (owned interval.Interval, last *interval.Interval, err error) {
	if input.Interval != nil {
		owned = *input.Interval
	} else if owned, last, err = firedInterval(ctx, input); last != nil || err != nil {
		return interval.Interval{}, last, err
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	if want := step.WorkflowID(input.Definition.Name, owned.End); id != want {
		return interval.Interval{}, nil, temporal.NewNonRetryableApplicationError(fmt.Sprintf(
			"the run of %s for %s must have the workflow id %s, not %s: start runs with `starter run`", input.Definition.Name, owned, want, id),
			ErrorNoInterval, nil)
	}
	if input.Version >= versionWaiting && input.Interval == nil && input.MarkInterval {
		err = workflow.UpsertTypedSearchAttributes(ctx, launch.AttributeInterval.ValueSet(owned.Start))
	}
	return owned, nil, err
}

// fired is what follows from the nominal time at which a Schedule fired. It is kept in history, since the zone
// database of a later build may see it otherwise.
type fired struct {
	// Owned is the interval that ends at that time; Last the newest that has ended by then, if none does.
	Owned *interval.Interval `json:"owned,omitempty"`
	Last  *interval.Interval `json:"last,omitempty"`
}

func firedInterval(ctx workflow.Context, input launch.Input) (owned interval.Interval, last *interval.Interval, err error) {
	at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(launch.ScheduledStartTime)
	if !ok {
		return interval.Interval{}, nil, temporal.NewNonRetryableApplicationError(
			"the run has neither an interval in its input nor the time of a Schedule: start runs with `starter run`",
			ErrorNoInterval, nil)
	}
	at = at.UTC().Truncate(time.Second)
	var found fired
	if input.Version < versionWaiting {
		encoded := workflow.SideEffect(ctx, func(workflow.Context) any { return fires(input.Definition, at).Owned })
		err = encoded.Get(&found.Owned)
	} else {
		err = workflow.SideEffect(ctx, func(workflow.Context) any { return fires(input.Definition, at) }).Get(&found)
	}
	switch {
	case err != nil:
		return interval.Interval{}, nil, err
	case found.Owned != nil:
		return *found.Owned, nil, nil
	case found.Last != nil:
		return interval.Interval{}, found.Last, nil
	}
	message := fmt.Sprintf("no interval of %s ends at %s, the time at which its Schedule fired", input.Definition.Name, at.Format(time.RFC3339))
	if input.Version >= versionWaiting {
		message += ", and none has ended before: there is nothing to run yet"
	}
	return interval.Interval{}, nil, temporal.NewNonRetryableApplicationError(message, ErrorNoInterval, nil)
}

// fires finds out what a firing of a pipeline's Schedule is for.
func fires(definition *pipeline.Pipeline, at time.Time) fired {
	grid, err := definition.Grid()
	if err != nil {
		return fired{}
	}
	if owned, ok := grid.At(at); ok {
		return fired{Owned: &owned}
	}
	if last, ok := grid.LastCompleted(at); ok {
		return fired{Last: &last}
	}
	return fired{}
}
