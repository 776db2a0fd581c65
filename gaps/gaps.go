// Package gaps says which intervals of a pipeline need a run: what its grids expect, less what the ledger has an
// outcome of, less what is open.
//
// It is pure: the grids, the outcomes and the open runs are given to it, and it reads no clock. It holds no more in
// memory than the open runs and a few hundred intervals, however many are expected.
//
// # Expected
//
// Expected are the intervals whose tick lies after the pipeline's activation, which is when its first Schedule was
// created. With `catchup: all` it is all of them from start_date on, with `latest` also the newest one that was
// complete at the activation. What an edit of the grid made due in the past is expected too: the part of the old
// grid's last, unfinished interval that the new one cut into finished ones.
//
// An expected interval is open, has an outcome, or is missing, but for the recent ones: their runs may be about to
// be started by the Schedule. Failed and cancelled are outcomes.
//
// # Started
//
// What an edit made due in the past, and a tick that elapsed in the moments before a write of the Schedule, which
// Temporal may have dropped, is started, whatever `catchup` says. Else `none` starts nothing, `all` starts
// everything that is missing, and `latest` the newest that is missing of what has become due since the one that it
// chose before; it leaves the others.
package gaps

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// Sample bounds the lists of a Plan.
const Sample = 100

// graceLimit is how long after its tick an interval's run may be about to start, the Schedule's jitter aside.
const graceLimit = 2 * time.Minute

// Policy is what a pipeline's schedule says about the intervals that Temporal did not start.
type Policy struct {
	// Catchup says what is started.
	Catchup pipeline.Catchup
	// CatchupWindow is how late after an outage the Schedule itself still starts a tick.
	CatchupWindow time.Duration
	// Jitter is how long after its tick the Schedule may start a run.
	Jitter time.Duration
	// Deadline after each tick; zero: none.
	Deadline time.Duration
	// DependsOnPast lets a run begin only when the interval before it is loaded or accepted.
	DependsOnPast bool
}

// grace is how long a tick is the Schedule's own.
func (p Policy) grace() time.Duration {
	if p.CatchupWindow <= 0 {
		return graceLimit + p.Jitter
	}
	return min(graceLimit, p.CatchupWindow) + p.Jitter
}

// Status is how the ledger says that an interval stands.
type Status struct {
	Interval interval.Interval
	// Status is an outcome: loaded, failed, cancelled or accepted.
	Status string
	// Digest of the definition that led to it; empty when it is not known.
	Digest string
}

// Ledger gives what is known of the intervals whose start lies in [from, to), each in the order of start and end.
type Ledger struct {
	// Statuses are the outcomes.
	Statuses func(from, to time.Time) iter.Seq2[Status, error]
	// Noticed are the intervals whose missed deadline was told of before. Nil: none.
	Noticed func(from, to time.Time) iter.Seq2[interval.Interval, error]
}

// Request is what a plan is made from.
type Request struct {
	// History of the pipeline's grids; not empty.
	History History
	Policy  Policy
	// Now is when the plan is made.
	Now time.Time
	// Written is when the Schedule was last written. Of the ticks that had just elapsed then Temporal may have
	// dropped some (server v1.32.1); zero: never.
	Written time.Time
	// Chosen is the tick of the interval that `latest` chose last; zero: none yet.
	Chosen time.Time
	// Ledger of the pipeline's warehouse.
	Ledger Ledger
	// Open reports whether a run of the interval with this tick is open.
	Open func(tick time.Time) bool
}

// Plan says how the expected intervals stand, and what is to be started.
type Plan struct {
	// Counts of the expected intervals. Failed ones include cancelled ones.
	Expected, Loaded, Accepted, Failed, Open, Missing, Recent int64
	// Late intervals have missed the deadline and were not told of before: the newest, at most Sample, in order.
	Late []interval.Interval

	policy Policy
	chosen time.Time
	// missing are all that are, edited those of them that the oldest edit which has any made due, or dropped.
	missing, edited stretch
	// newest are the newest missing ones, in order.
	newest ring
	// deferred says that the newest missing interval is followed by a recent one without a run: the Schedule
	// may be about to start more of the stretch.
	deferred bool
	// blocked is the interval that keeps the first missing one from starting; zero: none does.
	blocked interval.Interval
	struck  []interval.Interval
}

