package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

const notify = "notify: { connection: ops }\n"

func failing(step.Input, int) (step.Result, error) {
	return step.Result{}, temporal.NewApplicationErrorWithOptions("the shop answered 404"+strings.Repeat("é", 5000), "HTTPStatus",
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{3}})
}

// What is told of which end of a run, by kind and by what the pipeline asks for, and before what else it does.
func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		notify    string
		kind      step.Kind
		fails     bool
		recovered bool
		want      string
	}{
		"loaded":                      {notify, step.Scheduled, false, false, "loaded"},
		"failed":                      {notify, step.Scheduled, true, false, "failure failed"},
		"failed, nobody asks":         {"", step.Scheduled, true, false, "failed"},
		"failed, others asked for":    {"deadline: 3h\nnotify: { connection: ops, on: [recovery, deadline] }\n", step.Scheduled, true, false, "failed"},
		"failed in a backfill":        {notify, step.Backfill, true, false, "failed"},
		"failed in a catchup":         {notify, step.Catchup, true, false, "failure failed"},
		"recovered":                   {notify, step.Manual, false, true, "loaded recovery"},
		"recovered in a backfill":     {notify, step.Backfill, false, true, "loaded recovery"},
		"recovered, nobody asks":      {"", step.Manual, false, true, "loaded"},
		"recovered, others asked for": {"notify: { connection: ops, on: [failure] }\n", step.Manual, false, true, "loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{recovered: test.recovered}
			if test.fails {
				w.extract = failing
			}
			env := w.environment(t, day)
			d := definition(t, test.notify, extract+load)
			env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: test.kind, Interval: &day, Definition: d})
			var told []string
			for _, each := range w.told {
				if each == "loaded" || each == "failed" || each == "failure" || each == "recovery" {
					told = append(told, each)
				}
			}
			if got := strings.Join(told, " "); got != test.want {
				t.Errorf("told %q, want %q", got, test.want)
			}
			for _, ask := range w.notified {
				m := ask.Notification.Message
				if ask.TaskQueue == "" || ask.Notification.Connection != "ops" || m.Pipeline != "orders" || m.Interval != day || m.Kind != test.kind ||
					m.WorkflowID != "orders-2026-01-16T00:00:00Z" || m.RunID == "" || m.OccurredAt.IsZero() || m.Timezone != "UTC" {
					t.Errorf("%+v", ask)
				}
				if test.fails && (m.Step != "extract" || m.Attempts != 3 || m.ErrorType != "HTTPStatus" || !strings.HasPrefix(m.Reason, "the shop answered 404é") || len(m.Reason) > 2100) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// Somebody who cancels a run knows of it.
func TestCancelIsNotTold(t *testing.T) {
	t.Parallel()
	w := &world{}
	env := w.environment(t, day)
	w.extract = func(step.Input, int) (step.Result, error) {
		return step.Result{Wait: &step.Wait{Until: env.Now().Add(time.Hour), Reason: "later"}}, nil
	}
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	d := definition(t, notify+"defaults: { timeout: { schedule_to_close: 3h } }\n", extract+load)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: d})
	if len(w.notified) != 0 || w.outcome(t).Outcome != step.OutcomeCancelled {
		t.Errorf("%+v, told %+v", w.outcomes, w.notified)
	}
}

// A failure is told before the warehouse is waited for, and told when it is the warehouse that fails a run whose rows
// are in.
func TestFailureIsToldBeforeTheOutcome(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{true, false} {
		w := &world{record: func(step.Outcome) error {
			return temporal.NewNonRetryableApplicationError("no such warehouse", "UnknownConnection", nil)
		}}
		want := "UnknownConnection: no such warehouse"
		if fails {
			w.extract, want = failing, "HTTPStatus: the shop"
		}
		if _, err := w.perform(t, definition(t, notify, extract+load)); err == nil || len(w.notified) != 1 {
			t.Fatalf("%v, told %+v", err, w.notified)
		}
		if m := w.notified[0].Notification.Message; m.Event != "failure" || !strings.HasPrefix(m.ErrorType+": "+m.Reason, want) {
			t.Errorf("%+v", m)
		}
	}
}

// That nobody can be told changes nothing about a run.
func TestNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{true, false} {
		w := &world{recovered: !fails, notifyError: errors.New("the server is away")}
		if fails {
			w.extract = failing
		}
		began := time.Now()
		result, err := w.perform(t, definition(t, notify, extract+load))
		if fails != (err != nil && strings.Contains(err.Error(), "HTTPStatus")) || !fails && result.Outcome != step.OutcomeLoaded || len(w.outcomes) != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		if tries := len(w.notified); tries < 2 || tries > 5 || time.Since(began) > time.Minute {
			t.Errorf("tried %d times in %s", tries, time.Since(began))
		}
	}
}

// deliver runs the workflow that delivers a message; answer says how each try ends. It returns how many there were and
// how long it took, by the workflow's clock.
func deliver(t *testing.T, input any, answer func(attempt int32) error) (tries int32, took time.Duration, err error) {
	t.Helper()
	env := newEnvironment(t)
	env.RegisterWorkflowWithOptions(Notify, workflow.RegisterOptions{Name: launch.NotifyType})
	env.RegisterActivityWithOptions(func(ctx context.Context, n step.Notification) error {
		info := activity.GetInfo(ctx)
		if n.Connection != "ops" || n.Message.Pipeline != "orders" || info.TaskQueue != launch.ControlQueue("default-test-taskqueue") {
			t.Errorf("%s: %+v", info.TaskQueue, n)
		}
		tries = info.Attempt
		return answer(info.Attempt)
	}, activity.RegisterOptions{Name: step.ActivityNotify})
	began := env.Now()
	env.ExecuteWorkflow(launch.NotifyType, input)
	return tries, env.Now().Sub(began), env.GetWorkflowError()
}

func TestNotify(t *testing.T) {
	t.Parallel()
	input := step.Notification{Version: 1, Connection: "ops", Message: step.Message{Version: 1, ID: "id", Event: "failure", Pipeline: "orders", Interval: day}}
	away := func(int32) error { return temporal.NewApplicationError("away", "Network") }
	if tries, _, err := deliver(t, input, func(attempt int32) error {
		if attempt < 3 {
			return away(attempt)
		}
		return nil
	}); tries != 3 || err != nil {
		t.Errorf("%d tries, %v", tries, err)
	}
	// The SDK's environment gives up after the tenth try (1.51): by then the pauses have doubled from a second on.
	tries, took, err := deliver(t, input, away)
	if err == nil || tries != 10 || took != 511*time.Second {
		t.Errorf("%d tries in %s, %v", tries, took, err)
	}
	var application *temporal.ApplicationError
	tries, _, err = deliver(t, input, func(int32) error { return temporal.NewNonRetryableApplicationError("gone", "HTTPStatus", nil) })
	if tries != 1 || !errors.As(err, &application) || application.Type() != "HTTPStatus" {
		t.Errorf("%d tries, %v", tries, err)
	}
	for _, newer := range []string{`{"version":2,"connection":"ops","message":{}}`, `{"version":1,"connection":"ops","message":{"colour":"red"}}`} {
		var in NotifyInput
		if err := in.UnmarshalJSON([]byte(newer)); err != nil || in.unreadable == nil {
			t.Errorf("%s is read: %v", newer, fmt.Sprint(err, in.unreadable))
		}
	}
}
