package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// ReconcileType is the workflow type of Reconcile, as it stands in histories.
const ReconcileType = "tranche-reconcile"

// ReconcileInput says which pipelines are to be reconciled.
type ReconcileInput struct {
	// TaskQueue whose pipelines they are; the workflow runs on it.
	TaskQueue string `json:"task_queue"`
	// Pipelines narrows it down to these; empty: all that have a Schedule.
	Pipelines []string `json:"pipelines,omitempty"`
}

// ReconcileResult is what was found and done, in the order of the pipelines' names.
type ReconcileResult struct {
	Pipelines []step.Reconciled `json:"pipelines"`
}

// Failure returns the errors of all pipelines that could not be reconciled; nil when there are none.
func (r ReconcileResult) Failure() error {
	var failures []error
	for _, found := range r.Pipelines {
		if found.Error != "" {
			failures = append(failures, fmt.Errorf("%s: %s", found.Pipeline, found.Error))
		}
	}
	return errors.Join(failures...)
}

// How long one attempt may take, over years of minutes, and how soon one that was lost with its worker is tried
// again.
const (
	reconcileAttempt   = 2 * time.Minute
	reconcileHeartbeat = 10 * time.Second
)

// reconcileWidth is how many pipelines are reconciled at a time.
const reconcileWidth = 4

// reported bounds the late and the missing intervals in a result, over all pipelines: a payload is not to grow with
// them. Each late one was told of when it was found, and the missing ones are counted.
const reported = 100

// Reconcile compares what is expected of each pipeline with what its ledger and Temporal know, and has what is
// missing started, as the pipeline's `catchup` says. Two of them at a time do no harm.
func Reconcile(ctx workflow.Context, input ReconcileInput) (ReconcileResult, error) {
	control := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout: reconcileAttempt,
		HeartbeatTimeout:    reconcileHeartbeat,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 2 * time.Second, BackoffCoefficient: 2, MaximumInterval: 20 * time.Second, MaximumAttempts: 4},
	})
	var watched []step.Watched
	request := step.WatchRequest{TaskQueue: input.TaskQueue, Pipelines: input.Pipelines}
	if err := workflow.ExecuteActivity(control, step.ActivityWatch, request).Get(ctx, &watched); err != nil {
		return ReconcileResult{}, err
	}
	r := &reconciler{control: control, found: make([]step.Reconciled, len(watched))}
	places := workflow.NewSemaphore(ctx, reconcileWidth)
	group := workflow.NewWaitGroup(ctx)
	for i := range watched {
		if err := places.Acquire(ctx, 1); err != nil {
			return ReconcileResult{}, err
		}
		group.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer group.Done()
			defer places.Release(1)
			r.pipeline(ctx, watched[i], &r.found[i])
			workflow.SetCurrentDetails(ctx, r.details())
		})
	}
	group.Wait(ctx)
	late, missing := reported, reported
	for i := range r.found {
		found := &r.found[i]
		found.Late = found.Late[:min(late, len(found.Late))]
		late -= len(found.Late)
		found.MissingIntervals = found.MissingIntervals[len(found.MissingIntervals)-min(missing, len(found.MissingIntervals)):]
		missing -= len(found.MissingIntervals)
	}
	workflow.SetCurrentDetails(ctx, r.details())
	return ReconcileResult{Pipelines: r.found}, ctx.Err()
}

type reconciler struct {
	control workflow.Context
	found   []step.Reconciled
}

// pipeline reconciles one of them.
func (r *reconciler) pipeline(ctx workflow.Context, watched step.Watched, found *step.Reconciled) {
	found.Pipeline, found.Error = watched.Pipeline, watched.Problem
	if watched.Warehouse == "" {
		return // its Schedule cannot be read
	}
	control := workflow.WithActivityOptions(ctx, workflow.GetActivityOptions(r.control)) // in this coroutine
	if err := workflow.ExecuteActivity(control, step.ActivityReconcile, watched).Get(ctx, found); err != nil {
		found.Error = join(watched.Problem, reason(err))
		return
	}
	found.Error = watched.Problem
	if found.Catchup == nil {
		return
	}
	request := step.CatchupRequest{Pipeline: watched.Pipeline, Range: *found.Catchup}
	if err := workflow.ExecuteActivity(control, step.ActivityCatchup, request).Get(ctx, nil); err != nil {
		found.Error = join(found.Error, reason(err))
		return
	}
	found.Started = launch.CatchupID(watched.Pipeline)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// details is what an operator sees in the UI: the counts as a table, and below it, where a sentence has room, what
// is done about each pipeline.
func (r *reconciler) details() string {
	var table, done strings.Builder
	row := func(cells ...string) { table.WriteString("| " + strings.Join(cells, gap+" | ") + " |\n") }
	row("pipeline", "expected", "loaded", "open", "recent", "failed", "missing")
	table.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range r.found {
		found := &r.found[i]
		if found.Pipeline == "" {
			continue // not looked at yet
		}
		note := found.Note
		if found.Started != "" {
			note += " by " + found.Started
		}
		if found.Error != "" {
			note = join(note, "error: "+found.Error)
		}
		row(found.Pipeline, fmt.Sprint(found.Expected), fmt.Sprint(found.Loaded+found.Accepted), fmt.Sprint(found.Open),
			fmt.Sprint(found.Recent), fmt.Sprint(found.Failed), fmt.Sprint(found.Missing))
		fmt.Fprintf(&done, "\n**%s**: %s\n", found.Pipeline, cell(note))
	}
	return table.String() + done.String()
}
