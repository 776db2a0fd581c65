package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// StandingType is the workflow type of Standing, as it stands in histories.
const StandingType = "tranche-standing"

// How long a page may take: an activity ends it by itself long before.
const (
	standingAttempt   = time.Minute
	standingTotal     = 100 * time.Second
	standingHeartbeat = 10 * time.Second
)

// Standing tells how the intervals of a pipeline stand, one page of them, for the command line, which has no access to
// warehouses itself. It may have gaps accepted.
func Standing(ctx workflow.Context, request step.StandingRequest) (step.StandingAnswer, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout:    standingAttempt,
		ScheduleToCloseTimeout: standingTotal,
		HeartbeatTimeout:       standingHeartbeat,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 4},
		Summary:                "intervals of " + request.Pipeline,
	})
	var answer step.StandingAnswer
	err := workflow.ExecuteActivity(ctx, step.ActivityStanding, request).Get(ctx, &answer)
	return answer, err
}
