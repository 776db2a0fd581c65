package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// retryBackfill puts the failed intervals of an open backfill in again, or starts a new one for those of one that
// has ended.
func (p *program) retryBackfill(c *cli.Context) error {
	o, view, err := p.lookAt(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if view.open {
		return p.tell(c, o, view, workflows.UpdateRetry)
	}
	if err := o.addResult(c.Context, view); err != nil {
		return err
	}
	if view.Counts.Failed+view.Counts.Cancelled == 0 && view.Blocked == nil {
		return usagef("no interval of %s has failed: there is nothing to run again", view.ID)
	}
	input, err := o.inputOf(c.Context, view)
	if err != nil {
		return err
	}
	if err := o.needWorkers(c.Context, view.queue); err != nil {
		return err
	}
	again, err := o.startBackfill(c.Context, retryOf(input, view))
	if err != nil {
		return err
	}
	fmt.Fprintf(p.talk, "started %s for what failed in %s\n", again.WorkflowID, view.ID)
	return p.printViews(c, []*backfillView{again})
}

// retryOf is the input of a backfill that runs again what another one left failed.
func retryOf(input workflows.BackfillInput, view *backfillView) workflows.BackfillInput {
	newest := input.Newest && !input.Definition.Schedule.DependsOnPast
	state := step.WindowState{Counts: view.Counts, Failed: view.Failed, FailedMore: view.FailedMore, Position: view.Position}
	passed := input.Range
	switch {
	case view.Position.IsZero():
	case newest:
		passed.From = view.Position
	default:
		passed.To = view.Position
	}
	count := state.Retry(passed)
	state.Counts = step.WindowCounts{}
	expected := step.PlanCounts{Run: count}
	if view.Blocked != nil {
		// What the failed interval kept from being run follows it.
		expected.Run += view.NotRun
		if count == 0 {
			// It had failed before that backfill.
			state.Again, state.Round = []step.Range{{From: view.Blocked.Start, To: view.Blocked.End}}, 1
			expected.Run++
		}
	} else if state.Position = input.Range.To; newest {
		state.Position = input.Range.From
	}
	return workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: input.Definition, Kind: step.Backfill, Range: input.Range,
		Window: input.Window, Newest: input.Newest, Reprocess: input.Reprocess, FailFast: input.FailFast, Expected: expected, State: state,
	}
}

// inputOf returns what a backfill was started with.
func (o *online) inputOf(ctx context.Context, view *backfillView) (workflows.BackfillInput, error) {
	var input workflows.BackfillInput
	page, err := o.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: o.Namespace, Execution: execution(view.WorkflowID, view.RunID), MaximumPageSize: 1,
	})
	if err != nil {
		return input, fmt.Errorf("read what %s was started with: %w", view.WorkflowID, err)
	}
	events := page.GetHistory().GetEvents()
	if len(events) == 0 {
		return input, fmt.Errorf("read what %s was started with: Temporal has no history of it", view.WorkflowID)
	}
	if err := o.Converter.FromPayloads(events[0].GetWorkflowExecutionStartedEventAttributes().GetInput(), &input); err != nil {
		return input, fmt.Errorf("read what %s was started with: %w", view.WorkflowID, err)
	}
	if err := input.Unreadable(); err != nil {
		return input, fmt.Errorf("read what %s was started with: %w; use a newer starter", view.WorkflowID, err)
	}
	return input, nil
}
