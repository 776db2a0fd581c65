// Package warehouse puts rows into PostgreSQL or SQLite exactly once per data interval.
//
// Whatever happens to a run (a retry, a second trigger, a worker killed in the middle of a load, one
// that was stopped and goes on later), the table ends as if the interval had been processed once.
// Three things bring that about. A load is one transaction: the old slice goes, the new one comes, the
// checks are made and a receipt is written, or nothing happens. Each attempt carries a fence, a number
// that grows from attempt to attempt, and a receipt with a higher fence turns the attempt away. And a
// slice is what the interval owns, not the keys that happened to arrive.
//
// The ledger (receipts, outcomes, owners, stages, rejected values, grids, notices) lives beside the tables: in the
// schema "tranche" of PostgreSQL, in tables beginning with "tranche_" in SQLite.
//
// # What is not promised
//
// A process that is stopped (not killed) inside SQLite's writing transaction holds the file's lock until
// it goes on: nobody can take it away, and other loads end as transient errors after the busy timeout. The transaction is kept
// short for that reason: all rows are had before it begins. On PostgreSQL the next attempt ends the
// stopped one's session, for which both must have the same role, or the right pg_signal_backend.
//
// Tables are not watched: what other programs write to a slice is gone with the next load of it.
//
// # Errors
//
// Errors that the package names itself are retry.Errors of these types:
//
//	Type             Class      Meaning
//	BadValue         permanent  a value does not fit its column, or has no value where it must; row and
//	                            column are named, the value itself is in the ledger's rejects
//	OutsideInterval  permanent  a row's time is missing or outside the interval
//	CheckFailed      permanent  a check of the load does not hold
//	Fenced           permanent  a newer attempt has loaded, or taken over the stage
//	TableOwned       permanent  another pipeline or step owns the table or a part of it
//	GridChanged      permanent  the interval overlaps one that was loaded with other bounds
//	Stale            permanent  a later interval has replaced the table; to the caller this is a
//	                            success with nothing to do
//	EmptyReplace     permanent  an empty source would empty the table, and allow_empty is not set
//	NoUniqueKey      permanent  the table has no unique constraint over the key of an upsert
//	TableMismatch    permanent  the table exists, but not as the load needs it
//	BadRequest       permanent  the load contradicts itself
//	NewerLedger      permanent  the ledger was written by a newer version
//	StagingLost      transient  the staged rows are gone or incomplete: extract again
//	RowsLost         transient  the database counted other rows than were sent
//	Database         by SQLSTATE; the database's own words are passed on only where they cannot hold a row
//
// Everything else is as the driver or the source reported it.
package warehouse

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// The values of Config.Driver.
const (
	DriverPostgres = "postgres"
	DriverSQLite   = "sqlite"
)

// Config says which database is the warehouse.
type Config struct {
	// Driver is "postgres" or "sqlite".
	Driver string
	// DSN is, for PostgreSQL, a URL or a list of settings as libpq takes them; for SQLite, the path of
	// the database file, which is created when it is missing.
	DSN string
	// MaxConnections bounds the sessions held at a time. A load holds one while it runs. Default 16.
	MaxConnections int
	// BusyTimeout is how long SQLite waits for another process that is writing, before the attempt
	// ends as a transient error. Default 1m. PostgreSQL waits as long as the context allows.
	BusyTimeout time.Duration
}

// Rows are rows as text, one field per declared column in the declared order; nil is NULL. A row is
// borrowed: it is valid only until the next one is asked for. An error ends the sequence.
type Rows = iter.Seq2[[][]byte, error]

// Warehouse is one database that receives loads and holds the load ledger. It is safe for concurrent
// use. The zero Warehouse is not usable: call Open.
type Warehouse struct {
	db  database
	now func() time.Time
}

// Open connects to the warehouse. It does not touch the ledger: Migrate does.
func Open(ctx context.Context, config Config) (*Warehouse, error) {
	if config.MaxConnections <= 0 {
		config.MaxConnections = defaultMaxConnections
	}
	if config.BusyTimeout <= 0 {
		config.BusyTimeout = defaultBusyTimeout
	}
	var db database
	var err error
	switch config.Driver {
	case DriverPostgres:
		db, err = openPostgres(ctx, config)
	case DriverSQLite:
		db, err = openSQLite(ctx, config)
	default:
		return nil, permanent(TypeBadRequest, "open warehouse: driver %q is not supported: write postgres or sqlite", config.Driver)
	}
	if err != nil {
		return nil, fmt.Errorf("open warehouse: %w", err)
	}
	return &Warehouse{db: db, now: time.Now}, nil
}

