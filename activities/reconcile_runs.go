package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// openPage is how many open runs are listed at a time.
const openPage = 1000

// openTicks returns the ticks, in Unix seconds, whose workflow ids are open, whatever runs under them. The list
// may lag a little behind.
func (a *Activities) openTicks(ctx context.Context, pipelineName string) (map[int64]bool, error) {
	return a.ticks(ctx, pipelineName, "ExecutionStatus = 'Running'", "open")
}

// lostTicks returns the ticks under whose workflow ids a run was terminated or timed out, which leaves no outcome; of
// some, others have run since.
func (a *Activities) lostTicks(ctx context.Context, pipelineName string) (map[int64]bool, error) {
	return a.ticks(ctx, pipelineName, "ExecutionStatus IN ('Terminated', 'TimedOut')", "terminated")
}

func (a *Activities) ticks(ctx context.Context, pipelineName, condition, what string) (map[int64]bool, error) {
	found := map[int64]bool{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: a.temporal.Namespace, PageSize: openPage,
		Query: fmt.Sprintf("WorkflowId STARTS_WITH '%s-' AND %s", pipelineName, condition),
	}
	for {
		page, err := a.temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, temporalError(fmt.Errorf("list the %s runs of %s: %w", what, pipelineName, err))
		}
		for _, execution := range page.GetExecutions() {
			name, tick, err := step.ParseWorkflowID(execution.GetExecution().GetWorkflowId())
			if err == nil && name == pipelineName {
				found[tick.Unix()] = true
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return found, nil
		}
	}
}

// temporalError gives an error of Temporal its class: what it refuses, it would refuse again; anything else may pass.
func temporalError(err error) error {
	var invalid *serviceerror.InvalidArgument
	var denied *serviceerror.PermissionDenied
	var unknown *serviceerror.NamespaceNotFound
	if errors.As(err, &invalid) || errors.As(err, &denied) || errors.As(err, &unknown) {
		return retry.PermanentError("Temporal", err)
	}
	return retry.TransientError("Temporal", err)
}

// execution is the newest one under the id of an interval.
type execution struct {
	// known says that there is one.
	known, open bool
	// ours is a run of Tranche, and no other workflow that took the id.
	ours      bool
	id, runID string
	status    enums.WorkflowExecutionStatus
	// started is when it was started, closed when it ended.
	started, closed time.Time
	// atWork says that a step has been taken up by a worker, or is between two attempts.
	atWork       bool
	kind, digest string
	// campaign is the backfill or catchup that has started it; empty: none.
	campaign string
}

// silent reports whether it is a run that has ended without loading, and may have left no outcome.
func (e execution) silent() bool {
	return e.known && !e.open && e.ours && e.status != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
}

// outcome is that of a run that has left none.
func (e execution) outcome() string {
	if e.status == enums.WORKFLOW_EXECUTION_STATUS_CANCELED {
		return warehouse.OutcomeCancelled
	}
	return warehouse.OutcomeFailed
}

func (a *Activities) newest(ctx context.Context, id string) (execution, error) {
	described, err := a.temporal.DescribeWorkflow(ctx, id, "")
	if gone(err) {
		return execution{id: id}, nil
	}
	if err != nil {
		return execution{id: id}, temporalError(fmt.Errorf("look at %s: %w", id, err))
	}
	info := described.RawResponse.GetWorkflowExecutionInfo()
	return execution{
		known: true, open: isOpen(info.GetStatus()), ours: info.GetType().GetName() == launch.RunType,
		id: id, runID: info.GetExecution().GetRunId(), status: info.GetStatus(), started: info.GetStartTime().AsTime(), closed: info.GetCloseTime().AsTime(),
		atWork: hasWork(described.RawResponse),
		kind:   launch.MemoText(info.GetMemo(), launch.MemoKind), digest: launch.MemoText(info.GetMemo(), launch.MemoDigest),
		campaign: launch.MemoText(info.GetMemo(), launch.MemoCampaign),
	}, nil
}

// hasWork reports whether a worker has taken up one of a run's open activities, or the run itself for a moment.
func hasWork(described *workflowservice.DescribeWorkflowExecutionResponse) bool {
	if described.GetPendingWorkflowTask().GetState() == enums.PENDING_WORKFLOW_TASK_STATE_STARTED {
		return true
	}
	for _, one := range described.GetPendingActivities() {
		if one.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED || one.GetAttempt() > 1 {
			return true
		}
	}
	return false
}

