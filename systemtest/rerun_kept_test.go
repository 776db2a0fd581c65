package systemtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// TestRerunKeepsOnlyWhatWasDone: what leaves no receipt is kept if the newest run that was to do it has done it, as far
// as Temporal remembers.
func TestRerunKeepsOnlyWhatWasDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 5)
	w.worker(w.connect(a.URL))
	var mutex sync.Mutex
	broken, done := true, map[string]int{}
	mine := worker.New(w.temporal, w.name+"-mine", worker.Options{})
	for _, name := range []string{"mail", "note"} {
		mine.RegisterActivityWithOptions(func(context.Context, map[string]any) error {
			mutex.Lock()
			defer mutex.Unlock()
			if broken && name == "mail" {
				return temporal.NewNonRetryableApplicationError("the post is closed", "Closed", nil)
			}
			done[name]++
			return nil
		}, activity.RegisterOptions{Name: name})
	}
	if err := mine.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mine.Stop)
	file := w.write("mailing.yaml", read(t, w.limited(1))+fmt.Sprintf(`  - name: mail
    needs: [load]
    activity: { type: mail, task_queue: %[1]s-mine }
  - name: note
    needs: [mail]
    activity: { type: note, task_queue: %[1]s-mine }
`, w.name))
	failed := w.run(file, "2026-01-15", 5)
	_, said := w.rerun(file, "2026-01-15", 1, "--from-step", "note")
	if want := "step mail is to be kept, but it has failed in the newest run that ran it (run " + failed.RunID + ", failed): begin with it, by --from-step mail"; !strings.Contains(said.talk, want) {
		t.Errorf("it says %s", said.talk)
	}
	mutex.Lock()
	broken = false
	mutex.Unlock()
	for i, from := range []string{"mail", "note", "note"} {
		if i == 1 {
			w.cancelInQueue(a, file, "2026-01-15")
		}
		r, said := w.rerun(file, "2026-01-15", 0, "--from-step", from)
		if !strings.HasPrefix(r.states(), "extract kept, load kept, mail ") || strings.Contains(said.talk, "does not remember") {
			t.Errorf("%d: %s; it says %s", i, r.states(), said.talk)
		}
	}
	if done["mail"] != 2 || done["note"] != 4 || len(a.seen()) != 2 {
		t.Errorf("done %v, asked %v", done, a.seen())
	}
	w.forgetRuns(failed.WorkflowID)
	if _, said := w.rerun(file, "2026-01-15", 1, "--from-step", "note", "--definition", "run"); !strings.Contains(said.talk, "does not keep it any more") || !strings.Contains(said.talk, "--definition current") {
		t.Errorf("it says %s", said.talk)
	}
	if _, said := w.rerun(file, "2026-01-15", 0, "--from-step", "note"); !strings.Contains(said.talk, "whether mail was done for 2026-01-15T00:00:00Z/2026-01-16T00:00:00Z, Temporal does not remember; it is kept") {
		t.Errorf("it says %s", said.talk)
	}
}

// cancelInQueue starts the run of a day and cancels it while it waits for the slot that another day has.
func (w *world) cancelInQueue(a *api, file, day string) {
	w.t.Helper()
	d := a.door()
	other := w.start(file, "2026-01-14")
	<-d.entered
	r := w.start(file, day)
	w.untilGate(1, 1)
	if err := w.temporal.CancelWorkflow(w.ctx, r.WorkflowID, r.RunID); err != nil {
		w.t.Fatal(err)
	}
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, r)
	close(d.open)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, other)
}

// forgetRuns deletes all runs under an id, as Temporal does after the namespace's retention.
func (w *world) forgetRuns(id string) {
	w.t.Helper()
	w.eventually("Temporal has forgotten "+id, func() bool {
		page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: fmt.Sprintf("WorkflowId = %q", id)})
		if err != nil {
			return false
		}
		for _, each := range page.GetExecutions() {
			// Deleting again what is being deleted is refused.
			_, _ = w.temporal.WorkflowService().DeleteWorkflowExecution(w.ctx, &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: "default", WorkflowExecution: &common.WorkflowExecution{WorkflowId: id, RunId: each.GetExecution().GetRunId()},
			})
		}
		_, err = w.temporal.DescribeWorkflow(w.ctx, id, "")
		return len(page.GetExecutions()) == 0 && err != nil
	})
}

// TestARefusedRerunLeavesTheOutcome, also that of a backfill which has waited for it.
func TestARefusedRerunLeavesTheOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 5)
	connections := w.connect(a.URL)
	w.worker(connections)
	file := w.orders()
	w.run(file, "2026-01-15", 0)
	loaded := w.ledgerSays()
	late := w.name + "-late"
	more := w.write("late.yaml", strings.Replace(read(t, w.chain("more.yaml", "seconds", `  - name: load3
    load: { from: extract2, table: thirds, disposition: delete+insert, time_column: at }
`)), "task_queue: "+w.name, "task_queue: "+late, 1))
	got := w.starter("rerun", more, "--interval", "2026-01-15", "--from-step", "load2")
	if got.code != 0 || !strings.Contains(got.talk, "no worker polls task queue "+late) || !strings.Contains(got.talk, "kept as they are: extract, load, load3") {
		t.Fatalf("it exits %d: %s", got.code, got.talk)
	}
	backfill := w.backfill("tranche/backfill/"+w.name+"/refused", file, "2026-01-11", "2026-01-16", func(in *workflows.BackfillInput) { in.Reprocess = step.ReprocessAll })
	w.awaitOpen(backfill, 1)
	w.worker(connections, "--task-queue", late)
	if result := w.patiently(backfill); result.Loaded != 5 || result.Failed != 0 {
		t.Errorf("the backfill has %+v", result.WindowCounts)
	}
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name, From: loaded.Interval.Start})
	if err != nil || len(outcomes) != 1 || outcomes[0] != loaded {
		t.Errorf("the ledger says %+v, %v", outcomes, err)
	}
}
