package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/goleak"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "TOKEN-abc123"

func newActivities(t *testing.T) *Activities {
	t.Helper()
	set, err := connection.Parse("connections.yaml",
		[]byte("connections:\n  shop: { http: { base_url: \"http://127.0.0.1:1\", bearer: \"${SHOP_TOKEN}\" } }\n"),
		func(string) (string, bool) { return secret, true })
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Connections: set})
	a.random = func() float64 { return 0.5 }
	return a
}

// input has the policy 1 s, 2 s, 4 s and so on, up to 10 s, plus up to a fifth.
func input() step.Input {
	jitter := 0.2
	return step.Input{Step: pipeline.Step{Name: "extract", Retry: pipeline.Retry{
		InitialInterval: pipeline.Duration(time.Second), BackoffCoefficient: 2, MaximumInterval: pipeline.Duration(10 * time.Second), Jitter: &jitter,
	}}}
}

// once runs one attempt that does this work.
func once(t *testing.T, a *Activities, in step.Input, do work) (step.Result, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(func(ctx context.Context, in step.Input) (step.Result, error) {
		return a.attempt(ctx, in, do)
	}, activity.RegisterOptions{Name: "attempt"})
	value, err := env.ExecuteActivity("attempt", in)
	if err != nil {
		return step.Result{}, err
	}
	var result step.Result
	if err := value.Get(&result); err != nil {
		t.Fatal(err)
	}
	return result, nil
}

func TestErrorsAreMapped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err      error
		used     int
		kind     string
		final    bool
		delay    time.Duration
		contains string
	}{
		"permanent":                      {retry.Permanentf("CheckFailed", "2 rows"), 0, "CheckFailed", true, 0, "2 rows"},
		"unknown is permanent":           {errors.New("odd"), 0, retry.TypeUnclassified, true, 0, "odd"},
		"transient, with jitter":         {retry.TransientError("Network", errors.New("reset")), 0, "Network", false, 1100 * time.Millisecond, "reset"},
		"attempts before a wait count":   {retry.TransientError("Network", errors.New("reset")), 2, "Network", false, 4400 * time.Millisecond, "reset"},
		"the pause is capped":            {retry.TransientError("Network", errors.New("reset")), 40, "Network", false, 11 * time.Second, "reset"},
		"what the other side asked wins": {&retry.Error{Class: retry.Transient, Type: "HTTPStatus", After: time.Minute, Err: errors.New("502")}, 0, "HTTPStatus", false, time.Minute, "502"},
		"secrets are masked":             {retry.Permanentf("HTTPStatus", "bad token %s", secret), 0, "HTTPStatus", true, 0, "bad token"},
		"long texts are cut":             {errors.New(strings.Repeat("x", 1<<20)), 0, retry.TypeUnclassified, true, 0, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input()
			in.Used = test.used
			_, err := once(t, newActivities(t), in, func(context.Context, *progress) (*step.Done, error) {
				return nil, fmt.Errorf("list shop: %w", test.err)
			})
			var got *temporal.ApplicationError
			if !errors.As(err, &got) {
				t.Fatalf("the attempt ends with %v", err)
			}
			if got.Type() != test.kind || got.NonRetryable() != test.final || got.NextRetryDelay() != test.delay || !strings.Contains(got.Message(), test.contains) {
				t.Errorf("got %s, final %t, after %s: %.80s", got.Type(), got.NonRetryable(), got.NextRetryDelay(), got.Message())
			}
			if strings.Contains(got.Error(), secret) || len(got.Message()) > errorLimit+100 {
				t.Errorf("the error holds a secret or %d bytes", len(got.Message()))
			}
			var attempt int
			if err := got.Details(&attempt); err != nil || attempt != 1 {
				t.Errorf("the error tells of attempt %d, %v", attempt, err)
			}
		})
	}
}

func TestAPanicIsOneErrorWithoutItsValue(t *testing.T) {
	t.Parallel()
	_, err := once(t, newActivities(t), input(), func(context.Context, *progress) (*step.Done, error) {
		panic("a row: 4711")
	})
	var got *temporal.ApplicationError
	if !errors.As(err, &got) || got.Type() != "Panic" || !got.NonRetryable() || strings.Contains(got.Error(), "4711") {
		t.Errorf("the attempt ends with %v", err)
	}
}

func TestAWaitIsAResult(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	result, err := once(t, newActivities(t), input(), func(context.Context, *progress) (*step.Done, error) {
		return nil, fmt.Errorf("list: %w", &waitError{until: until, throttled: 3, err: errors.New("429 for " + secret)})
	})
	if err != nil || result.Wait == nil || !result.Wait.Until.Equal(until) || result.Wait.Throttled != 3 || result.Wait.Used != 0 {
		t.Fatalf("the attempt answers %+v, %v", result.Wait, err)
	}
	if strings.Contains(result.Wait.Reason, secret) {
		t.Errorf("the reason holds a secret: %s", result.Wait.Reason)
	}
}

