package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
)

// viaSchedule is the JSON of `backfill --via-schedule`.
type viaSchedule struct {
	Pipeline string `json:"pipeline"`
	Schedule string `json:"schedule"`
	// Range from the start of the first interval to the end of the last.
	Range     step.Range `json:"range"`
	Intervals int64      `json:"intervals"`
}

const viaDiffers = `the Schedule's own backfill differs from Tranche's: it runs every interval of the range, loaded ones
too, with the definition that was applied, all at once but for the pipeline's own max_active_runs; an interval whose
run is open is dropped; it cannot be paused, resized, cancelled or watched as a whole: ` + "`starter runs` lists its runs"

// backfillViaSchedule hands a range to the Schedule of a pipeline: one patch with one request.
func (p *program) backfillViaSchedule(c *cli.Context) error {
	for _, flag := range []string{flagWindow, flagOrder, flagReprocess, flagFailFast, "wait", "dry-run"} {
		if c.IsSet(flag) {
			return usagef("--%s does not go with --%s: a Schedule's own backfill knows nothing of it", flag, flagVia)
		}
	}
	options, err := backfillOptionsOf(c)
	if err != nil {
		return err
	}
	definitions, names, err := backfillFiles(c.Args().Slice())
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		names = append(names, definition.Name)
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	made := schedules.New(o.Temporal)
	var done []viaSchedule
	var found []*schedules.Schedule
	for _, name := range names {
		schedule, err := o.scheduled(c.Context, name)
		if err != nil {
			return err
		}
		within, err := rangeOf(schedule.Definition(), options.from, options.to)
		if err != nil {
			return err
		}
		whole, count, err := p.wholeIntervals(schedule.Definition(), within)
		if err != nil {
			return err
		}
		found = append(found, schedule)
		done = append(done, viaSchedule{Pipeline: name, Schedule: schedule.ID, Range: whole, Intervals: count})
	}
	for i, each := range done {
		first, last := firstTick(found[i].Definition(), each.Range), each.Range.To
		if err := made.Backfill(c.Context, found[i], first, last); err != nil {
			return err
		}
		fmt.Fprintf(p.talk, "%s: its Schedule runs %s from %s to %s\n", each.Pipeline, plural(int(each.Intervals), "interval"),
			each.Range.From.Format(time.RFC3339), each.Range.To.Format(time.RFC3339))
	}
	fmt.Fprintln(p.talk, viaDiffers)
	if c.Bool("json") {
		return p.printJSON(done)
	}
	return nil
}

// wholeIntervals returns the bounds of the intervals that lie whole in a range and are over, and how many they are.
func (p *program) wholeIntervals(definition *pipeline.Pipeline, within step.Range) (whole step.Range, count int64, err error) {
	grid, err := definition.Grid()
	if err != nil {
		return whole, 0, err
	}
	if iv, ok := grid.Owner(within.From); ok && iv.Start.Before(within.From) {
		fmt.Fprintf(p.talk, "%s: %s lies only partly in the range, and is left out\n", definition.Name, iv)
	}
	for iv := range grid.Between(within.From, within.To) {
		if iv.End.After(within.To) || iv.End.After(p.now()) {
			fmt.Fprintf(p.talk, "%s: %s is not over, or lies only partly in the range: it and what comes after are left out\n", definition.Name, iv)
			break
		}
		if count++; count == 1 {
			whole.From = iv.Start
		}
		whole.To = iv.End
	}
	if count == 0 {
		return whole, 0, usagef("no interval of %s in %s to %s is there to be run: only those count that lie whole in the range and are over",
			definition.Name, within.From.Format(time.RFC3339), within.To.Format(time.RFC3339))
	}
	return whole, count, nil
}

// firstTick is the end of the first interval of a range.
func firstTick(definition *pipeline.Pipeline, whole step.Range) time.Time {
	grid, err := definition.Grid()
	if err != nil {
		return whole.From
	}
	var first interval.Interval
	for first = range grid.Between(whole.From, whole.To) {
		break
	}
	return first.End
}
