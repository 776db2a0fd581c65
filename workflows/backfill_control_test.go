package workflows

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// answered is what became of an update.
type answered struct {
	progress BackfillProgress
	err      error
	rejected bool
}

// tell sends an update to a workflow under test; then is called with the answer.
func tell(env *testsuite.TestWorkflowEnvironment, update string, then func(answered), args ...any) {
	env.UpdateWorkflow(update, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { then(answered{err: err, rejected: true}) },
		OnComplete: func(result any, err error) {
			progress, _ := result.(BackfillProgress)
			then(answered{progress: progress, err: err})
		},
	}, args...)
}

// steering is an environment whose windows beat once and are then held until they are told to stop. What is told while
// the nth window is held stands in orders.
//
// The test environment drops what a window that is told to stop gives back, and does not tell its context in time:
// only windows that return by themselves change the state.
func steering(t *testing.T, orders func(window int), hold func(window int, request step.WindowRequest) (state step.WindowState, held bool)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	stopped := make(chan struct{}, 10)
	windows := 0
	env := holding(t, func(ctx context.Context, request step.WindowRequest) (step.WindowState, error) {
		windows++
		state, held := hold(windows, request)
		if held {
			activity.RecordHeartbeat(ctx, state)
			select {
			case <-stopped:
			case <-ctx.Done():
			}
		}
		return state, nil
	})
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { orders(windows) })
	env.SetOnActivityCanceledListener(func(*activity.Info) { stopped <- struct{}{} })
	return env
}

func flights(count int) []step.Flight {
	all := make([]step.Flight, count)
	for i := range all {
		start := month.From.AddDate(0, 0, i)
		all[i] = step.Flight{Interval: interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}, RunID: "r"}
	}
	return all
}

// Each order takes effect between two windows, and is answered when the window that was held has given its state back.
func TestBackfillObeys(t *testing.T) {
	t.Parallel()
	var env *testsuite.TestWorkflowEnvironment
	var answers []string
	then := func(what string) func(answered) {
		return func(a answered) {
			if a.err != nil {
				t.Errorf("%s is answered with %v", what, a.err)
			}
			answers = append(answers, what+" "+a.progress.Phase)
		}
	}
	orders := map[int]func(){
		2: func() { tell(env, UpdatePause, then("pause")) },
		4: func() { tell(env, UpdateResize, then("resize"), ResizeOrder{Window: 9}) },
		6: func() {
			tell(env, UpdateRetry, func(a answered) {
				if a.err != nil || a.progress.Retried != 3 {
					t.Errorf("retry is answered with %+v", a)
				}
			})
		},
		8: func() { tell(env, UpdateCancel, then("cancel"), CancelOrder{Runs: true}) },
	}
	var widths []int
	env = steering(t, func(window int) { orders[window]() }, func(window int, request step.WindowRequest) (step.WindowState, bool) {
		widths = append(widths, request.Width)
		state := request.State
		switch window {
		case 1:
			state.InFlight = flights(2)
		case 3: // paused: those that are open end
			if len(state.InFlight) != 2 {
				t.Errorf("the window of the pause has %+v", state)
			}
			state.InFlight = nil
		case 5:
			state.Counts.Failed, state.Counts.Loaded, state.Position = 3, 5, month.From.AddDate(0, 0, 8)
			state.Failed = []step.Range{{From: month.From, To: month.From.AddDate(0, 0, 3)}}
		case 7:
			if state.Counts.Failed != 0 || state.Round != 1 || len(state.Again) != 1 || state.Again[0].From != month.From || state.Failed != nil {
				t.Errorf("the window after the retry has %+v", state)
			}
			state.InFlight = flights(3)
		case 9:
			if len(state.InFlight) != 3 {
				t.Errorf("the last window has %+v", state)
			}
			state.InFlight, state.Counts.Cancelled = nil, 3
		default:
			return state, true
		}
		return state, false
	})
	var asked step.CancelRunsRequest
	env.RegisterActivityWithOptions(func(_ context.Context, request step.CancelRunsRequest) (int, error) {
		asked = request
		return 3, nil
	}, activity.RegisterOptions{Name: step.ActivityCancelRuns})
	// The clock of the test moves on only when nothing is held.
	env.RegisterDelayedCallback(func() { tell(env, UpdateResume, then("resume")) }, time.Hour)
	input := backfillInput(t)
	input.Expected.Run = 31
	env.ExecuteWorkflow(BackfillType, input)

	var cancelled *temporal.CanceledError
	if !errors.As(env.GetWorkflowError(), &cancelled) {
		t.Fatalf("it ends with %v", env.GetWorkflowError())
	}
	var result BackfillResult
	if err := cancelled.Details(&result); err != nil || result.Loaded != 5 || result.Cancelled != 3 || result.Open != 0 || result.NotRun != 23 {
		t.Errorf("%v %+v", err, result)
	}
	if got := strings.Join(answers, ", "); got != "pause paused, resume running, resize running, cancel cancelling" {
		t.Errorf("the answers are %s", got)
	}
	if len(asked.InFlight) != 3 || asked.Pipeline != "orders" || asked.Campaign != "default-test-workflow-id" {
		t.Errorf("to be cancelled are %+v", asked)
	}
	if want := []int{4, 4, 0, 4, 9, 9, 9, 9, 0}; !slices.Equal(widths, want) {
		t.Errorf("the windows are %v wide, want %v", widths, want)
	}
}

