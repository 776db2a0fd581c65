package activities

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

const (
	// blockSize is how many intervals a walk looks up at a time, blockAge how long it believes that one of them
	// has no outcome.
	blockSize = 1000
	blockAge  = 2 * time.Second
)

// walk goes through the intervals of a range that are over, block by block.
type walk struct {
	timeline *interval.Timeline
	within   step.Range
	newest   bool

	block []gaps.Standing
	read  time.Time
}

// lookUp gives intervals, which are in order, their outcomes.
type lookUp func(intervals []interval.Interval) ([]gaps.Standing, error)

// outcomesFrom looks them up in the ledger.
func outcomesFrom(ctx context.Context, ledger *warehouse.Warehouse, pipelineName string) lookUp {
	return func(intervals []interval.Interval) ([]gaps.Standing, error) {
		from, to := intervals[0].Start, intervals[len(intervals)-1].Start.Add(time.Second)
		known := statuses(ledger.Statuses(ctx, pipelineName, from, to))
		block := make([]gaps.Standing, 0, len(intervals))
		for at, err := range gaps.Join(slices.Values(intervals), known) {
			if err != nil {
				return nil, err
			}
			block = append(block, at)
		}
		return block, nil
	}
}

// peek returns the next interval from a position on; ok is false at the end of the range.
func (k *walk) peek(position, now time.Time, look lookUp) (at gaps.Standing, ok bool, err error) {
	if len(k.block) == 0 {
		intervals := slices.Collect(k.from(position, now))
		if len(intervals) == 0 {
			return gaps.Standing{}, false, nil
		}
		if k.newest {
			slices.Reverse(intervals)
		}
		if k.block, err = look(intervals); err != nil {
			return gaps.Standing{}, false, err
		}
		if k.newest {
			slices.Reverse(k.block)
		}
		k.read = now
	}
	return k.block[0], true, nil
}

func (k *walk) isFresh(now time.Time) bool { return now.Sub(k.read) < blockAge }

func (k *walk) pass()   { k.block = k.block[1:] }
func (k *walk) forget() { k.block = nil }

// after is the position behind an interval.
func (k *walk) after(iv interval.Interval) time.Time {
	if k.newest {
		return iv.Start
	}
	return iv.End
}

// from returns the next block of intervals in the order of the walk.
func (k *walk) from(position, now time.Time) iter.Seq[interval.Interval] {
	return func(yield func(interval.Interval) bool) {
		left := blockSize
		for iv := range k.all(position, now) {
			if !yield(iv) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

func (k *walk) all(position, now time.Time) iter.Seq[interval.Interval] {
	if k.newest {
		return k.backward(position, now)
	}
	return func(yield func(interval.Interval) bool) {
		from := k.within.From
		if position.After(from) {
			from = position
		}
		for iv := range k.timeline.Between(from, k.within.To) {
			if iv.End.After(now) || !yield(iv) {
				return
			}
		}
	}
}

func (k *walk) backward(position, now time.Time) iter.Seq[interval.Interval] {
	return func(yield func(interval.Interval) bool) {
		until := now
		if position.IsZero() {
			if behind, ok := first(k.timeline.Between(k.within.To, now)); ok {
				until = behind.Start // which ends the last one that starts in the range
			}
		} else {
			until = position
		}
		for {
			iv, ok := k.timeline.LastCompleted(until)
			if !ok || iv.Start.Before(k.within.From) || !yield(iv) {
				return
			}
			until = iv.Start
		}
	}
}

// first returns the first interval of a sequence.
func first(intervals iter.Seq[interval.Interval]) (interval.Interval, bool) {
	next, stop := iter.Pull(intervals)
	defer stop()
	return next()
}
