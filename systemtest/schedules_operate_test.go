package systemtest

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/api/common/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/warehouse"
)

// calm is a schedule that has nothing to do while a test looks on.
const calm = `cron: "0 0 1 1 *", start_date: 2026-01-01`

// TestReconcilerOfAQueue: how often it looks is kept until somebody says otherwise, plan and list show it, and it goes
// with the last pipeline.
func TestReconcilerOfAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect(newAPI(t).URL))
	file := w.ticking(calm)
	w.apply(file)
	if got := w.sched("apply", file); !strings.Contains(got.out, "No changes") {
		t.Errorf("a second apply says %s%s", got.out, got.talk)
	}
	if every := w.reconcilerRow().Schedule; every != "every "+reconcileEvery.String() {
		t.Errorf("after an apply that says nothing of it, the reconciler looks %s", every)
	}
	got := w.starter("schedules", "plan", file, "--reconcile-every", "1m")
	if got.code != 7 || !strings.Contains(got.out, "reconciler of task queue "+w.name+", every 1m") || !strings.Contains(got.out, "5s") {
		t.Errorf("plan of another interval exits %d: %s%s", got.code, got.out, got.talk)
	}
	if got := w.sched("apply", file, "--reconcile-every", "1m"); !strings.Contains(got.talk, "reconciler of task queue "+w.name+": updated, looks every 1m") {
		t.Errorf("apply of another interval says %s%s", got.out, got.talk)
	}
	if got := w.sched("list"); !strings.Contains(got.out, "(reconciler)") {
		t.Errorf("list says %s", got.out)
	}
	if got := w.sched("delete", w.name); !strings.Contains(got.talk, "the reconciler of task queue "+w.name+" is deleted") {
		t.Errorf("delete says %s", got.talk)
	}
}

// row is a Schedule in `starter schedules list --json`.
type row struct {
	Pipeline, Kind, State, Schedule, Note string
	TaskQueue                             string `json:"task_queue"`
}

// reconcilerRow returns how the reconciler of the test's task queue is listed.
func (w *world) reconcilerRow() row {
	w.t.Helper()
	var rows []row
	if err := json.Unmarshal([]byte(w.sched("list", "--json").out), &rows); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Kind == "reconciler" && r.TaskQueue == w.name {
			return r
		}
	}
	w.t.Fatalf("the reconciler of %s is not listed: %v", w.name, rows)
	return row{}
}

// TestForgetAfterDelete: a Schedule that is gone cannot say where the ledger is, so whoever wants it to forget does.
func TestForgetAfterDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect(newAPI(t).URL))
	w.apply(w.ticking(calm))
	w.sched("delete", w.name)
	if got := w.starter("schedules", "delete", w.name, "--forget"); got.code != 2 || !strings.Contains(got.talk, "--task-queue and --warehouse") {
		t.Errorf("delete --forget of what is gone exits %d: %s", got.code, got.talk)
	}
	if grids, err := w.database.Grids(w.ctx, w.name); err != nil || len(grids) != 1 {
		t.Fatalf("before, the ledger knows %v, %v", grids, err)
	}
	got := w.starter("schedules", "delete", w.name, "--forget", "--task-queue", w.name, "--warehouse", "warehouse")
	if grids, err := w.database.Grids(w.ctx, w.name); got.code != 0 || err != nil || len(grids) != 0 {
		t.Errorf("delete --forget exits %d: %s; the ledger knows %v, %v", got.code, got.talk, grids, err)
	}
}

// TestWorkerThatDied: a worker that was killed counts as there for a while. Whoever waits for it is told so, and is
// answered when another one comes.
func TestWorkerThatDied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	connections := w.connect(newAPI(t).URL)
	worker := w.worker(connections)
	w.apply(w.ticking(calm))
	worker.Kill()
	command := exec.CommandContext(w.ctx, shared.binaries.Path("starter"), "schedules", "reconcile", w.name)
	command.Env = w.environment
	talk, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		said = append(said, lines.Text())
		if lines.Text() == "waiting for a worker on task queue "+w.name {
			w.worker(connections)
		}
	}
	err = command.Wait()
	if all := strings.Join(said, "\n"); err != nil || !strings.HasPrefix(all, "waiting for") || !strings.Contains(all, w.name+": nothing is missing") {
		t.Errorf("reconcile ends with %v and says %s", err, all)
	}
}

// TestNoSuchNamespace: every command says so in the same words.
func TestNoSuchNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	file := w.ticking(calm)
	for _, args := range []string{"setup", "runs", "run " + file + " --interval 2026-01-01", "schedules list", "schedules plan " + file, "schedules apply " + file,
		"schedules pause x --reason why", "schedules unpause x", "schedules reconcile x", "schedules trigger x", "schedules delete x"} {
		got := w.starter(append(strings.Fields(args), "--namespace", "nowhere")...)
		if got.code != 4 || !strings.Contains(got.talk, "has no namespace nowhere: choose one with --namespace") {
			t.Errorf("%s exits %d: %s", args, got.code, got.talk)
		}
	}
}

// TestForeignScheduleInTheWay: a plan does not promise what an apply cannot do.
func TestForeignScheduleInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	action := &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{StartWorkflow: &workflow.NewWorkflowExecutionInfo{
		WorkflowId: "theirs-" + w.name, WorkflowType: &common.WorkflowType{Name: "theirs"}, TaskQueue: &taskqueue.TaskQueue{Name: w.name},
	}}}
	if _, err := w.temporal.WorkflowService().CreateSchedule(w.ctx, &workflowservice.CreateScheduleRequest{
		Namespace: "default", ScheduleId: launch.ScheduleID(w.name), RequestId: uuid.NewString(),
		Schedule: &schedulepb.Schedule{Spec: &schedulepb.ScheduleSpec{CronString: []string{"0 0 1 1 *"}}, Action: action},
	}); err != nil {
		t.Fatal(err)
	}
	w.t.Cleanup(w.forgetSchedules)
	got := w.starter("schedules", "plan", w.ticking(calm))
	if got.code != 1 || !strings.Contains(got.talk, "1 pipeline cannot be applied") || strings.Contains(got.talk, "makes them so") {
		t.Errorf("plan exits %d: %s%s", got.code, got.out, got.talk)
	}
}

// TestNotesAreEscaped: what somebody wrote in the UI does not reach the terminal as it is.
func TestNotesAreEscaped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect(newAPI(t).URL))
	file := w.ticking(calm)
	w.apply(file)
	w.patch(&schedulepb.SchedulePatch{Pause: "red \x1b[31m\nalert"})
	const want = `red \x1b[31m\nalert`
	for !strings.Contains(w.sched("list").out, "paused") && w.ctx.Err() == nil {
		continue // a patch is carried out soon after it was answered
	}
	for _, args := range [][]string{{"list"}, {"plan", file}, {"pause", w.name, "--reason", "calm"}} {
		got := w.sched(args...)
		if all := got.out + got.talk; strings.Contains(all, "\x1b") || !strings.Contains(all, want) {
			t.Errorf("%v says %q", args, all)
		}
	}
	if got := w.sched("unpause", w.name); !strings.Contains(got.talk, "is active") {
		t.Errorf("unpause says %s", got.talk)
	}
	if got := w.sched("unpause", w.name); !strings.Contains(got.talk, "is not paused") || strings.Contains(got.talk, "is active") {
		t.Errorf("a second unpause says %s", got.talk)
	}
}
