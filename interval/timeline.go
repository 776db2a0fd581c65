package interval

import (
	"fmt"
	"iter"
	"time"
)

// Timeline is the sequence of the grids that a pipeline has had, oldest first: each owns the time from
// where it took over to where the next one did. Its intervals tile time as those of one grid do. It does
// not change and may be used from many goroutines at once.
type Timeline struct {
	eras []era
}

// era is a grid and the stretch that it owns.
type era struct {
	grid *Grid
	// from is where its first interval starts, to where the next grid took over; zero: no bound.
	from, to time.Time
}

// NewTimeline returns the timeline of these grids. All but the first have a Since, later than that of the
// one before or equal to it (the one before then owns nothing); it should be a tick of the one before,
// or time between its last tick and there belongs to nobody.
func NewTimeline(specs ...Spec) (*Timeline, error) {
	if len(specs) == 0 {
		return nil, fmt.Errorf("a timeline needs at least one grid")
	}
	t := &Timeline{}
	for i, spec := range specs {
		grid, err := New(spec)
		if err != nil {
			return nil, fmt.Errorf("grid %d of the timeline: %w", i+1, err)
		}
		e := era{grid: grid, from: spec.Since}
		if i > 0 {
			before := &t.eras[i-1]
			if spec.Since.IsZero() || spec.Since.Before(before.from) {
				return nil, fmt.Errorf("grid %d of the timeline takes over at %s, before the one before it", i+1, spec.Since.UTC().Format(time.RFC3339))
			}
			before.to = spec.Since
		}
		t.eras = append(t.eras, e)
	}
	return t, nil
}

// Current returns the newest grid.
func (t *Timeline) Current() *Grid { return t.eras[len(t.eras)-1].grid }

// owns reports whether an interval of the era's grid belongs to the timeline.
func (e era) owns(iv Interval) bool {
	return e.to.IsZero() || !iv.End.After(e.to)
}

// Between returns, in order, the intervals whose Start lies in [from, to). It is lazy, like that of Grid.
func (t *Timeline) Between(from, to time.Time) iter.Seq[Interval] {
	return func(yield func(Interval) bool) {
		for _, e := range t.eras {
			if !e.to.IsZero() && !from.Before(e.to) {
				continue
			}
			for iv := range e.grid.Between(from, to) {
				if !e.owns(iv) {
					break
				}
				if !yield(iv) {
					return
				}
			}
		}
	}
}

// At returns the interval that ends at tick; ok is false when tick is no tick of the timeline.
func (t *Timeline) At(tick time.Time) (iv Interval, ok bool) {
	for _, e := range t.eras {
		if iv, ok := e.grid.At(tick); ok && e.owns(iv) {
			return iv, true
		}
	}
	return Interval{}, false
}

// StartingAt returns the interval that starts at exactly this instant; ok is false when there is none.
func (t *Timeline) StartingAt(start time.Time) (iv Interval, ok bool) {
	for _, e := range t.eras {
		if iv, err := e.grid.StartingAt(start); err == nil && e.owns(iv) {
			return iv, true
		}
	}
	return Interval{}, false
}

// Owner returns the interval that contains an instant; ok is false when none does.
func (t *Timeline) Owner(at time.Time) (iv Interval, ok bool) {
	for _, e := range t.eras {
		if iv, ok := e.grid.Owner(at); ok && e.owns(iv) {
			return iv, true
		}
	}
	return Interval{}, false
}

// LastCompleted returns the newest interval with End <= now; ok is false when none has ended by then.
func (t *Timeline) LastCompleted(now time.Time) (iv Interval, ok bool) {
	for i := len(t.eras) - 1; i >= 0; i-- {
		e, until := t.eras[i], now
		if !e.to.IsZero() && e.to.Before(until) {
			until = e.to
		}
		if iv, ok := e.grid.LastCompleted(until); ok {
			return iv, true
		}
	}
	return Interval{}, false
}

// SameCadence reports whether two grids tick by the same rule: the same fields of a cron in the same zone, or the
// same elapsed time with the same phase. Where they start, end or took over does not matter.
func SameCadence(a, b *Grid) bool {
	switch {
	case (a.cron == nil) != (b.cron == nil):
		return false
	case a.cron == nil:
		return a.every == b.every && floorMod(a.anchor, a.every) == floorMod(b.anchor, b.every)
	default:
		return *a.cron == *b.cron && a.loc.String() == b.loc.String()
	}
}
