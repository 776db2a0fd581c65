package gaps_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// model is a year in the life of a pipeline: a Schedule that loses ticks in all the ways in which Temporal's do,
// the runs, and a ledger. Time goes in steps.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	history gaps.History
	policy  gaps.Policy
	chosen  time.Time

	// schedule is what the Schedule carries since updated; the ledger hears of it when it is reconciled.
	schedule interval.Spec
	grid     *interval.Grid
	updated  time.Time
	paused   bool
	upAt     time.Time // while it is before this, the server is down
	waiting  []time.Time

	outcomes book
	order    []interval.Interval  // those with an outcome
	open     map[time.Time]flight // by tick
	// lost are ids of runs that were terminated, which Temporal remembers for a while.
	lost    map[time.Time]time.Time
	closed  map[time.Time]bool
	started map[interval.Interval]int // by the Schedule and the reconciler
	vain    map[interval.Interval]int // of these, terminated
}

type flight struct {
	owned interval.Interval
	ends  time.Time
}

const (
	modelStep      = 15 * time.Minute
	modelRetention = 3 * 24 * time.Hour
)

func newModel(t *testing.T, seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := &model{
		t: t, rng: rng, outcomes: book{}, open: map[time.Time]flight{}, lost: map[time.Time]time.Time{},
		closed: map[time.Time]bool{}, started: map[interval.Interval]int{}, vain: map[interval.Interval]int{},
		policy: gaps.Policy{Catchup: pipeline.CatchupAll, CatchupWindow: []time.Duration{10 * time.Second, time.Hour, 5 * time.Hour}[rng.IntN(3)]},
	}
	m.now = at("2026-01-01T00:00").Add(time.Duration(rng.IntN(100)) * modelStep)
	m.edit()
	return m
}

// specs are grids of different kinds; changing between them is an edit.
func (m *model) spec() interval.Spec {
	start := at("2025-12-20T00:00")
	return []interval.Spec{
		{Cron: "0 * * * *", TimeZone: "UTC", Start: start},
		{Cron: "0 0 * * *", TimeZone: "UTC", Start: start},
		{Cron: "30 2 * * *", TimeZone: "Europe/Rome", Start: start},
		{Cron: "0 */2 * * *", TimeZone: "America/New_York", Start: start},
		{Cron: "15 6 * * 1-5", TimeZone: "Asia/Jakarta", Start: start},
		{Every: 7 * time.Hour, TimeZone: "UTC", Start: start.Add(90 * time.Minute)},
	}[m.rng.IntN(6)]
}