// Temporal's cancel ends a backfill that is paused, too.
func TestBackfillCancelledInAPause(t *testing.T) {
	t.Parallel()
	env := holding(t, func(_ context.Context, request step.WindowRequest) (step.WindowState, error) {
		t.Errorf("a window is held: %+v", request)
		return request.State, nil
	})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	input := backfillInput(t)
	input.Paused, input.Expected.Run, input.State.Counts.Loaded = true, 31, 11
	env.ExecuteWorkflow(BackfillType, input)
	var cancelled *temporal.CanceledError
	var result BackfillResult
	if !errors.As(env.GetWorkflowError(), &cancelled) || cancelled.Details(&result) != nil || result.Loaded != 11 || result.NotRun != 20 {
		t.Errorf("it ends with %v: %+v", env.GetWorkflowError(), result)
	}
}

// What cannot be done is refused before it leaves a trace.
func TestBackfillRefusesOrders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(in *BackfillInput)
		update string
		args   []any
		part   string
	}{
		"resume":      {nil, UpdateResume, nil, "not paused"},
		"zero":        {nil, UpdateResize, []any{ResizeOrder{}}, "1 to 500"},
		"many":        {nil, UpdateResize, []any{ResizeOrder{Window: 501}}, "1 to 500"},
		"chain":       {func(in *BackfillInput) { in.Definition.Schedule.DependsOnPast = true }, UpdateResize, []any{ResizeOrder{Window: 2}}, "depends on the past"},
		"catchup":     {func(in *BackfillInput) { in.Kind = step.Catchup }, UpdatePause, nil, "catchup"},
		"catchup end": {func(in *BackfillInput) { in.Kind = step.Catchup }, UpdateCancel, []any{CancelOrder{}}, "catchup"},
		"ending":      {func(in *BackfillInput) { in.Cancel = &BackfillCancel{}; in.State.InFlight = flights(1) }, UpdatePause, nil, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env *testsuite.TestWorkflowEnvironment
			refusals := 0
			order := func(int) {
				tell(env, test.update, func(a answered) {
					if refusals++; !a.rejected || !strings.Contains(a.err.Error(), test.part) {
						t.Errorf("it is answered with %+v, want %q", a, test.part)
					}
					env.CancelWorkflow()
				}, test.args...)
			}
			env = steering(t, order, func(window int, request step.WindowRequest) (step.WindowState, bool) {
				return step.WindowState{Done: true}, window == 1
			})
			input := backfillInput(t)
			if test.change != nil {
				test.change(&input)
			}
			env.ExecuteWorkflow(BackfillType, input)
			if refusals != 1 {
				t.Errorf("%d refusals", refusals)
			}
		})
	}
}

// A retry when nothing has failed is an error, and changes nothing.
func TestBackfillHasNothingToRetry(t *testing.T) {
	t.Parallel()
	var env *testsuite.TestWorkflowEnvironment
	var got answered
	order := func(int) { tell(env, UpdateRetry, func(a answered) { got = a }) }
	env = steering(t, order, func(window int, request step.WindowRequest) (step.WindowState, bool) {
		return step.WindowState{Done: true, Counts: step.WindowCounts{Loaded: 31}}, window == 1
	})
	env.ExecuteWorkflow(BackfillType, backfillInput(t))
	if err := env.GetWorkflowError(); err != nil || got.rejected || got.err == nil || !strings.Contains(got.err.Error(), "no interval of this backfill has failed") {
		t.Errorf("it ends with %v, and the retry with %+v", err, got)
	}
}

// A window that cannot answer when it is told to stop, since its worker is lost, has left its state in the heartbeat.
func TestLastSaid(t *testing.T) {
	t.Parallel()
	said := step.WindowState{Counts: step.WindowCounts{Loaded: 7}, InFlight: flights(1)}
	for name, test := range map[string]struct {
		err  error
		want int64
	}{
		"lost":      {temporal.NewHeartbeatTimeoutError(said), 7},
		"no word":   {temporal.NewHeartbeatTimeoutError(), 2},
		"not begun": {temporal.NewCanceledError(), 2},
		"failed":    {errors.New("the database is away"), 2},
	} {
		if got := lastSaid(test.err, step.WindowState{Counts: step.WindowCounts{Loaded: 2}}); got.Counts.Loaded != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// One that continues as new keeps what it was told.
func TestBackfillKeepsItsOrders(t *testing.T) {
	t.Parallel()
	input := backfillInput(t)
	input.Paused, input.Window, input.FailFast, input.Begun = true, 9, true, month.To
	input.State.InFlight = flights(1)
	windows := 0
	env := holding(t, func(_ context.Context, request step.WindowRequest) (step.WindowState, error) {
		windows++
		return request.State, nil
	})
	env.ExecuteWorkflow(BackfillType, input)
	next := continued(t, env)
	if windows != backfillChunks || !next.Paused || next.Window != 9 || !next.FailFast || !next.Begun.Equal(month.To) || len(next.State.InFlight) != 1 {
		t.Errorf("after %d windows it continues with %+v", windows, next)
	}
	input.Paused, input.Cancel = false, &BackfillCancel{Runs: true, Asked: true}
	env = holding(t, func(_ context.Context, request step.WindowRequest) (step.WindowState, error) {
		return request.State, nil
	})
	env.ExecuteWorkflow(BackfillType, input)
	if next := continued(t, env); next.Cancel == nil || *next.Cancel != *input.Cancel {
		t.Errorf("it continues with %+v", next)
	}
}
