package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// TestMaxActiveRuns bounds the runs of a pipeline over two workers; the others wait, visibly, and lose nothing.
func TestMaxActiveRuns(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			for n := 11; n <= 18; n++ {
				a.set(januaryDay(n), n)
			}
			d := a.door()
			connections := w.connect(a.URL)
			w.worker(connections)
			w.worker(connections)
			file := w.limited(limit)
			runs := make([]report, 8)
			var terminals sync.WaitGroup
			for i := range runs {
				terminals.Go(func() { runs[i] = w.start(file, januaryDay(11+i)) })
			}
			terminals.Wait()
			state := w.untilGate(limit, 8-limit)
			for range limit {
				<-d.entered
			}
			if !slices.IsSortedFunc(state.Waiters, func(a, b step.Place) int { return a.Start.Compare(b.Start) }) {
				t.Errorf("they wait in the order %+v", state.Waiters)
			}
			last := state.Waiters[len(state.Waiters)-1]
			w.untilDetails(report{WorkflowID: last.WorkflowID, RunID: last.RunID}, fmt.Sprintf("waits for a slot: %d of %d are taken, by %s", limit, limit, w.name))
			close(d.open)
			w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs...)
			if got := w.peak(runs); got != limit {
				t.Errorf("%d runs worked at the same time, want %d", got, limit)
			}
			w.untilGate(0, 0)
			w.replays(runs...)
			if got, want := w.content().rows, int64(11+12+13+14+15+16+17+18); got != want {
				t.Errorf("the table holds %d rows, want %d", got, want)
			}
		})
	}
}

// TestSlotsComeBack: of a run that is terminated, of one that is cancelled while it works and of one that is
// cancelled while it waits. The last never begins.
func TestSlotsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	d := a.door()
	w.worker(w.connect(a.URL))
	runs := w.startDays(w.limited(1), 11, 15)
	if got := <-d.entered; got != "2026-01-11" {
		t.Fatalf("%s is at work", got)
	}
	w.untilGate(1, 4)
	cancel := func(r report) {
		if err := w.temporal.CancelWorkflow(w.ctx, r.WorkflowID, r.RunID); err != nil {
			t.Fatal(err)
		}
	}
	cancel(runs[1])
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, runs[1])
	w.untilGate(1, 3)
	cancel(runs[0])
	if got := <-d.entered; got != "2026-01-13" {
		t.Errorf("after a holder was cancelled, %s is at work", got)
	}
	if err := w.temporal.TerminateWorkflow(w.ctx, runs[2].WorkflowID, runs[2].RunID, "by the test"); err != nil {
		t.Fatal(err)
	}
	terminated := time.Now()
	if got := <-d.entered; got != "2026-01-14" {
		t.Errorf("after a holder was terminated, %s is at work", got)
	}
	if took := time.Since(terminated); took > 30*time.Second {
		t.Errorf("the slot of a terminated run came back after %s", took)
	}
	close(d.open)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, runs[0])
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs[3:]...)
	w.untilGate(0, 0)
	w.replays(runs...)
	for _, event := range w.events(runs[1].WorkflowID, runs[1].RunID) {
		if event.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			t.Error("the run that was cancelled while it waited has begun")
		}
	}
}

// TestAKilledWorkerLosesNoSlot: gate and runs go on where they were.
func TestAKilledWorkerLosesNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	d := a.door()
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	file := w.write("beating.yaml", read(t, w.limited(2))+"defaults: { timeout: { heartbeat: 2s } }\n")
	runs := w.startDays(file, 11, 16)
	<-d.entered
	<-d.entered
	w.untilGate(2, 4)
	worker.Kill()
	a.intercept(nil)
	w.worker(connections)
	close(d.open)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs...)
	if got := w.peak(runs); got > 2 {
		t.Errorf("%d runs worked at the same time, want 2", got)
	}
	w.untilGate(0, 0)
	w.replays(runs...)
}

