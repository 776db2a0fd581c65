package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// Plan says what a backfill over a range would do with each interval, by the ledger and the open runs as they are now.
// It changes nothing.
func (a *Activities) Plan(ctx context.Context, request step.PlanRequest) (step.PlanAnswer, error) {
	beating := inBackground(func(quit <-chan struct{}) { launch.Beat(ctx, quit) })
	defer beating.stop()
	answer, err := a.plan(ctx, request)
	if err != nil {
		err = fmt.Errorf("plan a backfill of %s with the ledger of warehouse %s: %w", request.Pipeline, request.Warehouse, err)
		return answer, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return answer, nil
}

// planner makes a page of a plan. It decides as a window does, but starts nothing, and takes every run that it would
// start for one that loads.
type planner struct {
	request  step.PlanRequest
	ledger   *warehouse.Warehouse
	timeline *interval.Timeline
	open     map[int64]bool
	// lost are ticks under whose ids a run was ended from outside at some time; ended looks closer at one.
	lost   map[int64]bool
	ended  func(ctx context.Context, iv interval.Interval) (string, error)
	first  interval.Interval
	cursor step.PlanCursor
	answer step.PlanAnswer
}

func (a *Activities) plan(ctx context.Context, request step.PlanRequest) (step.PlanAnswer, error) {
	if request.Now.IsZero() {
		request.Now = a.now().UTC()
	}
	p := &planner{request: request, cursor: request.After, answer: step.PlanAnswer{Now: request.Now}, ended: func(ctx context.Context, iv interval.Interval) (string, error) {
		return a.endedFromOutside(ctx, request.Pipeline, iv)
	}}
	var err error
	if p.ledger, err = a.warehouse(ctx, request.Warehouse); err != nil {
		return p.answer, err
	}
	if p.timeline, err = timelineOf(ctx, p.ledger, request.Pipeline, request.Schedule); err != nil {
		return p.answer, err
	}
	if !p.bound() {
		return p.answer, nil
	}
	// The open runs first: one that ends meanwhile has its outcome by the time the ledger is read.
	if p.open, err = a.openTicks(ctx, request.Pipeline); err != nil {
		return p.answer, err
	}
	// A window finds such a run when it would start the interval's first one. The other modes run it again anyway.
	if request.Reprocess.Leaves(step.OutcomeFailed) {
		if p.lost, err = a.lostTicks(ctx, request.Pipeline); err != nil {
			return p.answer, err
		}
	}
	return p.answer, p.page(ctx)
}

// bound finds the intervals that lie whole in the range and are over, and reports whether there are any.
func (p *planner) bound() bool {
	within := p.request.Range
	if iv, ok := p.timeline.Owner(within.From); ok && iv.Start.Before(within.From) {
		p.answer.Cut = append(p.answer.Cut, iv)
	}
	var ok bool
	if p.first, ok = first(p.timeline.Between(within.From, within.To)); !ok {
		return false
	}
	until := within.To
	if p.request.Now.Before(until) {
		until = p.request.Now
	}
	last, ok := p.timeline.LastCompleted(until)
	over := ok && !last.Start.Before(p.first.Start)
	behind := p.first.Start
	if over {
		behind = last.End
	}
	if next, ok := first(p.timeline.Between(behind, within.To)); ok {
		if next.End.After(within.To) {
			p.answer.Cut = append(p.answer.Cut, next)
		} else {
			p.answer.Future = &next
		}
	}
	if over {
		p.answer.Range = step.Range{From: p.first.Start, To: last.End}
	}
	return over
}

// page goes through the intervals: through a page of them, or all.
func (p *planner) page(ctx context.Context) error {
	depends := p.request.Schedule.DependsOnPast
	w := walk{timeline: p.timeline, within: p.answer.Range, newest: p.request.Newest && !depends}
	look := outcomesFrom(ctx, p.ledger, p.request.Pipeline)
	for count := 0; ; count++ {
		at, ok, err := w.peek(p.cursor.Position, p.request.Now, look)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if p.request.List && count == step.PlanPage {
			p.answer.Next = &p.cursor
			break
		}
		if tick := at.Interval.End.Unix(); at.Status == "" && p.lost[tick] && !p.open[tick] {
			if at.Status, err = p.ended(ctx, at.Interval); err != nil {
				return err
			}
		}
		verdict, err := p.verdict(ctx, at.Interval, at.Status)
		if err != nil {
			return err
		}
		planned := step.Planned{Interval: at.Interval, Verdict: verdict, Status: at.Status}
		p.answer.Counts.Add(planned)
		if p.request.List {
			p.answer.Intervals = append(p.answer.Intervals, planned)
		}
		w.pass()
		p.cursor.Position = w.after(at.Interval)
	}
	p.answer.Blocked = p.cursor.Blocked
	return nil
}

func (p *planner) verdict(ctx context.Context, iv interval.Interval, status string) (step.Verdict, error) {
	if p.cursor.Blocked != nil {
		return step.VerdictBlocked, nil
	}
	if p.request.Reprocess.Leaves(status) {
		if p.cursor.Bad = nil; status != step.OutcomeLoaded && status != step.OutcomeAccepted {
			p.cursor.Bad = &iv
		}
		return step.VerdictLeave, nil
	}
	if p.request.Schedule.DependsOnPast {
		blocked := p.cursor.Bad
		if iv == p.first {
			var err error
			if blocked, err = failedBefore(ctx, p.timeline, p.ledger, p.request.Pipeline, iv); err != nil {
				return "", err
			}
		}
		if blocked != nil {
			p.cursor.Blocked = blocked
			return step.VerdictBlocked, nil
		}
	}
	p.cursor.Bad = nil
	if p.open[iv.End.Unix()] {
		return step.VerdictWait, nil
	}
	return step.VerdictRun, nil
}
