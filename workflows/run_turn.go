package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/step"
)

// begin waits for the run's turn: the delay after its tick, then the interval before it, then a slot. Nothing
// counts yet, no worker is held, and the current details say what is waited for.
func (r *run) begin(ctx workflow.Context) error {
	if r.input.Version < versionWaiting {
		return nil
	}
	for _, wait := range []func(workflow.Context) error{r.awaitDelay, r.awaitPast, r.awaitSlot} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	r.note, r.started = "", workflow.Now(ctx)
	return nil
}

// awaitDelay sleeps until the run is due: its interval must be over and, for a scheduled run, the delay after its
// tick. A Schedule that is told to backfill the future starts its runs now (server v1.32.1): what they would load
// of an interval that goes on would stay incomplete.
func (r *run) awaitDelay(ctx workflow.Context) error {
	due, why := r.owner.Interval.End, "its interval is not over before"
	if delay := r.input.Definition.Schedule.Delay; r.input.Kind == step.Scheduled && delay > 0 {
		due, why = due.Add(delay.Std()), fmt.Sprintf("it begins %s after its tick", delay)
	}
	left := due.Sub(workflow.Now(ctx))
	if left <= 0 {
		return nil
	}
	until := due.UTC().Format(time.RFC3339)
	r.await(ctx, fmt.Sprintf("waits until %s: %s", until, why))
	return workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "due at " + until}).Get(ctx, nil)
}

// awaitPast waits until the interval before is loaded or accepted, where the pipeline wants that. The run of that
// interval tells when it ends; in case it cannot, the ledger is looked at from time to time.
func (r *run) awaitPast(ctx workflow.Context) error {
	schedule := r.input.Definition.Schedule
	if !schedule.DependsOnPast {
		return nil
	}
	past := workflow.GetSignalChannel(ctx, step.SignalPast)
	request := step.PastRequest{Owner: r.owner, Kind: r.input.Kind, Schedule: *schedule, Exempt: r.input.Exempt}
	for look := 0; ; look++ {
		drain(past)
		var answer step.PastAnswer
		err := workflow.ExecuteLocalActivity(turnOptions(ctx, "look at the interval before"), step.ActivityPast, request).Get(ctx, &answer)
		var application *temporal.ApplicationError
		switch {
		case temporal.IsCanceledError(err), errors.As(err, &application) && application.NonRetryable():
			return err
		case err != nil:
			answer.Note = "waits for the interval before, which it cannot look up: " + reason(err)
		case answer.Go:
			return nil
		}
		r.await(ctx, answer.Note)
		if _, err := pause(ctx, patience(10*time.Second, look), answer.Note, func() bool { return past.Len() > 0 }); err != nil {
			return err
		}
	}
}

// firstLook is how soon a run asks again that could not find out where it stands.
const firstLook = 5 * time.Second

// awaitSlot asks the pipeline's gate for a slot and waits for it. Whatever gets lost is asked for again. The
// window of a backfill is its gate: its runs ask for nothing.
func (r *run) awaitSlot(ctx workflow.Context) error {
	schedule := r.input.Definition.Schedule
	if r.input.Kind == step.Backfill || schedule.MaxActiveRuns < 1 {
		return nil
	}
	info := workflow.GetInfo(ctx)
	ask := step.GateAsk{
		Pipeline: r.owner.Pipeline, TaskQueue: info.TaskQueueName,
		Signal: step.SlotSignal{
			Class: step.Class(r.input.Kind), Start: r.owner.Interval.Start,
			Limit: schedule.MaxActiveRuns, InOrder: schedule.DependsOnPast, Began: info.WorkflowStartTime.UTC(),
		},
	}
	granted := workflow.GetSignalChannel(ctx, step.SignalGranted)
	r.seat = &step.Seat{WorkflowID: info.WorkflowExecution.ID}
	r.await(ctx, fmt.Sprintf("waits for a slot: %d %s of %s may work at a time", schedule.MaxActiveRuns, plural(schedule.MaxActiveRuns, "run"), r.owner.Pipeline))
	for look := 0; ; look++ {
		var standing step.Standing
		err := workflow.ExecuteLocalActivity(turnOptions(ctx, "ask for a slot"), step.ActivityAskGate, ask).Get(ctx, &standing)
		switch {
		case temporal.IsCanceledError(err):
			return err
		case err != nil:
			r.await(ctx, "waits for a slot, for which it could not ask yet: "+reason(err))
		default:
			r.seat, ask.Seat = &standing.Seat, &standing.Seat
		}
		after := firstLook
		switch {
		case standing.Holds:
			return nil
		case standing.Waits:
			r.await(ctx, waitsForSlot(standing))
			after = patience(minutePause, look)
		}
		if has, err := r.granted(ctx, granted, after); has || err != nil {
			return err
		}
	}
}

