package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

var day = interval.Interval{
	Start: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
	End:   time.Date(2026, 1, 16, 0, 0, 0, 0, time.UTC),
}

// definition reads a pipeline whose steps are given as YAML, indented by two.
func definition(t *testing.T, head, steps string) *pipeline.Pipeline {
	t.Helper()
	text := "pipeline: orders\nwarehouse: w\nschedule: { cron: '0 0 * * *', start_date: 2026-01-01 }\n" + head + "steps:\n" + steps
	parsed, problems := pipeline.Parse(pipeline.Source{File: "pipeline.yaml", Data: []byte(text)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return parsed.Effective()
}

const extract = `
  - name: extract
    http: { connection: shop, path: /orders, columns: [{ name: id, type: bigint }, { name: at, type: timestamp }] }
`

const load = `
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`

// world stands in for the rooms that do the work: each function answers the attempts of one kind
// of step. It records what was asked for.
type world struct {
	mutex    sync.Mutex
	extract  func(in step.Input, attempt int) (step.Result, error)
	load     func(in step.Input, attempt int) (step.Result, error)
	record   func(step.Outcome) error
	asked    []string
	outcomes []step.Outcome
	// slot, past and lookback answer for the gate, the ledger and Temporal; nil: a slot is free, the past is
	// done, all is started. told lists what the run told others, in order.
	slot     func(ask step.GateAsk) (granted bool, standing step.Standing, err error)
	past     func(request step.PastRequest) (step.PastAnswer, error)
	lookback func(of step.Neighbours) error
	told     []string
	// recovered is what the ledger says of an outcome; notified are the messages, which notifyError keeps from being
	// delivered.
	recovered   bool
	notified    []step.NotificationAsk
	notifyError error
}

func rows(n int64) step.Result { return step.Result{Done: &step.Done{Rows: n, Attempt: 1}} }

func (w *world) ask(ctx context.Context, in step.Input, answer func(step.Input, int) (step.Result, error)) (step.Result, error) {
	attempt := int(activity.GetInfo(ctx).Attempt)
	w.mutex.Lock()
	w.asked = append(w.asked, fmt.Sprintf("%s/%d", in.Step.Name, attempt))
	w.mutex.Unlock()
	if answer == nil {
		return rows(3), nil
	}
	return answer(in, attempt)
}

func (w *world) environment(t *testing.T, owned interval.Interval) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnvironment(t)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: step.WorkflowID("orders", owned.End)})
	env.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: launch.RunType})
	register := func(name string, function any) {
		env.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	register(step.ActivityHTTP, func(ctx context.Context, in step.Input) (step.Result, error) { return w.ask(ctx, in, w.extract) })
	register(step.ActivityFile, func(ctx context.Context, in step.Input) (step.Result, error) { return w.ask(ctx, in, w.extract) })
	register(step.ActivityLoad, func(ctx context.Context, in step.Input) (step.Result, error) { return w.ask(ctx, in, w.load) })
	register(step.ActivityOutcome, func(_ context.Context, outcome step.Outcome) (step.Recorded, error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if w.record != nil {
			if err := w.record(outcome); err != nil {
				return step.Recorded{}, err
			}
		}
		w.outcomes = append(w.outcomes, outcome)
		w.told = append(w.told, outcome.Outcome)
		return step.Recorded{Recovered: w.recovered}, nil
	})
	register(step.ActivityStartNotification, func(_ context.Context, ask step.NotificationAsk) error {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.notified = append(w.notified, ask)
		w.told = append(w.told, ask.Notification.Message.Event)
		return w.notifyError
	})
	w.registerTurn(env, register)
	return env
}

// perform runs the definition and returns what the run answered.
func (w *world) perform(t *testing.T, d *pipeline.Pipeline) (RunResult, error) {
	t.Helper()
	env := w.environment(t, day)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: d})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the run did not complete")
	}
	var result RunResult
	if err := env.GetWorkflowError(); err != nil {
		return result, err
	}
	if err := env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	return result, nil
}

func (w *world) outcome(t *testing.T) step.Outcome {
	t.Helper()
	if len(w.outcomes) != 1 {
		t.Fatalf("%d outcomes were recorded, want 1: %+v", len(w.outcomes), w.outcomes)
	}
	return w.outcomes[0]
}

func permanent(kind, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{NonRetryable: true})
}

