package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// Workflows that answer the command line, which has no access to warehouses itself: their types, as they stand in
// histories.
const (
	LedgerType   = "tranche-ledger"
	PlanType     = "tranche-plan"
	StandingType = "tranche-standing"
)

// limits is how long an answer may take: somebody at a terminal waits for it. A heartbeat of zero is none.
type limits struct {
	attempt, total, heartbeat time.Duration
}

var (
	ledgerLimits = limits{15 * time.Second, time.Minute, 0}
	// A plan may go over years of minutes; a page ends by itself long before its limit.
	planLimits     = limits{time.Minute, 2 * time.Minute, 10 * time.Second}
	standingLimits = limits{time.Minute, 100 * time.Second, 10 * time.Second}
)

// Ledger tells and changes what the ledger knows of the grids of a pipeline.
func Ledger(ctx workflow.Context, request step.GridRequest) (answer step.GridAnswer, err error) {
	err = ask(ctx, step.ActivityGrid, request, &answer, ledgerLimits, "grids of "+request.Pipeline)
	return answer, err
}

// Plan tells what a backfill would do: a page of it.
func Plan(ctx workflow.Context, request step.PlanRequest) (answer step.PlanAnswer, err error) {
	err = ask(ctx, step.ActivityPlan, request, &answer, planLimits, "plan a backfill of "+request.Pipeline)
	return answer, err
}

// Standing tells how the intervals of a pipeline stand, one page of them. It may have gaps accepted.
func Standing(ctx workflow.Context, request step.StandingRequest) (answer step.StandingAnswer, err error) {
	err = ask(ctx, step.ActivityStanding, request, &answer, standingLimits, "intervals of "+request.Pipeline)
	return answer, err
}

// ask has an activity of the control queue answer.
func ask(ctx workflow.Context, activity string, request, answer any, within limits, summary string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout:    within.attempt,
		ScheduleToCloseTimeout: within.total,
		HeartbeatTimeout:       within.heartbeat,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 4},
		Summary:                summary,
	})
	return workflow.ExecuteActivity(ctx, activity, request).Get(ctx, answer)
}
