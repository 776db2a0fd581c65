package step

import (
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// PlanPage bounds the intervals in a PlanAnswer, so that it stays below 256 KiB.
const PlanPage = 1000

// PlanRequest asks what a backfill over a range would do.
type PlanRequest struct {
	Pipeline  string `json:"pipeline"`
	Warehouse string `json:"warehouse"`
	// Schedule is the effective schedule of the pipeline's definition.
	Schedule pipeline.Schedule `json:"schedule"`
	// Range as it was asked for. Only intervals that lie whole in it are meant, and none that ends after Now.
	Range Range `json:"range"`
	// Now is when the plan was begun; zero: when the request arrives. All pages of a plan have the same.
	Now       time.Time `json:"now,omitzero"`
	Reprocess Reprocess `json:"reprocess"`
	Newest    bool      `json:"newest,omitempty"`
	// List returns the intervals one by one, a page of them; otherwise they are only counted, all of them.
	List bool `json:"list,omitempty"`
	// After is where the page before has ended; the zero value is the beginning.
	After PlanCursor `json:"after"`
}

// PlanCursor is where a page of a plan ends.
type PlanCursor struct {
	Position time.Time          `json:"position,omitzero"`
	Bad      *interval.Interval `json:"bad,omitempty"`
	Blocked  *interval.Interval `json:"blocked,omitempty"`
}

// Verdict is what a backfill would do with an interval.
type Verdict string

// The verdicts.
const (
	// VerdictRun starts a run.
	VerdictRun Verdict = "run"
	// VerdictWait waits for the run that is open already.
	VerdictWait Verdict = "wait"
	// VerdictLeave leaves the interval as it is, because of its outcome.
	VerdictLeave Verdict = "leave"
	// VerdictBlocked never comes to it: an interval before it has failed and is not run again, and the pipeline
	// depends on the past.
	VerdictBlocked Verdict = "blocked"
)

// Planned is an interval with what a backfill would do with it.
type Planned struct {
	Interval interval.Interval `json:"interval"`
	Verdict  Verdict           `json:"verdict"`
	// Status is the interval's outcome; empty: it has none.
	Status string `json:"status,omitempty"`
}

// PlanAnswer is a page of a plan.
type PlanAnswer struct {
	// Now is when the plan was begun.
	Now time.Time `json:"now"`
	// Range from the start of the first interval to the end of the last; zero: there is none in the range.
	Range Range `json:"range"`
	// Cut are the intervals that lie partly in the range, and are left out: at its beginning and its end.
	Cut []interval.Interval `json:"cut,omitempty"`
	// Future is the first interval of the range that is not over; nil: all are.
	Future *interval.Interval `json:"future,omitempty"`
	// Counts of what this page has.
	Counts PlanCounts `json:"counts"`
	// Intervals of the page, in the order in which they are run; at most PlanPage.
	Intervals []Planned `json:"intervals,omitempty"`
	// Next is where the next page begins; nil: this is the last.
	Next *PlanCursor `json:"next,omitempty"`
	// Blocked is the failed interval that keeps others from being run.
	Blocked *interval.Interval `json:"blocked,omitempty"`
}

// PlanCounts count intervals by what a backfill would do with them.
type PlanCounts struct {
	Run  int64 `json:"run"`
	Wait int64 `json:"wait"`
	// The ones that are left, by their outcomes.
	Loaded    int64 `json:"loaded"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Accepted  int64 `json:"accepted"`
	Blocked   int64 `json:"blocked"`
}

// Add counts an interval.
func (c *PlanCounts) Add(p Planned) {
	switch {
	case p.Verdict == VerdictRun:
		c.Run++
	case p.Verdict == VerdictWait:
		c.Wait++
	case p.Verdict == VerdictBlocked:
		c.Blocked++
	case p.Status == OutcomeLoaded:
		c.Loaded++
	case p.Status == OutcomeAccepted:
		c.Accepted++
	case p.Status == OutcomeCancelled:
		c.Cancelled++
	default:
		c.Failed++
	}
}

// Sum adds the counts of another page.
func (c *PlanCounts) Sum(o PlanCounts) {
	c.Run += o.Run
	c.Wait += o.Wait
	c.Loaded += o.Loaded
	c.Failed += o.Failed
	c.Cancelled += o.Cancelled
	c.Accepted += o.Accepted
	c.Blocked += o.Blocked
}

// Left returns how many are left as they are.
func (c PlanCounts) Left() int64 { return c.Loaded + c.Failed + c.Cancelled + c.Accepted }

// Total returns how many there are.
func (c PlanCounts) Total() int64 { return c.Run + c.Wait + c.Left() + c.Blocked }

// CancelRunsRequest has the open runs of a backfill cancelled.
type CancelRunsRequest struct {
	Pipeline string `json:"pipeline"`
	// Campaign is the id of the backfill's workflow: only runs that it has started are cancelled.
	Campaign string `json:"campaign"`
	// InFlight are the intervals whose runs are waited for.
	InFlight []Flight `json:"in_flight,omitempty"`
}
