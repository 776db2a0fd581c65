package step

import (
	"slices"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Reprocess says which intervals of a backfill's range are run.
type Reprocess string

// The values of Reprocess. An interval whose run is open is waited for, and never run beside it.
const (
	// ReprocessMissing runs intervals that have no outcome.
	ReprocessMissing Reprocess = "missing"
	// ReprocessFailed runs those, too, whose outcome is failed or cancelled.
	ReprocessFailed Reprocess = "failed"
	// ReprocessAll runs all of them.
	ReprocessAll Reprocess = "all"
)

// Leaves reports whether an interval with this outcome is left as it is; an empty one is none.
func (r Reprocess) Leaves(outcome string) bool {
	switch r {
	case ReprocessAll:
		return false
	case ReprocessFailed:
		return outcome == OutcomeLoaded || outcome == OutcomeAccepted
	default:
		return outcome != ""
	}
}

// WindowRequest has a part of a backfill done: intervals are run, a number of them at a time, until enough have
// ended.
type WindowRequest struct {
	// Definition is what the runs carry.
	Definition *pipeline.Pipeline `json:"definition"`
	// Kind of the runs.
	Kind Kind `json:"kind"`
	// Campaign is the id of the backfill's workflow, Seed the run id of its first execution, which makes starts
	// repeatable.
	Campaign string `json:"campaign"`
	Seed     string `json:"seed"`
	// Range of the backfill, of which Reprocess says which intervals are run.
	Range     Range     `json:"range"`
	Reprocess Reprocess `json:"reprocess"`
	// Newest runs the newest interval first.
	Newest bool `json:"newest,omitempty"`
	// Width is how many runs are open at a time, Chunk after how many that have ended the activity returns. With a
	// width of zero nothing is started: those in flight are waited for.
	Width int `json:"width"`
	Chunk int `json:"chunk"`
	// FailFast starts nothing more once an interval has failed.
	FailFast bool `json:"fail_fast,omitempty"`
	// State is how far the backfill has come.
	State WindowState `json:"state"`
}

// WindowState is how far a backfill has come. Its size is bounded by the width, whatever the range.
type WindowState struct {
	// Position is where it goes on: the start of the next interval, or, newest first, the end of it. Zero: at
	// the beginning.
	Position time.Time `json:"position,omitzero"`
	// InFlight are the intervals whose runs are waited for.
	InFlight []Flight `json:"in_flight,omitempty"`
	// Counts of the intervals that were passed.
	Counts WindowCounts `json:"counts"`
	// Failed bounds, by their starts, intervals that ended failed or cancelled; the first FailedRanges of them.
	// FailedMore says that there were more.
	Failed     []Range `json:"failed,omitempty"`
	FailedMore bool    `json:"failed_more,omitempty"`
	// Again are ranges that come before the position's turn: of their intervals those are run that are neither
	// loaded nor accepted. At most FailedRanges.
	Again []Range `json:"again,omitempty"`
	// Round counts how often failed intervals were put in again.
	Round int `json:"round,omitempty"`
	// Bad is the interval passed last, if it is neither loaded nor accepted; with depends_on_past nothing is
	// started after it.
	Bad *interval.Interval `json:"bad,omitempty"`
	// Blocked is the interval that kept the rest from being started: it has failed, and the pipeline depends on the
	// past, or the backfill is to fail fast. Nil: none did.
	Blocked *interval.Interval `json:"blocked,omitempty"`
	// Done says that nothing is left to do.
	Done bool `json:"done,omitempty"`
}

// Flight is an interval whose run is waited for.
type Flight struct {
	Interval interval.Interval `json:"interval"`
	RunID    string            `json:"run_id"`
	// Again counts how often the interval was taken up again, since what was waited for was no run of it.
	Again int `json:"again,omitempty"`
	// Round is, for an interval that was put in again, the round in which it was.
	Round int `json:"round,omitempty"`
}

// WindowCounts count intervals. After a worker was lost, those that ended in its last seconds may count as left.
type WindowCounts struct {
	// Started are the runs that the backfill has started.
	Started int64 `json:"started"`
	// Loaded, Failed and Cancelled intervals were waited for, whoever had started their runs.
	Loaded    int64 `json:"loaded"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	// Left had an outcome before, and were left as they are.
	Left int64 `json:"left"`
}

// Passed returns how many intervals are behind.
func (c WindowCounts) Passed() int64 { return c.Loaded + c.Failed + c.Cancelled + c.Left }

// Ended returns how many of them were waited for.
func (c WindowCounts) Ended() int64 { return c.Loaded + c.Failed + c.Cancelled }

// FailedRanges bounds WindowState.Failed.
const FailedRanges = 100

// AddFailed remembers an interval that failed. Neighbours become one range.
func (s *WindowState) AddFailed(failed interval.Interval) {
	added := Range{From: failed.Start, To: failed.End}
	at, found := slices.BinarySearchFunc(s.Failed, added.From, func(r Range, from time.Time) int { return r.From.Compare(from) })
	if found {
		return
	}
	before, after := at > 0 && s.Failed[at-1].To.Equal(added.From), at < len(s.Failed) && s.Failed[at].From.Equal(added.To)
	switch {
	case at > 0 && s.Failed[at-1].To.After(added.From): // it is there already
	case before && after:
		s.Failed[at-1].To = s.Failed[at].To
		s.Failed = slices.Delete(s.Failed, at, at+1)
	case before:
		s.Failed[at-1].To = added.To
	case after:
		s.Failed[at].From = added.From
	default:
		s.Failed = slices.Insert(s.Failed, at, added)
		if len(s.Failed) > FailedRanges {
			s.Failed, s.FailedMore = s.Failed[:FailedRanges], true
		}
	}
}

// Retry puts the intervals that have failed so far in again, before the position's turn, and returns how many they
// are. Where not all of them are known, it is everything between the first of them and the end of what was passed.
func (s *WindowState) Retry(within Range) int64 {
	again := s.Counts.Failed + s.Counts.Cancelled
	if again == 0 || len(s.Failed) == 0 {
		return 0
	}
	ranges := s.Failed
	if s.FailedMore || len(s.Again)+len(ranges) > FailedRanges {
		ranges = []Range{within}
		s.Again = nil
	}
	s.Again = append(slices.Clone(s.Again), ranges...)
	slices.SortFunc(s.Again, func(a, b Range) int { return a.From.Compare(b.From) })
	s.Counts.Failed, s.Counts.Cancelled = 0, 0
	s.Failed, s.FailedMore, s.Bad, s.Blocked, s.Done = nil, false, nil, nil, false
	s.Round++
	return again
}
