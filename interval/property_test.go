package interval_test

import (
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// checkGrid checks, for the intervals that start in [from, to), what must hold of every grid: they tile
// time, and all the ways of asking for an interval give the same answer.
func checkGrid(t *testing.T, what string, g *interval.Grid, from, to time.Time) (count int) {
	t.Helper()
	end := time.Time{}
	for iv := range g.Between(from, to) {
		count++
		switch {
		case iv.Start.Before(from) || !iv.Start.Before(to):
			t.Errorf("%s: %s does not start in the range from %s to %s", what, iv, from, to)
		case !iv.End.After(iv.Start):
			t.Errorf("%s: %s is empty", what, iv)
		case count > 1 && iv.Start != end:
			t.Errorf("%s: %s follows an interval that ends at %s", what, iv, end)
		}
		end = iv.End
		checkInterval(t, what, g, iv)
		if t.Failed() {
			return count
		}
	}
	return count
}

func checkInterval(t *testing.T, what string, g *interval.Grid, iv interval.Interval) {
	t.Helper()
	first, last := iv.Start, iv.End.Add(-time.Nanosecond)
	same := func(question string, got interval.Interval, ok bool) {
		t.Helper()
		if !ok || got != iv {
			t.Errorf("%s: %s is %s, %v; want %s", what, question, got, ok, iv)
		}
	}
	got, ok := g.At(iv.End)
	same("At its end", got, ok)
	got, err := g.StartingAt(iv.Start)
	same("StartingAt its start", got, err == nil)
	got, ok = g.Owner(first)
	same("the owner of its start", got, ok)
	got, ok = g.Owner(last)
	same("the owner of its last nanosecond", got, ok)
	got, ok = g.LastCompleted(iv.End)
	same("the last completed at its end", got, ok)
	if got, ok := g.LastCompleted(last); ok && got.End != iv.Start {
		t.Errorf("%s: before the end of %s the last completed is %s", what, iv, got)
	}
	for _, after := range []time.Time{first, last} {
		if tick, ok := g.Next(after); !ok || tick != iv.End {
			t.Errorf("%s: the tick after %s is %s, want %s", what, after, tick, iv.End)
		}
	}
	if _, err := g.StartingAt(iv.Start.Add(time.Second)); err == nil && iv.Duration() > time.Second {
		t.Errorf("%s: an interval starts a second after the start of %s", what, iv)
	}
}

// Around every clock change that any zone has had or is known to have.
func TestGridsHoldAroundEveryClockChange(t *testing.T) {
	t.Parallel()
	crons := []string{
		"0 0 * * *", "30 2 * * *", "30 0,1,23 * * *", "0 */3 * * *", "59 23 * * *", "*/30 0-2 * * *", "0 0 1 * *", "0 3 * * 0", "1-59/29 1-4 * * *",
	}
	for number, zone := range distinctZones(t) {
		grids := make([]*interval.Grid, len(crons))
		for i, text := range crons {
			grids[i] = newGrid(t, interval.Spec{Cron: text, TimeZone: zone.name})
		}
		for i, change := range zone.changes {
			which := (number + i) % len(crons)
			at := time.Unix(change.at, 0).UTC()
			checkGrid(t, crons[which]+" in "+zone.name, grids[which], at.Add(-26*time.Hour), at.Add(26*time.Hour))
			if t.Failed() {
				return
			}
		}
	}
}

// A start cuts the grid and nothing else: what follows is the grid without a start.
func TestStartCutsTheGrid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"30 2 * * *", "*/20 * * * *", "0 0 1 * *"} {
		whole := newGrid(t, interval.Spec{Cron: text, TimeZone: "Europe/Rome"})
		for at := utc(t, "2026-10-24T20:00"); at.Before(utc(t, "2026-10-25T04:00")); at = at.Add(13*time.Minute + 7*time.Second) {
			g := newGrid(t, interval.Spec{Cron: text, TimeZone: "Europe/Rome", Start: at})
			checkGrid(t, text, g, at, at.Add(50*time.Hour))
			first, err := g.StartingAt(at)
			owner, ok := whole.Owner(at)
			if err != nil || !ok || first.End != owner.End {
				t.Errorf("%q from %s: the first interval is %s, the whole grid has %s", text, at, first, owner)
			}
			if iv, ok := g.At(at); ok {
				t.Errorf("%q: the start is the end of %s", text, iv)
			}
		}
	}
}

func TestEveryHoldsForAllLengths(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 7 * time.Second, 90 * time.Minute, 24 * time.Hour, 1000 * time.Hour} {
		start := utc(t, "1969-12-31T23:59:30")
		g := newGrid(t, interval.Spec{Every: every, Start: start, TimeZone: "Europe/Rome"})
		if n := checkGrid(t, every.String(), g, start.Add(-time.Hour), start.Add(20*every)); n != 20 {
			t.Errorf("every %s: %d intervals, want 20", every, n)
		}
		far := utc(t, "2026-10-25")
		checkGrid(t, every.String(), g, far, far.Add(5*every))
	}
}