// TestATerminatedGateForgetsNobody: the next one finds out who has a slot, from the ended one.
func TestATerminatedGateForgetsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	d := a.door()
	w.worker(w.connect(a.URL))
	file := w.limited(1)
	runs := w.startDays(file, 11, 13)
	<-d.entered
	w.untilGate(1, 2)
	if err := w.temporal.TerminateWorkflow(w.ctx, launch.GateID(w.name), "", "by the test"); err != nil {
		t.Fatal(err)
	}
	runs = append(runs, w.start(file, januaryDay(14)))
	w.eventually("a new gate knows the four", func() bool {
		described, err := w.temporal.DescribeWorkflow(w.ctx, launch.GateID(w.name), "")
		if err != nil || described.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return false
		}
		state := w.gate()
		return len(state.Holders) == 1 && len(state.Waiters) == 3
	})
	close(d.open)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs...)
	if got := w.peak(runs); got != 1 {
		t.Errorf("%d runs worked at the same time, want 1", got)
	}
}

// TestAResetRunKeepsItsSlot, from before it had asked as from after it had got it, and gives it back.
func TestAResetRunKeepsItsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	d := a.door()
	w.worker(w.connect(a.URL))
	runs := w.startDays(w.limited(1), 11, 12)
	<-d.entered
	w.untilGate(1, 1)
	for _, last := range []bool{false, true} {
		var to int64
		for _, event := range w.events(runs[0].WorkflowID, runs[0].RunID) {
			if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && (to == 0 || last) {
				to = event.GetEventId()
			}
		}
		reset, err := w.temporal.ResetWorkflowExecution(w.ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace:                 "default",
			WorkflowExecution:         &common.WorkflowExecution{WorkflowId: runs[0].WorkflowID, RunId: runs[0].RunID},
			Reason:                    "by the test",
			WorkflowTaskFinishEventId: to,
			RequestId:                 fmt.Sprintf("%s-%v", runs[0].RunID, last),
		})
		if err != nil {
			t.Fatal(err)
		}
		runs[0].RunID = reset.GetRunId()
		if got := <-d.entered; got != "2026-01-11" {
			t.Fatalf("%s is at work", got)
		}
	}
	if state := w.gate(); len(state.Holders) != 1 || state.Holders[0].WorkflowID != runs[0].WorkflowID {
		t.Errorf("the gate holds %+v", state)
	}
	close(d.open)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs...)
	if got := w.peak(runs); got != 1 {
		t.Errorf("%d runs worked at the same time, want 1", got)
	}
	w.untilGate(0, 0)
	w.replays(runs...)
}

// TestWaitingTakesNoWorker: on a worker with one place for steps, the runs of another pipeline go on.
func TestWaitingTakesNoWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.intercept(firstTimes(1, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	w.worker(w.connect(a.URL), "--max-activities", "1")
	file := w.limited(1)
	runs := w.startDays(file, 11, 14)
	w.untilDetails(runs[0], "429")
	w.untilGate(1, 3)
	other := w.write("other.yaml", strings.NewReplacer("pipeline: "+w.name, "pipeline: other-"+w.name, "connection: api", "connection: twin").Replace(read(t, file)))
	w.run(other, "2026-01-11", 0)
	if state := w.gate(); len(state.Waiters) != 3 {
		t.Errorf("%d wait", len(state.Waiters))
	}
	for _, r := range runs {
		if err := w.temporal.CancelWorkflow(w.ctx, r.WorkflowID, r.RunID); err != nil {
			t.Fatal(err)
		}
	}
	w.untilGate(0, 0)
}

// TestDependsOnPast: in order at any width; a day that fails stops those after it, visibly, until it is loaded.
func TestDependsOnPast(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		var broken sync.Map
		broken.Store("2026-01-13T00:00:00Z", true)
		a.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			_, is := broken.Load(r.URL.Query().Get("from"))
			if is {
				w.WriteHeader(http.StatusNotFound)
			}
			return is
		})
		w.worker(w.connect(a.URL))
		file := w.limited(5, "depends_on_past: true")
		runs := w.startDays(file, 11, 15)
		w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs[:2]...)
		w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_FAILED, runs[2])
		w.untilDetails(runs[3], "waits for the interval before, 2026-01-13, which failed: run it again")
		w.untilDetails(runs[4], "waits for the interval before, 2026-01-14, whose run is open")
		if got := a.seen(); len(got) != 3 || !slices.IsSorted(got) {
			w.t.Errorf("the API was asked for %v", got)
		}
		broken.Clear()
		w.run(file, "2026-01-13", 0)
		w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, runs[3:]...)
		if got := a.seen(); len(got) != 6 || !slices.IsSorted(got) {
			w.t.Errorf("the API was asked for %v", got)
		}
		w.replays(runs...)
	})
}
