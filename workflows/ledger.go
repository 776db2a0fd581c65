package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// LedgerType is the workflow type of Ledger, as it stands in histories.
const LedgerType = "tranche-ledger"

// How long the ledger may take: somebody at a terminal waits for it.
const (
	ledgerAttempt = 15 * time.Second
	ledgerTotal   = time.Minute
)

// Ledger tells and changes what the ledger knows of the grids of a pipeline, for the command line, which has no
// access to warehouses itself.
func Ledger(ctx workflow.Context, request step.GridRequest) (step.GridAnswer, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout:    ledgerAttempt,
		ScheduleToCloseTimeout: ledgerTotal,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 4},
		Summary:                "grids of " + request.Pipeline,
	})
	var answer step.GridAnswer
	err := workflow.ExecuteActivity(ctx, step.ActivityGrid, request).Get(ctx, &answer)
	return answer, err
}
