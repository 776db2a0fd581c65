package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// filling gathers what a backfill of the gaps is to run.
type filling struct {
	window int
	count  int64
	// exact are the gaps, joined. Where those are too many for a backfill, coarse are ranges without an interval that
	// nobody expects: what else lies in them is loaded or accepted, and a backfill leaves it, or open, and is waited for.
	exact, coarse []step.Range
	apart, more   bool
}

// fillingOf reads --fill with what belongs to it; nil: nothing is to be filled.
func fillingOf(c *cli.Context) (*filling, error) {
	f := &filling{window: c.Int(flagWindow)}
	switch {
	case !c.Bool("fill") && c.IsSet(flagWindow):
		return nil, usagef("--%s is the window of the backfill that --fill starts: it needs --fill", flagWindow)
	case !c.Bool("fill"):
		return nil, nil
	case c.Bool("accept"):
		return nil, usagef("give --fill or --accept, not both")
	case c.Bool("audit") || c.Bool("outdated"):
		return nil, usagef("--fill runs intervals that are not loaded; run those that --audit and --outdated find again with `starter backfill --reprocess all`")
	case f.window < 1 || f.window > workflows.MaximumBackfillWindow:
		return nil, usagef("--%s %d is not possible: it is 1 to %d", flagWindow, f.window, workflows.MaximumBackfillWindow)
	}
	return f, nil
}

// add takes in the next stretch.
func (f *filling) add(stretch step.Stretch) {
	if stretch.State == step.StateUnexpected {
		f.apart = true
	}
	if !stretch.State.IsGap() {
		return
	}
	f.count += stretch.Count
	found := step.Range{From: stretch.From, To: stretch.To}
	if n := len(f.exact); n > 0 && f.exact[n-1].To.Equal(found.From) {
		f.exact[n-1].To = found.To
	} else if f.more = f.more || n == step.FailedRanges; !f.more {
		f.exact = append(f.exact, found)
	}
	if n := len(f.coarse); n > 0 && (!f.apart || n > step.FailedRanges) {
		f.coarse[n-1].To = found.To
	} else {
		f.coarse = append(f.coarse, found)
	}
	f.apart = false
}

// fillGaps starts the backfill that was asked for, if any.
func (p *program) fillGaps(ctx context.Context, report *gapReport) (err error) {
	if report.filling != nil {
		report.filled, err = p.fill(ctx, report.subject, report.filling)
	}
	return err
}

// fill starts a backfill of the gaps; nil when there are none.
func (p *program) fill(ctx context.Context, s *subject, f *filling) (*backfillView, error) {
	if f.count == 0 {
		return nil, nil
	}
	ranges := f.exact
	if f.more {
		ranges = f.coarse
	}
	if len(ranges) > step.FailedRanges {
		return nil, usagef("the gaps lie in more than %d places with intervals between them that nobody expects: narrow them down with --from and --to", step.FailedRanges)
	}
	definition := s.definition
	if err := p.takeOver(ctx, s.online, definition); err != nil {
		return nil, err
	}
	within := step.Range{From: ranges[0].From, To: ranges[len(ranges)-1].To}
	window := f.window
	if definition.Schedule.DependsOnPast {
		window = 1
	}
	view, err := s.startBackfill(ctx, workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: definition, Kind: step.Backfill, Range: within, Window: window,
		Reprocess: step.ReprocessFailed, Expected: step.PlanCounts{Run: f.count},
		// Only what is put in again is run: the range itself is behind.
		State: step.WindowState{Position: within.To, Again: ranges, Round: 1},
	})
	if err == nil {
		fmt.Fprintf(p.talk, "started %s for %s; look at it with `starter backfill show %s`\n", view.WorkflowID, plural(int(f.count), "gap"), view.ID)
	}
	return view, err
}
