package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

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
