package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// month is the range of a backfill of January 2026.
var month = step.Range{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}

func backfillInput(t *testing.T) BackfillInput {
	t.Helper()
	return BackfillInput{Version: BackfillVersion, Definition: definition(t, "", extract+load), Kind: step.Backfill, Range: month}
}

// holding is an environment whose windows are held by a function.
func holding(t *testing.T, hold func(ctx context.Context, request step.WindowRequest) (step.WindowState, error)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(t)
	env.RegisterWorkflowWithOptions(Backfill, workflow.RegisterOptions{Name: BackfillType})
	env.RegisterActivityWithOptions(hold, activity.RegisterOptions{Name: step.ActivityWindow})
	return env
}

// The state goes from window to window, and the last one's is the result.
func TestBackfillPassesTheStateOn(t *testing.T) {
	t.Parallel()
	input := backfillInput(t)
	input.Window, input.Newest, input.Reprocess = 20, true, step.ReprocessFailed
	var requests []step.WindowRequest
	env := holding(t, func(ctx context.Context, request step.WindowRequest) (step.WindowState, error) {
		if queue := activity.GetInfo(ctx).TaskQueue; queue != "default-test-taskqueue/control" {
			t.Errorf("the window is held on %s", queue)
		}
		requests = append(requests, request)
		state := request.State
		state.Position = month.From.AddDate(0, 0, 10*len(requests))
		state.Counts.Loaded += 10
		state.InFlight = []step.Flight{{Interval: day, RunID: "r"}}
		if len(requests) == 3 {
			blocker := day
			state.InFlight, state.Done, state.Blocked = nil, true, &blocker
			state.AddFailed(day)
		}
		return state, nil
	})
	env.ExecuteWorkflow(BackfillType, input)
	var result BackfillResult
	if err := env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	if result.Loaded != 30 || len(result.FailedRanges) != 1 || result.Blocked == nil || *result.Blocked != day || result.Range != month || result.Kind != step.Backfill {
		t.Errorf("%+v", result)
	}
	if len(requests) != 3 || len(requests[1].State.InFlight) != 1 || !requests[2].State.Position.Equal(month.From.AddDate(0, 0, 20)) {
		t.Fatalf("%+v", requests)
	}
	first := requests[0]
	if first.Width != 20 || first.Chunk != 160 || !first.Newest || first.Reprocess != step.ReprocessFailed || first.Definition.Digest != input.Definition.Digest ||
		first.Campaign != "default-test-workflow-id" || first.Range != month {
		t.Errorf("%+v", first)
	}
}

// After many windows the workflow continues as new, with what is in flight, and without a pause.
func TestBackfillContinuesAsNew(t *testing.T) {
	t.Parallel()
	windows := 0
	env := holding(t, func(_ context.Context, request step.WindowRequest) (step.WindowState, error) {
		windows++
		state := request.State
		state.Position, state.InFlight = month.From.Add(time.Duration(windows)*time.Hour), []step.Flight{{Interval: day, RunID: "r"}}
		return state, nil
	})
	env.ExecuteWorkflow(BackfillType, backfillInput(t))
	input := continued(t, env)
	if windows != backfillChunks || input.Unreadable() != nil || input.Definition.Name != "orders" || len(input.State.InFlight) != 1 ||
		!input.State.Position.Equal(month.From.Add(backfillChunks*time.Hour)) || input.Reprocess != step.ReprocessMissing {
		t.Errorf("after %d windows: %v %+v", windows, input.Unreadable(), input)
	}
}

// continued returns what a backfill continues as new with.
func continued(t *testing.T, env *testsuite.TestWorkflowEnvironment) BackfillInput {
	t.Helper()
	var next *workflow.ContinueAsNewError
	if !errors.As(env.GetWorkflowError(), &next) {
		t.Fatalf("it ends with %v", env.GetWorkflowError())
	}
	var input BackfillInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &input); err != nil {
		t.Fatal(err)
	}
	return input
}

// A cancel stops the window, which gives its state back. A backfill then waits for what is open, and a catchup, or a
// backfill of an earlier build, ends at once; the result says what goes on.
func TestBackfillCancelled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change        func(in *BackfillInput)
		windows, open int
	}{
		"backfill": {func(*BackfillInput) {}, 4, 0},
		"catchup":  {func(in *BackfillInput) { in.Kind = step.Catchup }, 2, 2},
		"earlier":  {func(in *BackfillInput) { in.Version = 1 }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			windows := 0
			env := holding(t, func(ctx context.Context, request step.WindowRequest) (step.WindowState, error) {
				state := step.WindowState{Counts: step.WindowCounts{Started: 5, Loaded: 3}, InFlight: make([]step.Flight, 2)}
				windows++
				switch {
				case windows == 2:
					activity.RecordHeartbeat(ctx, state)
					<-ctx.Done()
				case windows > 2:
					if request.Width != 0 || len(request.State.InFlight) != 5-windows {
						t.Errorf("window %d: %d wide, %d in flight", windows, request.Width, len(request.State.InFlight))
					}
					state.InFlight = state.InFlight[:4-windows]
				}
				return state, nil
			})
			env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { env.CancelWorkflow() })
			input := backfillInput(t)
			test.change(&input)
			env.ExecuteWorkflow(BackfillType, input)
			var cancelled *temporal.CanceledError
			if !errors.As(env.GetWorkflowError(), &cancelled) {
				t.Fatalf("it ends with %v", env.GetWorkflowError())
			}
			var result BackfillResult
			if err := cancelled.Details(&result); err != nil || result.Started != 5 || result.Open != test.open || windows != test.windows {
				t.Errorf("%v %+v after %d windows", err, result, windows)
			}
		})
	}
}

