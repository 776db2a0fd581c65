package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/warehouse"
)

// metricDeadlines counts missed deadlines.
const metricDeadlines = "tranche_deadlines_missed"

// tell tells of missed deadlines of which nobody was told before, and records that. What is interrupted in between is
// told again, under the same name.
func (r *reconciliation) tell(ctx context.Context, late []interval.Interval) error {
	if err := r.herald.late(ctx, late); err != nil {
		return err
	}
	fresh, err := r.ledger.Notice(ctx, r.watched.Pipeline, warehouse.NoticeDeadline, late)
	if err != nil {
		return err
	}
	for _, iv := range fresh {
		activity.GetLogger(ctx).Warn("an interval has missed its deadline: it is not loaded", "pipeline", r.watched.Pipeline,
			"interval", iv.String(), "deadline", r.watched.Deadline.Std().String())
	}
	if len(fresh) > 0 {
		activity.GetMetricsHandler(ctx).WithTags(map[string]string{"pipeline": r.watched.Pipeline}).Counter(metricDeadlines).Inc(int64(len(fresh)))
		r.note("%d newly missed the deadline of %s", len(fresh), r.watched.Deadline)
	}
	r.result.Late = fresh
	return r.tellLoaded(ctx, fresh)
}

// tellLoaded takes back what was told of intervals whose run loaded them in that very moment: it did not know that it
// had anything to recover from. The ledger is told of the outcome once more, as that run would have told it now, and
// what the run itself has told by now bears the same name.
func (r *reconciliation) tellLoaded(ctx context.Context, told []interval.Interval) error {
	if len(told) == 0 {
		return nil
	}
	late := map[interval.Interval]bool{}
	for _, iv := range told {
		late[iv] = true
	}
	var loaded []interval.Interval
	for status, err := range r.ledger.Statuses(ctx, r.watched.Pipeline, told[0].Start, told[len(told)-1].End) {
		if err != nil {
			return err
		}
		if late[status.Interval] && status.Status == warehouse.OutcomeLoaded {
			loaded = append(loaded, status.Interval)
		}
	}
	for _, iv := range loaded {
		outcome, err := outcomeRow(ctx, r.ledger, r.watched.Pipeline, iv)
		if err != nil {
			return err
		}
		recorded, err := r.ledger.RecordOutcome(ctx, outcome)
		if err != nil {
			return err
		}
		if !recorded.Recovered {
			continue // it has begun again, or failed, since
		}
		if err := r.herald.recovered(ctx, outcome); err != nil {
			return err
		}
	}
	return nil
}
