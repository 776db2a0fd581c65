package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

// work does what a step is for. It reports progress as it goes.
type work func(ctx context.Context, p *progress) (*step.Done, error)

// errHandBack is why an attempt's context ends when its worker has no more time.
var errHandBack = errors.New("its worker was stopped")

// attempt runs one attempt of a step: with heartbeats beside it, handed back when the worker
// stops, and with every error mapped to what Temporal and operators should see.
func (a *Activities) attempt(ctx context.Context, in step.Input, do work) (step.Result, error) {
	info := activity.GetInfo(ctx)
	late, stalled := timeIsUp(info), hasStalled(info)
	limited, stop := inTime(ctx, late)
	defer stop()
	working, cancel := context.WithCancelCause(limited)
	defer cancel(nil)

	p := newProgress(info.HeartbeatTimeout, a.now)
	beating := p.beat(ctx, func() { cancel(stalled) })
	defer beating.stop()
	handing := a.handBack(ctx, cancel)
	defer handing.stop()

	p.throttle = a.newThrottle(in, p)
	done, err := p.throttle.through(working, func() (*step.Done, error) { return guarded(working, p, do) })
	attempt := int(info.Attempt)
	if err == nil {
		done.Attempt, done.Waited = attempt, p.throttle.told()
		return step.Result{Done: done}, nil
	}
	cause := context.Cause(working)
	if errors.Is(cause, errHandBack) && ctx.Err() == nil {
		return step.Result{Wait: &step.Wait{
			Reason: errHandBack.Error(), Used: attempt - 1, Throttled: p.throttle.refused, Waited: p.throttle.told(),
		}}, nil
	}
	var wait *waitError
	if errors.As(err, &wait) {
		return step.Result{Wait: &step.Wait{
			Until: wait.until.UTC(), Reason: a.connections.Mask(wait.Error()), Used: attempt - 1,
			Throttled: wait.throttled, Waited: p.throttle.told(),
		}}, nil
	}
	if errors.Is(cause, late) || errors.Is(cause, stalled) {
		err = retry.TransientError(retry.TypeTimeout, saying(cause, err))
	}
	return step.Result{}, a.mapped(ctx, in, attempt, err)
}

// guarded turns a panic into a permanent error: the same input would panic again. Its value stays
// in the worker's log, since it may hold a row.
func guarded(ctx context.Context, p *progress, do work) (done *step.Done, err error) {
	defer func() {
		if value := recover(); value != nil {
			stack := make([]byte, 16<<10)
			activity.GetLogger(ctx).Error("a step panicked", "value", fmt.Sprintf("%.200v", value),
				"stack", string(stack[:runtime.Stack(stack, false)]))
			done, err = nil, retry.Permanentf("Panic", "the step panicked (%T): this is a fault of Tranche, please report it with the worker's log", value)
		}
	}()
	return do(ctx, p)
}

// errorLimit bounds the text of an error in a history.
const errorLimit = 2000

// TypeInterrupted is the type of the error of an attempt that was ended although nobody has cancelled its step.
const TypeInterrupted = "Interrupted"

// interruption returns why Temporal has the attempt end, where that is no cancel: somebody has paused or reset the step,
// or no heartbeat got through. It is nil where there is a cancel, or no other reason is known.
func interruption(ctx context.Context) error {
	cause := context.Cause(ctx)
	if temporal.IsCanceledError(cause) || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}

// mapped returns the error that Temporal gets. Temporal adds no jitter of its own, so the next
// delay is computed here; it is not capped by Temporal either, but Policy.Delay is.
func (a *Activities) mapped(ctx context.Context, in step.Input, attempt int, err error) error {
	interrupted := interruption(ctx)
	var verdict retry.Verdict
	switch {
	case interrupted != nil:
		// To the run a cancel would look like its own. It says nothing about the source, so that rules about other
		// types do not count.
		verdict = retry.Verdict{Class: retry.Transient, Type: TypeInterrupted}
		err = fmt.Errorf("the attempt was ended, and nobody has cancelled its step: %w", interrupted)
	case errors.Is(ctx.Err(), context.Canceled):
		return temporal.NewCanceledError()
	case errors.Is(err, errOverran):
		verdict = in.Step.Retry.Overrides().ApplyOverrun(verdictOf(ctx, err))
	default:
		verdict = in.Step.Retry.Overrides().Apply(verdictOf(ctx, err))
	}
	message := a.connections.Mask(err.Error())
	if len(message) > errorLimit {
		message = strings.ToValidUTF8(message[:errorLimit], "") + "…"
	}
	options := temporal.ApplicationErrorOptions{Details: []any{attempt}}
	switch verdict.Class {
	case retry.Transient, retry.Throttled:
		options.NextRetryDelay = max(verdict.After, retryPolicy(in).Delay(attempt+in.Used, a.random()))
	default:
		options.NonRetryable = true
	}
	return temporal.NewApplicationErrorWithOptions(message, verdict.Type, options)
}

// verdictOf is what an error is worth by itself; over the attempt's time limit it is a timeout, whatever it says.
func verdictOf(ctx context.Context, err error) retry.Verdict {
	if ctx.Err() != nil {
		return retry.Verdict{Class: retry.Transient, Type: retry.TypeTimeout}
	}
	return retry.Classify(err)
}

// waitError asks for a durable wait: it is data for the workflow, not a failure.
type waitError struct {
	until     time.Time
	throttled int
	err       error
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// background is a goroutine beside an attempt that is awaited before the attempt ends.
type background struct {
	quit chan struct{}
	done chan struct{}
}

func inBackground(run func(quit <-chan struct{})) background {
	b := background{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(b.done)
		run(b.quit)
	}()
	return b
}

func (b background) stop() {
	close(b.quit)
	<-b.done
}

// handBack ends an attempt some time after its worker was asked to stop.
func (a *Activities) handBack(ctx context.Context, cancel context.CancelCauseFunc) background {
	stopping := activity.GetWorkerStopChannel(ctx)
	return inBackground(func(quit <-chan struct{}) {
		select {
		case <-quit:
			return
		case <-stopping:
		}
		grace := time.NewTimer(a.stopGrace)
		defer grace.Stop()
		select {
		case <-quit:
		case <-grace.C:
			cancel(errHandBack)
		}
	})
}