const (
	defaultMaxConnections = 16
	defaultBusyTimeout    = time.Minute
)

// Close ends all sessions. What is under way fails.
func (w *Warehouse) Close() { w.db.close() }

// LoadRequest is one attempt to load one interval.
type LoadRequest struct {
	// Pipeline and Step own the table's slice.
	Pipeline, Step string
	// WorkflowID, RunID and Attempt are written to the receipt.
	WorkflowID, RunID string
	Attempt           int
	// Fence orders the attempts: the attempt's start as the server issued it, in microseconds.
	// Required. An attempt never commits after one with a higher fence.
	Fence int64
	// Digest of the definition that decided the rows, written to the receipt.
	Digest string
	// Interval whose slice is written.
	Interval interval.Interval
	// Location is the pipeline's zone. It matters when the time column is a date. Default UTC.
	Location *time.Location
	// Load says which table, and how.
	Load *pipeline.Load
	// Columns of the source, in the order of the rows' fields.
	Columns []pipeline.Column

	// Stage names staged rows as the source. Exactly one of Stage and Rows is set.
	Stage *StageRef
	// StagedRows is how many rows the extract has staged; any other number is StagingLost.
	StagedRows int64
	// Rows are the source.
	Rows Rows

	// Progress is called every few thousand rows with the number of rows read so far, and every second
	// while the database, and not the source, is what is waited for. It is called from one goroutine
	// at a time. Optional.
	Progress func(rows int64)
}

// Receipt says what a load has done. It is written in the load's own transaction.
type Receipt struct {
	Pipeline    string            `json:"pipeline"`
	Step        string            `json:"step"`
	Table       string            `json:"table"`
	Scope       string            `json:"scope,omitempty"` // canonical JSON of the load's scope
	Disposition string            `json:"disposition"`
	Interval    interval.Interval `json:"interval"`
	WorkflowID  string            `json:"workflow_id"`
	RunID       string            `json:"run_id"`
	Attempt     int               `json:"attempt"`
	Fence       int64             `json:"fence"`
	Digest      string            `json:"digest"`
	// Read is the number of rows that the source gave.
	Read int64 `json:"read"`
	// Deleted is the number of rows that the slice had before.
	Deleted int64 `json:"deleted"`
	// Inserted is the number of rows written; with upsert, inserted or updated.
	Inserted int64 `json:"inserted"`
	// Dropped is the number of rows outside the interval that `outside: drop` left out.
	Dropped int64 `json:"dropped"`
	// Duplicates is the number of rows of an upsert that another row of the same load superseded.
	Duplicates int64 `json:"duplicates"`
	// Stale is the number of rows of an upsert that found a newer version in the table.
	Stale int64 `json:"stale"`
	// Unchanged is the number of rows of an upsert that the table already had, as they are.
	Unchanged int64 `json:"unchanged"`
	// Checksum of the rows sent, dropped ones left out; empty when it is not known. See Checksum.
	Checksum string    `json:"checksum"`
	LoadedAt time.Time `json:"loaded_at"`
}

// The values of Outcome.Status.
const (
	OutcomeLoaded    = "loaded"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
	OutcomeAccepted  = "accepted"
)

// Outcome says how the newest run of an interval ended.
type Outcome struct {
	Pipeline   string            `json:"pipeline"`
	Interval   interval.Interval `json:"interval"`
	Status     string            `json:"status"` // loaded, failed, cancelled or accepted
	Kind       string            `json:"kind"`   // of the run, such as scheduled or backfill
	WorkflowID string            `json:"workflow_id"`
	RunID      string            `json:"run_id"`
	// Fence is the run's start in microseconds: an older run never overwrites what a newer one wrote.
	Fence  int64  `json:"fence"`
	Digest string `json:"digest"`
	// Note is a sentence for operators: the error of a failed run, or why an interval was accepted.
	// It must not hold a row's values.
	Note       string    `json:"note,omitempty"`
	RecordedAt time.Time `json:"recorded_at"`
	// StartedAt is when the run's first step was scheduled; zero: not known.
	StartedAt time.Time `json:"started_at,omitzero"`
	// Attempts is the greatest number that one of its steps took; zero: not known.
	Attempts int `json:"attempts,omitempty"`
}

// Query selects receipts or outcomes of a pipeline by the start of their interval, oldest first.
type Query struct {
	Pipeline string
	// From and To bound the interval's start, half-open. The zero time is no bound.
	From, To time.Time
	// Limit is the greatest number of entries. Default 1,000.
	Limit int
}
