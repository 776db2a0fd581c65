package warehouse

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/trancheflow/tranche/interval"
)

const defaultQueryLimit = 1000

// Recorded is what became of an outcome.
type Recorded struct {
	// Written is false when a newer run of the interval has written its outcome already.
	Written bool
	// Recovered says that the interval is loaded by this run, and was in trouble: it had failed, or somebody was told
	// that it missed its deadline, and it was not loaded since.
	Recovered bool
}

// RecordOutcome writes how a run of the interval ended. That a newer run has written its outcome already is no
// error; the same run may write again, and is answered the same.
func (w *Warehouse) RecordOutcome(ctx context.Context, o Outcome) (recorded Recorded, err error) {
	switch o.Status {
	case OutcomeLoaded, OutcomeFailed, OutcomeCancelled, OutcomeAccepted:
	default:
		return Recorded{}, permanent(TypeBadRequest, "record outcome of %s: status %q is none of loaded, failed, cancelled, accepted", o.Pipeline, o.Status)
	}
	if o.RecordedAt.IsZero() {
		o.RecordedAt = w.now()
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return Recorded{}, fmt.Errorf("record outcome of %s %s: %w", o.Pipeline, o.Interval, err)
	}
	defer s.release()
	if recorded, err = w.recordOutcome(ctx, s, o); err != nil {
		return Recorded{}, fmt.Errorf("record outcome of %s %s: %w", o.Pipeline, o.Interval, err)
	}
	return recorded, nil
}

func (w *Warehouse) recordOutcome(ctx context.Context, s session, o Outcome) (Recorded, error) {
	key := "outcome|" + o.Pipeline + "|" + o.Interval.String()
	if err := s.begin(ctx, lock{key: key, fence: o.Fence}); err != nil {
		return Recorded{}, err
	}
	n, err := s.exec(ctx, `insert into `+w.db.ledger("outcomes")+` as old
		(pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at, started_at, attempts)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		on conflict (pipeline, interval_start, interval_end) do update set
		status = excluded.status, kind = excluded.kind, workflow_id = excluded.workflow_id, run_id = excluded.run_id,
		fence = excluded.fence, digest = excluded.digest, note = excluded.note, recorded_at = excluded.recorded_at,
		started_at = excluded.started_at, attempts = excluded.attempts
		where old.fence <= excluded.fence`,
		o.Pipeline, o.Interval.Start.UTC(), o.Interval.End.UTC(), o.Status, o.Kind, o.WorkflowID, o.RunID, o.Fence, o.Digest, o.Note, o.RecordedAt.UTC(), orNull(o.StartedAt), int64(o.Attempts))
	if err != nil {
		return Recorded{}, err
	}
	recorded := Recorded{Written: n > 0}
	if recorded.Written {
		if recorded.Recovered, err = w.trouble(ctx, s, o); err != nil {
			return Recorded{}, err
		}
	}
	return recorded, s.commit(ctx)
}

// Outcomes returns the outcomes that the query selects.
func (w *Warehouse) Outcomes(ctx context.Context, q Query) ([]Outcome, error) {
	var outcomes []Outcome
	err := w.read(ctx, "outcomes", `pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at, started_at, attempts`, q,
		func(scan func(dest ...any) error) error {
			var o Outcome
			var started *time.Time
			var attempts int64
			err := scan(&o.Pipeline, &o.Interval.Start, &o.Interval.End, &o.Status, &o.Kind, &o.WorkflowID, &o.RunID, &o.Fence, &o.Digest, &o.Note, &o.RecordedAt, &started, &attempts)
			if started != nil {
				o.StartedAt = started.UTC()
			}
			o.Attempts = int(attempts)
			utc(&o.Interval.Start, &o.Interval.End, &o.RecordedAt)
			outcomes = append(outcomes, o)
			return err
		})
	return outcomes, err
}

// receiptColumns are the columns of a receipt in the order of its fields.
const receiptColumns = `pipeline, step, table_name, scope, disposition, interval_start, interval_end, workflow_id, run_id, attempt, fence, digest,
	rows_read, rows_deleted, rows_inserted, rows_dropped, rows_duplicate, rows_stale, rows_unchanged, checksum, loaded_at`

// Receipts returns the receipts that the query selects.
func (w *Warehouse) Receipts(ctx context.Context, q Query) ([]Receipt, error) {
	var receipts []Receipt
	err := w.read(ctx, "receipts", receiptColumns, q, func(scan func(dest ...any) error) error {
		var r Receipt
		err := r.scan(scan)
		receipts = append(receipts, r)
		return err
	})
	return receipts, err
}

