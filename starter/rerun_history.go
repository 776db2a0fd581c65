package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// definitionOf returns the definition that the newest run of an interval carries, and its run id.
func (o *online) definitionOf(ctx context.Context, pipelineName string, owned interval.Interval) (*pipeline.Pipeline, string, error) {
	id := step.WorkflowID(pipelineName, owned.End)
	described, err := o.DescribeWorkflow(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil, "", fmt.Errorf("Temporal has no run %s, or does not keep it any more: what it was run with is not known; --definition current takes the current definition", id)
	}
	if err != nil {
		return nil, "", fmt.Errorf("look for the newest run %s: %w", id, err)
	}
	run := described.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	input, err := o.runInput(ctx, id, run)
	if err != nil {
		return nil, "", err
	}
	was, err := intervalOfRun(input, owned)
	if err == nil && was != owned {
		err = fmt.Errorf("it owned %s, and not %s: the schedule was changed since; --definition current takes the current definition", was, owned)
	}
	if err != nil {
		return nil, "", fmt.Errorf("take the definition of run %s of %s: %w", run, id, err)
	}
	return input.Definition, run, nil
}

// intervalOfRun returns the interval of a run whose id has the tick of an interval.
func intervalOfRun(input *launch.Input, owned interval.Interval) (interval.Interval, error) {
	if input.Interval != nil {
		return *input.Interval, nil
	}
	grid, err := input.Definition.Grid()
	if err != nil {
		return interval.Interval{}, err
	}
	was, ok := grid.At(owned.End)
	if !ok {
		return was, fmt.Errorf("no interval of its schedule ends at %s", owned.End)
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

// rememberedRuns is how many runs of an interval are looked into for a step.
const rememberedRuns = 20

// checkKept looks into the runs that Temporal remembers, newest first, whether the steps were done that are to be kept
// and that leave no receipt. What a source has read shows in the receipts of its loads.
func (p *program) checkKept(ctx context.Context, o *online, id string, what again) error {
	unknown := slices.DeleteFunc(slices.Clone(what.kept), func(name string) bool {
		s := what.definition.Step(name)
		return s.Load != nil || s.IsSource()
	})
	if len(unknown) == 0 {
		return nil
	}
	listed, err := o.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", id), PageSize: rememberedRuns,
	})
	if err != nil {
		return fmt.Errorf("list the runs %s: %w", id, err)
	}
	for _, info := range listed.GetExecutions() {
		past, err := o.pastRun(ctx, info)
		if err != nil {
			return err
		}
		if !past.begun {
			continue
		}
		for _, name := range unknown {
			if refusal := past.refuses(what, name); refusal != "" {
				return fmt.Errorf("step %s is to be kept, but %s (run %s, %s): begin with it, by --from-step %s, or run the interval as a whole",
					name, refusal, past.run, past.status, name)
			}
		}
		if unknown = slices.DeleteFunc(unknown, past.keeps); len(unknown) == 0 {
			return nil
		}
	}
	fmt.Fprintf(p.talk, "whether %s was done for %s, Temporal does not remember; it is kept as it is\n", strings.Join(unknown, ", "), what.owned)
	return nil
}

// pastRun is what the history of a run tells of its steps.
type pastRun struct {
	run, status string
	completed   bool
	// begun says that a step was begun; a run that ended before, as when it waited for a slot, changed nothing.
	begun      bool
	definition *pipeline.Pipeline
	kept       []string
	// ended says of the steps whose activities have ended whether they were done.
	ended map[string]bool
}

func (r *pastRun) keeps(name string) bool { return !slices.Contains(r.kept, name) }

// refuses says why a step may not be kept, by this run; empty: it may, or was kept by this run, too.
func (r *pastRun) refuses(what again, name string) string {
	if slices.Contains(r.kept, name) || r.ended[name] {
		return ""
	}
	if r.definition.Step(name) == nil {
		return "the newest run that ran it knew no such step"
	}
	_, failed := r.ended[name]
	policy := what.definition.Step(name).OnFailure
	needed := slices.ContainsFunc(what.definition.Steps, func(s pipeline.Step) bool {
		return !slices.Contains(what.kept, s.Name) && slices.Contains(what.definition.Needs(s.Name), name)
	})
	switch {
	case failed && policy == pipeline.OnFailureContinue:
		return ""
	case !needed && (r.completed || failed && policy == pipeline.OnFailureSkip):
		return "" // that run went on without it
	case failed:
		return "it has failed in the newest run that ran it"
	default:
		return "it was not done by the newest run of the interval"
	}
}

// pastRun reads the history of a run.
func (o *online) pastRun(ctx context.Context, info *workflow.WorkflowExecutionInfo) (*pastRun, error) {
	id, run := info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId()
	past := &pastRun{
		run: run, status: strings.ToLower(info.GetStatus().String()), ended: map[string]bool{},
		completed: info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	}
	scheduled := map[int64]string{}
	events := o.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("read the history of run %s of %s: %w", run, id, err)
		}
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED {
			input, err := o.decodeInput(event, id, run)
			if err != nil {
				return nil, err
			}
			past.definition = input.Definition
			if past.kept, err = keptSteps(input.Definition, input.FromStep); err != nil {
				return nil, err
			}
			continue
		}
		o.note(past, scheduled, event)
	}
	return past, nil
}

// note takes down what an event says of a step: an activity bears the name of its step in its summary.
func (o *online) note(past *pastRun, scheduled map[int64]string, event *history.HistoryEvent) {
	switch event.GetEventType() {
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		var summary string
		if payload := event.GetUserMetadata().GetSummary(); payload != nil && o.Converter.FromPayload(payload, &summary) == nil {
			name, _, _ := strings.Cut(summary, ":")
			scheduled[event.GetEventId()] = name
			past.begun = past.begun || past.definition.Step(name) != nil
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		attributes := event.GetActivityTaskCompletedEventAttributes()
		name := scheduled[attributes.GetScheduledEventId()]
		if s := past.definition.Step(name); s != nil && (s.Activity != nil || o.isDone(attributes.GetResult())) {
			past.ended[name] = true
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		past.ended[scheduled[event.GetActivityTaskFailedEventAttributes().GetScheduledEventId()]] = false
	case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		past.ended[scheduled[event.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId()]] = false
	}
}

// isDone reports whether an activity of ours has done its work, and does not only ask for a wait.
func (o *online) isDone(result *common.Payloads) bool {
	var answered step.Result
	return o.Converter.FromPayloads(result, &answered) == nil && answered.Done != nil
}
