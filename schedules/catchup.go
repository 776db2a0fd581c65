package schedules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
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

// memoDefinition tells with which definition a catchup starts its runs: the SHA-256 of its JSON.
const memoDefinition = "tranche.definition"

// StartCatchup has the missing intervals of a range run, with the definition that the pipeline's Schedule has now.
// One that is at it already with this definition goes on with what it was started for; what it leaves is found in the
// next round. One with another definition gives way: nothing is lost with it, as its runs go on and the new one
// waits for them. A Schedule that was deleted or paused meanwhile starts nothing.
//
// It is an activity: step.ActivityCatchup.
func (s *Schedules) StartCatchup(ctx context.Context, request step.CatchupRequest) error {
	quit := make(chan struct{})
	defer close(quit)
	go launch.Beat(ctx, quit)
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
	hash, err := hashOf(definition)
	if err != nil {
		return err
	}
	open, with, err := s.openCatchup(ctx, request.Pipeline)
	if err != nil || open && with == hash {
		return err
	}
	conflict := enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	if open {
		conflict = enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	_, err = s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: launch.CatchupID(request.Pipeline), TaskQueue: definition.TaskQueue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 conflict,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "catch up " + request.Pipeline,
		Memo:                                     map[string]any{memoDefinition: hash},
		Priority:                                 temporal.Priority{PriorityKey: launch.PriorityCatchup},
	}, workflows.BackfillType, workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: definition, Kind: step.Catchup, Range: request.Range, Reprocess: step.ReprocessMissing,
	})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &started) { // another worker was first: the next round looks again
		return fmt.Errorf("catch up %s: %w", request.Pipeline, err)
	}
	return nil
}

func hashOf(definition *pipeline.Pipeline) (string, error) {
	encoded, err := json.Marshal(definition)
	if err != nil {
		return "", fmt.Errorf("hash the definition of %s: %w", definition.Name, err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// openCatchup returns whether a catchup of a pipeline is at work, and with which definition; empty: it does not say.
func (s *Schedules) openCatchup(ctx context.Context, pipelineName string) (open bool, definition string, err error) {
	described, err := s.temporal.DescribeWorkflow(ctx, launch.CatchupID(pipelineName), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, "", nil
	case err != nil:
		return false, "", fmt.Errorf("look at %s: %w", launch.CatchupID(pipelineName), err)
	}
	info := described.RawResponse.GetWorkflowExecutionInfo()
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, "", nil
	}
	// The SDK encodes a memo as it does inputs, with the codec where there is one.
	payload := info.GetMemo().GetFields()[memoDefinition]
	if payload == nil || s.temporal.Converter.FromPayload(payload, &definition) != nil {
		return true, "", nil
	}
	return true, definition, nil
}
