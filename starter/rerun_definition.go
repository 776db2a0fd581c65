package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// definitionOf returns what the newest run of an interval was run with: the definition, the interval that it owned,
// and its run id. The interval is that of the current definition or, where this has none that starts then, of a run
// from before the schedule was changed.
func (o *online) definitionOf(ctx context.Context, current *pipeline.Pipeline, at time.Time) (*pipeline.Pipeline, interval.Interval, string, error) {
	var id string
	owned, offGrid := intervalAt(current, at)
	if offGrid == nil {
		id = step.WorkflowID(current.Name, owned.End)
	} else if found, err := o.runStarting(ctx, current.Name, at); err != nil {
		return nil, owned, "", err
	} else if id = found; id == "" {
		return nil, owned, "", fmt.Errorf("%w; and Temporal has no run of an interval that starts then", offGrid)
	}
	described, err := o.DescribeWorkflow(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil, owned, "", fmt.Errorf("there is no run %s in Temporal, or it does not keep it any more: what it was run with is not known; --definition current takes the current definition", id)
	}
	if err != nil {
		return nil, owned, "", fmt.Errorf("look for the newest run %s: %w", id, err)
	}
	run := described.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	input, err := o.runInput(ctx, id, run)
	if err != nil {
		return nil, owned, "", err
	}
	owned, err = intervalOfRun(input, id)
	if err == nil && !owned.Start.Equal(at) {
		err = fmt.Errorf("it owned %s: the schedule was changed since; --definition current takes the current definition", owned)
	}
	if err != nil {
		return nil, owned, "", fmt.Errorf("take the definition of run %s of %s: %w", run, id, err)
	}
	return input.Definition, owned, run, nil
}

// runStarting returns the id of the newest run of a pipeline whose interval starts at an instant; empty: Temporal
// knows of none, or the namespace does not have the search attributes to find it by.
func (o *online) runStarting(ctx context.Context, pipelineName string, at time.Time) (string, error) {
	usable, _, err := o.Usable(ctx)
	if err != nil || !usable[launch.AttributePipeline.GetName()] || !usable[launch.AttributeInterval.GetName()] {
		return "", err
	}
	listed, err := o.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = %q AND %s = %q AND %s >= %q AND %s < %q", launch.RunType, launch.AttributePipeline.GetName(), pipelineName,
			launch.AttributeInterval.GetName(), at.UTC().Format(time.RFC3339), launch.AttributeInterval.GetName(), at.UTC().Add(time.Second).Format(time.RFC3339)),
		PageSize: 1,
	})
	if err != nil {
		return "", fmt.Errorf("look for a run of %s whose interval starts at %s: %w", pipelineName, at.UTC().Format(time.RFC3339), err)
	}
	for _, info := range listed.GetExecutions() {
		return info.GetExecution().GetWorkflowId(), nil
	}
	return "", nil
}

// intervalOfRun returns the interval that a run owned.
func intervalOfRun(input *launch.Input, id string) (interval.Interval, error) {
	if input.Interval != nil {
		return *input.Interval, nil
	}
	_, tick, err := step.ParseWorkflowID(id)
	if err != nil {
		return interval.Interval{}, err
	}
	grid, err := input.Definition.Grid()
	if err != nil {
		return interval.Interval{}, err
	}
	was, ok := grid.At(tick)
	if !ok {
		return was, errors.New("no interval of its schedule ended then")
	}
	return was, nil
}

// runInput returns what a run was started with.
func (o *online) runInput(ctx context.Context, id, run string) (*launch.Input, error) {
	events := o.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !events.HasNext() {
		return nil, fmt.Errorf("read the input of run %s of %s: its history is empty", run, id)
	}
	first, err := events.Next()
	if err != nil {
		return nil, fmt.Errorf("read the input of run %s of %s: %w", run, id, err)
	}
	return o.decodeInput(first, id, run)
}

func (o *online) decodeInput(first *history.HistoryEvent, id, run string) (*launch.Input, error) {
	attributes := first.GetWorkflowExecutionStartedEventAttributes()
	input := &launch.Input{}
	if kind := attributes.GetWorkflowType().GetName(); kind != launch.RunType {
		return nil, fmt.Errorf("%s, run %s, is a workflow of type %s, and no run", id, run, kind)
	}
	err := o.Converter.FromPayloads(attributes.GetInput(), input)
	if err == nil {
		err = input.Unreadable()
	}
	if err != nil {
		return nil, fmt.Errorf("read the input of run %s of %s: %w; use a newer starter", run, id, err)
	}
	return input, nil
}
