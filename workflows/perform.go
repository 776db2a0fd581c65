package workflows

import (
	"fmt"
	"maps"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// maximumRereads is how often a load may find its source gone or changed and have it read again,
// before the step fails: a file that changes all the time is nobody's interval.
const maximumRereads = 2

// perform runs a step to its end. A load whose source is gone or has changed has that source read
// again first.
func (r *run) perform(ctx workflow.Context, n *node) (*step.Done, error) {
	if n.definition.Activity != nil {
		return r.executeForeign(ctx, n)
	}
	if n.definition.Load == nil {
		done, _, err := r.execute(ctx, n, nil)
		return done, err
	}
	source := r.nodes[n.definition.Load.From]
	for reread := 0; ; reread++ {
		generation := source.generation
		done, lost, err := r.execute(ctx, n, source)
		if err != nil || lost == "" {
			return done, err
		}
		if reread == maximumRereads {
			return nil, temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"the rows of step %s were lost or changed %d times before they could be loaded", source.definition.Name, reread+1), lost, nil)
		}
		if err := r.reread(ctx, source, generation, lost); err != nil {
			return nil, err
		}
	}
}

// reread runs a source again, unless another load has had that done already.
func (r *run) reread(ctx workflow.Context, source *node, generation int, why string) error {
	if err := source.reading.Lock(ctx); err != nil {
		return err
	}
	defer source.reading.Unlock()
	if source.generation != generation {
		return nil
	}
	source.report.State, source.report.Note = StateRunning, "read again: "+why
	r.show(ctx)
	done, _, err := r.execute(ctx, source, nil)
	if err != nil {
		source.report.State, source.report.Note = StateFailed, reason(err)
		return fmt.Errorf("step %s: %w", source.definition.Name, err)
	}
	source.generation++
	source.finish(done)
	return nil
}

// execute schedules a step's activity, and again after each wait, with what is left of its
// attempts and of its schedule_to_close.
func (r *run) execute(ctx workflow.Context, n *node, source *node) (*step.Done, string, error) {
	input := step.Input{Owner: r.owner, Step: *n.definition}
	if source != nil {
		input.Source = &step.Source{Step: *source.definition, Result: step.Result{Done: source.done}}
	}
	closeBy := workflow.Now(ctx).Add(n.definition.Timeout.ScheduleToClose.Std())
	reason := ""
	for {
		left := closeBy.Sub(workflow.Now(ctx))
		if left <= 0 {
			// Nobody worked while the time ran out: no worker, or no server.
			n.report.Attempts = input.Used + 1 // with the one that asked to wait
			return nil, "", temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"%s; by the time it could be tried again, its schedule_to_close of %s was over", reason, n.definition.Timeout.ScheduleToClose),
				ErrorWaitTooLong, nil)
		}
		options := activityOptions(n.definition, input.Used, r.lifeOf(ctx, closeBy))
		var result step.Result
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activityName(n.definition), input).Get(ctx, &result)
		switch {
		case err != nil:
			n.report.Attempts = input.Used + attemptsOf(err, int(options.RetryPolicy.MaximumAttempts))
			return nil, "", err
		case result.SourceLost != "":
			return nil, result.SourceLost, nil
		case result.Wait == nil:
			result.Done.Attempt += input.Used
			return result.Done, "", nil
		}
		input.Used += result.Wait.Used
		input.Throttled = result.Wait.Throttled
		n.report.Attempts = input.Used
		reason = result.Wait.Reason
		if err := r.wait(ctx, n, result.Wait, closeBy); err != nil {
			return nil, "", err
		}
		input.Waited, n.report.Waited = result.Wait.Waited, result.Wait.Waited
	}
}

// runTimeoutFirst is how much longer than the run Temporal lets a step live at least whose schedule_to_close does not
// end before it, as where the file says only run_timeout. The run ends the step then, and fails as RunTimeout, instead
// of the one or the other by chance.
const runTimeoutFirst = time.Minute

// lifeOf returns the time that Temporal gives a step whose schedule_to_close ends at closeBy.
func (r *run) lifeOf(ctx workflow.Context, closeBy time.Time) time.Duration {
	if !r.endBy.IsZero() && !closeBy.Before(r.endBy) {
		if last := r.endBy.Add(runTimeoutFirst); closeBy.Before(last) {
			closeBy = last
		}
	}
	return closeBy.Sub(workflow.Now(ctx))
}

