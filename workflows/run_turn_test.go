package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// registerTurn stands in for the gate, the ledger's past and the neighbours.
func (w *world) registerTurn(env *testsuite.TestWorkflowEnvironment, register func(name string, function any)) {
	note := func(text string) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.told = append(w.told, text)
	}
	register(step.ActivityAskGate, func(ctx context.Context, ask step.GateAsk) (step.Standing, error) {
		note("ask")
		execution := activity.GetInfo(ctx).WorkflowExecution
		seat := step.Seat{WorkflowID: execution.ID, RunID: execution.RunID}
		ask.Signal.Seat = seat
		granted, standing := true, step.Standing{}
		if w.slot != nil {
			var err error
			if granted, standing, err = w.slot(ask); err != nil {
				return step.Standing{}, err
			}
		}
		standing.Seat, standing.Holds = seat, granted
		return standing, nil
	})
	register(step.ActivityReleaseGate, func(_ context.Context, release step.GateRelease) error {
		note("release " + release.Pipeline)
		return nil
	})
	register(step.ActivityPast, func(_ context.Context, request step.PastRequest) (step.PastAnswer, error) {
		note("past")
		if w.past == nil {
			return step.PastAnswer{Go: true}, nil
		}
		return w.past(request)
	})
	register(step.ActivityWakeNext, func(_ context.Context, of step.Neighbours) error {
		note("wake next of " + of.Interval.String())
		return nil
	})
	register(step.ActivityLookback, func(_ context.Context, of step.Neighbours) error {
		note(fmt.Sprintf("lookback %d", of.Definition.Schedule.Lookback))
		if w.lookback == nil {
			return nil
		}
		return w.lookback(of)
	})
}

// scheduled is a definition with more in its schedule.
func scheduled(t *testing.T, more string) *pipeline.Pipeline {
	t.Helper()
	text := "pipeline: orders\nwarehouse: w\nschedule: { cron: '0 0 * * *', start_date: 2026-01-01, " + more + " }\nsteps:\n" + extract + load
	parsed, problems := pipeline.Parse(pipeline.Source{File: "pipeline.yaml", Data: []byte(text)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return parsed.Effective()
}

func start(env *testsuite.TestWorkflowEnvironment, kind step.Kind, d *pipeline.Pipeline) {
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: kind, Interval: &day, Definition: d})
}

// TestTheOrderOfWaits: past, slot, steps, outcome, and only then the slot goes back and others are told.
func TestTheOrderOfWaits(t *testing.T) {
	t.Parallel()
	for kind, want := range map[step.Kind][]string{
		step.Scheduled: {"past", "ask", "loaded", "release orders", "wake next of " + day.String(), "lookback 2"},
		step.Manual:    {"past", "ask", "loaded", "release orders", "wake next of " + day.String()},
		step.Lookback:  {"past", "ask", "loaded", "release orders", "wake next of " + day.String()},
		step.Backfill:  {"past", "loaded", "wake next of " + day.String()},
	} {
		var w world
		env := w.environment(t, day)
		start(env, kind, scheduled(t, "depends_on_past: true, lookback: 2"))
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.told, want) {
			t.Errorf("%s: told %v, want %v", kind, w.told, want)
		}
	}
}

// TestAFailureStartsNoLookback, and wakes the next run all the same.
func TestAFailureStartsNoLookback(t *testing.T) {
	t.Parallel()
	w := world{load: func(step.Input, int) (step.Result, error) { return step.Result{}, permanent("Boom", "no") }}
	env := w.environment(t, day)
	start(env, step.Scheduled, scheduled(t, "depends_on_past: true, lookback: 2"))
	if want := []string{"past", "ask", "failed", "release orders", "wake next of " + day.String()}; !slices.Equal(w.told, want) {
		t.Errorf("told %v, want %v", w.told, want)
	}
}