// TestARefusalIsNoFailure: whatever step meets it, a refusal is sat out or becomes a wait, with what was waited for
// before, and uses up no attempt.
func TestARefusalIsNoFailure(t *testing.T) {
	t.Parallel()
	refusals := []error{
		retry.ThrottledError("RateLimited", time.Millisecond, fmt.Errorf("lake: %w", &connection.StatusError{Status: 503, Asked: "Retry-After"})),
		retry.ThrottledError("RateLimited", 0, errors.New("lake: 429 for "+secret)),
		retry.ThrottledError("CircuitOpen", time.Minute, errors.New("the circuit is open")),
	}
	in, a := input(), newActivities(t)
	in.Step.Retry.InitialInterval = pipeline.Duration(time.Millisecond)
	tried := 0
	work := func(context.Context, *progress) (*step.Done, error) {
		if tried++; tried <= len(refusals) {
			return nil, fmt.Errorf("load: %w", refusals[tried-1])
		}
		return &step.Done{Rows: 3}, nil
	}
	began := time.Now()
	result, err := once(t, a, in, work)
	if err != nil || result.Wait == nil || tried != 3 {
		t.Fatalf("after %d tries: %+v, %v", tried, result, err)
	}
	wait := result.Wait
	if wait.Used != 0 || wait.Throttled != 3 || wait.Until.Before(began.Add(time.Minute)) || !strings.Contains(wait.Reason, "the circuit is open; waiting 1m0s") {
		t.Errorf("the wait is %+v", wait)
	}
	// The backoff of the second refusal in a row is 2 ms, times 0.5 to 1.5, and chance is in the middle.
	const want = "waited 3 times, 1m0.003s: 1ms as its header Retry-After asked, 2ms by backoff, since it did not say for how long, 1m0s since its circuit was open"
	if wait.Waited == nil || wait.Waited.String() != want {
		t.Errorf("waited for %v, want %s", wait.Waited, want)
	}
	in.Throttled, in.Waited = wait.Throttled, wait.Waited
	result, err = once(t, a, in, work)
	if err != nil || result.Done == nil || result.Done.Attempt != 1 || result.Done.Waited.String() != want {
		t.Errorf("the next execution answers %+v, %v", result, err)
	}
}

// TestShortWaitsInARow: refusals that never end do not use up the time of an attempt, which would be a failure.
func TestShortWaitsInARow(t *testing.T) {
	t.Parallel()
	const pause = time.Second
	soon, cancel := context.WithTimeout(t.Context(), timeShare*pause-time.Millisecond)
	defer cancel()
	late, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		satOut time.Duration
		pause  time.Duration
		short  bool
	}{
		"the first":                  {late, 0, pause, true},
		"the longest":                {late, 0, shortWait, true},
		"a long one":                 {late, 0, shortWait + 1, false},
		"the last that fits":         {late, shortWaits - pause, pause, true},
		"one more":                   {late, shortWaits - pause + 1, pause, false},
		"no limit":                   {t.Context(), 0, pause, true},
		"too near to start_to_close": {soon, 0, pause, false},
	} {
		a := newActivities(t)
		throttle := a.newThrottle(input(), newProgress(time.Minute, time.Now))
		throttle.satOut = test.satOut
		if got := throttle.isShort(test.ctx, test.pause); got != test.short {
			t.Errorf("%s: sat out is %t", name, got)
		}
		if throttle.gotOn(); throttle.satOut != 0 || throttle.refused != 0 {
			t.Errorf("%s: getting on does not count", name)
		}
	}
}

// TestARuleAgainstWaiting: a step that must not wait fails at once.
func TestARuleAgainstWaiting(t *testing.T) {
	t.Parallel()
	in := input()
	in.Step.Retry.NonRetryableErrorTypes = []string{"RateLimited"}
	_, err := once(t, newActivities(t), in, func(context.Context, *progress) (*step.Done, error) {
		return nil, retry.ThrottledError("RateLimited", time.Hour, errors.New("429"))
	})
	var got *temporal.ApplicationError
	if !errors.As(err, &got) || got.Type() != "RateLimited" || !got.NonRetryable() {
		t.Errorf("the attempt ends with %v", err)
	}
}

// TestHeartbeatsFallSilentWhenNothingMoves uses a clock of its own.
func TestHeartbeatsFallSilentWhenNothingMoves(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	p := newProgress(30*time.Second, func() time.Time { return now })
	check := func(want bool, why string) {
		t.Helper()
		if _, alive := p.alive(); alive != want {
			t.Errorf("%s: alive is %t, want %t", why, alive, want)
		}
	}
	check(true, "at the start")
	now = now.Add(29 * time.Second)
	check(true, "just before the timeout")
	now = now.Add(time.Second)
	check(false, "at the timeout")
	p.rows(10)
	check(true, "after a row")
	release := p.hold("waiting")
	now = now.Add(time.Hour)
	check(true, "while it waits on purpose")
	release()
	check(true, "just after the wait")
	now = now.Add(time.Minute)
	check(false, "long after the wait")
	p.page(2, 20)
	if position, alive := p.alive(); !alive || position != (Position{Pages: 2, Rows: 20}) {
		t.Errorf("after a page: %+v, %t", position, alive)
	}
}

// TestWhoEndsAnAttempt: only a cancel is a cancel. What else ends an attempt from outside is worth another try, whatever
// the step says of other errors.
func TestWhoEndsAnAttempt(t *testing.T) {
	t.Parallel()
	in := input()
	in.Step.Retry.RetryOnly = []string{"Network"}
	for name, test := range map[string]struct {
		cause error
		kind  string // empty for a cancel
	}{
		"a cancel":                 {temporal.NewCanceledError(), ""},
		"no reason given":          {nil, ""},
		"a pause":                  {activity.ErrActivityPaused, TypeInterrupted},
		"a reset":                  {activity.ErrActivityReset, TypeInterrupted},
		"heartbeats do not arrive": {errors.New("connection refused"), TypeInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(test.cause)
			err := newActivities(t).mapped(ctx, in, 1, context.Canceled)
			var got *temporal.ApplicationError
			switch {
			case test.kind == "":
				if !temporal.IsCanceledError(err) {
					t.Errorf("the attempt ends with %v", err)
				}
			case !errors.As(err, &got) || temporal.IsCanceledError(err):
				t.Errorf("the attempt ends with %v", err)
			case got.Type() != test.kind || got.NonRetryable():
				t.Errorf("got %s, final %t: %s", got.Type(), got.NonRetryable(), got.Message())
			}
		})
	}
}
