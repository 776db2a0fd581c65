package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// CancelRuns asks the open runs of a backfill to cancel, and returns how many it has asked. Runs that others have
// started go on, also where the backfill waits for them. It may run twice.
func (a *Activities) CancelRuns(ctx context.Context, request step.CancelRunsRequest) (int, error) {
	beating := inBackground(func(quit <-chan struct{}) { launch.Beat(ctx, quit) })
	defer beating.stop()
	count, err := a.cancelRuns(ctx, request)
	if err != nil {
		err = fmt.Errorf("cancel the runs of %s: %w", request.Campaign, err)
		return count, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return count, nil
}

func (a *Activities) cancelRuns(ctx context.Context, request step.CancelRunsRequest) (int, error) {
	// A window whose worker was lost may have started runs of which nobody has told; the list may lag behind.
	ticks, err := a.openTicks(ctx, request.Pipeline)
	if err != nil {
		return 0, err
	}
	for _, flight := range request.InFlight {
		ticks[flight.Interval.End.Unix()] = true
	}
	var ids []string
	for tick := range ticks {
		ids = append(ids, step.WorkflowID(request.Pipeline, time.Unix(tick, 0)))
	}
	cancelled := make([]bool, len(ids))
	failures := each(len(ids), func(i int) (err error) {
		cancelled[i], err = a.cancelOwn(ctx, ids[i], request.Campaign)
		return err
	})
	count := 0
	for _, is := range cancelled {
		if is {
			count++
		}
	}
	return count, errors.Join(failures...)
}

// cancelOwn cancels the open run of an id, if it is of this campaign.
func (a *Activities) cancelOwn(ctx context.Context, id, campaign string) (bool, error) {
	described, err := a.temporal.DescribeWorkflow(ctx, id, "")
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, temporalError(fmt.Errorf("look at %s: %w", id, err))
	}
	info := described.RawResponse.GetWorkflowExecutionInfo()
	if !isOpen(info.GetStatus()) || launch.MemoText(info.GetMemo(), launch.MemoCampaign) != campaign {
		return false, nil
	}
	err = a.temporal.CancelWorkflow(ctx, id, info.GetExecution().GetRunId())
	var ended *serviceerror.NotFound
	if errors.As(err, &ended) {
		return false, nil
	}
	if err != nil {
		return false, temporalError(fmt.Errorf("cancel %s: %w", id, err))
	}
	return true, nil
}
