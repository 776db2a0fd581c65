package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// Grid says how a schedule stands to the grids that its pipeline has had, and writes it to the ledger if asked
// to. It may run twice and changes nothing the second time.
func (a *Activities) Grid(ctx context.Context, request step.GridRequest) (step.GridAnswer, error) {
	answer, err := a.grid(ctx, request)
	if err != nil {
		err = fmt.Errorf("look at the grids of %s in warehouse %s: %w", request.Pipeline, request.Warehouse, err)
		return answer, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return answer, nil
}

func (a *Activities) grid(ctx context.Context, request step.GridRequest) (step.GridAnswer, error) {
	opened, err := a.warehouse(ctx, request.Warehouse)
	if err != nil {
		return step.GridAnswer{}, err
	}
	if request.Forget {
		return step.GridAnswer{}, opened.ForgetGrids(ctx, request.Pipeline)
	}
	spec, err := specOf(request.Pipeline, request.Schedule)
	if err != nil {
		return step.GridAnswer{}, retry.PermanentError("BadSchedule", err)
	}
	at := request.At
	if at.IsZero() {
		at = a.now()
	}
	if request.Record {
		err := opened.RecordGrid(ctx, request.Pipeline, func(known []warehouse.GridRow) (warehouse.GridRow, int, error) {
			era, ordinal, err := historyOf(known).Succeed(spec, at)
			if err != nil {
				return warehouse.GridRow{}, 0, retry.PermanentError("BadSchedule", err)
			}
			return warehouse.GridRow(era), ordinal, nil
		})
		if err != nil {
			return step.GridAnswer{}, err
		}
	}
	history, err := gridHistory(ctx, opened, request.Pipeline)
	if err != nil {
		return step.GridAnswer{}, err
	}
	era, _, err := history.Succeed(spec, at)
	if err != nil {
		return step.GridAnswer{}, retry.PermanentError("BadSchedule", err)
	}
	return step.GridAnswer{Since: era.Spec.Since, ActiveSince: history.ActiveSince(), Grids: len(history)}, nil
}

// specOf returns the grid of an effective schedule.
func specOf(pipelineName string, schedule pipeline.Schedule) (interval.Spec, error) {
	definition := pipeline.Pipeline{Name: pipelineName, Schedule: &schedule}
	return definition.GridSpec()
}

// gridHistory reads what the ledger knows of the pipeline's grids.
func gridHistory(ctx context.Context, opened *warehouse.Warehouse, pipelineName string) (gaps.History, error) {
	rows, err := opened.Grids(ctx, pipelineName)
	return historyOf(rows), err
}

func historyOf(rows []warehouse.GridRow) gaps.History {
	history := make(gaps.History, len(rows))
	for i, row := range rows {
		history[i] = gaps.Era(row)
	}
	return history
}
