package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// AskGate asks the gate of a pipeline for a slot, and starts it where none is open. Asking twice changes nothing.
//
// Whoever asks for the first time looks whether it has got a slot at once. One that asks again is told where it stands,
// and the gate hears of it only if it does not know that the run is there.
func (a *Activities) AskGate(ctx context.Context, ask step.GateAsk) (step.Standing, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	ask.Signal.Seat = step.Seat{WorkflowID: execution.ID, RunID: execution.RunID}
	again := ask.Seat != nil && *ask.Seat == ask.Signal.Seat
	if again {
		standing, err := a.look(ctx, ask)
		if standing.Holds || standing.Waits {
			return standing, nil
		}
		if err == nil {
			err = a.endUnserved(ctx, ask)
		}
		if err != nil {
			return standing, fmt.Errorf("ask the gate of %s: %w", ask.Pipeline, err)
		}
	}
	ask.Signal.Look = !again
	err := a.temporal.SignalWorkflow(ctx, launch.GateID(ask.Pipeline), "", step.SignalSlot, ask.Signal)
	if gone(err) {
		err = a.startGate(ctx, ask)
	}
	if err != nil || again {
		return step.Standing{Seat: ask.Signal.Seat}, wrapped(err, "ask the gate of "+ask.Pipeline)
	}
	standing, err := a.look(ctx, ask)
	return standing, wrapped(err, "ask the gate of "+ask.Pipeline)
}

// How long a run looks where it stands, and with which pauses. Temporal lets one query at a time wait for a workflow
// that is at work (server v1.32.1), so that many that look at once have to try again.
const (
	gateAnswer  = 3 * time.Second
	firstPause  = 20 * time.Millisecond
	longestLook = 320 * time.Millisecond
)

// look asks the gate where the run stands. What it does not find out, because no gate is open or it does not answer
// in time, is no error: nobody knows then.
func (a *Activities) look(ctx context.Context, ask step.GateAsk) (step.Standing, error) {
	waiting, cancel := context.WithTimeout(ctx, gateAnswer)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestLook) {
		standing, err := a.standing(waiting, ask)
		if err == nil || gone(err) || ctx.Err() != nil {
			return standing, ctx.Err()
		}
		timer := time.NewTimer(pause/2 + time.Duration(a.random()*float64(pause)))
		select {
		case <-waiting.Done():
			timer.Stop()
			return standing, ctx.Err()
		case <-timer.C:
		}
	}
}

