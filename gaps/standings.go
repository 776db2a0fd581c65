package gaps

import (
	"fmt"
	"iter"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// state says how an interval stands whose run is open or not, and which is recent or not.
func (s Standing) state(open, recent bool) step.State {
	switch {
	case open:
		return step.StateOpen
	case s.Status != "":
		return step.State(s.Status)
	case recent:
		return step.StateDue
	default:
		return step.StateMissing
	}
}

// Survey says which intervals are to be looked at, and what is known of them.
type Survey struct {
	// History of the pipeline's grids; not empty. Of one that was never applied all intervals are expected.
	// Scheduled says that the pipeline has a Schedule, which may be about to start the newest ones.
	History   History
	Scheduled bool
	Policy    Policy
	// Now is when it is looked.
	Now time.Time
	// From and To bound the intervals by their starts: [From, To). Zero: no bound.
	From, To time.Time
	// All expects every interval, whatever the policy says.
	All bool
	// Statuses are as in Ledger.
	Statuses func(from, to time.Time) iter.Seq2[Status, error]
	// Open reports whether a run of the interval with this tick is open.
	Open func(tick time.Time) bool
}

// Stand is an interval that is over, with how it stands: open, due, missing, unexpected or as its outcome says.
type Stand struct {
	Standing
	State step.State
}

// Stands returns the intervals of a survey in their order. It is lazy and holds nothing: any number needs no memory.
// An interval that nobody expects and that has an outcome or an open run stands as that says: somebody wanted it.
func Stands(s Survey) (iter.Seq2[Stand, error], error) {
	timeline, err := s.History.Timeline()
	if err != nil {
		return nil, fmt.Errorf("the grids of the ledger: %w", err)
	}
	catchup := s.Policy.Catchup
	if s.All || s.History.ActiveSince().IsZero() {
		catchup = pipeline.CatchupAll
	}
	_, after := s.History.expected(timeline, catchup)
	own := s.Now
	if s.Scheduled {
		own = s.Now.Add(-s.Policy.grace())
	}
	to := s.Now
	if !s.To.IsZero() && s.To.Before(to) {
		to = s.To
	}
	over := func(yield func(interval.Interval) bool) {
		for iv := range timeline.Between(s.From, to) {
			if iv.End.After(s.Now) || !yield(iv) {
				return
			}
		}
	}
	return func(yield func(Stand, error) bool) {
		for at, err := range Join(over, s.Statuses(s.From, to)) {
			stand := Stand{Standing: at, State: at.state(s.Open(at.Interval.End), at.Interval.End.After(own))}
			if stand.State == step.StateMissing && !at.Interval.End.After(after) {
				stand.State = step.StateUnexpected
			}
			if !yield(stand, err) || err != nil {
				return
			}
		}
	}, nil
}

// NewestStart returns the start of the interval from which on count of the newest ones are over by an instant and
// start before to; a zero to is no bound. Zero when no interval is.
func (h History) NewestStart(now, to time.Time, count int) (time.Time, error) {
	timeline, err := h.Timeline()
	if err != nil {
		return time.Time{}, fmt.Errorf("the grids of the ledger: %w", err)
	}
	until := now
	if !to.IsZero() && to.Before(now) {
		for iv := range timeline.Between(to, now) {
			until = iv.Start // which ends the last one that starts before
			break
		}
	}
	var start time.Time
	for range count {
		iv, ok := timeline.LastCompleted(until)
		if !ok {
			break
		}
		start, until = iv.Start, iv.Start
	}
	return start, nil
}