func TestRunLoads(t *testing.T) {
	t.Parallel()
	var w world
	w.load = func(in step.Input, _ int) (step.Result, error) {
		if in.Source == nil || in.Source.Step.Name != "extract" || in.Source.Result.Done.Rows != 3 {
			return step.Result{}, permanent("Test", fmt.Sprintf("the load was told of no source: %+v", in.Source))
		}
		return rows(3), nil
	}
	result, err := w.perform(t, definition(t, "", extract+load))
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != step.OutcomeLoaded || result.Rows != 3 || result.Interval != day {
		t.Errorf("the run answered %+v", result)
	}
	if got := w.outcome(t); got.Outcome != step.OutcomeLoaded || got.Rows != 3 || got.Interval != day {
		t.Errorf("the outcome is %+v", got)
	}
	if want := []string{"extract/1", "load/1"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked for %v, want %v", w.asked, want)
	}
}

func TestRunFailsWithTheStepsOwnType(t *testing.T) {
	t.Parallel()
	w := world{load: func(step.Input, int) (step.Result, error) {
		return step.Result{}, permanent("CheckFailed", "2 rows, at least 3 expected")
	}}
	_, err := w.perform(t, definition(t, "", extract+load))
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || application.Type() != "CheckFailed" {
		t.Fatalf("the run ended with %v", err)
	}
	got := w.outcome(t)
	if got.Outcome != step.OutcomeFailed || !strings.Contains(got.Reason, "CheckFailed: 2 rows") {
		t.Errorf("the outcome is %+v", got)
	}
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	second := strings.NewReplacer("name: extract", "name: other").Replace(extract)
	for name, test := range map[string]struct {
		steps   string
		failing string
		states  string
		outcome string
		failure string
	}{
		"fail cancels the rest": {extract + load, "extract", "", step.OutcomeFailed, "Boom"},
		"skip leaves out what needs it, and the interval is not loaded": {
			strings.Replace(extract, "http:", "on_failure: skip\n    http:", 1) + load, "extract", "", step.OutcomeFailed, ErrorLoadFailed},
		"skip of a step that no load needs": {
			extract + load + strings.Replace(second, "http:", "on_failure: skip\n    http:", 1), "other",
			"extract done, load done, other failed", step.OutcomeLoaded, ""},
		"continue lets what needs it run": {
			extract + strings.Replace(load, "load: {", "needs: [other]\n    load: {", 1) + strings.Replace(second, "http:", "on_failure: continue\n    http:", 1),
			"other", "extract done, load done, other failed", step.OutcomeLoaded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{extract: func(in step.Input, _ int) (step.Result, error) {
				if in.Step.Name == test.failing {
					return step.Result{}, permanent("Boom", "it went wrong")
				}
				return rows(3), nil
			}}
			result, err := w.perform(t, definition(t, "", test.steps))
			if got := w.outcome(t).Outcome; got != test.outcome {
				t.Errorf("the outcome is %s, want %s", got, test.outcome)
			}
			if test.failure != "" {
				var application *temporal.ApplicationError
				if !errors.As(err, &application) || application.Type() != test.failure || !strings.Contains(application.Message(), "it went wrong") {
					t.Errorf("the run ended with %v, want %s", err, test.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var states []string
			for _, report := range result.Steps {
				states = append(states, report.Name+" "+string(report.State))
			}
			slices.Sort(states)
			if got := strings.Join(states, ", "); got != test.states {
				t.Errorf("the steps are %q, want %q", got, test.states)
			}
		})
	}
}

func TestRetriesFollowTheFile(t *testing.T) {
	t.Parallel()
	w := world{extract: func(_ step.Input, attempt int) (step.Result, error) {
		if attempt < 3 {
			return step.Result{}, temporal.NewApplicationError("connection reset", "Network")
		}
		return step.Result{Done: &step.Done{Rows: 3, Attempt: attempt}}, nil
	}}
	result, err := w.perform(t, definition(t, "", extract+load))
	if err != nil {
		t.Fatal(err)
	}
	if result.Steps[0].Attempts != 3 {
		t.Errorf("the extract took %d attempts, want 3: %v", result.Steps[0].Attempts, w.asked)
	}
	listed := strings.Replace(extract, "http:", "retry: { non_retryable_error_types: [Network] }\n    http:", 1)
	w.asked, w.outcomes = nil, nil
	if _, err := w.perform(t, definition(t, "", listed+load)); err == nil || len(w.asked) != 1 {
		t.Errorf("a type that the file lists was tried %d times: %v", len(w.asked), err)
	}
}

func TestAWaitUsesNoAttempt(t *testing.T) {
	t.Parallel()
	var at []time.Time
	w := world{}
	env := w.environment(t, day)
	w.extract = func(in step.Input, attempt int) (step.Result, error) {
		at = append(at, env.Now())
		switch {
		case len(at) <= 3:
			return step.Result{Wait: &step.Wait{Until: env.Now().Add(time.Minute), Reason: "429", Throttled: in.Throttled + 1}}, nil
		case in.Throttled != 3:
			return step.Result{}, permanent("Test", "the refusals were not counted")
		case len(at) == 4:
			return step.Result{}, temporal.NewApplicationError("reset", "Network")
		default:
			return step.Result{Done: &step.Done{Rows: 3, Attempt: attempt}}, nil
		}
	}
	two := strings.Replace(extract, "http:", "retry: { maximum_attempts: 2 }\n    http:", 1)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", two+load)})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(at) != 5 || at[1].Sub(at[0]) < time.Minute || at[3].Sub(at[0]) < 3*time.Minute {
		t.Errorf("asked at %v, want three pauses of a minute and one more attempt", at)
	}
}

func TestAWaitBeyondScheduleToCloseFailsAtOnce(t *testing.T) {
	t.Parallel()
	w := world{}
	env := w.environment(t, day)
	started := env.Now()
	w.extract = func(step.Input, int) (step.Result, error) {
		return step.Result{Wait: &step.Wait{Until: env.Now().Add(2 * time.Hour), Reason: "429, Retry-After: 7200"}}, nil
	}
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", extract+load)})
	err := env.GetWorkflowError()
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || application.Type() != ErrorWaitTooLong || !strings.Contains(application.Message(), "Retry-After: 7200") {
		t.Errorf("the run ended with %v", err)
	}
	if took := env.Now().Sub(started); took > time.Minute {
		t.Errorf("it took %s to find out", took)
	}
}

func TestALoadHasItsSourceReadAgain(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			loads := 0
			w := world{load: func(step.Input, int) (step.Result, error) {
				if loads++; loads <= lost {
					return step.Result{SourceLost: "SourceChanged"}, nil
				}
				return rows(3), nil
			}}
			_, err := w.perform(t, definition(t, "", extract+load))
			extracts := 0
			for _, asked := range w.asked {
				if strings.HasPrefix(asked, "extract") {
					extracts++
				}
			}
			if lost <= maximumRereads {
				if err != nil || extracts != lost+1 {
					t.Errorf("%d extracts, %v; want %d and no error", extracts, err, lost+1)
				}
				return
			}
			var application *temporal.ApplicationError
			if !errors.As(err, &application) || application.Type() != "SourceChanged" || extracts != maximumRereads+1 {
				t.Errorf("%d extracts, %v; want %d and SourceChanged", extracts, err, maximumRereads+1)
			}
		})
	}
}

func TestAnActivityOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := world{}
	env := w.environment(t, day)
	var got map[string]any
	env.RegisterActivityWithOptions(func(_ context.Context, input map[string]any) (string, error) {
		got = input
		return "done", nil
	}, activity.RegisterOptions{Name: "TrainModel"})
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day,
		Definition: definition(t, "", extract+load+"\n  - name: train\n    needs: [load]\n    activity: { type: TrainModel, input: { depth: 3 } }\n")})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	owned, _ := got["interval"].(map[string]any)
	if got["depth"] != 3.0 || owned["start"] != "2026-01-15T00:00:00Z" || owned["end"] != "2026-01-16T00:00:00Z" {
		t.Errorf("the activity was given %v", got)
	}
}

func TestRunTimeout(t *testing.T) {
	t.Parallel()
	w := world{}
	env := w.environment(t, day)
	w.extract = func(step.Input, int) (step.Result, error) {
		return step.Result{Wait: &step.Wait{Until: env.Now().Add(20 * time.Minute), Reason: "429"}}, nil
	}
	quick := strings.Replace(extract, "http:", "timeout: { start_to_close: 1m, schedule_to_close: 10m }\n    http:", 1)
	long := strings.NewReplacer("schedule_to_close: 10m", "schedule_to_close: 50m").Replace(quick)
	loading := strings.Replace(load, "load: {", "timeout: { start_to_close: 1m, schedule_to_close: 10m }\n    load: {", 1)
	started := env.Now()
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day,
		Definition: definition(t, "run_timeout: 50m\n", long+loading)})
	var application *temporal.ApplicationError
	if err := env.GetWorkflowError(); !errors.As(err, &application) {
		t.Fatalf("the run ended with %v", err)
	}
	if took := env.Now().Sub(started); took > 51*time.Minute {
		t.Errorf("it took %s", took)
	}
	if got := w.outcome(t); got.Outcome != step.OutcomeFailed {
		t.Errorf("the outcome is %+v", got)
	}
}

