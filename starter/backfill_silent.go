package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/step"
)

// lastKnown returns how an open backfill stood when a worker was last there, as far as Temporal knows, and an error
// that says that none answers. Whether it was told to pause or to end meanwhile is not known.
func (o *online) lastKnown(ctx context.Context, v *backfillView, described *workflowservice.DescribeWorkflowExecutionResponse, why error) (*backfillView, error) {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	input, err := o.inputOf(ctx, v)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	progress := input.Progress()
	if progress.Begun.IsZero() {
		progress.Begun = *v.Started
	}
	held, state, err := o.lastWindow(ctx, v)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	if held > 0 {
		progress.Window = held
	}
	if state != nil {
		progress.State = *state
	}
	if state := o.beaten(described); state != nil {
		progress.State = *state
	}
	progress.Phase = stateSilent
	v.add(progress, time.Now())
	return v, coded(exitUnreachable, fmt.Errorf("no worker of task queue %s answers for %s: this is what was last known of it", v.queue, v.ID))
}

// addSettings takes over what a backfill that has ended was told to do. One whose input cannot be read is shown without.
func (o *online) addSettings(ctx context.Context, v *backfillView) {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	input, err := o.inputOf(ctx, v)
	if err != nil {
		return
	}
	p := input.Progress()
	v.Order, v.Window, v.FailFast = orderOf(p.Newest), p.Window, p.FailFast
	if held, _, err := o.lastWindow(ctx, v); err == nil && held > 0 {
		v.Window = held
	}
	if !p.Begun.IsZero() {
		v.Started = &p.Begun // the execution that Temporal shows may be the last of several
	}
}

// lastEvents is how many events of a history are looked through, from its end.
const lastEvents = 100

// lastWindow returns from the end of a backfill's history how wide its window was last, and the state that was last
// passed on; zero and nil where these events have none.
func (o *online) lastWindow(ctx context.Context, v *backfillView) (int, *step.WindowState, error) {
	page, err := o.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: o.Namespace, Execution: execution(v.WorkflowID, v.RunID), MaximumPageSize: lastEvents,
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read the history of %s: %w", v.WorkflowID, err)
	}
	var state *step.WindowState
	for _, event := range page.GetHistory().GetEvents() {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			var returned step.WindowState
			// The answer of another activity is a number.
			if state == nil && o.Converter.FromPayloads(event.GetActivityTaskCompletedEventAttributes().GetResult(), &returned) == nil {
				state = &returned
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			scheduled := event.GetActivityTaskScheduledEventAttributes()
			var request step.WindowRequest
			if scheduled.GetActivityType().GetName() != step.ActivityWindow || o.Converter.FromPayloads(scheduled.GetInput(), &request) != nil {
				continue
			}
			if state == nil {
				state = &request.State
			}
			if request.Width > 0 {
				return request.Width, state, nil
			}
		}
	}
	return 0, state, nil
}