// edit updates the Schedule; the ticks that have elapsed were handled before.
func (m *model) edit() {
	m.hear()
	era, _, err := m.history.Succeed(m.spec(), m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	m.schedule, m.updated = era.Spec, m.now
	if m.grid, err = interval.New(m.schedule); err != nil {
		m.t.Fatal(err)
	}
}

// hear writes the Schedule's grid into the ledger.
func (m *model) hear() {
	if m.grid == nil {
		return
	}
	era, ordinal, err := m.history.Succeed(m.schedule, m.updated)
	if err != nil {
		m.t.Fatal(err)
	}
	m.history = append(m.history[:ordinal:ordinal], era)
}

func (m *model) chance(oneIn int) bool { return m.rng.IntN(oneIn) == 0 }

// advance lets a step of time pass.
func (m *model) advance(calm bool) {
	before := m.now
	m.now = m.now.Add(modelStep)
	m.close()
	for tick, ok := m.grid.Next(before); ok && !tick.After(m.now); tick, ok = m.grid.Next(tick) {
		if !m.paused && (calm || !m.chance(40)) { // one in forty is dropped: a full buffer, a start that failed
			m.waiting = append(m.waiting, tick)
		}
	}
	if m.now.Before(m.upAt) {
		return
	}
	for _, tick := range m.waiting {
		if m.now.Sub(tick) <= max(m.policy.CatchupWindow, modelStep) {
			m.fire(tick)
		}
	}
	m.waiting = nil
	if calm {
		return
	}
	switch {
	case m.chance(2000):
		m.edit()
	case m.chance(400):
		m.paused = !m.paused
	case m.paused && m.chance(100):
		m.paused = false
	case m.chance(700):
		m.upAt = m.now.Add(time.Duration(m.rng.IntN(200)) * modelStep)
	case m.chance(300):
		m.trigger()
	case m.chance(1500):
		m.policy.Catchup = []pipeline.Catchup{pipeline.CatchupNone, pipeline.CatchupLatest, pipeline.CatchupAll}[m.rng.IntN(3)]
	case m.chance(80):
		m.reconcile()
	}
}

// fire is what the Schedule does at a tick: an id that Temporal knows is dropped.
func (m *model) fire(tick time.Time) {
	_, busy := m.open[tick]
	_, terminated := m.lost[tick]
	if busy || terminated || m.closed[tick] {
		return
	}
	owned, ok := m.grid.At(tick)
	if !ok {
		m.t.Fatalf("the Schedule fires at %s, which is no tick", tick)
	}
	m.start(owned, false)
}

// trigger is the button: at an odd moment it runs the last completed interval, again if need be.
func (m *model) trigger() {
	owned, ok := m.grid.LastCompleted(m.now)
	if _, busy := m.open[owned.End]; ok && !busy {
		m.start(owned, true)
	}
}

func (m *model) start(owned interval.Interval, byHand bool) {
	m.t.Helper()
	if owned.End.After(m.now) {
		m.t.Fatalf("%s is started at %s, before its tick", owned, m.now)
	}
	if _, busy := m.open[owned.End]; busy {
		m.t.Fatalf("%s is started while it is open", owned)
	}
	if _, has := m.outcomes[owned]; has && !byHand {
		m.t.Fatalf("%s is started although it has an outcome", owned)
	}
	if m.started[owned]++; m.started[owned] > 1+m.vain[owned] && !byHand {
		m.t.Fatalf("%s is started twice", owned)
	}
	if byHand {
		m.vain[owned]++
	}
	m.open[owned.End] = flight{owned, m.now.Add(time.Duration(m.rng.IntN(40)) * modelStep / 4)}
}

// close ends the runs whose time has come; some are terminated, and leave no outcome.
func (m *model) close() {
	for _, tick := range slices.SortedFunc(maps.Keys(m.open), time.Time.Compare) {
		run := m.open[tick]
		if run.ends.After(m.now) {
			continue
		}
		delete(m.open, tick)
		switch {
		case m.chance(25) && m.outcomes[run.owned] == "":
			m.lost[tick] = m.now
			m.vain[run.owned]++
		case m.chance(12):
			m.record(run.owned, step.OutcomeFailed)
		default:
			m.record(run.owned, step.OutcomeLoaded)
		}
	}
	for tick, since := range m.lost {
		if m.now.Sub(since) > modelRetention {
			delete(m.lost, tick)
		}
	}
}

// reconcile does what the reconciler does with a plan, and reports whether anything was done.
func (m *model) reconcile() bool {
	m.hear()
	p := plan(m.t, gaps.Request{
		History: m.history, Policy: m.policy, Now: m.now, Chosen: m.chosen, Ledger: m.ledger(),
		Open: func(tick time.Time) bool { _, busy := m.open[tick]; return busy },
	})
	booked := 0
	for _, candidate := range p.Candidates() {
		if m.book(candidate) {
			p.Strike(candidate, false, step.OutcomeFailed)
			booked++
		}
	}
	decision := p.Decide()
	if m.paused || decision.Start == nil {
		return booked > 0
	}
	if !decision.Chosen.IsZero() {
		if decision.Chosen.End.Before(m.chosen) {
			m.t.Fatalf("latest goes back from %s to %s", m.chosen, decision.Chosen)
		}
		m.chosen = decision.Chosen.End
	}
	m.catchUp(decision)
	return true
}

// book writes the outcome of a terminated run that Temporal still knows.
func (m *model) book(iv interval.Interval) bool {
	if _, terminated := m.lost[iv.End]; !terminated {
		return false
	}
	delete(m.lost, iv.End)
	m.record(iv, step.OutcomeFailed)
	return true
}

func (m *model) record(iv interval.Interval, outcome string) {
	m.outcomes[iv], m.closed[iv.End] = outcome, true
	if at, has := slices.BinarySearchFunc(m.order, iv, byStart); !has {
		m.order = slices.Insert(m.order, at, iv)
	}
}

func (m *model) ledger() gaps.Ledger {
	return gaps.Ledger{Statuses: func(from, to time.Time) iter.Seq2[gaps.Status, error] {
		return func(yield func(gaps.Status, error) bool) {
			for _, iv := range m.order {
				if !iv.Start.Before(from) && iv.Start.Before(to) && !yield(gaps.Status{Interval: iv, Status: m.outcomes[iv]}, nil) {
					return
				}
			}
		}
	}}
}

// catchUp starts what is missing in a range.
func (m *model) catchUp(decision gaps.Decision) {
	timeline, err := m.history.Timeline()
	if err != nil {
		m.t.Fatal(err)
	}
	starts := 0
	for iv := range timeline.Between(decision.Start.From, decision.Start.To) {
		_, busy := m.open[iv.End]
		if m.outcomes[iv] != "" || busy {
			continue
		}
		starts++
		if m.book(iv) {
			continue
		}
		m.start(iv, false)
		if m.policy.Catchup == pipeline.CatchupNone && !m.edited(iv) {
			m.t.Fatalf("catchup is none, and %s is started", iv)
		}
	}
	if !decision.Chosen.IsZero() && starts != 1 {
		m.t.Fatalf("latest starts %d", starts)
	}
}

func (m *model) edited(iv interval.Interval) bool {
	for _, era := range m.history[1:] {
		if iv.End.After(era.Spec.Since) && !iv.End.After(era.Applied) {
			return true
		}
	}
	return false
}

// Whatever a Schedule loses, and whenever it is edited: with catchup: all every interval of the timeline ends up
// with an outcome, each was started once, and nothing else has an outcome.
func TestAYearTilesExactly(t *testing.T) {
	t.Parallel()
	const years = 12
	for seed := range uint64(years) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for end := m.now.AddDate(1, 0, 0); m.now.Before(end); {
				m.advance(false)
			}
			m.rest()
			m.tiles()
		})
	}
}

