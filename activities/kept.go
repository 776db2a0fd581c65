package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/step"
)

// Kept looks into the load ledger for the loads that a run keeps as they are.
func (a *Activities) Kept(ctx context.Context, request step.KeptRequest) (step.KeptAnswer, error) {
	answer, err := a.kept(ctx, request)
	if err != nil {
		err = fmt.Errorf("look up what was loaded of %s of %s in warehouse %s: %w", request.Interval, request.Pipeline, request.Warehouse, err)
		return answer, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return answer, nil
}

func (a *Activities) kept(ctx context.Context, request step.KeptRequest) (step.KeptAnswer, error) {
	opened, err := a.warehouse(ctx, request.Warehouse)
	if err != nil {
		return step.KeptAnswer{}, err
	}
	answer := step.KeptAnswer{Loads: make([]step.KeptReceipt, len(request.Loads))}
	for i, load := range request.Loads {
		answer.Loads[i].Step = load.Step
		receipt, found, err := opened.LoadedBy(ctx, request.Pipeline, load.Step, request.Interval, &load.Load)
		if err != nil {
			return step.KeptAnswer{}, err
		}
		if found {
			answer.Loads[i] = step.KeptReceipt{
				Step: load.Step, Found: true, Table: receipt.Table, Digest: receipt.Digest, LoadedAt: receipt.LoadedAt,
				Later: receipt.Interval != request.Interval,
			}
		}
	}
	return answer, nil
}