func TestCancelIsRecorded(t *testing.T) {
	t.Parallel()
	w := world{}
	env := w.environment(t, day)
	w.extract = func(step.Input, int) (step.Result, error) {
		return step.Result{Wait: &step.Wait{Until: env.Now().Add(10 * time.Minute), Reason: "429"}}, nil
	}
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", extract+load)})
	if err := env.GetWorkflowError(); !temporal.IsCanceledError(err) {
		t.Errorf("the run ended with %v", err)
	}
	if got := w.outcome(t); got.Outcome != step.OutcomeCancelled {
		t.Errorf("the outcome is %+v", got)
	}
}

func TestTheOutcomeOutlivesAnOutageOfTheWarehouse(t *testing.T) {
	t.Parallel()
	tries := 0
	w := world{record: func(step.Outcome) error {
		// The test environment allows ten attempts where the policy sets no bound.
		if tries++; tries <= 10 {
			return temporal.NewApplicationError("connection refused", "Network")
		}
		return nil
	}}
	if _, err := w.perform(t, definition(t, "", extract+load)); err != nil {
		t.Fatal(err)
	}
	if got := w.outcome(t); got.Outcome != step.OutcomeLoaded {
		t.Errorf("the outcome is %+v", got)
	}
}

func TestARunOfAnotherIdIsRefused(t *testing.T) {
	t.Parallel()
	w := world{}
	other := interval.Interval{Start: day.End, End: day.End.Add(24 * time.Hour)}
	env := w.environment(t, other)
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", extract+load)})
	var application *temporal.ApplicationError
	if err := env.GetWorkflowError(); !errors.As(err, &application) || application.Type() != ErrorNoInterval {
		t.Errorf("the run ended with %v", err)
	}
	if len(w.asked) > 0 {
		t.Errorf("steps were run: %v", w.asked)
	}
}

func TestInputOfANewerBuildIsKeptForANewerWorker(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", extract+load)})
	if err != nil {
		t.Fatal(err)
	}
	var in launch.Input
	if err := json.Unmarshal(good, &in); err != nil || in.Unreadable() != nil {
		t.Fatalf("good input: %v, %v", err, in.Unreadable())
	}
	for name, bad := range map[string]string{
		"newer version":          strings.Replace(string(good), `"version":2`, `"version":3`, 1),
		"unknown field":          strings.Replace(string(good), `{`, `{"novel":true,`, 1),
		"unknown field in steps": strings.Replace(string(good), `"name":"extract"`, `"name":"extract","novel":1`, 1),
		"newer format":           strings.Replace(string(good), `"format":1`, `"format":2`, 1),
	} {
		var in launch.Input
		if bad == string(good) {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if err := json.Unmarshal([]byte(bad), &in); err != nil {
			t.Errorf("%s: decoding fails with %v, which would fail the run", name, err)
		}
		if in.Unreadable() == nil {
			t.Errorf("%s is read as if it were known", name)
		}
	}
}

func TestDetailsAreSafeText(t *testing.T) {
	t.Parallel()
	r := &run{
		input: launch.Input{Kind: step.Manual},
		owner: step.Owner{Pipeline: "orders", Timezone: "Asia/Jakarta", Interval: day},
		order: []string{"extract"},
		nodes: map[string]*node{"extract": {report: StepReport{
			Name: "extract", State: StateFailed, Note: "a|b\n<img src=x onerror=alert(1)> " + strings.Repeat("x", 1000)}}},
	}
	text := r.details(day.End)
	if strings.Contains(text, "<img") || strings.Contains(text, "a|b") || len(text) > 1000 {
		t.Errorf("the details hold markup or a broken row:\n%s", text)
	}
	if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, "2026-01-15T00:00:00Z → 2026-01-16T00:00:00Z") {
		t.Errorf("the first line does not name the interval: %s", first)
	}
	if !strings.Contains(text, "2026-01-15 07:00:00 +07:00") {
		t.Errorf("the details do not name the local time:\n%s", text)
	}
}
