package workflows

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/step"
)

func TestLedgerAsksOnTheControlQueue(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	want := step.GridAnswer{Since: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC), Grids: 2}
	env.RegisterActivityWithOptions(func(ctx context.Context, request step.GridRequest) (step.GridAnswer, error) {
		if queue := activity.GetInfo(ctx).TaskQueue; queue != "default-test-taskqueue/control" || request.Pipeline != "orders" {
			t.Errorf("%s was asked on %s", request.Pipeline, queue)
		}
		return want, nil
	}, activity.RegisterOptions{Name: step.ActivityGrid})
	env.ExecuteWorkflow(Ledger, step.GridRequest{Pipeline: "orders"})
	var got step.GridAnswer
	if err := env.GetWorkflowResult(&got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
