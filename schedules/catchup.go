package schedules

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// Register registers the activities that look at Schedules, under their stable names.
func (s *Schedules) Register(registry worker.ActivityRegistry) {
	for name, function := range map[string]any{
		step.ActivityWatch:   s.Watch,
		step.ActivityCatchup: s.StartCatchup,
	} {
		registry.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
}

// StartCatchup has the missing intervals of a range run, with the definition that the pipeline's Schedule has now.
// One that is at it already goes on with what it was started for; what it leaves is found in the next round. A
// Schedule that was deleted or paused meanwhile starts nothing.
//
// It is an activity: step.ActivityCatchup.
func (s *Schedules) StartCatchup(ctx context.Context, request step.CatchupRequest) error {
	found, err := s.Get(ctx, launch.ScheduleID(request.Pipeline))
	if err != nil {
		return err
	}
	if found == nil || found.Pipeline != request.Pipeline || found.Paused() {
		return nil
	}
	definition := found.Definition()
	if definition == nil {
		return temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("catch up %s: its Schedule needs a newer worker: %v", request.Pipeline, found.Unreadable), "NewerDefinition", found.Unreadable)
	}
	_, err = s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: launch.CatchupID(request.Pipeline), TaskQueue: definition.TaskQueue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "catch up " + request.Pipeline,
		Priority:                                 temporal.Priority{PriorityKey: launch.PriorityCatchup},
	}, workflows.BackfillType, workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: definition, Kind: step.Catchup, Range: request.Range, Reprocess: step.ReprocessMissing,
	})
	var open *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &open) {
		return fmt.Errorf("catch up %s: %w", request.Pipeline, err)
	}
	return nil
}
