package workflows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// TestWhatAnErrorIsAbout: a timeout is one type whoever has noticed it, and is not taken for the failure of the attempt before.
func TestWhatAnErrorIsAbout(t *testing.T) {
	t.Parallel()
	said := temporal.NewApplicationErrorWithOptions("502 from the shop", "HTTPStatus", temporal.ApplicationErrorOptions{Details: []any{3}})
	over := func(limit enums.TimeoutType, before error) error { return temporal.NewTimeoutError(limit, before) }
	for name, test := range map[string]struct {
		err          error
		kind, reason string
		attempts     int
	}{
		"said by the worker": {fmt.Errorf("step extract: %w", said), "HTTPStatus", "HTTPStatus: 502 from the shop", 3},
		"an attempt":         {over(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), "Timeout", "Timeout: the attempt took longer than its start_to_close", 0},
		"an attempt, after a failure": {fmt.Errorf("step extract: %w", over(enums.TIMEOUT_TYPE_START_TO_CLOSE, said)), "Timeout",
			"Timeout: the attempt took longer than its start_to_close; the attempt before: HTTPStatus: 502 from the shop", 4},
		"the step":       {over(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil), "Timeout", "Timeout: the step's schedule_to_close was over", 0},
		"a lost worker":  {over(enums.TIMEOUT_TYPE_HEARTBEAT, nil), "TemporalTimeout:Heartbeat", "TemporalTimeout:Heartbeat: nothing was heard of the attempt for the step's heartbeat timeout: its worker was lost", 0},
		"something else": {errors.New("odd"), "Error", "odd", 0},
	} {
		if kind, text, n := errorType(test.err), reason(test.err), attemptsOf(test.err, 5); kind != test.kind || text != test.reason || n != test.attempts {
			t.Errorf("%s is %s, %q, after %d attempts", name, kind, text, n)
		}
	}
}

// TestTheRunEndsAStepThatWouldEndWithIt: a schedule_to_close that is over together with run_timeout, or later, must not end the
// step first; a shorter one stays as declared.
func TestTheRunEndsAStepThatWouldEndWithIt(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]time.Duration{"50m": 51 * time.Minute, "49m": 49 * time.Minute} {
		w := world{}
		env := w.environment(t, day)
		given := time.Duration(0)
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
			if info.ActivityType.Name == step.ActivityHTTP {
				given = info.ScheduleToCloseTimeout
			}
		})
		env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day,
			Definition: definition(t, "run_timeout: 50m\ndefaults: { timeout: { start_to_close: 1m, schedule_to_close: "+declared+" } }\n", extract+load)})
		if given != want {
			t.Errorf("with a schedule_to_close of %s Temporal is given %s, want %s", declared, given, want)
		}
	}
}
