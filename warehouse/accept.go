package warehouse

import (
	"context"
	"fmt"

	"github.com/trancheflow/tranche/interval"
)

// Accept records, in one transaction, the outcome accepted for intervals that will never be loaded, and returns those
// that are accepted by it. What was loaded or accepted meanwhile is left as it is; the same run may say so again.
// The outcome's Interval and Status are not used. A run that starts later overwrites it.
func (w *Warehouse) Accept(ctx context.Context, o Outcome, intervals []interval.Interval) (accepted []interval.Interval, err error) {
	if len(intervals) == 0 {
		return nil, nil
	}
	if o.RecordedAt.IsZero() {
		o.RecordedAt = w.now()
	}
	if accepted, err = w.accept(ctx, o, intervals); err != nil {
		return nil, fmt.Errorf("accept intervals of %s: %w", o.Pipeline, err)
	}
	return accepted, nil
}

func (w *Warehouse) accept(ctx context.Context, o Outcome, intervals []interval.Interval) (accepted []interval.Interval, err error) {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.begin(ctx, lock{key: "accept|" + o.Pipeline, fence: o.Fence}); err != nil {
		return nil, err
	}
	for _, iv := range intervals {
		n, err := s.exec(ctx, `insert into `+w.db.ledger("outcomes")+` as old
			(pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			on conflict (pipeline, interval_start, interval_end) do update set
			status = excluded.status, kind = excluded.kind, workflow_id = excluded.workflow_id, run_id = excluded.run_id,
			fence = excluded.fence, digest = excluded.digest, note = excluded.note, recorded_at = excluded.recorded_at,
			started_at = null, attempts = 0
			where old.fence <= excluded.fence and (old.status not in ('loaded', 'accepted') or old.run_id = excluded.run_id)`,
			o.Pipeline, iv.Start.UTC(), iv.End.UTC(), OutcomeAccepted, o.Kind, o.WorkflowID, o.RunID, o.Fence, o.Digest, o.Note, o.RecordedAt.UTC())
		if err != nil {
			return nil, err
		}
		if n > 0 {
			accepted = append(accepted, iv)
		}
	}
	return accepted, s.commit(ctx)
}