// closing is what a closer look at an interval that has no outcome has found.
type closing struct {
	execution
	// outcome is in the ledger by now; empty: there is none, and the interval needs a run.
	outcome string
	// booked says that it was written just now, with this note.
	booked bool
	note   string
}

// closing looks at the newest execution under an interval's id and, if that has ended, at the interval's outcome. A
// run that Temporal has closed although the ledger has no outcome of it, since it was terminated or failed before it
// could write one, gets it written. An outcome that is there already may stay in its place, unless it is the newest
// execution's that is wanted. Of a run that gets its outcome written here, people are told before.
func (h herald) closing(ctx context.Context, ledger *warehouse.Warehouse, iv interval.Interval, newest bool) (closing, error) {
	a, pipelineName := h.activities, h.definition.Name
	found, err := a.newest(ctx, step.WorkflowID(pipelineName, iv.End))
	c := closing{execution: found}
	if err != nil || found.open {
		return c, err
	}
	written, err := outcomeRow(ctx, ledger, pipelineName, iv)
	if err != nil {
		return c, err
	}
	c.outcome = written.Status
	if !found.silent() || c.outcome != "" && (!newest || written.RunID == found.runID || written.Fence >= found.closed.UnixMicro()) {
		return c, nil
	}
	last, err := a.lastEvent(ctx, found)
	if err != nil || c.outcome != "" && refused(last) {
		return c, err
	}
	c.note = a.whyClosed(found, last)
	c.outcome, c.booked = found.outcome(), true
	if err := h.ended(ctx, iv, c); err != nil {
		return c, err
	}
	_, err = ledger.RecordOutcome(ctx, warehouse.Outcome{
		Pipeline: pipelineName, Interval: iv, Status: c.outcome, Kind: found.kind, WorkflowID: found.id, RunID: found.runID,
		Fence: found.closed.UnixMicro(), Digest: found.digest, Note: c.note,
	})
	return c, err
}

// endedFromOutside returns the outcome that closing would record for an interval that has none: failed, if its newest
// run was ended before it could write one. It changes nothing.
func (a *Activities) endedFromOutside(ctx context.Context, pipelineName string, iv interval.Interval) (string, error) {
	found, err := a.newest(ctx, step.WorkflowID(pipelineName, iv.End))
	if err != nil || !found.silent() {
		return "", err
	}
	return found.outcome(), nil
}

// outcomeRow returns an interval's outcome; zero when it has none.
func outcomeRow(ctx context.Context, ledger *warehouse.Warehouse, pipelineName string, iv interval.Interval) (warehouse.Outcome, error) {
	outcomes, err := ledger.Outcomes(ctx, warehouse.Query{Pipeline: pipelineName, From: iv.Start, To: iv.Start.Add(time.Second)})
	for _, outcome := range outcomes {
		if outcome.Interval == iv {
			return outcome, err
		}
	}
	return warehouse.Outcome{}, err
}

// closeNoteLimit bounds the words of the last event of a run, in bytes.
const closeNoteLimit = 500

// lastEvent returns the event with which a run has ended; nil when Temporal does not have it any more.
func (a *Activities) lastEvent(ctx context.Context, e execution) (*history.HistoryEvent, error) {
	events := a.temporal.GetWorkflowHistory(ctx, e.id, e.runID, false, enums.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if !events.HasNext() {
		return nil, nil
	}
	last, err := events.Next()
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, temporalError(fmt.Errorf("read how %s has ended: %w", e.id, err))
	}
	return last, nil
}

// refused reports whether a run has ended before it changed anything, since it was to keep what was not there.
func refused(last *history.HistoryEvent) bool {
	switch last.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetApplicationFailureInfo().GetType() {
	case step.ErrorNotLoaded, step.ErrorUnknownStep:
		return true
	default:
		return false
	}
}

// whyClosed says in a sentence how a run has ended.
func (a *Activities) whyClosed(e execution, last *history.HistoryEvent) string {
	if last == nil {
		return e.status.String()
	}
	note := a.connections.Mask(closeWords(last))
	if len(note) > closeNoteLimit {
		note = note[:closeNoteLimit] + "…"
	}
	return note
}

func closeWords(last *history.HistoryEvent) string {
	terminated, failed := last.GetWorkflowExecutionTerminatedEventAttributes(), last.GetWorkflowExecutionFailedEventAttributes()
	switch last.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		if terminated.GetReason() == "" {
			return "terminated"
		}
		return "terminated: " + terminated.GetReason()
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return "failed: " + failed.GetFailure().GetMessage()
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return "timed out"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return "cancelled"
	default:
		return "ended without an outcome"
	}
}