// granted waits for the grant of the run's own seat. One for another seat is of a run that was reset to before it
// had asked: Temporal repeats the signals that it had got.
func (r *run) granted(ctx workflow.Context, channel workflow.ReceiveChannel, after time.Duration) (bool, error) {
	for {
		has, err := pause(ctx, after, r.note, func() bool { return channel.Len() > 0 })
		if !has || err != nil {
			return false, err
		}
		var seat step.Seat
		for channel.ReceiveAsync(&seat) {
			if seat == *r.seat || r.seat.RunID == "" {
				r.seat = &seat
				return true, nil
			}
		}
	}
}

// waitsForSlot says in a sentence where a run stands.
func waitsForSlot(standing step.Standing) string {
	text := fmt.Sprintf("waits for a slot: %d of %d are taken", standing.Taken, standing.Limit)
	if len(standing.By) > 0 {
		text += ", by " + strings.Join(standing.By, ", ")
		if more := standing.Taken - len(standing.By); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	switch standing.Before {
	case 0:
		return text + "; it is the next"
	case 1:
		return text + "; 1 waits before it"
	default:
		return text + fmt.Sprintf("; %d wait before it", standing.Before)
	}
}

// await says what is waited for.
func (r *run) await(ctx workflow.Context, note string) {
	r.note = note
	r.show(ctx)
}

// The pauses between looks grow, so that a run which waits for days has a short history: a minute for the first
// ten or so, and up to maximumPause after that.
const (
	minutePause  = time.Minute
	minutePauses = 10
	maximumPause = 10 * time.Minute
)

// patience returns the pause after a look, counted from 0.
func patience(first time.Duration, look int) time.Duration {
	growing, limit := first, minutePause
	if look > minutePauses {
		growing, look, limit = minutePause, look-minutePauses, maximumPause
	}
	for range min(look, 10) {
		growing *= 2
	}
	return min(growing, limit)
}

// pause waits until something is the case, at most this long, and reports whether it is. Its timer is stopped,
// which workflow.AwaitWithTimeout leaves to later (SDK 1.51).
func pause(ctx workflow.Context, most time.Duration, summary string, is func() bool) (bool, error) {
	if is() {
		return true, nil
	}
	waiting, stop := workflow.WithCancel(ctx)
	defer stop()
	timer := workflow.NewTimerWithOptions(waiting, most, workflow.TimerOptions{Summary: oneLine(summary)})
	if err := workflow.Await(ctx, func() bool { return timer.IsReady() || is() }); err != nil {
		return false, err
	}
	return is(), nil
}

// summaryLimit is what Temporal takes for a line beside an event.
const summaryLimit = 200

// oneLine bounds a summary.
func oneLine(text string) string {
	if runes := []rune(text); len(runes) > summaryLimit {
		return string(runes[:summaryLimit-1]) + "…"
	}
	return text
}

// drain forgets the signals that are there: what they announce is looked at next.
func drain(channel workflow.ReceiveChannel) {
	for channel.ReceiveAsync(nil) {
	}
}

// turnAct bounds what a run has looked up or told outside, with all tries. What fails for longer is waited for
// with a timer.
const turnAct = 20 * time.Second

func turnOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: turnAct,
		StartToCloseTimeout:    turnAct,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumAttempts: 4},
		Summary:                summary,
	})
}
