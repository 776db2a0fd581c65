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

const secondLoad = `
  - name: extract2
    http: { connection: shop, path: /more, columns: [{ name: id, type: bigint }, { name: at, type: timestamp }] }
  - name: load2
    needs: [load]
    load: { from: extract2, table: more, disposition: delete+insert, time_column: at }
`

// fromStep runs the definition from a step on; the ledger answers what it knows of the loads that are kept.
func (w *world) fromStep(t *testing.T, d *pipeline.Pipeline, from string, ledger func(step.KeptRequest) (step.KeptAnswer, error)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := w.environment(t, day)
	env.RegisterActivityWithOptions(func(_ context.Context, request step.KeptRequest) (step.KeptAnswer, error) {
		w.mutex.Lock()
		w.told = append(w.told, "kept")
		w.mutex.Unlock()
		return ledger(request)
	}, activity.RegisterOptions{Name: step.ActivityKept})
	env.ExecuteWorkflow(launch.RunType, launch.Input{Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: d, FromStep: from})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the run did not complete")
	}
	return env
}

// loadedBy says of each load that it was loaded, by this digest.
func loadedBy(digest string) func(step.KeptRequest) (step.KeptAnswer, error) {
	return func(request step.KeptRequest) (step.KeptAnswer, error) {
		var answer step.KeptAnswer
		for _, load := range request.Loads {
			answer.Loads = append(answer.Loads, step.KeptReceipt{Step: load.Step, Found: true, Table: load.Load.Table, Digest: digest, LoadedAt: day.End})
		}
		return answer, nil
	}
}

func TestFromStepRunsWhatFollows(t *testing.T) {
	t.Parallel()
	d := definition(t, "", extract+load+secondLoad)
	for from, want := range map[string]struct{ asked, told string }{
		"load2":    {"extract2/1 load2/1", "kept ask loaded release orders"},
		"extract2": {"extract2/1 load2/1", "kept ask loaded release orders"},
		"load":     {"extract/1 extract2/1 load/1 load2/1", "ask loaded release orders"},
		"extract":  {"extract/1 extract2/1 load/1 load2/1", "ask loaded release orders"},
	} {
		var w world
		env := w.fromStep(t, limitedTo1(d), from, loadedBy(d.Digest))
		var result RunResult
		if err := env.GetWorkflowResult(&result); err != nil {
			t.Fatal(err)
		}
		slices.Sort(w.asked)
		if got := strings.Join(w.asked, " "); got != want.asked || strings.Join(w.told, " ") != want.told {
			t.Errorf("from %s: %s, told %v", from, got, w.told)
		}
		again, _ := d.StepsFrom(from)
		for _, s := range result.Steps {
			wantState := StateKept
			if slices.Contains(again, s.Name) {
				wantState = StateDone
			}
			if s.State != wantState {
				t.Errorf("from %s: %s is %s, want %s", from, s.Name, s.State, wantState)
			}
		}
		outcome := w.outcome(t)
		if outcome.Outcome != step.OutcomeLoaded || outcome.Digest != d.Digest || !strings.HasPrefix(outcome.Reason, "from step "+from+" on") {
			t.Errorf("from %s: %+v", from, outcome)
		}
		if slices.Contains(outcome.Staged, "extract") != slices.Contains(again, "extract") {
			t.Errorf("from %s: the stages %v are dropped", from, outcome.Staged)
		}
	}
}

func limitedTo1(d *pipeline.Pipeline) *pipeline.Pipeline {
	limited, schedule := *d, *d.Schedule
	limited.Schedule, schedule.MaxActiveRuns = &schedule, 1
	return &limited
}

// TestFromStepOfAnotherDefinition: the outcome bears the digest of the rows that were kept.
func TestFromStepOfAnotherDefinition(t *testing.T) {
	t.Parallel()
	var w world
	w.fromStep(t, definition(t, "", extract+load+secondLoad), "load2", loadedBy("older"))
	if outcome := w.outcome(t); outcome.Outcome != step.OutcomeLoaded || outcome.Digest != "older" || !strings.Contains(outcome.Reason, "by another definition (digest older)") {
		t.Errorf("%+v", outcome)
	}
}

// TestFromStepRefusesWhatIsNotLoaded, before anything has changed: no outcome, no slot, no step.
func TestFromStepRefusesWhatIsNotLoaded(t *testing.T) {
	t.Parallel()
	d := definition(t, "", extract+load+secondLoad)
	missing := func(request step.KeptRequest) (step.KeptAnswer, error) {
		return step.KeptAnswer{Loads: []step.KeptReceipt{{Step: request.Loads[0].Step}}}, nil
	}
	refused := func(step.KeptRequest) (step.KeptAnswer, error) {
		return step.KeptAnswer{}, permanent("UnknownConnection", "no w")
	}
	for _, c := range []struct {
		from, kind, words string
		ledger            func(step.KeptRequest) (step.KeptAnswer, error)
	}{
		{"load2", step.ErrorNotLoaded, "to keep load, of which the ledger has no receipt for 2026-01-15T00:00:00Z/2026-01-16T00:00:00Z in the table that the definition names: run the interval without --from-step", missing},
		{"load2", "UnknownConnection", "no w", refused},
		{"nobody", step.ErrorUnknownStep, "its steps are extract, extract2, load, load2", missing},
	} {
		var w world
		err := w.fromStep(t, d, c.from, c.ledger).GetWorkflowError()
		var application *temporal.ApplicationError
		if !errors.As(err, &application) || application.Type() != c.kind || !application.NonRetryable() || !strings.Contains(application.Message(), c.words) {
			t.Errorf("from %s: %v", c.from, err)
		}
		if len(w.asked)+len(w.outcomes) > 0 {
			t.Errorf("from %s: asked %v, outcomes %+v", c.from, w.asked, w.outcomes)
		}
	}
}

// TestFromStepWaitsForTheLedger that is away, and goes on when it is back.
func TestFromStepWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	var w world
	looks := 0
	env := w.fromStep(t, definition(t, "", extract+load+secondLoad), "load2", func(request step.KeptRequest) (step.KeptAnswer, error) {
		if looks++; looks < 10 {
			return step.KeptAnswer{}, fmt.Errorf("the warehouse is away")
		}
		return loadedBy("")(request)
	})
	if err := env.GetWorkflowError(); err != nil || w.outcome(t).Outcome != step.OutcomeLoaded {
		t.Errorf("%v, %+v", err, w.outcomes)
	}
}

// TestFromStepCancelledBeforeItBegan leaves the interval's outcome as it is.
func TestFromStepCancelledBeforeItBegan(t *testing.T) {
	t.Parallel()
	var w world
	env := w.environment(t, day)
	env.RegisterActivityWithOptions(func(context.Context, step.KeptRequest) (step.KeptAnswer, error) {
		return step.KeptAnswer{}, errors.New("the warehouse is away")
	}, activity.RegisterOptions{Name: step.ActivityKept})
	env.RegisterDelayedCallback(env.CancelWorkflow, 10*time.Minute)
	env.ExecuteWorkflow(launch.RunType, launch.Input{
		Version: launch.Version, Kind: step.Manual, Interval: &day, Definition: definition(t, "", extract+load+secondLoad), FromStep: "load2",
	})
	if err := env.GetWorkflowError(); !temporal.IsCanceledError(err) || len(w.outcomes)+len(w.asked) > 0 {
		t.Errorf("%v, %+v", err, w.outcomes)
	}
}
