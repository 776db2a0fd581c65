package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// herald has people told of what happens to a pipeline, by those who look after its runs.
type herald struct {
	activities *Activities
	taskQueue  string
	definition *pipeline.Pipeline // as far as messages need it
}

// heraldOf is one for a pipeline as its Schedule says it is.
func (a *Activities) heraldOf(w *step.Watched) herald {
	return herald{a, w.TaskQueue, &pipeline.Pipeline{
		Name: w.Pipeline, Description: w.Description, Owner: w.Owner, Schedule: &w.Schedule, Deadline: w.Deadline, Notify: w.Notify,
	}}
}

// tell has a message delivered. A message about missed deadlines that was told before says until which tick it tells
// of them; otherwise until is zero. An error is one that may pass: the caller tries again, and tells once all the same.
// When Temporal refuses the message for good, nobody is told, and the work goes on.
func (h herald) tell(ctx context.Context, m step.Message) (until time.Time, err error) {
	n := step.Notification{Connection: h.definition.Notify.Connection, Message: m}
	started, err := h.activities.temporal.Notify(ctx, h.taskQueue, n)
	if err == nil && started.Taken && m.Event == pipeline.EventDeadline {
		until, err = h.activities.temporal.LastTold(ctx, started)
		if gone(err) {
			err = nil
		}
	}
	if err == nil {
		return until, nil
	}
	if err = temporalError(err); retry.Classify(err).Class != retry.Transient {
		activity.GetLogger(ctx).Error("a notification was not started", "pipeline", m.Pipeline, "event", m.Event, "interval", m.Interval.String(), "reason", err)
		return time.Time{}, nil
	}
	return until, err
}

// ended tells of a run that could not tell itself. What that run has told is not told again.
func (h herald) ended(ctx context.Context, iv interval.Interval, c closing) error {
	if c.status == enums.WORKFLOW_EXECUTION_STATUS_CANCELED || c.kind == string(step.Backfill) || !h.definition.Notify.Tells(pipeline.EventFailure) {
		return nil
	}
	m := step.About(h.definition, pipeline.EventFailure)
	m.Interval, m.Kind, m.WorkflowID, m.RunID, m.OccurredAt = iv, step.Kind(c.kind), c.id, c.runID, c.closed.UTC().Truncate(time.Millisecond)
	m.ErrorType = c.status.String()
	if _, reason, ok := strings.Cut(c.note, ": "); ok {
		m.Reason = reason
	}
	_, err := h.tell(ctx, m)
	return err
}

// recovered tells that a run has loaded an interval that had missed its deadline.
func (h herald) recovered(ctx context.Context, o warehouse.Outcome) error {
	if !h.definition.Notify.Tells(pipeline.EventRecovery) {
		return nil
	}
	m := step.About(h.definition, pipeline.EventRecovery)
	m.Interval, m.Kind, m.WorkflowID, m.RunID, m.OccurredAt = o.Interval, step.Kind(o.Kind), o.WorkflowID, o.RunID, o.RecordedAt.UTC().Truncate(time.Millisecond)
	_, err := h.tell(ctx, m)
	return err
}

// late tells of intervals that have missed the deadline, oldest first, in one message. Those of which one told
// before that was interrupted are left out.
func (h herald) late(ctx context.Context, late []interval.Interval) error {
	if !h.definition.Notify.Tells(pipeline.EventDeadline) {
		return nil
	}
	for len(late) > 0 {
		m := step.About(h.definition, pipeline.EventDeadline)
		m.Interval, m.Count, m.Deadline, m.OccurredAt = late[0], len(late), h.definition.Deadline, h.activities.now().UTC().Truncate(time.Millisecond)
		if len(late) > 1 {
			m.LastInterval = &late[len(late)-1]
		}
		until, err := h.tell(ctx, m)
		if err != nil {
			return fmt.Errorf("tell of %d missed deadlines: %w", len(late), err)
		}
		if until.IsZero() {
			return nil
		}
		late = late[1:] // that one it tells of, whatever it says
		for len(late) > 0 && !late[0].End.After(until) {
			late = late[1:]
		}
	}
	return nil
}
