package step

import (
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// State is how an interval that is over stands. The outcomes of the ledger are states, too.
type State string

// The states of intervals.
const (
	StateLoaded    State = OutcomeLoaded
	StateAccepted  State = OutcomeAccepted
	StateFailed    State = OutcomeFailed
	StateCancelled State = OutcomeCancelled
	// StateOpen intervals have an open run. A closer look tells StateRunning ones, of which a step is at work, from
	// StateWaiting ones, which wait: for their turn, for a time, for a worker.
	StateOpen    State = "open"
	StateRunning State = "running"
	StateWaiting State = "waiting"
	// StateDue intervals are just over, and the Schedule may be about to start their runs.
	StateDue State = "due"
	// StateMissing intervals have no outcome and no open run, although they are expected.
	StateMissing State = "missing"
	// StateUnexpected intervals have none either, and nobody expects them: they were over before the pipeline became
	// active, and its catchup leaves them out.
	StateUnexpected State = "unexpected"
)

// States are all that an answer tells apart, in the order in which people are told of them.
func States() []State {
	return []State{StateLoaded, StateAccepted, StateRunning, StateWaiting, StateDue, StateFailed, StateCancelled, StateMissing, StateUnexpected}
}

// IsGap reports whether an interval in this state is a gap: it is not loaded, and nothing is under way to load it.
func (s State) IsGap() bool { return s == StateMissing || s == StateFailed || s == StateCancelled }

// IsOpen reports whether an interval in this state has an open run.
func (s State) IsOpen() bool { return s == StateOpen || s == StateRunning || s == StateWaiting }

// What bounds a page, so that it stays below 256 KiB.
const (
	PageStretches = 1500
	PageCells     = 1000
	PageDetailed  = 150
	// DetailNote bounds the note of an interval, in bytes.
	DetailNote = 200
	// PageAltered bounds the altered loads.
	PageAltered = 500
)

// StandingRequest asks how the intervals of a pipeline stand. They are told page by page.
type StandingRequest struct {
	Pipeline  string `json:"pipeline"`
	Warehouse string `json:"warehouse"`
	// Schedule is the effective schedule: that of the Schedule or, of a pipeline that has none, of its file.
	Schedule pipeline.Schedule `json:"schedule"`
	// Created is when the Schedule was created, Updated when its definition was last written. Zero: there is none,
	// and all intervals since start_date are expected.
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
	// Digest of the definition that loads are compared with; empty: they are not.
	Digest string `json:"digest,omitempty"`
	// From and To bound the intervals by their starts: [From, To). Zero: no bound. Of the answer's Next the next page
	// begins.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Newest asks for so many of the newest intervals instead of those since From; zero: not so.
	Newest int `json:"newest,omitempty"`
	// All expects every interval since start_date, whatever the pipeline's catchup says.
	All bool `json:"all,omitempty"`
	// Each asks for every interval by itself instead of stretches, Detailed also for what is known of each.
	Each     bool `json:"each,omitempty"`
	Detailed bool `json:"detailed,omitempty"`
	// Audit, if not nil, is the definition whose loads are compared with what is in their tables.
	Audit *pipeline.Pipeline `json:"audit,omitempty"`
	// Accept, if not nil, has the gaps of the page accepted.
	Accept *Acceptance `json:"accept,omitempty"`
}

// Acceptance says that gaps will never be filled.
type Acceptance struct {
	// By is who says so, Reason why.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// StandingAnswer is a page of how the intervals of a pipeline stand, in their order.
type StandingAnswer struct {
	// Stretches are intervals that follow each other and stand alike; Cells are the intervals themselves, if those
	// were asked for.
	Stretches []Stretch `json:"stretches,omitempty"`
	Cells     []Cell    `json:"cells,omitempty"`
	// Altered are loads whose rows are no longer those of the receipt. Audited is how many were compared.
	Altered []Altered `json:"altered,omitempty"`
	Audited int       `json:"audited,omitempty"`
	// Next is where the next page begins; zero: this is the last one.
	Next time.Time `json:"next,omitzero"`
	// ActiveSince is when the pipeline got its first Schedule; zero: it never had one. Grids is how many grids the
	// ledger knows.
	ActiveSince time.Time `json:"active_since,omitzero"`
	Grids       int       `json:"grids"`
	// Note says what was found odd; empty: nothing.
	Note string `json:"note,omitempty"`
}

// Mark is what else is to be told of the state of an interval.
type Mark struct {
	State State `json:"state"`
	// Outdated says of a loaded interval that it was loaded by another definition than that of the request.
	Outdated bool `json:"outdated,omitempty"`
	// Just says of an accepted one that the request had it accepted.
	Just bool `json:"just,omitempty"`
}

// Stretch are Count intervals that follow each other and stand alike.
type Stretch struct {
	Mark
	// From is the start of the first one, Last that of the last one, To the end of the last one.
	From  time.Time `json:"from"`
	Last  time.Time `json:"last"`
	To    time.Time `json:"to"`
	Count int64     `json:"count"`
}

// Cell is one interval.
type Cell struct {
	Mark
	Interval interval.Interval `json:"interval"`
	// Details of it; nil when they were not asked for.
	*Details
}

// Details are what the ledger and Temporal know of an interval.
type Details struct {
	// Rows that its loads hold by their receipts; nil: it has none.
	Rows *int64 `json:"rows,omitempty"`
	// Kind is how its newest run came about.
	Kind Kind `json:"kind,omitempty"`
	// Attempts is the greatest number that a step of the run took; zero: not known.
	Attempts int `json:"attempts,omitempty"`
	// Took is how long the run worked, from its first step to its outcome, or has been open; zero: not known.
	Took pipeline.Duration `json:"took,omitempty"`
	// Since is when it came to stand so.
	Since time.Time `json:"since,omitzero"`
	// Digest of the definition of its newest run; empty: not known.
	Digest string `json:"digest,omitempty"`
	// Note is the error of a failed run, or why an interval was accepted.
	Note string `json:"note,omitempty"`
}

// Altered is a load whose rows are no longer those that its receipt says.
type Altered struct {
	Interval interval.Interval `json:"interval"`
	Step     string            `json:"step"`
	Table    string            `json:"table"`
	// Receipt is the number of rows by the receipt; -1: there is no receipt. Stored is the number in the table.
	Receipt int64 `json:"receipt"`
	Stored  int64 `json:"stored"`
}

// Join puts the interval behind stretches: into the last of them, if it follows that and stands alike.
func (c Cell) Join(stretches []Stretch) []Stretch {
	return Stretch{Mark: c.Mark, From: c.Interval.Start, Last: c.Interval.Start, To: c.Interval.End, Count: 1}.Join(stretches)
}

// Join puts a stretch behind others: into the last of them, if it follows that and stands alike.
func (s Stretch) Join(stretches []Stretch) []Stretch {
	if n := len(stretches); n > 0 && stretches[n-1].Mark == s.Mark && stretches[n-1].To.Equal(s.From) {
		last := &stretches[n-1]
		last.Last, last.To, last.Count = s.Last, s.To, last.Count+s.Count
		return stretches
	}
	return append(stretches, s)
}
