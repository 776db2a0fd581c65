package gaps

import (
	"iter"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// Standing is an interval with its outcome; Status is empty where it has none.
type Standing Status

func (s Standing) hasFailed() bool {
	return s.Status == step.OutcomeFailed || s.Status == step.OutcomeCancelled
}

// Join gives each interval its outcome. Both are in the order of start and end; outcomes of other intervals are
// passed over. An error of the outcomes ends the sequence.
func Join(intervals iter.Seq[interval.Interval], statuses iter.Seq2[Status, error]) iter.Seq2[Standing, error] {
	return func(yield func(Standing, error) bool) {
		next, stop := iter.Pull2(statuses)
		defer stop()
		status, err, more := next()
		for iv := range intervals {
			for more && err == nil && compare(status.Interval, iv) < 0 {
				status, err, more = next()
			}
			at := Standing{Interval: iv}
			if more && err == nil && compare(status.Interval, iv) == 0 {
				at = Standing(status)
			}
			if more && err != nil {
				yield(at, err)
				return
			}
			if !yield(at, nil) {
				return
			}
		}
	}
}

func compare(a, b interval.Interval) int {
	if order := a.Start.Compare(b.Start); order != 0 {
		return order
	}
	return a.End.Compare(b.End)
}

// cursor looks intervals up in a sequence that is in order, as those that are looked up are.
type cursor struct {
	next func() (interval.Interval, error, bool)
	at   interval.Interval
	err  error
	more bool
}

func newCursor(sequence iter.Seq2[interval.Interval, error]) (*cursor, func()) {
	next, stop := iter.Pull2(sequence)
	c := &cursor{next: next}
	c.at, c.err, c.more = next()
	return c, stop
}

// find reports whether the sequence has the interval.
func (c *cursor) find(wanted interval.Interval) (bool, error) {
	for c.more && c.err == nil && compare(c.at, wanted) < 0 {
		c.at, c.err, c.more = c.next()
	}
	return c.more && c.err == nil && compare(c.at, wanted) == 0, c.err
}
