package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// NotifyType is the workflow type of one that delivers a message, as it stands in histories.
const NotifyType = "tranche-notify"

// NotifyID returns the id of the workflow that delivers a message: it names the event, so that each is told once. What
// a run tells of itself is told once for each of its executions; a missed deadline once for the first interval of
// those that were found together.
func NotifyID(m step.Message) string {
	id := fmt.Sprintf("%snotify/%s/%s/%s", prefix, m.Pipeline, m.Event, m.Interval.End.UTC().Format(time.RFC3339))
	if m.RunID != "" {
		id += "/" + m.RunID
	}
	return id
}

// Notify starts the workflow that delivers a message, whose ID it sets. A message that was told before, as far as
// Temporal remembers, is not told again: Taken says so.
func (t *Temporal) Notify(ctx context.Context, taskQueue string, n step.Notification) (Started, error) {
	n.Version, n.Message.ID = step.NotificationVersion, NotifyID(n.Message)
	started := Started{WorkflowID: n.Message.ID}
	input, err := t.Converter.ToPayloads(n)
	if err != nil {
		return started, fmt.Errorf("start %s: encode the message: %w", started.WorkflowID, err)
	}
	metadata, err := t.metadata(notifySummary(n.Message), "")
	if err != nil {
		return started, fmt.Errorf("start %s: %w", started.WorkflowID, err)
	}
	last := n.Message.Interval.End
	if n.Message.LastInterval != nil {
		last = n.Message.LastInterval.End
	}
	response, err := t.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: t.Namespace, WorkflowId: started.WorkflowID, RequestId: uuid.NewString(), Input: input,
		WorkflowType:             &common.WorkflowType{Name: NotifyType},
		TaskQueue:                &taskqueue.TaskQueue{Name: taskQueue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		WorkflowIdReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     memoOf(map[string]string{memoLastTick: last.UTC().Format(time.RFC3339)}),
		UserMetadata:             metadata,
		Priority:                 &common.Priority{PriorityKey: PriorityFirst},
	})
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &taken):
		started.RunID, started.Taken = taken.RunId, true
		return started, nil
	case err != nil:
		return started, fmt.Errorf("start %s: %w", started.WorkflowID, err)
	}
	started.RunID = response.GetRunId()
	return started, nil
}

// memoLastTick is the tick of the last interval that a message is about.
const memoLastTick = "tranche.last_tick"

// LastTold returns the tick of the last interval that a message is about which Notify found Taken.
func (t *Temporal) LastTold(ctx context.Context, taken Started) (time.Time, error) {
	described, err := t.DescribeWorkflow(ctx, taken.WorkflowID, taken.RunID)
	if err != nil {
		return time.Time{}, fmt.Errorf("look at %s: %w", taken.WorkflowID, err)
	}
	text := MemoText(described.RawResponse.GetWorkflowExecutionInfo().GetMemo(), memoLastTick)
	last, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("look at %s: it does not say which intervals it is about", taken.WorkflowID)
	}
	return last, nil
}

func notifySummary(m step.Message) string {
	location, err := interval.LoadLocation(m.Timezone)
	if err != nil {
		location = time.UTC
	}
	text := fmt.Sprintf("%s %s: %s", m.Pipeline, IntervalName(m.Interval, location), m.Event)
	if m.Count > 1 {
		text += fmt.Sprintf(" and %d more", m.Count-1)
	}
	return text
}
