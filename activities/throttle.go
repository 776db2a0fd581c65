package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

const (
	// shortWait is how long an attempt sits out a wait itself; longer ones are timers of the
	// workflow, which hold no slot of the worker.
	shortWait = 2 * time.Second
	// shortWaits is how much of them it sits out in a row, without getting on.
	shortWaits = 10 * time.Second
	// timeShare is the part of the attempt's time left, as a divisor, that a wait may take of it. What start_to_close
	// would cut off would count as a failure.
	timeShare = 4
	// bareRefusalJitter varies the pause after a refusal that did not say how long: times 0.5 to 1.5.
	bareRefusalJitter = 0.5
	// shownWaits bounds how many different pauses a note names.
	shownWaits = 4
)

// throttle obeys the refusals that one attempt of a step meets, and remembers what was waited for.
type throttle struct {
	activities *Activities
	in         step.Input
	progress   *progress

	// refused counts the refusals in a row, over earlier executions, too.
	refused int
	// satOut is how long this attempt has sat out refusals in a row.
	satOut time.Duration

	mutex  sync.Mutex
	waited step.Waited
}

func (a *Activities) newThrottle(in step.Input, p *progress) *throttle {
	t := &throttle{activities: a, in: in, progress: p, refused: in.Throttled}
	if in.Waited != nil {
		t.waited = *in.Waited
		t.waited.Shown = slices.Clone(in.Waited.Shown)
	}
	return t
}

// through does work until it ends with something else than a refusal that can be sat out.
func (t *throttle) through(ctx context.Context, do func() (*step.Done, error)) (*step.Done, error) {
	for {
		done, err := do()
		var wait *waitError
		if err == nil || errors.As(err, &wait) || ctx.Err() != nil {
			return done, err
		}
		verdict := t.verdict(err)
		if verdict.Class != retry.Throttled {
			return nil, err
		}
		if err := t.obey(ctx, verdict, err); err != nil {
			return nil, err
		}
	}
}

// gotOn says that the attempt got on since it was refused, as by a page.
func (t *throttle) gotOn() { t.refused, t.satOut = 0, 0 }

// isShort reports whether a pause may be sat out here.
func (t *throttle) isShort(ctx context.Context, pause time.Duration) bool {
	deadline, limited := ctx.Deadline()
	return pause <= shortWait && t.satOut+pause <= shortWaits && (!limited || pause <= time.Until(deadline)/timeShare)
}

// verdict says what an error is worth to the step.
func (t *throttle) verdict(err error) retry.Verdict {
	return t.in.Step.Retry.Overrides().Apply(retry.Classify(err))
}

// obey waits as a refusal asks: a short pause is sat out here, and nil is returned; a longer one, or one more of too many,
// is asked of the workflow, by an error that says so.
func (t *throttle) obey(ctx context.Context, verdict retry.Verdict, refusal error) error {
	t.refused++
	pause, why := verdict.After, asked(verdict, refusal)
	if pause <= 0 {
		policy := retryPolicy(t.in)
		policy.Jitter, policy.Spread = bareRefusalJitter, true
		pause, why = policy.Delay(t.refused, t.activities.random()), "by backoff, since it did not say for how long"
	}
	length := strings.TrimSpace(pause.Round(time.Millisecond).String() + " " + why)
	reason := fmt.Errorf("%w; waiting %s", refusal, length)
	t.remember(pause, length)
	if !t.isShort(ctx, pause) {
		return &waitError{until: t.activities.now().Add(pause), throttled: t.refused, err: reason}
	}
	t.satOut += pause
	masked := t.activities.connections.Mask(reason.Error())
	activity.GetLogger(ctx).Info("throttled", "reason", masked)
	defer t.progress.hold(masked)()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// asked says what a pause follows from: a header, where it was one, or what is waited for before anything is sent.
func asked(verdict retry.Verdict, refusal error) string {
	var status *connection.StatusError
	switch {
	case errors.As(refusal, &status) && status.Asked != "":
		return "as its header " + status.Asked + " asked"
	case verdict.Type == connection.TypeCircuitOpen:
		return "since its circuit was open"
	case verdict.Type == connection.TypeFileMissing:
		return "since the file was not there"
	case status == nil && verdict.Type == connection.TypeRateLimited:
		return "as a limit of its connection asked"
	}
	return ""
}

// turn is told of what a request waits for before it is sent, see connection.WithWaits.
func (t *throttle) turn(why string) (end func()) {
	release := t.progress.hold(why)
	began := t.activities.now()
	return func() {
		t.remember(t.activities.now().Sub(began), why)
		release()
	}
}

func (t *throttle) remember(pause time.Duration, shown string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.waited.Times++
	t.waited.Total += pipeline.Duration(pause.Round(time.Millisecond))
	if n := len(t.waited.Shown); n <= shownWaits && !slices.Contains(t.waited.Shown, shown) {
		if n == shownWaits {
			shown = "…"
		}
		t.waited.Shown = append(t.waited.Shown, shown)
	}
}

// told returns what was waited for so far; nil when nothing was.
func (t *throttle) told() *step.Waited {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.waited.Times == 0 {
		return nil
	}
	waited := t.waited
	return &waited
}
