package workflows

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/step"
)

func TestLedgerAsksOnTheControlQueue(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
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

func TestStandingAsksOnTheControlQueue(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	next := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	env.RegisterActivityWithOptions(func(ctx context.Context, request step.StandingRequest) (step.StandingAnswer, error) {
		if queue := activity.GetInfo(ctx).TaskQueue; queue != "default-test-taskqueue/control" || request.Pipeline != "orders" || request.Newest != 7 {
			t.Errorf("%+v was asked on %s", request, queue)
		}
		return step.StandingAnswer{Next: next, Grids: 2}, nil
	}, activity.RegisterOptions{Name: step.ActivityStanding})
	env.ExecuteWorkflow(Standing, step.StandingRequest{Pipeline: "orders", Newest: 7})
	var got step.StandingAnswer
	if err := env.GetWorkflowResult(&got); err != nil || got.Grids != 2 || !got.Next.Equal(next) {
		t.Errorf("%+v, %v", got, err)
	}
}