// Make makes a plan.
func Make(r Request) (*Plan, error) {
	timeline, err := r.History.Timeline()
	if err != nil {
		return nil, fmt.Errorf("the grids of the ledger: %w", err)
	}
	p := &Plan{policy: r.Policy, chosen: r.Chosen}
	from, after := r.History.expected(timeline, r.Policy.Catchup)
	due := dueBetween(timeline, from, after, r.Now)
	joined := Join(due, r.Ledger.Statuses(from, r.Now))
	if r.Policy.Deadline > 0 && r.Ledger.Noticed != nil {
		return p, p.read(r, joined, r.Ledger.Noticed(from, r.Now))
	}
	return p, p.read(r, joined, func(func(interval.Interval, error) bool) {})
}

// dueBetween returns the intervals from a start on whose tick lies in (after, now].
func dueBetween(timeline *interval.Timeline, from, after, now time.Time) iter.Seq[interval.Interval] {
	return func(yield func(interval.Interval) bool) {
		for iv := range timeline.Between(from, now) {
			if iv.End.After(now) {
				return
			}
			if iv.End.After(after) && !yield(iv) {
				return
			}
		}
	}
}

// expected returns a start at or before that of the first expected interval, and the instant after which the
// ticks of the expected ones lie.
func (h History) expected(timeline *interval.Timeline, catchup pipeline.Catchup) (from, after time.Time) {
	if catchup == pipeline.CatchupAll {
		return time.Time{}, time.Time{}
	}
	after = h.ActiveSince()
	for _, era := range h[1:] {
		if era.Spec.Since.Before(after) {
			after = era.Spec.Since
		}
	}
	if catchup == pipeline.CatchupLatest {
		if newest, ok := timeline.LastCompleted(h.ActiveSince()); ok && newest.Start.Before(after) {
			after = newest.Start
		}
	}
	if before, ok := timeline.LastCompleted(after); ok {
		return before.Start, after
	}
	return time.Time{}, after
}

// read goes through the expected intervals once.
func (p *Plan) read(r Request, joined iter.Seq2[Standing, error], noticed iter.Seq2[interval.Interval, error]) error {
	told, stop := newCursor(noticed)
	defer stop()
	edits := editsOf(r.History)
	edits.written, edits.grace = r.Written, r.Policy.grace()
	own := r.Now.Add(-r.Policy.grace())
	var before Standing
	var late ring
	for at, err := range joined {
		if err != nil {
			return err
		}
		p.Expected++
		known, err := told.find(at.Interval)
		if err != nil {
			return err
		}
		if p.isLate(r, at) && !known {
			late.add(at.Interval)
		}
		p.count(at, r.Open(at.Interval.End), at.Interval.End.After(own), before, &edits)
		before = at
	}
	p.Late = late.list()
	return nil
}

func (p *Plan) isLate(r Request, at Standing) bool {
	switch {
	case r.Policy.Deadline <= 0, at.Status == step.OutcomeLoaded, at.Status == step.OutcomeAccepted:
		return false
	}
	return at.Interval.End.After(r.History.ActiveSince()) && at.Interval.End.Add(r.Policy.Deadline).Before(r.Now)
}