// scan reads the receiptColumns.
func (r *Receipt) scan(scan func(dest ...any) error) error {
	err := scan(&r.Pipeline, &r.Step, &r.Table, &r.Scope, &r.Disposition, &r.Interval.Start, &r.Interval.End, &r.WorkflowID, &r.RunID, &r.Attempt,
		&r.Fence, &r.Digest, &r.Read, &r.Deleted, &r.Inserted, &r.Dropped, &r.Duplicates, &r.Stale, &r.Unchanged, &r.Checksum, &r.LoadedAt)
	utc(&r.Interval.Start, &r.Interval.End, &r.LoadedAt)
	return err
}

func utc(times ...*time.Time) {
	for _, t := range times {
		*t = t.UTC()
	}
}

func (w *Warehouse) read(ctx context.Context, table, columns string, q Query, each func(scan func(dest ...any) error) error) error {
	sql := "select " + columns + " from " + w.db.ledger(table) + " where pipeline = $1"
	args := []any{q.Pipeline}
	for _, bound := range []struct {
		operator string
		at       time.Time
	}{{">=", q.From}, {"<", q.To}} {
		if !bound.at.IsZero() {
			args = append(args, bound.at.UTC())
			sql += " and interval_start " + bound.operator + " $" + strconv.Itoa(len(args))
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultQueryLimit
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return fmt.Errorf("read %s of %s: %w", table, q.Pipeline, err)
	}
	defer s.release()
	if err := s.query(ctx, sql+" order by interval_start, interval_end limit "+strconv.Itoa(limit), args, each); err != nil {
		return fmt.Errorf("read %s of %s: %w", table, q.Pipeline, err)
	}
	return nil
}

// Reject is a value that was refused, as the ledger keeps it.
type Reject struct {
	Pipeline string
	Step     string
	Interval interval.Interval
	RunID    string
	Row      int64
	Column   string
	Declared string
	Reason   string
	// Value is the refused text as a quoted Go string, cut to its first 1,000 bytes.
	Value      string
	RejectedAt time.Time
}

const maxRejectBytes = 1000

// reject keeps a refused value for whoever is to look into it. It works on a context of its own: the
// attempt's may be over, and the error that is on its way matters more than this one.
func (w *Warehouse) reject(ctx context.Context, pipelineName, step, runID string, iv interval.Interval, err error) {
	var refused *ValueError
	if !errors.As(err, &refused) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectTimeout)
	defer cancel()
	s, err := w.db.acquire(ctx)
	if err != nil {
		return
	}
	defer s.release()
	value := refused.value
	if len(value) > maxRejectBytes {
		value = value[:maxRejectBytes]
	}
	key := fmt.Sprintf("reject|%s|%s|%s", pipelineName, step, iv)
	if s.begin(ctx, lock{key: key}) != nil {
		return
	}
	text := strconv.Quote(string(value))
	if refused.value == nil {
		text = "NULL"
	}
	if _, err := s.exec(ctx, "insert into "+w.db.ledger("rejects")+` (pipeline, step, interval_start, interval_end, run_id, source_row,
		column_name, declared_type, reason, value, rejected_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		pipelineName, step, iv.Start.UTC(), iv.End.UTC(), runID, refused.Row, refused.Column, refused.Declared, refused.Reason, text, w.now().UTC()); err != nil {
		return
	}
	_ = s.commit(ctx) // nothing depends on it
}

const rejectTimeout = 5 * time.Second

// Rejects returns the refused values of a pipeline's intervals.
func (w *Warehouse) Rejects(ctx context.Context, q Query) ([]Reject, error) {
	var rejects []Reject
	err := w.read(ctx, "rejects", "pipeline, step, interval_start, interval_end, run_id, source_row, column_name, declared_type, reason, value, rejected_at", q,
		func(scan func(dest ...any) error) error {
			var r Reject
			err := scan(&r.Pipeline, &r.Step, &r.Interval.Start, &r.Interval.End, &r.RunID, &r.Row, &r.Column, &r.Declared, &r.Reason, &r.Value, &r.RejectedAt)
			utc(&r.Interval.Start, &r.Interval.End, &r.RejectedAt)
			rejects = append(rejects, r)
			return err
		})
	return rejects, err
}
