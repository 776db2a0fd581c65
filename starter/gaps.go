package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

func (p *program) gapsCommand() *cli.Command {
	return &cli.Command{
		Name:      "gaps",
		Usage:     "List the intervals that should be loaded and are not, and exit 6 if there are any",
		ArgsUsage: "PIPELINE|FILE",
		Description: `Compares the intervals that are expected with the load ledger and the open runs. A gap is an
interval that is missing, or whose run failed or was cancelled; one whose run is open, or is just about to be
started, is listed and is no gap. Intervals that were loaded by another definition than the current one are listed
apart. With --fill a backfill of exactly the gaps is started, and the exit code is 0; with --accept they are recorded
as accepted: they will never be filled.

Examples:
  starter gaps orders
  starter gaps orders --audit --from 2026-01-01 --to 2026-02-01
  starter gaps orders --fill
  starter gaps orders --accept --reason "the shop was closed" --from 2026-01-03 --to 2026-01-05`,
		Flags: append(append(dial.Flags(), rangeFlags()...),
			&cli.BoolFlag{Name: "outdated", Usage: "count intervals that were loaded by another definition as gaps"},
			&cli.BoolFlag{Name: "audit", Usage: "count the rows of each loaded interval in its tables, too, and compare them with the receipts; costs a count for each"},
			&cli.BoolFlag{Name: "fill", Usage: "start a backfill of exactly the gaps"},
			&cli.IntFlag{Name: flagWindow, Value: workflows.DefaultBackfillWindow, Usage: "how many runs of that backfill may be open at a time"},
			&cli.BoolFlag{Name: "accept", Usage: "record that the gaps will never be filled; needs --reason"},
			&cli.StringFlag{Name: "reason", Usage: "why the gaps will never be filled, for whoever finds them accepted"},
			&cli.StringFlag{Name: "by", Usage: "who accepts them", DefaultText: "the user who is logged in"},
			jsonFlag()),
		Action: p.gaps,
	}
}

// standRange is the JSON of intervals that follow each other and stand alike.
type standRange struct {
	State step.State `json:"state"`
	// Gap says that the intervals count as gaps.
	Gap bool `json:"gap"`
	// Start is that of the first interval, LastStart that of the last one, End the end of that.
	Start     time.Time `json:"start"`
	LastStart time.Time `json:"last_start"`
	End       time.Time `json:"end"`
	Intervals int64     `json:"intervals"`
	// Outdated says that they were loaded by another definition, Just that the command had them accepted.
	Outdated bool `json:"outdated,omitempty"`
	Just     bool `json:"just_accepted,omitempty"`
}

// gapReport is what `gaps` found, besides the ranges.
type gapReport struct {
	*subject
	talk func(format string, args ...any)

	countOutdated bool
	counted       *tally
	altered       []step.Altered
	alteredCount  int64
	audited       int
	activeSince   time.Time
	just          int64
	filling       *filling // nil: nothing is to be filled
	filled        *backfillView
}

// alteredKept bounds the altered loads that are held for people, and for JSON.
const alteredKept = 10_000

func (p *program) gaps(c *cli.Context) error {
	acceptance, err := p.acceptance(c)
	if err != nil {
		return err
	}
	filling, err := fillingOf(c)
	if err != nil {
		return err
	}
	s, err := p.subjectOf(c)
	if err != nil {
		return err
	}
	defer s.Close()
	request := s.request()
	request.All = c.Bool("all")
	if err := s.within(c, &request); err != nil {
		return err
	}
	if request.Accept = acceptance; c.Bool("audit") {
		request.Audit = s.definition
	}
	if err := s.needWorkers(c.Context, s.schedule().TaskQueue); err != nil {
		return err
	}
	report := &gapReport{
		subject: s, countOutdated: c.Bool("outdated"), counted: newTally(), filling: filling,
		talk: func(format string, args ...any) { fmt.Fprintf(p.talk, format+"\n", args...) },
	}
	ranges := report.ranges(c.Context, request)
	if c.Bool("json") {
		err = p.gapsJSON(c.Context, report, ranges)
	} else {
		err = p.printGaps(report, ranges, request)
	}
	if err == nil && !c.Bool("json") {
		err = p.fillGaps(c.Context, report)
	}
	if err != nil || report.filled != nil {
		return err
	}
	return report.verdict(acceptance != nil)
}

// ranges asks page by page, counts, and returns all ranges, joined over the pages.
func (r *gapReport) ranges(ctx context.Context, request step.StandingRequest) iter.Seq2[step.Stretch, error] {
	return func(yield func(step.Stretch, error) bool) {
		var held []step.Stretch // the last one: the next page may go on with it
		note := ""
		for answer, err := range r.pages(ctx, request) {
			if err != nil {
				yield(step.Stretch{}, err)
				return
			}
			if r.activeSince = answer.ActiveSince; answer.Note != "" && answer.Note != note {
				note = answer.Note
				r.talk("%s", printable(note))
			}
			r.audited += answer.Audited
			for _, altered := range answer.Altered {
				if r.alteredCount++; len(r.altered) < alteredKept {
					r.altered = append(r.altered, altered)
				}
			}
			for _, stretch := range answer.Stretches {
				r.counted.add(stretch.Mark, stretch.Count)
				if stretch.Just {
					r.just += stretch.Count
				}
				if r.filling != nil {
					r.filling.add(stretch)
				}
				if held = stretch.Join(held); len(held) > 1 {
					if !yield(held[0], nil) {
						return
					}
					held = held[1:]
				}
			}
		}
		if len(held) > 0 {
			yield(held[0], nil)
		}
	}
}

func (r *gapReport) isGap(mark step.Mark) bool {
	return mark.State.IsGap() || r.countOutdated && mark.Outdated
}

// count is how many gaps there are.
func (r *gapReport) count() int64 {
	count := r.counted.gaps() + r.alteredCount
	if r.countOutdated {
		count += r.counted.outdated
	}
	return count
}

func (r *gapReport) verdict(accepting bool) error {
	open := r.counted.states[step.StateRunning] + r.counted.states[step.StateWaiting] + r.counted.states[step.StateDue]
	switch count := r.count(); {
	case count > 0:
		return coded(exitGaps, fmt.Errorf("%s has %s", r.schedule().Name, plural(int(count), "gap")))
	case accepting && r.just == 0 && open > 0:
		return errors.New("nothing was accepted: there is no gap whose run is not open or about to be started; wait for it, or cancel it")
	case accepting && r.just == 0 && r.counted.states[step.StateLoaded] > 0 && r.counted.total == r.counted.states[step.StateLoaded]:
		return errors.New("nothing was accepted: what is loaded is no gap")
	default:
		return nil
	}
}
