package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// lookCloser tells running from waiting runs, and finds those that the list of open runs does not know yet, and those
// that were terminated and left no outcome.
func (p *standingPage) lookCloser(ctx context.Context, cells []step.Cell, last bool) error {
	missing := closerLook - p.looked
	if last {
		missing = closerLook
	}
	var closer []*step.Cell
	for i := len(cells) - 1; i >= 0; i-- {
		cell := &cells[i]
		switch {
		case cell.State == step.StateOpen:
			p.described++
		case cell.State == step.StateDue:
		case cell.State == step.StateMissing && missing > 0:
			missing--
			p.looked++
		default:
			continue
		}
		closer = append(closer, cell)
	}
	failures := each(len(closer), func(i int) error { return p.describe(ctx, closer[i]) })
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	for _, cell := range closer {
		if cell.State.IsOpen() {
			p.open[cell.Interval.End.Unix()] = true
		}
	}
	return nil
}

// describe says how an interval stands by its newest execution and, where that has ended, by its outcome. Outcomes of
// runs that left none are written by the reconciler. Many do this at a time, each for a cell of its own.
func (p *standingPage) describe(ctx context.Context, cell *step.Cell) error {
	found, err := p.activities.newest(ctx, step.WorkflowID(p.request.Pipeline, cell.Interval.End))
	if err != nil {
		return err
	}
	wasOpen := cell.State == step.StateOpen
	switch {
	case found.open:
		cell.State, cell.Outdated = step.StateWaiting, false
		if found.atWork {
			cell.State = step.StateRunning
		}
		if p.request.Detailed {
			cell.Details = &step.Details{
				Kind: step.Kind(found.kind), Digest: found.digest, Since: found.started,
				Took: pipeline.Duration(p.began.Sub(found.started).Round(time.Second)),
			}
		}
		return nil
	case !found.known && !wasOpen:
		return nil
	}
	written, err := outcomeRow(ctx, p.ledger, p.request.Pipeline, cell.Interval)
	if err != nil {
		return err
	}
	switch {
	case written.Status != "":
		cell.State = step.State(written.Status)
		cell.Outdated = cell.State == step.StateLoaded && p.request.Digest != "" && written.Digest != "" && written.Digest != p.request.Digest
	case !found.ours || found.status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED || !found.known:
		if wasOpen {
			cell.State = step.StateMissing
		}
	case found.status == enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		cell.State = step.StateCancelled
	default:
		cell.State = step.StateFailed
	}
	return nil
}

// accept has the gaps among the cells accepted, and wakes the runs that wait for them.
func (p *standingPage) accept(ctx context.Context, cells []step.Cell) error {
	if p.request.Accept == nil {
		return nil
	}
	info := activity.GetInfo(ctx)
	var wanted []interval.Interval
	for _, cell := range cells {
		// An attempt before this one may have accepted it.
		if cell.State.IsGap() || cell.State == step.StateAccepted && info.Attempt > 1 {
			wanted = append(wanted, cell.Interval)
		}
	}
	accepted, err := p.ledger.Accept(ctx, warehouse.Outcome{
		Pipeline: p.request.Pipeline, Fence: info.StartedTime.UnixMicro(),
		WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID,
		Note: fmt.Sprintf("accepted by %s: %s", p.request.Accept.By, p.request.Accept.Reason),
	}, wanted)
	if err != nil {
		return err
	}
	done := make(map[interval.Interval]bool, len(accepted))
	for _, iv := range accepted {
		done[iv] = true
	}
	for i := range cells {
		if cell := &cells[i]; done[cell.Interval] {
			cell.Mark = step.Mark{State: step.StateAccepted, Just: true}
			p.wakeAfter(ctx, cell.Interval, i == len(cells)-1)
		}
	}
	return nil
}

// wakeAfter has the run of the next interval, if it is open, look at this one again. The list of open runs may not
// know it yet: at the end of a block it is tried all the same.
func (p *standingPage) wakeAfter(ctx context.Context, of interval.Interval, anyway bool) {
	if !p.request.Schedule.DependsOnPast {
		return
	}
	next, ok := first(p.timeline.Between(of.End, of.End.AddDate(10, 0, 0)))
	if !ok || !anyway && !p.open[next.End.Unix()] {
		return
	}
	id := step.WorkflowID(p.request.Pipeline, next.End)
	if err := p.activities.temporal.SignalWorkflow(ctx, id, "", step.SignalPast, nil); err != nil && !gone(err) { // it looks by itself, later
		activity.GetLogger(ctx).Warn("could not tell the run of the next interval", "pipeline", p.request.Pipeline, "interval", of.String(), "reason", err)
	}
}
