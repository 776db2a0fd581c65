package activities

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// campaigns is a Temporal that knows who has started the runs with these ids.
type campaigns struct {
	client.Client
	by map[string]string
}

func (c campaigns) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	campaign, known := c.by[id]
	if !known {
		return nil, serviceerror.NewNotFound("no such execution")
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(campaign)
	if err != nil {
		return nil, err
	}
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Status: failedRun, Memo: &common.Memo{Fields: map[string]*common.Payload{launch.MemoCampaign: payload}},
		},
	}}, nil
}

// What a lost worker could not tell of counts as what became of it, and not as what was found and left.
func TestWhatALostWindowHasRunCounts(t *testing.T) {
	t.Parallel()
	const own = "tranche/backfill/orders/own"
	id := func(n int) string { return step.WorkflowID("orders", dayOf(n).End) }
	temporal := launch.New(campaigns{by: map[string]string{id(1): own, id(2): "tranche/backfill/orders/other", id(5): own}}, "default", nil)
	a := withWarehouse(t)
	a.temporal = temporal
	opened, err := a.warehouse(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	// Somebody else's run has failed while the window was held: it was waited for.
	if _, err := opened.RecordOutcome(t.Context(), warehouse.Outcome{
		Pipeline: "orders", Interval: dayOf(3), Status: step.OutcomeFailed, Kind: "manual", RunID: "r", Fence: 1,
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		inherited bool
		want      step.WindowCounts
		failed    int
	}{
		"after a lost attempt": {true, step.WindowCounts{Started: 2, Failed: 2, Cancelled: 1, Left: 2}, 3},
		"the first attempt":    {false, step.WindowCounts{Left: 5}, 0},
	} {
		w := &window{
			activities: a, ledger: opened, inherited: test.inherited, since: time.Now().Add(-time.Hour),
			request: step.WindowRequest{Definition: &pipeline.Pipeline{Name: "orders"}, Campaign: own, Reprocess: step.ReprocessMissing},
			state:   step.WindowState{InFlight: []step.Flight{{Interval: dayOf(6)}}},
		}
		for n, status := range map[int]string{
			1: step.OutcomeFailed, 2: step.OutcomeFailed, 3: step.OutcomeFailed, 4: step.OutcomeLoaded, 5: step.OutcomeCancelled,
			6: step.OutcomeFailed, // which is waited for, and counts then
		} {
			count, err := w.counted(t.Context(), turn{Standing: gaps.Standing{Interval: dayOf(n), Status: status}, reprocess: step.ReprocessMissing})
			if err != nil {
				t.Fatal(err)
			}
			w.change(count)
		}
		failed := 0
		for _, each := range w.state.Failed {
			failed += int(each.To.Sub(each.From).Hours() / 24)
		}
		if w.state.Counts != test.want || failed != test.failed || len(w.state.InFlight) != 1 {
			t.Errorf("%s: it counts %+v, failed are %v", name, w.state.Counts, w.state.Failed)
		}
	}
}