func TestBackfillFailsWithItsWindow(t *testing.T) {
	t.Parallel()
	env := holding(t, func(context.Context, step.WindowRequest) (step.WindowState, error) {
		return step.WindowState{}, temporal.NewNonRetryableApplicationError("no such warehouse", "UnknownConnection", nil)
	})
	env.ExecuteWorkflow(BackfillType, backfillInput(t))
	if err := env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "no such warehouse") {
		t.Errorf("it ends with %v", err)
	}
}

func TestBackfillRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(in *BackfillInput)
		part   string
	}{
		"kind":      {func(in *BackfillInput) { in.Kind = step.Manual }, "kind"},
		"range":     {func(in *BackfillInput) { in.Range.To = in.Range.From }, "empty"},
		"window":    {func(in *BackfillInput) { in.Window = MaximumBackfillWindow + 1 }, "window"},
		"reprocess": {func(in *BackfillInput) { in.Reprocess = "some" }, "some"},
		"schedule":  {func(in *BackfillInput) { in.Definition.Schedule = nil }, "schedule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := holding(t, func(context.Context, step.WindowRequest) (step.WindowState, error) {
				return step.WindowState{Done: true}, nil
			})
			input := backfillInput(t)
			test.change(&input)
			env.ExecuteWorkflow(BackfillType, input)
			var refused *temporal.ApplicationError
			if err := env.GetWorkflowError(); !errors.As(err, &refused) || refused.Type() != ErrorBadBackfill || !strings.Contains(refused.Message(), test.part) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// What a newer build has started waits for a newer worker.
func TestBackfillReadsStrictly(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(backfillInput(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"version":    strings.Replace(string(good), `"version":2`, `"version":3`, 1),
		"field":      strings.Replace(string(good), `"kind":`, `"kinder":1,"kind":`, 1),
		"state":      strings.Replace(string(good), `"counts":{`, `"counts":{"lost":1,`, 1),
		"definition": strings.Replace(string(good), `"pipeline":"orders"`, `"pipeline":"orders","colour":"red"`, 1),
	} {
		var input BackfillInput
		if err := json.Unmarshal([]byte(text), &input); err != nil || input.Unreadable() == nil || text == string(good) {
			t.Errorf("%s: read without a complaint: %v", name, err)
		}
	}
	var input BackfillInput
	if err := json.Unmarshal(good, &input); err != nil || input.Unreadable() != nil {
		t.Errorf("%v, %v", err, input.Unreadable())
	}
}

// What a catchup holds open follows from the pipeline.
func TestBackfillWidth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind           step.Kind
		window, active int
		want           int
	}{
		{step.Backfill, 0, 9, DefaultBackfillWindow}, {step.Backfill, 7, 9, 7},
		{step.Catchup, 7, 9, 9}, {step.Catchup, 0, 1, 2}, {step.Catchup, 0, 1000, 50},
	} {
		input := backfillInput(t)
		input.Kind, input.Window, input.Definition.Schedule.MaxActiveRuns = test.kind, test.window, test.active
		if got := input.width(); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

// However long the range: the input, the state and the result fit into a few kilobytes beside the definition.
func TestBackfillPayloadsAreBounded(t *testing.T) {
	t.Parallel()
	input := backfillInput(t)
	input.Window = 50
	bare, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	at := month.From
	for range 525_600 {
		iv := interval.Interval{Start: at, End: at.Add(time.Minute)}
		at = at.Add(2 * time.Minute)
		input.State.Counts.Failed++
		input.State.AddFailed(iv)
		if len(input.State.InFlight) < input.Window {
			input.State.InFlight = append(input.State.InFlight, step.Flight{Interval: iv, RunID: "01a22fa6-c9eb-7c9f-967e-358fe3a0dc44"})
		}
	}
	full, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	b := backfill{input: input}
	result, err := json.Marshal(b.result())
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("input %d bytes, with state %d, result %d", len(bare), len(full), len(result)); len(full)-len(bare) > 20<<10 || len(result) > 10<<10 {
		t.Error("payloads grow with the range")
	}
}