// count adds an interval to what it counts for.
func (p *Plan) count(at Standing, open, recent bool, before Standing, edits *edits) {
	switch at.state(open, recent) {
	case step.StateOpen:
		p.Open++
	case step.StateLoaded:
		p.Loaded++
	case step.StateAccepted:
		p.Accepted++
	case step.StateDue:
		p.Recent++
		p.deferred = p.deferred || p.newest.last() == before.Interval && !before.Interval.IsZero()
	case step.StateMissing:
		if p.Missing == 0 && before.hasFailed() {
			p.blocked = before.Interval
		}
		p.Missing++
		p.missing.add(at.Interval)
		p.newest.add(at.Interval)
		if edit := edits.of(at.Interval); edit != 0 && (p.edited.count == 0 || p.edited.era == edit) {
			p.edited.era = edit
			p.edited.add(at.Interval)
		}
	default:
		p.Failed++
	}
}

// Candidates returns the missing intervals that are worth a closer look, at most Sample, oldest first: those that
// would be started first or, where none is, the newest ones.
func (p *Plan) Candidates() []interval.Interval {
	switch {
	case p.policy.Catchup == pipeline.CatchupAll:
		return slices.Clone(p.missing.first)
	case p.edited.count > 0:
		return slices.Clone(p.edited.first)
	default:
		return p.newest.list()
	}
}

// Strike says that a candidate turned out to stand otherwise: open or, with an outcome, failed or loaded.
func (p *Plan) Strike(candidate interval.Interval, open bool, outcome string) {
	p.struck = append(p.struck, candidate)
	p.Missing--
	switch {
	case open:
		p.Open++
	case outcome == step.OutcomeLoaded:
		p.Loaded++
	case outcome == step.OutcomeAccepted:
		p.Accepted++
	default:
		p.Failed++
	}
}

// MissingRange bounds the missing intervals, by their starts; nil when none is.
func (p *Plan) MissingRange() *step.Range {
	if p.Missing <= 0 {
		return nil
	}
	return p.missing.rest(p.struck)
}

// NewestMissing returns the newest missing intervals, at most Sample, in order.
func (p *Plan) NewestMissing() []interval.Interval {
	return slices.DeleteFunc(p.newest.list(), func(iv interval.Interval) bool { return slices.Contains(p.struck, iv) })
}

// Decision is what is to be started, and why that and no more.
type Decision struct {
	// Start bounds the intervals to start, by their starts; nil: none. Only the missing ones among them are.
	Start *step.Range
	// Chosen is the interval that `latest` chose; zero: it chose none.
	Chosen interval.Interval
	// Why is a sentence for operators; empty when nothing is missing.
	Why string
}

// Decide says what is to be started.
func (p *Plan) Decide() Decision {
	if p.Missing == 0 {
		return Decision{}
	}
	edits := p.edited.rest(p.struck)
	switch {
	case p.policy.Catchup == pipeline.CatchupAll && p.policy.DependsOnPast && !p.blocked.IsZero():
		return Decision{Why: fmt.Sprintf("nothing is started: the interval %s before the first missing one has failed, and the pipeline depends on the past; run it again or accept it", p.blocked)}
	case p.policy.Catchup == pipeline.CatchupAll:
		if rest := p.missing.rest(p.struck); rest != nil {
			return Decision{Start: rest, Why: "all that are missing are started, oldest first"}
		}
		return Decision{}
	case edits != nil:
		return Decision{Start: edits, Why: "what an edit of the schedule made due in the past, or may have dropped, is started"}
	case p.policy.Catchup == pipeline.CatchupLatest:
		return p.decideLatest()
	default:
		return Decision{Why: "nothing is started: catchup is none"}
	}
}

func (p *Plan) decideLatest() Decision {
	newest := p.newest.last()
	switch {
	case newest.IsZero() || slices.Contains(p.struck, newest):
		return Decision{Why: "nothing is started: the newest one has just been"}
	case newest.End.Before(p.chosen):
		return Decision{Why: "nothing is started: catchup is latest, and a later one was started in their place"}
	case p.deferred:
		return Decision{Why: "nothing is started yet: the Schedule may still start what is due after them"}
	}
	return Decision{
		Start:  &step.Range{From: newest.Start, To: newest.Start.Add(time.Second)},
		Chosen: newest,
		Why:    "the newest that is missing is started: catchup is latest",
	}
}
