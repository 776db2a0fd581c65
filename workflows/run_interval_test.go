package workflows

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// firing is a run that its Schedule starts at this time.
func (w *world) firing(t *testing.T, at time.Time) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := w.environment(t, day)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: step.WorkflowID("orders", at)})
	if err := env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(launch.ScheduledStartTime.ValueSet(at))); err != nil {
		t.Fatal(err)
	}
	return env
}

// TestAScheduledRunBearsItsInterval where it may, and only a run that owns one.
func TestAScheduledRunBearsItsInterval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at      time.Time
		version int
		mark    bool
		marked  bool
	}{
		"registered":     {day.End, 2, true, true},
		"not registered": {day.End, 2, false, false},
		"old":            {day.End, 1, true, false},
		"no tick":        {day.End.Add(time.Hour), 2, true, false},
	} {
		var w world
		env := w.firing(t, c.at)
		env.RegisterActivityWithOptions(func(context.Context, step.HandOverRequest) (step.RunState, error) {
			return step.RunState{Status: "Completed"}, nil
		}, activity.RegisterOptions{Name: step.ActivityHandOver})
		if c.marked {
			env.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(launch.AttributeInterval.ValueSet(day.Start))).Return(nil).Once()
		} else {
			env.OnUpsertTypedSearchAttributes("mock.Anything").Return(nil).Never()
		}
		env.ExecuteWorkflow(launch.RunType, launch.Input{Version: c.version, Kind: step.Scheduled, Definition: scheduled(t, "max_active_runs: 1"), MarkInterval: c.mark})
		if err := env.GetWorkflowError(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		env.AssertExpectations(t)
	}
}

// TestHandingOver ends as the other run does, however long that takes, and records nothing.
func TestHandingOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end     step.RunState
		failure string
	}{
		"loaded":     {end: step.RunState{Status: "Completed"}},
		"failed":     {end: step.RunState{Status: "Failed", Reason: "CheckFailed: no rows"}, failure: "orders-2026-01-16T00:00:00Z, to which this run was handed over, ended as failed: CheckFailed: no rows"},
		"terminated": {end: step.RunState{Status: "Terminated"}, failure: "ended as terminated"},
	} {
		var w world
		env := w.firing(t, day.End.Add(10*time.Hour))
		env.RegisterActivityWithOptions(func(_ context.Context, request step.HandOverRequest) (step.RunState, error) {
			if request.Interval != day {
				return step.RunState{}, permanent("Test", request.Interval.String())
			}
			return step.RunState{Open: true, Seat: step.Seat{WorkflowID: "other", RunID: "1"}}, nil
		}, activity.RegisterOptions{Name: step.ActivityHandOver})
		looks := 0
		env.RegisterActivityWithOptions(func(context.Context, step.Seat) (step.RunState, error) {
			switch looks++; {
			case looks == 3:
				return step.RunState{}, permanent("Test", "Temporal is away")
			case looks < 300:
				return step.RunState{Open: true}, nil
			default:
				return c.end, nil
			}
		}, activity.RegisterOptions{Name: step.ActivityRunState})
		began := env.Now()
		env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Scheduled, Definition: scheduled(t, "lookback: 1")})
		var result RunResult
		err := env.GetWorkflowResult(&result)
		var application *temporal.ApplicationError
		switch {
		case c.failure == "" && (err != nil || result.Outcome != "handed over to orders-2026-01-16T00:00:00Z"):
			t.Errorf("%s: %+v, %v", name, result, err)
		case c.failure != "" && (!errors.As(err, &application) || application.Type() != ErrorHandedOver || !strings.Contains(application.Message(), c.failure)):
			t.Errorf("%s: %v", name, err)
		}
		if len(w.told) > 0 || looks != 300 {
			t.Errorf("%s: it looked %d times and told %v", name, looks, w.told)
		}
		if took := env.Now().Sub(began); took < 4*time.Hour || took > 6*time.Hour {
			t.Errorf("%s: 300 looks took %s", name, took)
		}
	}
}

// TestNothingHasEndedYet: a firing before the end of the first interval has nothing to run.
func TestNothingHasEndedYet(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{1: "no interval of orders ends at", 2: "none has ended before"} {
		var w world
		first := interval.Interval{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		env := w.firing(t, first.Start.Add(time.Hour))
		env.ExecuteWorkflow(launch.RunType, launch.Input{Version: version, Kind: step.Scheduled, Definition: scheduled(t, "max_active_runs: 1")})
		var application *temporal.ApplicationError
		if err := env.GetWorkflowError(); !errors.As(err, &application) || application.Type() != ErrorNoInterval || !strings.Contains(application.Message(), want) {
			t.Errorf("version %d ends with %v", version, err)
		}
	}
}