// standing asks once. It goes past the SDK's client, which would wait for a second when it is told to try again.
func (a *Activities) standing(ctx context.Context, ask step.GateAsk) (step.Standing, error) {
	standing := step.Standing{Seat: ask.Signal.Seat}
	seat, err := a.temporal.Converter.ToPayloads(standing.Seat)
	if err != nil {
		return standing, err
	}
	response, err := a.temporal.WorkflowService().QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{
		Namespace: a.temporal.Namespace,
		Execution: &common.WorkflowExecution{WorkflowId: launch.GateID(ask.Pipeline)},
		Query:     &query.WorkflowQuery{QueryType: step.QueryStanding, QueryArgs: seat},
		// A gate that has ended would still answer, that the run waits.
		QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	if err != nil || response.GetQueryRejected() != nil {
		return standing, err
	}
	return standing, a.temporal.Converter.FromPayloads(response.GetQueryResult(), &standing)
}

// wrapped says what was attempted.
func wrapped(err error, attempted string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

// startGate starts a gate with the run's signal in it. One that was ended before its time, and not by itself, has
// left holders behind, which the new one has to find out about.
func (a *Activities) startGate(ctx context.Context, ask step.GateAsk) error {
	id := launch.GateID(ask.Pipeline)
	input := step.GateInput{Version: step.GateVersion, Pipeline: ask.Pipeline}
	described, err := a.describe(ctx, step.Seat{WorkflowID: id})
	info := described.GetWorkflowExecutionInfo()
	switch {
	case gone(err):
	case err != nil:
		return err
	case info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED && !isOpen(info.GetStatus()):
		input.State.Recover = info.GetExecution().GetRunId()
	}
	_, err = a.temporal.SignalWithStartWorkflow(ctx, id, step.SignalSlot, ask.Signal, client.StartWorkflowOptions{
		ID: id, TaskQueue: ask.TaskQueue, StaticSummary: "slots of " + ask.Pipeline,
		Priority: temporal.Priority{PriorityKey: launch.PriorityGate},
	}, launch.GateType, input)
	return err
}

// endUnserved ends a gate that cannot answer because it is on another task queue, which no worker serves: the
// pipeline has moved, and its holders are gone with their workers. Any other gate is left alone.
func (a *Activities) endUnserved(ctx context.Context, ask step.GateAsk) error {
	id := launch.GateID(ask.Pipeline)
	described, err := a.describe(ctx, step.Seat{WorkflowID: id})
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	info, queue := described.GetWorkflowExecutionInfo(), described.GetExecutionConfig().GetTaskQueue().GetName()
	if queue == ask.TaskQueue || !isOpen(info.GetStatus()) {
		return nil
	}
	served, err := a.temporal.Polled(ctx, queue)
	if err != nil || served {
		return err
	}
	activity.GetLogger(ctx).Warn("ending a gate that no worker serves", "gate", id, "queue", queue)
	err = a.temporal.TerminateWorkflow(ctx, id, info.GetExecution().GetRunId(),
		fmt.Sprintf("no worker polls its task queue %s any more; the runs of %s are on %s", queue, ask.Pipeline, ask.TaskQueue))
	if gone(err) {
		return nil
	}
	return err
}

// ReleaseGate gives a slot, or a place in the queue, back. Where no gate is open there is nothing to give back.
func (a *Activities) ReleaseGate(ctx context.Context, release step.GateRelease) error {
	if release.Seat.RunID == "" {
		release.Seat.RunID = activity.GetInfo(ctx).WorkflowExecution.RunID
	}
	err := a.temporal.SignalWorkflow(ctx, launch.GateID(release.Pipeline), "", step.SignalSlot, step.SlotSignal{Seat: release.Seat, Release: true})
	if err != nil && !gone(err) {
		return fmt.Errorf("give the slot of %s back: %w", release.Pipeline, err)
	}
	return nil
}

// Grant tells runs that they have got a slot, and returns those that have ended meanwhile. What it could not tell
// for another reason, the runs ask for again.
func (a *Activities) Grant(ctx context.Context, grants []step.Seat) (gonePast []step.Seat, err error) {
	failures := each(len(grants), func(i int) error {
		return a.temporal.SignalWorkflow(ctx, grants[i].WorkflowID, grants[i].RunID, step.SignalGranted, grants[i])
	})
	for i, failure := range failures {
		switch {
		case gone(failure):
			gonePast = append(gonePast, grants[i])
		case failure != nil:
			activity.GetLogger(ctx).Warn("a grant was not sent; its run asks again", "run", grants[i].WorkflowID, "reason", failure)
		}
	}
	return gonePast, nil
}

// Holders looks at those that have a slot, and returns those of which something is to be said: that they have
// ended, or that another execution goes on after a reset. One that could not be looked at is open until the next
// look.
func (a *Activities) Holders(ctx context.Context, look step.HoldersLook) ([]step.HolderState, error) {
	states := make([]step.HolderState, len(look.Places))
	failures := each(len(look.Places), func(i int) error {
		place := look.Places[i]
		at := place.Seat
		if place.Now != "" {
			at.RunID = place.Now
		}
		state, err := a.runState(ctx, at)
		states[i] = step.HolderState{Seat: place.Seat, Closed: gone(err) || err == nil && !state.Open}
		if state.Open && state.RunID != at.RunID {
			states[i].Now = state.RunID
		}
		if gone(err) {
			return nil
		}
		return err
	})
	if err := errors.Join(failures...); err != nil {
		activity.GetLogger(ctx).Warn("some that have a slot were not looked at; it is tried again", "reason", err)
	}
	var told []step.HolderState
	for _, state := range states {
		if state.Closed || state.Now != "" {
			told = append(told, state)
		}
	}
	return told, nil
}

// RecoverGate asks a gate that was ended how it stood.
func (a *Activities) RecoverGate(ctx context.Context, recovery step.GateRecovery) (step.GateState, error) {
	var state step.GateState
	answer, err := a.temporal.QueryWorkflow(ctx, launch.GateID(recovery.Pipeline), recovery.RunID, step.QueryGate)
	if gone(err) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("ask the ended gate of %s: %w", recovery.Pipeline, err)
	}
	return state, answer.Get(&state)
}

// runState says how an execution stands or, where it was reset, the one that goes on. The error is NotFound for
// one that Temporal does not know.
func (a *Activities) runState(ctx context.Context, seat step.Seat) (step.RunState, error) {
	for {
		described, err := a.describe(ctx, seat)
		if err != nil {
			return step.RunState{Seat: seat}, err
		}
		if next := described.GetWorkflowExtendedInfo().GetResetRunId(); next != "" && next != seat.RunID {
			seat.RunID = next
			continue
		}
		status := described.GetWorkflowExecutionInfo().GetStatus()
		return step.RunState{Seat: seat, Status: status.String(), Open: isOpen(status)}, nil
	}
}

// describe looks at an execution; without a run id at the newest of its id.
func (a *Activities) describe(ctx context.Context, seat step.Seat) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return a.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: a.temporal.Namespace, Execution: &common.WorkflowExecution{WorkflowId: seat.WorkflowID, RunId: seat.RunID},
	})
}

func isOpen(status enums.WorkflowExecutionStatus) bool {
	return status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enums.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// gone reports whether Temporal does not know an execution, or has seen it end.
func gone(err error) bool {
	var unknown *serviceerror.NotFound
	return errors.As(err, &unknown)
}

// atOnce is how many calls to Temporal one activity makes at a time.
const atOnce = 10

// each calls a function for each number below n, some at a time, and returns the errors in that order.
func each(n int, call func(i int) error) []error {
	failures := make([]error, n)
	places := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			failures[i] = call(i)
		})
	}
	calls.Wait()
	return failures
}
