package workflows

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// One pipeline that cannot be reconciled, one whose runs cannot be started and one whose Schedule cannot be read do
// not keep the others from it.
func TestReconcileGoesOn(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.RegisterWorkflowWithOptions(Reconcile, workflow.RegisterOptions{Name: ReconcileType})
	register := func(name string, function any) {
		env.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	var mutex sync.Mutex
	var caughtUp []step.CatchupRequest
	register(step.ActivityWatch, func(ctx context.Context, request step.WatchRequest) ([]step.Watched, error) {
		if request.TaskQueue != "q" || len(request.Pipelines) != 1 || activity.GetInfo(ctx).TaskQueue != "default-test-taskqueue/control" {
			t.Errorf("%+v on %s", request, activity.GetInfo(ctx).TaskQueue)
		}
		return []step.Watched{
			{Pipeline: "a", Warehouse: "w"}, {Pipeline: "broken", Warehouse: "w"}, {Pipeline: "c", Warehouse: "w", Problem: "its calendars are old"},
			{Pipeline: "newer", Problem: "it needs a newer worker"}, {Pipeline: "refused", Warehouse: "w"}, {Pipeline: "z", Warehouse: "w"},
		}, nil
	})
	register(step.ActivityReconcile, func(_ context.Context, watched step.Watched) (step.Reconciled, error) {
		found := step.Reconciled{Pipeline: watched.Pipeline, Expected: 31, Loaded: 30, Missing: 1, Note: "1 | is missing"}
		switch watched.Pipeline {
		case "broken":
			return found, temporal.NewNonRetryableApplicationError("no such table", "Database", nil)
		case "a", "refused":
			found.Catchup = &month
		case "c", "z":
			found.Late = make([]interval.Interval, 60)
		}
		return found, nil
	})
	register(step.ActivityCatchup, func(_ context.Context, request step.CatchupRequest) error {
		mutex.Lock()
		defer mutex.Unlock()
		caughtUp = append(caughtUp, request)
		if request.Pipeline == "refused" {
			return temporal.NewNonRetryableApplicationError("no", "Refused", nil)
		}
		return nil
	})
	env.ExecuteWorkflow(ReconcileType, ReconcileInput{TaskQueue: "q", Pipelines: []string{"a"}})
	var result ReconcileResult
	if err := env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	type short struct {
		pipeline, started, failure string
		late                       int
	}
	want := []short{
		{"a", "tranche/catchup/a", "", 0}, {"broken", "", "Database: no such table", 0}, {"c", "", "its calendars are old", 60},
		{"newer", "", "it needs a newer worker", 0}, {"refused", "", "Refused: no", 0}, {"z", "", "", 40},
	}
	for i, found := range result.Pipelines {
		if got := (short{found.Pipeline, found.Started, found.Error, len(found.Late)}); got != want[i] {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
	if len(result.Pipelines) != len(want) || len(caughtUp) != 2 || caughtUp[0].Range != month {
		t.Errorf("%d pipelines, caught up %+v", len(result.Pipelines), caughtUp)
	}
	failure := result.Failure()
	for _, part := range []string{"broken: Database: no such table", "c: its calendars", "newer: it needs", "refused: Refused"} {
		if failure == nil || !strings.Contains(failure.Error(), part) {
			t.Errorf("the failure is %v, want %q in it", failure, part)
		}
	}
	if (ReconcileResult{}).Failure() != nil {
		t.Error("nothing failed")
	}
}

func TestReconcileShowsATable(t *testing.T) {
	t.Parallel()
	r := &reconciler{found: []step.Reconciled{
		{Pipeline: "orders", Expected: 31, Loaded: 28, Accepted: 1, Failed: 1, Missing: 1, Note: "all that are missing | are started", Started: "tranche/catchup/orders"},
		{},
		{Pipeline: "users", Error: "no warehouse"},
	}}
	lines := strings.Split(strings.TrimSpace(strings.NewReplacer("\u00a0", "", "\u2060", "").Replace(r.details())), "\n")
	want := []string{
		"| pipeline | expected | loaded | open | recent | failed | missing |",
		"| --- | --- | --- | --- | --- | --- | --- |",
		"| orders | 31 | 29 | 0 | 0 | 1 | 1 |",
		"| users | 0 | 0 | 0 | 0 | 0 | 0 |",
		"",
		`**orders**: all that are missing \| are started by tranche/catchup/orders`,
		"",
		"**users**: error: no warehouse",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}