// TestAnOldRunWaitsForNothing: a run of the first version goes on as it began.
func TestAnOldRunWaitsForNothing(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: 1, Kind: step.Scheduled, Interval: &day,
		Definition: scheduled(t, "depends_on_past: true, lookback: 2, delay: 30m")})
	if err := env.GetWorkflowError(); err != nil || !slices.Equal(w.told, []string{"loaded"}) {
		t.Errorf("told %v, %v", w.told, err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind step.Kind
		from time.Time
		want time.Duration
	}{
		{step.Scheduled, day.End, 30 * time.Minute},
		{step.Scheduled, day.End.Add(29 * time.Minute), time.Minute},
		{step.Scheduled, day.End.Add(time.Hour), 0},
		{step.Scheduled, day.End.Add(-time.Hour), 90 * time.Minute}, // by a backfill into the future
		{step.Manual, day.End.Add(-time.Hour), time.Hour},
		{step.Manual, day.End, 0},
		{step.Catchup, day.End, 0},
	} {
		var began time.Time
		var w world
		env := w.environment(t, day)
		w.extract = func(step.Input, int) (step.Result, error) {
			began = env.Now()
			return rows(3), nil
		}
		env.SetStartTime(c.from)
		start(env, c.kind, scheduled(t, "delay: 30m"))
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
		if got := began.Sub(c.from).Round(time.Second); got != c.want {
			t.Errorf("%s at %s began after %s, want %s", c.kind, c.from, got, c.want)
		}
	}
}

// TestALostGrantIsAskedForAgain: soon where nothing is known, else every minute, and ever more seldom in the end.
func TestALostGrantIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	var asked []time.Time
	var seats []*step.Seat
	w.slot = func(ask step.GateAsk) (bool, step.Standing, error) {
		asked, seats = append(asked, env.Now()), append(seats, ask.Seat)
		switch len(asked) {
		case 1, 2:
			return false, step.Standing{}, temporal.NewNonRetryableApplicationError("no Temporal", "Test", nil)
		case 200:
			return true, step.Standing{}, nil
		default:
			return false, step.Standing{Waits: true, Limit: 2, Taken: 2, By: []string{"a", "b"}, Before: 3}, nil
		}
	}
	start(env, step.Manual, scheduled(t, "max_active_runs: 2"))
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if minute := asked[3].Sub(asked[2]); minute != time.Minute {
		t.Errorf("asked again after %s", minute)
	}
	if first, second, late := asked[1].Sub(asked[0]), asked[2].Sub(asked[1]), asked[199].Sub(asked[198]); first != firstLook || second != firstLook || late != maximumPause {
		t.Errorf("asked again after %s, %s and in the end %s", first, second, late)
	}
	if seats[0] != nil || seats[2] != nil || seats[3] == nil || seats[3].WorkflowID != step.WorkflowID("orders", day.End) {
		t.Errorf("asked with the seats %v", seats[:4])
	}
}

// TestAGrantOfAnotherSeatIsNone: Temporal repeats the signals of a run that was reset.
func TestAGrantOfAnotherSeatIsNone(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	var began, granted time.Time
	w.slot = func(ask step.GateAsk) (bool, step.Standing, error) {
		if granted.IsZero() {
			env.SignalWorkflow(step.SignalGranted, step.Seat{WorkflowID: ask.Signal.WorkflowID, RunID: "the run that was reset"})
			granted = env.Now().Add(time.Minute)
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(step.SignalGranted, ask.Signal.Seat) }, time.Minute)
		}
		return false, step.Standing{Waits: true}, nil
	}
	w.extract = func(step.Input, int) (step.Result, error) {
		began = env.Now()
		return rows(3), nil
	}
	start(env, step.Manual, scheduled(t, "max_active_runs: 2"))
	if err := env.GetWorkflowError(); err != nil || began.Before(granted) {
		t.Errorf("began at %s, granted at %s, %v", began, granted, err)
	}
}

// TestACancelledWaiterGivesItsPlaceBack and is recorded.
func TestACancelledWaiterGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{
		"slot": {slot: func(step.GateAsk) (bool, step.Standing, error) { return false, step.Standing{Waits: true}, nil }},
		"past": {past: func(step.PastRequest) (step.PastAnswer, error) { return step.PastAnswer{Note: "waits"}, nil }},
	} {
		env := w.environment(t, day)
		env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Minute)
		start(env, step.Manual, scheduled(t, "depends_on_past: true"))
		if err := env.GetWorkflowError(); !temporal.IsCanceledError(err) {
			t.Errorf("%s: the run ended with %v", name, err)
		}
		if got := w.outcome(t).Outcome; got != step.OutcomeCancelled || len(w.asked) > 0 {
			t.Errorf("%s: the outcome is %s, steps were run: %v", name, got, w.asked)
		}
		if released := slices.Contains(w.told, "release orders"); released != (name == "slot") {
			t.Errorf("%s: told %v", name, w.told)
		}
	}
}

