package schedules

import (
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// catchup has StartCatchup called and returns the execution that is then at work; empty: none.
func (p *place) catchup() string {
	p.t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	request := step.CatchupRequest{Pipeline: p.name, Range: step.Range{From: at, To: at.AddDate(0, 0, 3)}}
	if err := p.schedules.StartCatchup(p.ctx, request); err != nil {
		p.t.Fatal(err)
	}
	described, err := p.schedules.temporal.DescribeWorkflow(p.ctx, launch.CatchupID(p.name), "")
	if err != nil {
		p.t.Fatal(err)
	}
	if described.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return ""
	}
	return described.WorkflowExecution.RunID
}

// A catchup goes on as long as the definition is the same, whatever the digest says of the rows, and gives way to one
// with the definition that was applied since.
func TestCatchupTakesTheNewDefinition(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, catchup: all`, ""))
	first := p.catchup()
	if first == "" {
		t.Fatal("no catchup was started")
	}
	if again := p.catchup(); again != first {
		t.Errorf("with the same definition %s gave way to %s", first, again)
	}
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, catchup: all, max_active_runs: 4`, ""))
	second := p.catchup()
	if second == first || second == "" {
		t.Fatalf("with another definition the catchup is %q, was %q", second, first)
	}
	if again := p.catchup(); again != second {
		t.Errorf("with the same definition %s gave way to %s", second, again)
	}
}

// A catchup that does not say with which definition it runs, as older workers start them, gives way.
func TestCatchupOfAnOlderWorkerGivesWay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, catchup: all`, ""))
	old, err := p.schedules.temporal.ExecuteWorkflow(p.ctx, client.StartWorkflowOptions{ID: launch.CatchupID(p.name), TaskQueue: p.name}, "older")
	if err != nil {
		t.Fatal(err)
	}
	if now := p.catchup(); now == "" || now == old.GetRunID() {
		t.Errorf("the catchup is %q, was %q", now, old.GetRunID())
	}
}

// Other limits are told to a gate that is open; one that is closed is nobody's loss.
func TestLimitsAreToldToTheGate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 2`, "")) // no gate
	gate, err := p.schedules.temporal.ExecuteWorkflow(p.ctx, client.StartWorkflowOptions{ID: launch.GateID(p.name), TaskQueue: p.name}, launch.GateType)
	if err != nil {
		t.Fatal(err)
	}
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 2`, "owner: somebody-else\n")) // other limits: none
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 5, depends_on_past: true`, "owner: somebody-else\n"))
	updated := p.current().Info.GetUpdateTime().AsTime()
	var told []step.SlotSignal
	events := p.schedules.temporal.GetWorkflowHistory(p.ctx, gate.GetID(), gate.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if signalled := event.GetWorkflowExecutionSignaledEventAttributes(); signalled != nil {
			var signal step.SlotSignal
			if err := p.schedules.temporal.Converter.FromPayloads(signalled.GetInput(), &signal); err != nil {
				t.Fatal(err)
			}
			told = append(told, signal)
		}
	}
	if len(told) != 1 || told[0] != (step.SlotSignal{Limit: 5, InOrder: true, Began: updated}) {
		t.Errorf("the gate was told %+v", told)
	}
}
