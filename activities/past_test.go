package activities

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// runs is a Temporal that knows these runs and how they stand.
type runs map[string]enums.WorkflowExecutionStatus

func (r runs) temporal() *launch.Temporal {
	return launch.New(knownClient{service: knownRuns{runs: r}}, "default", nil)
}

type knownClient struct {
	client.Client
	service workflowservice.WorkflowServiceClient
}

func (c knownClient) WorkflowService() workflowservice.WorkflowServiceClient { return c.service }

type knownRuns struct {
	workflowservice.WorkflowServiceClient
	runs runs
}

func (k knownRuns) DescribeWorkflowExecution(_ context.Context, in *workflowservice.DescribeWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	status, known := k.runs[in.GetExecution().GetWorkflowId()]
	if !known {
		return nil, serviceerror.NewNotFound("no such execution")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: status}}, nil
}

const (
	running   = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	failedRun = enums.WORKFLOW_EXECUTION_STATUS_FAILED
)

func TestPast(t *testing.T) {
	t.Parallel()
	daily := pipeline.Schedule{Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-05-01"}
	all, latest, edited := daily, daily, daily
	all.Catchup, latest.Catchup, edited.Since = pipeline.CatchupAll, pipeline.CatchupLatest, "2026-05-04T00:00:00Z"
	// The interval that asks is that of 4 May, [4 May, 5 May); the one before it is that of 3 May.
	const before = "orders-2026-05-04T00:00:00Z"
	activated := func(at string) *time.Time {
		instant, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return &instant
	}
	early, late := activated("2026-05-03T12:00:00Z"), activated("2026-05-04T12:00:00Z")
	for name, c := range map[string]struct {
		kind     step.Kind
		schedule pipeline.Schedule
		active   *time.Time
		outcome  string
		runs     runs
		exempt   bool
		// note is what is waited for; empty: it may begin.
		note string
	}{
		"loaded":                        {schedule: daily, active: early, outcome: "loaded"},
		"accepted":                      {schedule: daily, active: early, outcome: "accepted"},
		"loaded and open again":         {schedule: daily, active: early, outcome: "loaded", runs: runs{before: running}},
		"failed":                        {schedule: daily, active: late, outcome: "failed", runs: runs{before: failedRun}, note: "2026-05-03, which failed: run it again"},
		"failed and open again":         {schedule: daily, active: early, outcome: "failed", runs: runs{before: running}, note: "which failed and is run again"},
		"cancelled":                     {schedule: daily, active: early, outcome: "cancelled", note: "which was cancelled: run it again"},
		"open":                          {schedule: daily, active: early, runs: runs{before: running}, note: "2026-05-03, whose run is open"},
		"never run":                     {schedule: daily, active: early, note: "2026-05-03, which has no run yet"},
		"ended without a word":          {schedule: daily, active: early, runs: runs{before: failedRun}, note: "which has no run yet"},
		"first after activation":        {schedule: daily, active: late},
		"first after activation, open":  {schedule: daily, active: late, runs: runs{before: running}, note: "whose run is open"},
		"latest at activation":          {schedule: latest, active: late, kind: step.Catchup},
		"activation with all":           {schedule: all, active: late, note: "which has no run yet"},
		"no Schedule at all":            {schedule: daily, kind: step.Manual},
		"no Schedule, backfill":         {schedule: daily, kind: step.Backfill, note: "which has no run yet"},
		"backfill before activation":    {schedule: daily, active: late, kind: step.Backfill, note: "which has no run yet"},
		"first of a backfill":           {schedule: daily, active: early, kind: step.Backfill, exempt: true},
		"first of a backfill, failed":   {schedule: daily, active: early, kind: step.Backfill, exempt: true, outcome: "failed", note: "which failed"},
		"first of a backfill, open":     {schedule: daily, active: early, kind: step.Backfill, exempt: true, runs: runs{before: running}, note: "whose run is open"},
		"beginning of a grid, unknown":  {schedule: edited},
		"beginning of a grid, the last": {schedule: edited, active: early, note: "2026-05-03, which has no run yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := withWarehouse(t)
			a.temporal = c.runs.temporal()
			if c.kind == "" {
				c.kind = step.Scheduled
			}
			if c.active != nil {
				request := step.GridRequest{Pipeline: "orders", Warehouse: "w", Schedule: daily, At: *c.active, Record: true}
				if _, err := perform(t, a.Grid, request); err != nil {
					t.Fatal(err)
				}
			}
			opened, err := a.warehouse(t.Context(), "w")
			if err != nil {
				t.Fatal(err)
			}
			may := func(n int) time.Time { return time.Date(2026, 5, n, 0, 0, 0, 0, time.UTC) }
			if c.outcome != "" {
				outcome := warehouse.Outcome{Pipeline: "orders", Interval: interval.Interval{Start: may(3), End: may(4)}, Status: c.outcome, Fence: 1}
				if _, err := opened.RecordOutcome(t.Context(), outcome); err != nil {
					t.Fatal(err)
				}
			}
			got, err := perform(t, a.Past, step.PastRequest{
				Owner: step.Owner{Pipeline: "orders", Warehouse: "w", Timezone: "UTC", Interval: interval.Interval{Start: may(4), End: may(5)}},
				Kind:  c.kind, Schedule: c.schedule, Exempt: c.exempt,
			})
			if err != nil || got.Go != (c.note == "") || !strings.Contains(got.Note, c.note) {
				t.Errorf("%+v, %v; want %q", got, err, c.note)
			}
		})
	}
}

// TestPastOfTheFirst: the first interval of all has none before it.
func TestPastOfTheFirst(t *testing.T) {
	t.Parallel()
	a := withWarehouse(t)
	a.temporal = runs{}.temporal()
	first := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, catchup := range []pipeline.Catchup{pipeline.CatchupNone, pipeline.CatchupAll} {
		got, err := perform(t, a.Past, step.PastRequest{
			Owner:    step.Owner{Pipeline: "orders", Warehouse: "w", Interval: interval.Interval{Start: first, End: first.AddDate(0, 0, 1)}},
			Schedule: pipeline.Schedule{Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-05-01", Catchup: catchup},
		})
		if err != nil || !got.Go {
			t.Errorf("%s: %+v, %v", catchup, got, err)
		}
	}
	if _, err := perform(t, a.Past, step.PastRequest{Owner: step.Owner{Pipeline: "orders", Warehouse: "nowhere"}}); err == nil {
		t.Error("a warehouse that there is not answers")
	}
}

func TestEarlier(t *testing.T) {
	t.Parallel()
	grid, err := interval.New(interval.Spec{Cron: "0 0 * * *", Start: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	owned, ok := grid.At(time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC))
	if !ok {
		t.Fatal("no interval")
	}
	for count, want := range map[int]string{0: "", 1: "3", 2: "2 3", 3: "1 2 3", 100: "1 2 3"} {
		var days []string
		for _, iv := range earlier(grid, owned, count) {
			days = append(days, iv.Start.Format("2"))
		}
		if got := strings.Join(days, " "); got != want {
			t.Errorf("the %d intervals before are those of %q, want %q", count, got, want)
		}
	}
}
