package gaps

import (
	"slices"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// stretch is a growing number of missing intervals: the first of them, the last, and how many.
type stretch struct {
	first []interval.Interval // at most Sample
	last  interval.Interval
	count int
	era   int // of an edit
}

func (s *stretch) add(iv interval.Interval) {
	if len(s.first) < Sample {
		s.first = append(s.first, iv)
	}
	s.last = iv
	s.count++
}

// rest returns the bounds of the stretch without what was struck from its beginning and end; nil when nothing is
// left.
func (s *stretch) rest(struck []interval.Interval) *step.Range {
	left := slices.DeleteFunc(slices.Clone(s.first), func(iv interval.Interval) bool { return slices.Contains(struck, iv) })
	more := s.count > len(s.first)
	switch {
	case len(left) == 0 && !more:
		return nil
	case len(left) == 0:
		return &step.Range{From: s.first[len(s.first)-1].Start.Add(time.Second), To: s.last.Start.Add(time.Second)}
	case more:
		return &step.Range{From: left[0].Start, To: s.last.Start.Add(time.Second)}
	default:
		return &step.Range{From: left[0].Start, To: left[len(left)-1].Start.Add(time.Second)}
	}
}

// ring holds the newest intervals, at most Sample.
type ring struct {
	items []interval.Interval
	at    int // where the next one goes once it is full
}

func (r *ring) add(iv interval.Interval) {
	if len(r.items) < Sample {
		r.items = append(r.items, iv)
		return
	}
	r.items[r.at] = iv
	r.at = (r.at + 1) % Sample
}

// last returns the newest; zero when there is none.
func (r *ring) last() interval.Interval {
	switch {
	case len(r.items) == 0:
		return interval.Interval{}
	case len(r.items) < Sample:
		return r.items[len(r.items)-1]
	default:
		return r.items[(r.at+Sample-1)%Sample]
	}
}

// list returns them in order.
func (r *ring) list() []interval.Interval {
	return slices.Concat(r.items[r.at:], r.items[:r.at])
}

// edits says which edit of the grid has made an interval due in the past. It is asked in order.
type edits struct {
	history History
	era     int
	// written is when the Schedule was last written; the ticks up to grace before it may be lost.
	written time.Time
	grace   time.Duration
}

func editsOf(h History) edits { return edits{history: h} }

// dropped is what of returns for a tick that a write of the Schedule may have dropped.
const dropped = -1

// of returns the place in the history of the grid that an edit brought after the interval's tick; dropped for a tick
// just before a write of the Schedule; 0 when neither.
func (e *edits) of(iv interval.Interval) int {
	for e.era+1 < len(e.history) && e.history[e.era+1].Spec.Since.Before(iv.End) {
		e.era++
	}
	switch {
	case e.era > 0 && !iv.End.After(e.history[e.era].Applied):
		return e.era
	case !iv.End.After(e.written) && iv.End.After(e.written.Add(-e.grace)):
		return dropped
	default:
		return 0
	}
}
