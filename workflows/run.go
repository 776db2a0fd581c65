// Package workflows holds the workflows of Tranche: Run works through the steps of one pipeline
// for one data interval.
//
// Workflows know what passes between them and the activities, by package step, but none of the
// rooms that touch the outside world. Everything here is deterministic; a history recorded by an
// earlier build must replay, see testdata/replay.
package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// RunResult is what a run answers.
type RunResult struct {
	Pipeline string            `json:"pipeline"`
	Interval interval.Interval `json:"interval"`
	Kind     step.Kind         `json:"kind"`
	// Outcome is that of the interval or, for a run that owned none, to which run it was handed over.
	Outcome string `json:"outcome"`
	// Rows written by all loads.
	Rows  int64        `json:"rows"`
	Steps []StepReport `json:"steps"`
	// Note says what else operators should know; empty for nearly all runs.
	Note string `json:"note,omitempty"`
}

// Types of the errors that a run itself ends with; those of steps keep the step's own type.
const (
	ErrorNoInterval  = "NoInterval"
	ErrorRunTimeout  = "RunTimeout"
	ErrorLoadFailed  = "LoadFailed"
	ErrorWaitTooLong = "WaitTooLong"
	ErrorHandedOver  = "HandedOverRunFailed"
)

// versionWaiting is the version of the input since which a run waits for its turn.
const versionWaiting = 2

// Run is one run of a pipeline: it waits for its turn, interprets the step graph for one data interval, records
// the outcome in the load ledger, and gives its slot back.
//
// It fails with the type of the error of the step that failed it, and leaves nothing running: on a
// failure, a timeout or a cancel the other steps are cancelled and awaited first.
func Run(ctx workflow.Context, input launch.Input) (RunResult, error) {
	if err := input.Unreadable(); err != nil {
		// A panic fails the workflow task, not the workflow: Temporal tries again until a worker
		// can read the input.
		panic(fmt.Sprintf("this run needs a newer worker: %v", err))
	}
	owned, last, err := ownInterval(ctx, input)
	if err != nil {
		return RunResult{}, err
	}
	if last != nil {
		return handOver(ctx, input, *last)
	}
	order, err := input.Definition.TopologicalOrder()
	if err != nil {
		return RunResult{}, temporal.NewNonRetryableApplicationError(err.Error(), "BadDefinition", err)
	}
	r := newRun(ctx, input, owned, order)
	r.show(ctx)
	if err := r.keep(ctx); err != nil {
		// Nothing has changed: what the ledger says of the interval still holds.
		return RunResult{}, r.failed(err, RunResult{})
	}
	failure := r.begin(ctx)
	if failure == nil {
		failure = r.runSteps(ctx)
	}
	outcome := r.outcome(ctx, failure)
	if outcome == step.OutcomeFailed {
		r.tellFailure(ctx, failure) // before the outcome, for which the warehouse may have to be waited for
	}
	recorded, err := r.record(ctx, outcome, failure)
	switch {
	case err != nil && failure == nil:
		// The rows are in, but nobody would know: the run must not count as done.
		failure, outcome = fmt.Errorf("record the outcome %s: %w", outcome, err), step.OutcomeFailed
		r.tellFailure(ctx, failure)
	case recorded.Recovered:
		r.tellRecovery(ctx)
	}
	r.leave(ctx, outcome)
	r.show(ctx)
	result := RunResult{
		Pipeline: input.Definition.Name, Interval: owned, Kind: input.Kind,
		Outcome: outcome, Rows: r.rowsLoaded(), Steps: r.reports(), Note: r.note,
	}
	if failure != nil {
		return result, r.failed(failure, result)
	}
	return result, nil
}

// outcome says how the run ended for its interval.
func (r *run) outcome(ctx workflow.Context, failure error) string {
	switch {
	case failure == nil:
		return step.OutcomeLoaded
	case temporal.IsCanceledError(failure) || ctx.Err() != nil && r.timedOut == nil:
		return step.OutcomeCancelled
	default:
		return step.OutcomeFailed
	}
}

// The outcome has to reach the ledger even when the warehouse is away for a while: first by a
// local activity, which costs the server nothing, then by an ordinary one that waits as long as an
// outage at night may last. An interval that was not loaded is a gap without an outcome, too: there the
// run does not hold back its error for that long.
const (
	recordQuickly   = 20 * time.Second
	recordAttempt   = 30 * time.Second
	recordPatiently = 24 * time.Hour
	recordFailure   = 5 * time.Minute
)

// record writes the outcome as the run's last act; it runs on after a cancel.
func (r *run) record(ctx workflow.Context, outcome string, failure error) (recorded step.Recorded, err error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	input := step.Outcome{
		Owner: r.owner, Outcome: outcome, Kind: r.input.Kind, Started: r.started, Rows: r.rowsLoaded(), Attempts: r.mostAttempts(),
		// The server's time, which also grows when an older run is reset and ends again.
		Fence: workflow.Now(ctx).UnixMicro(),
	}
	switch {
	case failure != nil:
		input.Reason = reason(failure)
	case r.input.FromStep != "":
		input.Reason = r.partly()
		if r.keptDigest != "" {
			input.Digest = r.keptDigest // the rows do not all follow from this run's definition
		}
	}
	for _, name := range r.order {
		if n := r.nodes[name]; n.definition.HTTP != nil && n.report.State != StateKept {
			input.Staged = append(input.Staged, name)
		}
	}
	quick := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: recordQuickly,
		StartToCloseTimeout:    recordQuickly,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 3},
		Summary:                "record " + outcome,
	})
	future := workflow.ExecuteLocalActivity(quick, step.ActivityOutcome, input)
	err = future.Get(ctx, nil)
	var application *temporal.ApplicationError
	if err == nil || errors.As(err, &application) && application.NonRetryable() {
		return recordedBy(ctx, future), err
	}
	patience := recordPatiently
	if failure != nil {
		patience = recordFailure
	}
	r.note = "waiting for the warehouse to record the outcome " + outcome
	r.show(ctx)
	patient := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: patience,
		StartToCloseTimeout:    recordAttempt,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
		Summary:                "record " + outcome,
	})
	future = workflow.ExecuteActivity(patient, step.ActivityOutcome, input)
	err = future.Get(ctx, nil)
	r.note = ""
	return recordedBy(ctx, future), err
}

// recordedBy returns what the ledger said about an outcome; nothing where it failed, or an older worker has written
// it, which said nothing.
func recordedBy(ctx workflow.Context, future workflow.Future) step.Recorded {
	var recorded step.Recorded
	if err := future.Get(ctx, &recorded); err != nil {
		return step.Recorded{}
	}
	return recorded
}

// failed returns the error that the run ends with. Its details say what each step did: Temporal keeps no result
// of a run that failed.
func (r *run) failed(failure error, result RunResult) error {
	if temporal.IsCanceledError(failure) {
		return failure
	}
	kind := errorType(failure)
	return temporal.NewApplicationErrorWithOptions(reason(failure), kind,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: failure, Details: []any{result}})
}