// rest brings the model to rest: the Schedule gets an end_date and is left alone, and all that is missing is run.
func (m *model) rest() {
	m.paused, m.policy.Catchup = false, pipeline.CatchupAll
	m.schedule.End = m.now.AddDate(0, 0, 3)
	var err error
	if m.grid, err = interval.New(m.schedule); err != nil {
		m.t.Fatal(err)
	}
	for m.now.Before(m.schedule.End) || m.now.Before(m.upAt) || len(m.open) > 0 || m.reconcile() {
		m.advance(true)
	}
}

func (m *model) tiles() {
	timeline, err := m.history.Timeline()
	if err != nil {
		m.t.Fatal(err)
	}
	expected := 0
	last := m.history[0].Spec.Start
	for iv := range timeline.Between(time.Time{}, m.now) {
		if iv.End.After(m.now) {
			break
		}
		if expected++; m.outcomes[iv] == "" {
			m.t.Errorf("%s has no outcome", iv)
		}
		if !iv.Start.Equal(last) {
			m.t.Errorf("time between %s and %s belongs to nobody", last, iv.Start)
		}
		last = iv.End
	}
	if len(m.outcomes) != expected {
		m.t.Errorf("%d outcomes for %d intervals: some belong to none", len(m.outcomes), expected)
	}
	m.t.Logf("%d intervals of %d grids, %d started", expected, len(m.history), len(m.started))
}
