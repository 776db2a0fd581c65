package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/trancheflow/tranche/step"
)

// linesShown bounds each of the lists that people get.
const linesShown = 100

// lines are the first lines of a list that may be long.
type lines struct {
	shown []string
	more  int
}

func (l *lines) add(text string) {
	if len(l.shown) < linesShown {
		l.shown = append(l.shown, text)
	} else {
		l.more++
	}
}

func (l *lines) print(out io.Writer, title string) {
	if len(l.shown) == 0 {
		return
	}
	if title != "" {
		fmt.Fprintf(out, "\n%s\n", title)
	}
	for _, line := range l.shown {
		fmt.Fprintln(out, line)
	}
	if l.more > 0 {
		fmt.Fprintf(out, "and %d more; --json lists them all\n", l.more)
	}
}

// sentence says of a stretch where it lies and how it stands: "2026-01-03 to 2026-01-09, 7 intervals: missing".
func (s *subject) sentence(stretch step.Stretch) string {
	text := s.name(stretch.From)
	if stretch.Count > 1 {
		text += fmt.Sprintf(" to %s, %d intervals", s.name(stretch.Last), stretch.Count)
	}
	text += ": " + string(stretch.State)
	if stretch.Outdated {
		text += ", by another definition"
	}
	return text
}

func (p *program) printGaps(report *gapReport, ranges iter.Seq2[step.Stretch, error], request step.StandingRequest) error {
	var gaps, just, open, outdated, altered lines
	for stretch, err := range ranges {
		if err != nil {
			return err
		}
		text := report.sentence(stretch)
		switch {
		case stretch.Just:
			just.add(text)
		case report.isGap(stretch.Mark):
			gaps.add(text)
		case stretch.State.IsOpen() || stretch.State == step.StateDue:
			open.add(text)
		case stretch.Outdated:
			outdated.add(text)
		}
	}
	for _, one := range report.altered {
		altered.add(fmt.Sprintf("%s: %s", report.name(one.Interval.Start), alteredText(one)))
	}
	altered.more = int(report.alteredCount) - len(altered.shown)
	fmt.Fprintln(p.out, report.summary(request))
	gaps.print(p.out, "")
	altered.print(p.out, "The rows are not those of the receipt:")
	just.print(p.out, "Accepted now:")
	open.print(p.out, "No gaps, since a run is open or about to be started:")
	outdated.print(p.out, "Loaded by another definition (a gap with --outdated):")
	report.unexpectedNote(request)
	return nil
}

func alteredText(one step.Altered) string {
	if one.Receipt < 0 {
		return fmt.Sprintf("%s has no receipt, and table %s has %s", one.Step, one.Table, plural(int(one.Stored), "row"))
	}
	return fmt.Sprintf("the receipt of %s says %s, and table %s has %d", one.Step, plural(int(one.Receipt), "row"), one.Table, one.Stored)
}

// summary says in a line how many gaps there are of how many intervals.
func (r *gapReport) summary(request step.StandingRequest) string {
	count, states := r.count(), r.counted.states
	text := fmt.Sprintf("%s: no gaps", r.schedule().Name)
	if count > 0 {
		text = fmt.Sprintf("%s: %s", r.schedule().Name, plural(int(count), "gap"))
	}
	text += fmt.Sprintf(" in %s", plural(int(r.counted.expected()), "interval"))
	var parts []string
	for _, state := range []step.State{step.StateMissing, step.StateFailed, step.StateCancelled} {
		if states[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
		}
	}
	if r.countOutdated && r.counted.outdated > 0 {
		parts = append(parts, fmt.Sprintf("%d by another definition", r.counted.outdated))
	}
	if r.alteredCount > 0 {
		parts = append(parts, fmt.Sprintf("%d altered", r.alteredCount))
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	if r.just > 0 {
		text += fmt.Sprintf("; %d accepted now", r.just)
	}
	if request.Audit != nil {
		text += fmt.Sprintf("; %s counted", plural(r.audited, "slice"))
	}
	return text
}

// unexpectedNote tells of intervals that count for nothing.
func (r *gapReport) unexpectedNote(request step.StandingRequest) {
	count := r.counted.states[step.StateUnexpected]
	if count == 0 {
		return
	}
	r.talk("%s before %s, when the pipeline became active, are not expected: catchup is %s; --all counts them",
		plural(int(count), "interval"), r.activeSince.In(r.location).Format("2006-01-02 15:04"), request.Schedule.Catchup)
}

// gapsHead and gapsTail are the JSON of `gaps` around the ranges.
type gapsHead struct {
	Pipeline string `json:"pipeline"`
	Timezone string `json:"timezone"`
	Digest   string `json:"digest"`
	// Scheduled says that the pipeline has a Schedule.
	Scheduled bool `json:"scheduled"`
}

type gapsTail struct {
	Gaps        int64                `json:"gaps"`
	Expected    int64                `json:"expected"`
	Counts      map[step.State]int64 `json:"counts"`
	Outdated    int64                `json:"outdated"`
	Audited     int                  `json:"audited"`
	Altered     []step.Altered       `json:"altered"`
	AlteredMore int64                `json:"altered_more,omitempty"`
	Accepted    int64                `json:"just_accepted"`
	Backfill    *backfillView        `json:"backfill,omitempty"`
	ActiveSince *time.Time           `json:"active_since,omitempty"`
}

// gapsJSON streams the ranges that are worth a word: what is loaded as it should be is only counted.
func (p *program) gapsJSON(ctx context.Context, report *gapReport, ranges iter.Seq2[step.Stretch, error]) error {
	head := gapsHead{report.schedule().Name, report.schedule().Schedule.Timezone, report.definition.Digest, report.found != nil}
	return p.streamJSON(head, "ranges", func(yield func(any, error) bool) {
		for stretch, err := range ranges {
			settled := !stretch.Outdated && !stretch.Just && (stretch.State == step.StateLoaded || stretch.State == step.StateAccepted || stretch.State == step.StateUnexpected)
			if err == nil && settled {
				continue
			}
			if !yield(standRangeOf(stretch, report.isGap(stretch.Mark)), err) {
				return
			}
		}
	}, func() (any, error) {
		if err := p.fillGaps(ctx, report); err != nil {
			return nil, err
		}
		tail := gapsTail{
			Gaps: report.count(), Expected: report.counted.expected(), Counts: report.counted.states, Outdated: report.counted.outdated,
			Audited: report.audited, Altered: report.altered, AlteredMore: report.alteredCount - int64(len(report.altered)), Accepted: report.just,
			Backfill: report.filled,
		}
		if !report.activeSince.IsZero() {
			tail.ActiveSince = &report.activeSince
		}
		if tail.Altered == nil {
			tail.Altered = []step.Altered{}
		}
		return tail, nil
	})
}

func standRangeOf(stretch step.Stretch, gap bool) standRange {
	return standRange{
		State: stretch.State, Gap: gap, Start: stretch.From, LastStart: stretch.Last, End: stretch.To,
		Intervals: stretch.Count, Outdated: stretch.Outdated, Just: stretch.Just,
	}
}
