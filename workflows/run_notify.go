package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// reasonLimit bounds the text of an error in a message, in bytes: that of an activity of somebody else may be longer.
const reasonLimit = 2000

// tellFailure has it told that the run has failed. It does not depend on the warehouse, whose being away is why most
// runs fail that nobody has looked at yet. Whoever has started a backfill looks at its result, and is not told of
// each of its runs.
func (r *run) tellFailure(ctx workflow.Context, failure error) {
	if r.input.Kind == step.Backfill || !r.input.Definition.Notify.Tells(pipeline.EventFailure) {
		return
	}
	m := r.message(ctx, pipeline.EventFailure)
	m.ErrorType, m.Reason = errorType(failure), strings.TrimPrefix(reason(failure), errorType(failure)+": ")
	if len(m.Reason) > reasonLimit {
		m.Reason = strings.ToValidUTF8(m.Reason[:reasonLimit], "") + "…"
	}
	for _, name := range r.order {
		if n := r.nodes[name]; n.report.State == StateFailed {
			m.Step, m.Attempts = name, n.report.Attempts
			break
		}
	}
	r.notify(ctx, m)
}

// tellRecovery has it told that the interval is loaded, which had failed or missed its deadline before.
func (r *run) tellRecovery(ctx workflow.Context) {
	if !r.input.Definition.Notify.Tells(pipeline.EventRecovery) {
		return
	}
	m, rows := r.message(ctx, pipeline.EventRecovery), r.rowsLoaded()
	m.Rows = &rows
	r.notify(ctx, m)
}

func (r *run) message(ctx workflow.Context, event string) step.Message {
	execution := workflow.GetInfo(ctx).WorkflowExecution
	m := step.About(r.input.Definition, event)
	m.Interval, m.Kind, m.WorkflowID, m.RunID = r.owner.Interval, r.input.Kind, execution.ID, execution.RunID
	m.OccurredAt = workflow.Now(ctx).UTC().Truncate(time.Millisecond)
	return m
}

// notify has a message delivered, by a workflow of its own: the run does not wait for that, and does not fail when
// it cannot be had.
func (r *run) notify(ctx workflow.Context, m step.Message) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	r.tell(ctx, fmt.Sprintf("tell %s of the %s", r.input.Definition.Notify.Connection, m.Event), step.ActivityStartNotification, step.NotificationAsk{
		TaskQueue:    workflow.GetInfo(ctx).TaskQueueName,
		Notification: step.Notification{Connection: r.input.Definition.Notify.Connection, Message: m},
	})
}
