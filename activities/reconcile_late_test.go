package activities

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// starting keeps the ids of what is started, and refuses a second start of one.
type starting struct {
	workflowservice.WorkflowServiceClient
	ids *[]string
}

func (s starting) StartWorkflowExecution(_ context.Context, in *workflowservice.StartWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.StartWorkflowExecutionResponse, error) {
	if slices.Contains(*s.ids, in.GetWorkflowId()) {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it is there", "", "r")
	}
	*s.ids = append(*s.ids, in.GetWorkflowId())
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "r"}, nil
}

// An interval whose run loads it while people are told that it is late has recovered, which the run did not know.
func TestLoadedWhileToldLate(t *testing.T) {
	t.Parallel()
	a := withWarehouse(t)
	var ids []string
	a.temporal = launch.New(knownClient{service: starting{ids: &ids}}, "default", nil)
	opened, err := a.warehouse(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	day := func(n int) interval.Interval {
		start := time.Date(2026, 5, n, 0, 0, 0, 0, time.UTC)
		return interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}
	}
	record := func(n int, run, status string, fence int64) warehouse.Recorded {
		t.Helper()
		recorded, err := opened.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: "orders", Interval: day(n), Status: status, Kind: "manual", WorkflowID: "w", RunID: run, Fence: fence})
		if err != nil {
			t.Fatal(err)
		}
		return recorded
	}
	record(2, "two", warehouse.OutcomeLoaded, 1)
	record(3, "three", warehouse.OutcomeFailed, 1)
	watched := step.Watched{
		Pipeline: "orders", Warehouse: "w", Deadline: pipeline.Duration(time.Hour), Notify: &pipeline.Notify{Connection: "ops"},
		Schedule: pipeline.Schedule{Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-05-01"},
	}
	_, err = perform(t, func(ctx context.Context, watched step.Watched) (step.Reconciled, error) {
		r := &reconciliation{activities: a, watched: watched, herald: a.heraldOf(&watched), ledger: opened}
		err := r.tell(ctx, []interval.Interval{day(1), day(2), day(3)})
		return r.result, err
	}, watched)
	if err != nil {
		t.Fatal(err)
	}
	want := "tranche/notify/orders/deadline/2026-05-02T00:00:00Z tranche/notify/orders/recovery/2026-05-03T00:00:00Z/two"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if record(2, "after", warehouse.OutcomeLoaded, 2).Recovered || !record(3, "after", warehouse.OutcomeLoaded, 2).Recovered {
		t.Error("the runs after it are told otherwise")
	}
}
