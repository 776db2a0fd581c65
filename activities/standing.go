package activities

import (
	"context"
	"fmt"
	"iter"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// What bounds a page beside its size: it is to take some seconds.
const (
	pageIntervals = 200_000
	// pageAccepted is how many intervals a page looks at that has gaps accepted.
	pageAccepted = 20_000
	// pageAudited bounds the slices that are counted.
	pageAudited = 1000
	// pageDescribed bounds the open runs that are looked at closer.
	pageDescribed = 1000
	pageTime      = 15 * time.Second

	// standBlock is how many intervals are gathered before they are looked at closer.
	standBlock = 1000
	// auditBlock is the same where the rows of each are counted: a count may take a second.
	auditBlock = 20
	// closerLook is at how many missing intervals of a page, and of its last block, it is looked closer: the list of
	// open runs may lag behind.
	closerLook = 200
)

// Standing says how the intervals of a pipeline stand, a page of them. It changes nothing, unless it is to have gaps
// accepted, and may run twice.
func (a *Activities) Standing(ctx context.Context, request step.StandingRequest) (step.StandingAnswer, error) {
	beating := inBackground(func(quit <-chan struct{}) { launch.Beat(ctx, quit) })
	defer beating.stop()
	p := &standingPage{activities: a, request: request, began: a.now()}
	if err := p.run(ctx); err != nil {
		err = fmt.Errorf("look at the intervals of %s in warehouse %s: %w", request.Pipeline, request.Warehouse, err)
		return step.StandingAnswer{}, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return p.answer, nil
}

// standingPage is the work on one page.
type standingPage struct {
	activities *Activities
	request    step.StandingRequest
	began      time.Time
	ledger     *warehouse.Warehouse
	history    gaps.History
	timeline   *interval.Timeline
	open       map[int64]bool

	seen, looked, described int
	answer                  step.StandingAnswer
}

func (p *standingPage) run(ctx context.Context) error {
	var err error
	if p.ledger, err = p.activities.warehouse(ctx, p.request.Warehouse); err != nil {
		return err
	}
	if err := p.readHistory(ctx); err != nil {
		return err
	}
	// The open runs first: one that ends meanwhile has its outcome by the time the ledger is read.
	if p.open, err = p.activities.openTicks(ctx, p.request.Pipeline); err != nil {
		return err
	}
	stands, err := p.stands(ctx)
	if err != nil {
		return retry.PermanentError("BadSchedule", err)
	}
	return p.read(ctx, stands)
}

// readHistory reads the grids of the ledger, and puts that of the Schedule to them, if it is not there yet.
func (p *standingPage) readHistory(ctx context.Context) error {
	known, err := gridHistory(ctx, p.ledger, p.request.Pipeline)
	if err != nil {
		return err
	}
	spec, err := specOf(p.request.Pipeline, p.request.Schedule)
	if err != nil {
		return retry.PermanentError("BadSchedule", err)
	}
	p.answer.Grids = len(known)
	if p.history, err = p.current(known, spec); err != nil {
		p.answer.Note = err.Error()
	}
	p.answer.ActiveSince = p.history.ActiveSince()
	if p.timeline, err = p.history.Timeline(); err != nil {
		return retry.PermanentError("BadSchedule", fmt.Errorf("the grids of the ledger: %w", err))
	}
	return nil
}

func (p *standingPage) scheduled() bool { return !p.request.Created.IsZero() }

func (p *standingPage) current(known gaps.History, spec interval.Spec) (gaps.History, error) {
	switch {
	case !p.scheduled() && len(known) > 0:
		return known, nil
	case !p.scheduled():
		return gaps.History{{Spec: spec}}, nil
	}
	at := p.request.Updated
	if len(known) == 0 {
		at = p.request.Created
	}
	fresh, err := isFresh(known, spec, at)
	if err != nil || !fresh {
		return known, err
	}
	era, ordinal, err := known.Succeed(spec, at)
	if err != nil {
		return known, err
	}
	return append(known[:ordinal:ordinal], era), nil
}

// stands returns the intervals that the page is about.
func (p *standingPage) stands(ctx context.Context) (iter.Seq2[gaps.Stand, error], error) {
	from := p.request.From
	if p.request.Newest > 0 {
		var err error
		if from, err = p.history.NewestStart(p.began, p.request.To, p.request.Newest); err != nil {
			return nil, err
		}
		if from.IsZero() {
			return func(func(gaps.Stand, error) bool) {}, nil
		}
	}
	schedule := p.request.Schedule
	return gaps.Stands(gaps.Survey{
		History: p.history, Scheduled: p.scheduled(), Now: p.began, From: from, To: p.request.To, All: p.request.All,
		Policy: gaps.Policy{Catchup: schedule.Catchup, CatchupWindow: schedule.CatchupWindow.Std(), Jitter: schedule.Jitter.Std()},
		Statuses: func(from, to time.Time) iter.Seq2[gaps.Status, error] {
			return statuses(p.ledger.Statuses(ctx, p.request.Pipeline, from, to))
		},
		Open: func(tick time.Time) bool { return p.open[tick.Unix()] },
	})
}

// read goes through the intervals block by block, until the page is full.
func (p *standingPage) read(ctx context.Context, stands iter.Seq2[gaps.Stand, error]) error {
	size := standBlock
	if p.request.Audit != nil {
		size = auditBlock
	}
	block := make([]gaps.Stand, 0, size)
	for stand, err := range stands {
		if err != nil {
			return err
		}
		if len(block) == size {
			if err := p.take(ctx, block, false); err != nil || !p.answer.Next.IsZero() {
				return err
			}
			if p.isFull() {
				p.answer.Next = stand.Interval.Start
				return nil
			}
			block = block[:0]
		}
		block = append(block, stand)
	}
	return p.take(ctx, block, true)
}

// isFull reports whether the page is to end with the block that was taken.
func (p *standingPage) isFull() bool {
	most := pageIntervals
	if p.request.Accept != nil {
		most = pageAccepted
	}
	return p.seen >= most || p.described >= pageDescribed || p.answer.Audited >= pageAudited || len(p.answer.Altered) >= step.PageAltered || p.activities.now().Sub(p.began) >= pageTime
}

// take looks closer at the intervals of a block and puts them on the page. Where that is full, it sets Next.
func (p *standingPage) take(ctx context.Context, block []gaps.Stand, last bool) error {
	cells := make([]step.Cell, len(block))
	for i, stand := range block {
		cells[i] = step.Cell{Interval: stand.Interval, Mark: step.Mark{State: stand.State}}
		cells[i].Outdated = stand.State == step.StateLoaded && p.request.Digest != "" && stand.Digest != "" && stand.Digest != p.request.Digest
	}
	if err := p.lookCloser(ctx, cells, last); err != nil {
		return err
	}
	cells = p.cut(cells)
	if err := p.accept(ctx, cells); err != nil {
		return err
	}
	if err := p.audit(ctx, cells); err != nil {
		return err
	}
	if p.request.Detailed {
		if err := p.detail(ctx, cells); err != nil {
			return err
		}
	}
	p.seen += len(cells)
	if p.request.Each {
		p.answer.Cells = append(p.answer.Cells, cells...)
		return nil
	}
	for _, cell := range cells {
		p.answer.Stretches = cell.Join(p.answer.Stretches)
	}
	return nil
}

// cut leaves as many of the cells as have room on the page, and sets where the next one begins.
func (p *standingPage) cut(cells []step.Cell) []step.Cell {
	room := len(cells)
	switch {
	case p.request.Detailed:
		room = step.PageDetailed - len(p.answer.Cells)
	case p.request.Each:
		room = step.PageCells - len(p.answer.Cells)
	default:
		left, before := step.PageStretches-len(p.answer.Stretches), step.Mark{}
		for i := range cells {
			if cells[i].Mark != before {
				if left--; left < 0 {
					room = i
					break
				}
			}
			before = cells[i].Mark
		}
	}
	if room >= len(cells) {
		return cells
	}
	p.answer.Next = cells[room].Interval.Start
	return cells[:room]
}
