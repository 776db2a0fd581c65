package schedules

import (
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// mostCounted bounds the counting of intervals for a note.
const mostCounted = 1_000_000

// span is a number of intervals in a row, for a note.
type span struct {
	grid        *interval.Grid
	count       int
	first, last interval.Interval
}

// countBetween counts the intervals that start at or after from and end at or before now.
func countBetween(grid *interval.Grid, from, now time.Time) span {
	return countWhile(grid, from, now, func(interval.Interval) bool { return true })
}

// countWhile counts them up to the first one that is not to be counted.
func countWhile(grid *interval.Grid, from, now time.Time, counts func(interval.Interval) bool) span {
	s := span{grid: grid}
	for iv := range grid.Between(from, now) {
		if iv.End.After(now) || s.count == mostCounted || !counts(iv) {
			break
		}
		if s.count == 0 {
			s.first = iv
		}
		s.last = iv
		s.count++
	}
	return s
}

// String says how many intervals there are, and from when to when.
func (s span) String() string {
	switch {
	case s.count == mostCounted:
		return fmt.Sprintf("more than 1,000,000 intervals from %s on", show(s.grid, s.first.Start))
	case s.count == 1:
		return fmt.Sprintf("1 interval, %s to %s,", show(s.grid, s.first.Start), show(s.grid, s.last.End))
	default:
		return fmt.Sprintf("%d intervals, from %s to %s,", s.count, show(s.grid, s.first.Start), show(s.grid, s.last.End))
	}
}

func hasOrHave(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func itOrThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// firstOf returns the first interval of a grid; ok is false for one that has none.
func firstOf(grid *interval.Grid) (first interval.Interval, ok bool) {
	for iv := range grid.Between(time.Time{}, forever) {
		return iv, true
	}
	return interval.Interval{}, false
}

// show writes an instant in UTC and, where that differs, in the pipeline's zone.
func show(grid *interval.Grid, at time.Time) string {
	utc := at.UTC().Format(time.RFC3339)
	if local := at.In(grid.Location()).Format(time.RFC3339); local != utc {
		return utc + " (" + local + ")"
	}
	return utc
}
