package activities

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// withWarehouse returns activities over an empty SQLite warehouse with the name w.
func withWarehouse(t *testing.T) *Activities {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.db")
	set, err := connection.Parse("connections.yaml", []byte("connections:\n  w: { sqlite: { path: \"${WAREHOUSE}\" } }\n"),
		func(string) (string, bool) { return path, true })
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Connections: set})
	t.Cleanup(a.Close)
	return a
}

// perform runs a function as an activity.
func perform[I, O any](t *testing.T, function func(context.Context, I) (O, error), in I) (O, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: "activity"})
	var out O
	value, err := env.ExecuteActivity("activity", in)
	if err == nil {
		err = value.Get(&out)
	}
	return out, err
}

func TestGridsOfTheLedger(t *testing.T) {
	t.Parallel()
	a := withWarehouse(t)
	hourly := pipeline.Schedule{Cron: "0 * * * *", Timezone: "UTC", StartDate: "2026-05-01"}
	daily := pipeline.Schedule{Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-05-01"}
	first, edit := time.Date(2026, 5, 4, 0, 30, 0, 0, time.UTC), time.Date(2026, 5, 4, 9, 10, 0, 0, time.UTC)
	nine := edit.Truncate(time.Hour)
	ask := func(request step.GridRequest, want step.GridAnswer) {
		t.Helper()
		request.Pipeline, request.Warehouse = "orders", "w"
		if got, err := perform(t, a.Grid, request); err != nil || got != want {
			t.Errorf("%+v: %+v, %v", request, got, err)
		}
	}
	ask(step.GridRequest{Schedule: hourly, At: first}, step.GridAnswer{})
	for range 2 {
		ask(step.GridRequest{Schedule: hourly, At: first, Record: true}, step.GridAnswer{ActiveSince: first, Grids: 1})
	}
	ask(step.GridRequest{Schedule: daily, At: edit}, step.GridAnswer{Since: nine, ActiveSince: first, Grids: 1})
	daily.Since = "2026-05-04T09:00:00Z"
	for range 2 {
		ask(step.GridRequest{Schedule: daily, At: edit, Record: true}, step.GridAnswer{Since: nine, ActiveSince: first, Grids: 2})
	}
	daily.Since = ""
	ask(step.GridRequest{Schedule: daily}, step.GridAnswer{Since: nine, ActiveSince: first, Grids: 2})
	ask(step.GridRequest{Schedule: hourly, Forget: true}, step.GridAnswer{})
	ask(step.GridRequest{Schedule: hourly, At: edit}, step.GridAnswer{})
	if _, err := perform(t, a.Grid, step.GridRequest{Pipeline: "orders", Warehouse: "w", Schedule: pipeline.Schedule{Cron: "x"}}); err == nil {
		t.Error("a schedule that is none was taken")
	}
}
