package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// How long the command line waits for what a worker does for it.
const (
	// answerWithin bounds the whole of it.
	answerWithin = 2 * time.Minute
	// answerSoon is when people are told that a worker is waited for: one that has died without a word counts as
	// there for a while.
	answerSoon = 5 * time.Second
	// answerUnserved is how long a worker may take to come.
	answerUnserved = time.Minute
)

// answer waits for the result of a workflow that answers the command line. An error says what went wrong without
// Temporal's words around it; where no worker comes, the workflow is ended, and the error is that of noWorkers.
func (o *online) answer(ctx context.Context, queue string, handle client.WorkflowRun, result any) error {
	for _, wait := range []time.Duration{answerSoon, answerUnserved - answerSoon} {
		err := get(ctx, wait, handle, result)
		if !errors.Is(err, errNotYet) {
			return plainly(err)
		}
		unserved, err := o.unserved(ctx, handle)
		switch {
		case err != nil:
			return err
		case unserved && wait == answerSoon:
			fmt.Fprintf(o.talk, "waiting for a worker on task queue %s\n", queue)
		case unserved:
			// Nothing is to happen after this, of which nobody would be told.
			err := o.TerminateWorkflow(ctx, handle.GetID(), handle.GetRunID(), "no worker came")
			return errors.Join(noWorkers(queue, o.Namespace), err)
		}
	}
	err := get(ctx, answerWithin, handle, result)
	var late *temporal.TimeoutError
	var within *temporal.ActivityError
	if errors.As(err, &late) && !errors.As(err, &within) {
		return fmt.Errorf("no answer within %s from the workers of task queue %s: look at workflow %s in the Temporal UI", answerWithin, queue, handle.GetID())
	}
	return plainly(err)
}

// errNotYet says that a workflow is still open.
var errNotYet = errors.New("not yet")

// get waits for a result for some time, and returns errNotYet when that is over.
func get(ctx context.Context, wait time.Duration, handle client.WorkflowRun, result any) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := handle.Get(waiting, result)
	// The last question may be cut off by the deadline, and be told so before the context is.
	var late *serviceerror.DeadlineExceeded
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)) {
		return errNotYet
	}
	return err
}

// unserved reports whether a workflow waits for a worker that takes its task, or one of its activities.
func (o *online) unserved(ctx context.Context, handle client.WorkflowRun) (bool, error) {
	described, err := o.DescribeWorkflow(ctx, handle.GetID(), handle.GetRunID())
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", handle.GetID(), err)
	}
	return waitsForWorker(described.RawResponse), nil
}

func waitsForWorker(described *workflowservice.DescribeWorkflowExecutionResponse) bool {
	if task := described.GetPendingWorkflowTask(); task != nil && task.GetState() == enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED {
		return true
	}
	for _, activity := range described.GetPendingActivities() {
		// A later attempt waits for its time.
		if activity.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED && activity.GetAttempt() <= 1 {
			return true
		}
	}
	return false
}

// plainly returns what a workflow or an activity said instead of how Temporal passed it on.
func plainly(err error) error {
	var said *temporal.ApplicationError
	if errors.As(err, &said) {
		return errors.New(said.Message())
	}
	return err
}
