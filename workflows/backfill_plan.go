package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// PlanType is the workflow type of Plan, as it stands in histories.
const PlanType = "tranche-plan"

// How long a plan may take, over years of minutes: somebody at a terminal waits for it.
const (
	planAttempt   = time.Minute
	planTotal     = 2 * time.Minute
	planHeartbeat = 10 * time.Second
)

// Plan tells the command line, which has no access to warehouses itself, what a backfill would do: a page of it.
func Plan(ctx workflow.Context, request step.PlanRequest) (step.PlanAnswer, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout:    planAttempt,
		ScheduleToCloseTimeout: planTotal,
		HeartbeatTimeout:       planHeartbeat,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 4},
		Summary:                "plan a backfill of " + request.Pipeline,
	})
	var answer step.PlanAnswer
	err := workflow.ExecuteActivity(ctx, step.ActivityPlan, request).Get(ctx, &answer)
	return answer, err
}
