package step

import (
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Names of the activity types that move no data: they look after runs.
const (
	// Of a run.
	ActivityAskGate     = "ask-gate"
	ActivityReleaseGate = "release-gate"
	ActivityPast        = "look-at-past"
	ActivityLookback    = "start-lookback"
	ActivityHandOver    = "hand-over"
	ActivityRunState    = "look-at-run"
	// Of the gate.
	ActivityGrant = "grant-slots"
	// Of a backfill.
	ActivityWindow     = "run-window"
	ActivityCancelRuns = "cancel-runs"
	ActivityPlan       = "plan-backfill"
	// Of the reconciler and the command line.
	ActivityGrid      = "look-at-grids"
	ActivityWatch     = "watch-schedules"
	ActivityReconcile = "reconcile"
	ActivityCatchup   = "start-catchup"
	ActivityStanding  = "look-at-intervals"
)

// WatchRequest says which Schedules the reconciler looks at.
type WatchRequest struct {
	// TaskQueue whose pipelines are looked at.
	TaskQueue string `json:"task_queue"`
	// Pipelines narrows it down to these names; empty: all of the queue.
	Pipelines []string `json:"pipelines,omitempty"`
}

// OutcomeAccepted is what an operator says of an interval that will never be loaded.
const OutcomeAccepted = "accepted"

// Watched is a pipeline as its Schedule says it is, without the steps.
type Watched struct {
	// Pipeline is the pipeline's name, Warehouse the connection of its ledger.
	Pipeline  string `json:"pipeline"`
	Warehouse string `json:"warehouse"`
	// TaskQueue is where its runs are started.
	TaskQueue string `json:"task_queue,omitempty"`
	// Description, Owner and Notify are those of the definition.
	Description string           `json:"description,omitempty"`
	Owner       string           `json:"owner,omitempty"`
	Notify      *pipeline.Notify `json:"notify,omitempty"`
	// Digest of the definition.
	Digest string `json:"digest"`
	// Schedule is the effective schedule, with the instant since which it holds.
	Schedule pipeline.Schedule `json:"schedule"`
	// Deadline after each tick; zero: none.
	Deadline pipeline.Duration `json:"deadline,omitempty"`
	// Paused says that an operator has paused the Schedule, Note why.
	Paused bool   `json:"paused,omitempty"`
	Note   string `json:"note,omitempty"`
	// Created is when the Schedule was created, Updated when its definition was last changed; both by the
	// server's clock.
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Problem says why the Schedule cannot be looked at, or not be kept up; the rest may be missing then.
	Problem string `json:"problem,omitempty"`
}

// GridRequest asks what the ledger knows of the grids of a pipeline, and may change it.
type GridRequest struct {
	Pipeline  string `json:"pipeline"`
	Warehouse string `json:"warehouse"`
	// Schedule is the effective schedule that is to hold or, with Record, holds from its Since on.
	Schedule pipeline.Schedule `json:"schedule"`
	// At is when it took effect: when the Schedule was created or updated. Zero: now.
	At time.Time `json:"at,omitzero"`
	// Record writes the grid to the ledger; otherwise the answer says what would have to be written.
	Record bool `json:"record,omitempty"`
	// Forget removes what the ledger knows of the pipeline's grids. Receipts and outcomes stay.
	Forget bool `json:"forget,omitempty"`
}

// GridAnswer says how a schedule stands to the grids that the pipeline has had.
type GridAnswer struct {
	// Since is where the schedule takes over from an earlier grid: that grid's last tick at or before
	// GridRequest.At. Zero: the pipeline had no other grid.
	Since time.Time `json:"since,omitzero"`
	// ActiveSince is when the pipeline's first Schedule was created; zero: it never had one.
	ActiveSince time.Time `json:"active_since,omitzero"`
	// Grids is how many grids the ledger knows.
	Grids int `json:"grids"`
}

// Reconciled is how the intervals of a pipeline stand.
type Reconciled struct {
	Pipeline string `json:"pipeline"`
	// Expected intervals, and how they stand. Failed counts failed and cancelled ones.
	Expected int64 `json:"expected"`
	Loaded   int64 `json:"loaded"`
	Accepted int64 `json:"accepted"`
	Failed   int64 `json:"failed"`
	Open     int64 `json:"open"`
	Missing  int64 `json:"missing"`
	// Recent ticks are the Schedule's own: their runs may be about to start.
	Recent int64 `json:"recent"`
	// MissingRange bounds the missing intervals, MissingIntervals are the newest of them; at most 100.
	MissingRange     *Range              `json:"missing_range,omitempty"`
	MissingIntervals []interval.Interval `json:"missing_intervals,omitempty"`
	// Catchup bounds, by their starts, the missing intervals that are to be started; nil: none are.
	Catchup *Range `json:"catchup,omitempty"`
	// Late intervals have missed the deadline and were not told of before; at most 100.
	Late []interval.Interval `json:"late,omitempty"`
	// Note says in a sentence what was found and what is done about it.
	Note string `json:"note"`
	// Started is the id of the workflow that runs what is missing; empty: nothing was to be started.
	Started string `json:"started,omitempty"`
	// Error says why the pipeline could not be reconciled, or its intervals not be started.
	Error string `json:"error,omitempty"`
}

// Range is a stretch of intervals, by their starts: [From, To).
type Range struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// CatchupRequest has the missing intervals of a pipeline started by a backfill of kind catchup, unless one is at
// it already.
type CatchupRequest struct {
	Pipeline string `json:"pipeline"`
	// Range of the intervals; only the missing ones among them are started.
	Range Range `json:"range"`
}
