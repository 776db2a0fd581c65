package activities

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// openRuns is a Temporal that lists these open runs.
type openRuns struct {
	client.Client
	ids []string
}

func (o openRuns) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range o.ids {
		response.Executions = append(response.Executions, &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{WorkflowId: id}})
	}
	return response, nil
}

// planning returns activities whose clock stands at noon of 20 January 2026, over a ledger with these outcomes of
// days of that month.
func planning(t *testing.T, outcomes map[int]string, open ...string) *Activities {
	t.Helper()
	a := withWarehouse(t)
	a.temporal = launch.New(openRuns{ids: open}, "default", nil)
	a.now = func() time.Time { return clock("2026-01-20T12:00") }
	opened, err := a.warehouse(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	for n, status := range outcomes {
		if _, err := opened.RecordOutcome(t.Context(), warehouse.Outcome{
			Pipeline: "orders", Interval: dayOf(n), Status: status, Kind: "manual", RunID: "r", Fence: 1,
		}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func dayOf(n int) interval.Interval {
	start := time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
	return interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}
}

var dailySchedule = pipeline.Schedule{Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-01-01"}

func TestPlan(t *testing.T) {
	t.Parallel()
	outcomes := map[int]string{10: step.OutcomeLoaded, 11: step.OutcomeFailed, 12: step.OutcomeCancelled, 13: step.OutcomeAccepted, 15: step.OutcomeFailed}
	open := []string{step.WorkflowID("orders", dayOf(14).End), step.WorkflowID("orders", dayOf(15).End)}
	chain := dailySchedule
	chain.DependsOnPast = true
	for name, test := range map[string]struct {
		schedule  pipeline.Schedule
		reprocess step.Reprocess
		newest    bool
		from, to  string
		want      []step.Verdict
	}{
		"missing": {dailySchedule, step.ReprocessMissing, false, "2026-01-10T00:00", "2026-01-17T00:00",
			[]step.Verdict{"leave", "leave", "leave", "leave", "wait", "leave", "run"}},
		"failed": {dailySchedule, step.ReprocessFailed, false, "2026-01-10T00:00", "2026-01-17T00:00",
			[]step.Verdict{"leave", "run", "run", "leave", "wait", "wait", "run"}},
		"all, newest first": {dailySchedule, step.ReprocessAll, true, "2026-01-10T00:00", "2026-01-17T00:00",
			[]step.Verdict{"run", "wait", "wait", "run", "run", "run", "run"}},
		"a chain": {chain, step.ReprocessMissing, false, "2026-01-14T00:00", "2026-01-18T00:00",
			[]step.Verdict{"wait", "leave", "blocked", "blocked"}},
		"a chain after a failure": {chain, step.ReprocessMissing, false, "2026-01-16T00:00", "2026-01-18T00:00",
			[]step.Verdict{"blocked", "blocked"}},
		"a chain after what was never run": {chain, step.ReprocessMissing, false, "2026-01-17T00:00", "2026-01-19T00:00",
			[]step.Verdict{"run", "run"}},
		"until now": {dailySchedule, step.ReprocessMissing, false, "2026-01-18T00:00", "2026-03-01T00:00", []step.Verdict{"run", "run"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := planning(t, outcomes, open...)
			request := step.PlanRequest{
				Pipeline: "orders", Warehouse: "w", Schedule: test.schedule, Reprocess: test.reprocess, Newest: test.newest,
				Range: step.Range{From: clock(test.from), To: clock(test.to)}, List: true,
			}
			got, err := perform(t, a.Plan, request)
			if err != nil {
				t.Fatal(err)
			}
			var verdicts []step.Verdict
			for _, each := range got.Intervals {
				verdicts = append(verdicts, each.Verdict)
			}
			if !slices.Equal(verdicts, test.want) || got.Next != nil || got.Counts.Total() != int64(len(test.want)) || (got.Blocked != nil) != slices.Contains(test.want, step.VerdictBlocked) {
				t.Errorf("%v, want %v: %+v", verdicts, test.want, got)
			}
			request.List = false
			if counted, err := perform(t, a.Plan, request); err != nil || counted.Counts != got.Counts || counted.Range != got.Range || counted.Intervals != nil {
				t.Errorf("counted %+v, %v, listed %+v", counted, err, got.Counts)
			}
		})
	}
}

// What lies only partly in the range, and what is not over, is left out and named.
func TestPlanBounds(t *testing.T) {
	t.Parallel()
	a := planning(t, nil)
	for name, test := range map[string]struct {
		from, to string
		first    int // day of January; 0: there is none
		last     int
		cut      []int
		future   int
	}{
		"whole days":         {"2026-01-03T00:00", "2026-01-06T00:00", 3, 5, nil, 0},
		"parts of days":      {"2026-01-03T12:00", "2026-01-06T12:00", 4, 5, []int{3, 6}, 0},
		"within a day":       {"2026-01-03T12:00", "2026-01-03T13:00", 0, 0, []int{3}, 0},
		"over a midnight":    {"2026-01-03T12:00", "2026-01-04T12:00", 0, 0, []int{3, 4}, 0},
		"before the first":   {"2025-12-01T00:00", "2026-01-02T00:00", 1, 1, nil, 0},
		"all of it before":   {"2025-11-01T00:00", "2025-12-01T00:00", 0, 0, nil, 0},
		"up to the future":   {"2026-01-18T00:00", "2026-01-25T00:00", 18, 19, nil, 20},
		"only the future":    {"2026-01-20T00:00", "2026-01-25T00:00", 0, 0, nil, 20},
		"part of the future": {"2026-01-19T00:00", "2026-01-20T18:00", 19, 19, []int{20}, 0},
	} {
		got, err := perform(t, a.Plan, step.PlanRequest{
			Pipeline: "orders", Warehouse: "w", Schedule: dailySchedule, Reprocess: step.ReprocessMissing, Range: step.Range{From: clock(test.from), To: clock(test.to)},
		})
		if err != nil {
			t.Fatal(err)
		}
		var want step.Range
		if test.first > 0 {
			want = step.Range{From: dayOf(test.first).Start, To: dayOf(test.last).End}
		}
		var cut []interval.Interval
		for _, n := range test.cut {
			cut = append(cut, dayOf(n))
		}
		if got.Range != want || !slices.Equal(got.Cut, cut) || (got.Future == nil) != (test.future == 0) || got.Future != nil && *got.Future != dayOf(test.future) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Pages follow each other without a gap, see the same now, and stay small.
func TestPlanPages(t *testing.T) {
	t.Parallel()
	a := planning(t, map[int]string{3: step.OutcomeCancelled})
	minutely := pipeline.Schedule{Cron: "* * * * *", Timezone: "UTC", StartDate: "2026-01-01"}
	for _, newest := range []bool{false, true} {
		request := step.PlanRequest{
			Pipeline: "orders", Warehouse: "w", Schedule: minutely, Reprocess: step.ReprocessFailed, Newest: newest, List: true,
			Range: step.Range{From: clock("2026-01-19T00:00"), To: clock("2026-02-01T00:00")},
		}
		var seen []interval.Interval
		pages := 0
		for {
			answer, err := perform(t, a.Plan, request)
			if err != nil {
				t.Fatal(err)
			}
			if encoded, err := json.Marshal(answer); err != nil || len(encoded) > 256<<10 {
				t.Errorf("a page has %d bytes: %v", len(encoded), err)
			}
			pages++
			for _, each := range answer.Intervals {
				seen = append(seen, each.Interval)
			}
			if answer.Next == nil {
				break
			}
			// Time goes on between two pages, and the plan does not.
			a.now = func() time.Time { return clock("2026-01-21T00:00") }
			request.Now, request.After = answer.Now, *answer.Next
		}
		a.now = func() time.Time { return clock("2026-01-20T12:00") }
		if newest {
			slices.Reverse(seen)
		}
		if len(seen) != 36*60 || pages != 3 || seen[0].Start != clock("2026-01-19T00:00") || seen[len(seen)-1].End != clock("2026-01-20T12:00") {
			t.Errorf("%d intervals on %d pages", len(seen), pages)
		}
		for i := 1; i < len(seen); i++ {
			if seen[i].Start != seen[i-1].End {
				t.Fatalf("%s follows %s", seen[i], seen[i-1])
			}
		}
	}
}