// TestThePastIsLookedAtAgainAtOnce when the run of the interval before tells that it has ended.
func TestThePastIsLookedAtAgainAtOnce(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	var looked []time.Time
	w.past = func(request step.PastRequest) (step.PastAnswer, error) {
		if looked = append(looked, env.Now()); len(looked) == 3 {
			return step.PastAnswer{Go: true}, nil
		}
		return step.PastAnswer{Note: "waits for the interval before, 2026-01-14, whose run is open"}, nil
	}
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(step.SignalPast, nil) }, 12*time.Second)
	start(env, step.Manual, scheduled(t, "depends_on_past: true"))
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(looked) != 3 || looked[1].Sub(looked[0]) != 10*time.Second || looked[2].Sub(looked[0]) != 12*time.Second {
		t.Errorf("looked at %v", looked)
	}
}

// TestAWarehouseThatIsAwayDoesNotFailTheWait, but one that there cannot be does.
func TestAWarehouseThatIsAwayDoesNotFailTheWait(t *testing.T) {
	t.Parallel()
	looks := 0
	w := world{past: func(step.PastRequest) (step.PastAnswer, error) {
		if looks++; looks < 9 {
			return step.PastAnswer{}, temporal.NewApplicationError("connection refused", "Network")
		}
		return step.PastAnswer{Go: true}, nil
	}}
	env := w.environment(t, day)
	start(env, step.Manual, scheduled(t, "depends_on_past: true"))
	if err := env.GetWorkflowError(); err != nil || looks != 9 {
		t.Errorf("%d looks, %v", looks, err)
	}
	w = world{past: func(step.PastRequest) (step.PastAnswer, error) {
		return step.PastAnswer{}, permanent("UnknownConnection", "there is no connection w")
	}}
	env = w.environment(t, day)
	start(env, step.Manual, scheduled(t, "depends_on_past: true"))
	var application *temporal.ApplicationError
	if err := env.GetWorkflowError(); !errors.As(err, &application) || application.Type() != "UnknownConnection" {
		t.Errorf("the run ended with %v", err)
	}
}

func TestRunTimeoutDoesNotCountTheWaiting(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	asks := 0
	w.slot = func(step.GateAsk) (bool, step.Standing, error) {
		asks++
		return asks == 100, step.Standing{Waits: true}, nil
	}
	d := scheduled(t, "max_active_runs: 2")
	d.RunTimeout = pipeline.Duration(30 * time.Minute)
	start(env, step.Manual, d)
	if err := env.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	if got := w.outcome(t); env.Now().Sub(got.Started) > time.Minute {
		t.Errorf("it started at %s, by %s", got.Started, env.Now())
	}
}

// TestALookbackThatCannotBeStartedIsTold: the interval itself is loaded.
func TestALookbackThatCannotBeStartedIsTold(t *testing.T) {
	t.Parallel()
	w := world{lookback: func(step.Neighbours) error {
		return temporal.NewNonRetryableApplicationError("no such namespace", "Test", nil)
	}}
	env := w.environment(t, day)
	start(env, step.Scheduled, scheduled(t, "lookback: 1"))
	var result RunResult
	if err := env.GetWorkflowResult(&result); err != nil || result.Outcome != step.OutcomeLoaded || !strings.Contains(result.Note, "no such namespace") {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestPatienceGrows(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for look := range 1000 {
		now := patience(10*time.Second, look)
		if now < last || now > maximumPause || look < minutePauses && now > time.Minute {
			t.Fatalf("after look %d a pause of %s follows one of %s", look, now, last)
		}
		last = now
	}
	if last != maximumPause {
		t.Errorf("the pauses end at %s", last)
	}
}