// executeForeign runs an activity that is not ours, in whatever language: its input is the map of the
// file with the interval added, its result is its own affair.
func (r *run) executeForeign(ctx workflow.Context, n *node) (*step.Done, error) {
	declared := n.definition.Activity
	input := maps.Clone(declared.Input)
	if input == nil {
		input = map[string]any{}
	}
	input["interval"] = r.owner.Interval
	options := activityOptions(n.definition, 0, r.lifeOf(ctx, workflow.Now(ctx).Add(n.definition.Timeout.ScheduleToClose.Std())))
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), declared.Type, input).Get(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &step.Done{}, nil
}

// wait sleeps until a step may be tried again: no worker slot is held and no attempt used up.
func (r *run) wait(ctx workflow.Context, n *node, wait *step.Wait, closeBy time.Time) error {
	pause := wait.Until.Sub(workflow.Now(ctx))
	if !wait.Until.Before(closeBy) || pause > 0 && !workflow.Now(ctx).Add(pause).Before(closeBy) {
		n.report.Attempts++ // the one that asked to wait
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
			"%s; waiting until %s would end after the step's schedule_to_close of %s", wait.Reason,
			wait.Until.UTC().Format(time.RFC3339), n.definition.Timeout.ScheduleToClose), ErrorWaitTooLong, nil)
	}
	if pause <= 0 {
		return nil
	}
	n.report.State = StateWaiting
	n.report.Note = fmt.Sprintf("until %s: %s", wait.Until.UTC().Format(time.RFC3339), wait.Reason)
	r.show(ctx)
	timer := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: n.definition.Name + " waits: " + wait.Reason})
	if err := timer.Get(ctx, nil); err != nil {
		return err
	}
	n.report.State, n.report.Note = StateRunning, ""
	r.show(ctx)
	return nil
}

// activityOptions hands the declared policy to Temporal. Attempts that were used before a wait are
// taken off, and so is the time.
func activityOptions(s *pipeline.Step, used int, left time.Duration) workflow.ActivityOptions {
	options := workflow.ActivityOptions{
		StartToCloseTimeout:    s.Timeout.StartToClose.Std(),
		ScheduleToCloseTimeout: left,
		HeartbeatTimeout:       s.Timeout.Heartbeat.Std(),
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        s.Retry.InitialInterval.Std(),
			BackoffCoefficient:     s.Retry.BackoffCoefficient,
			MaximumInterval:        s.Retry.MaximumInterval.Std(),
			MaximumAttempts:        int32(max(1, s.Retry.MaximumAttempts-used)),
			NonRetryableErrorTypes: s.Retry.Overrides().NonRetryableErrorTypes(),
		},
		Summary: summary(s),
	}
	options.TaskQueue = s.TaskQueue()
	return options
}

func activityName(s *pipeline.Step) string {
	switch {
	case s.HTTP != nil:
		return step.ActivityHTTP
	case s.File != nil:
		return step.ActivityFile
	case s.Load != nil:
		return step.ActivityLoad
	case s.Exec != nil:
		return step.ActivityExec
	default:
		return "unsupported-" + s.Kind()
	}
}

// summary is the line that the UI shows beside the step's activity.
func summary(s *pipeline.Step) string {
	switch {
	case s.HTTP != nil:
		return fmt.Sprintf("%s: %s %s of %s", s.Name, s.HTTP.Method, s.HTTP.Path, s.HTTP.Connection)
	case s.File != nil:
		return fmt.Sprintf("%s: %s of %s", s.Name, s.File.Path, s.File.Connection)
	case s.Load != nil:
		return fmt.Sprintf("%s: %s into %s", s.Name, s.Load.Disposition, s.Load.Table)
	case s.Exec != nil:
		return fmt.Sprintf("%s: run %s", s.Name, s.Exec.Command[0])
	case s.Activity != nil:
		return fmt.Sprintf("%s: %s", s.Name, s.Activity.Type)
	default:
		return s.Name
	}
}
