package systemtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// cancelReaches is how long after a cancel everything that a run has going on outside must be over.
const cancelReaches = 10 * time.Second

// cancelInTime cancels a run, wants what it has going on to be over in time, and the run to end as cancelled.
func (w *world) cancelInTime(r report, over func() bool) {
	w.t.Helper()
	began := time.Now()
	w.cancel(r)
	w.eventually("what the run has going on is over", over)
	took := time.Since(began)
	w.t.Logf("over %s after the cancel", took.Round(time.Millisecond))
	if took > cancelReaches {
		w.t.Errorf("it was over only %s after the cancel", took)
	}
}

// endsCancelled wants the run, and the ledger, to say so.
func (w *world) endsCancelled(r report) {
	w.t.Helper()
	var canceled *temporal.CanceledError
	if err := w.failure(r); !errors.As(err, &canceled) {
		w.t.Errorf("the run ends with %v", err)
	}
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(outcomes) != 1 || outcomes[0].Status != step.OutcomeCancelled {
		w.t.Errorf("the ledger holds %+v", outcomes)
	}
}

// TestCancelClosesConnections: whatever the API does, or does not, its connection is closed.
func TestCancelClosesConnections(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(*call){"no answer": silent, "a body that trickles": trickle, "ten rows": tenRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			api := newWire(t, hang)
			w.worker(w.connect(api.url()))
			r := w.start(w.orders(), "2026-01-15")
			w.eventually("the API was asked", func() bool { return len(api.seen()) == 1 })
			w.cancelInTime(r, func() bool {
				select {
				case <-api.seen()[0].closed:
					return true
				default:
					return false
				}
			})
			w.endsCancelled(r)
			if n := len(api.seen()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// TestCancelEndsAStatement: a load that waits for a table leaves the database.
func TestCancelEndsAStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverPostgres)
	api := newWire(t, threeRows)
	w.worker(w.connect(api.url()))
	file := w.orders()
	w.run(file, "2026-01-15", 0)
	sessions, release := w.lockOrders()
	r := w.start(file, "2026-01-15")
	w.eventually("the load waits for the table", func() bool { return sessions() > 0 && w.pendingStep(r, step.ActivityLoad) })
	w.cancelInTime(r, func() bool { return sessions() == 0 && !w.pendingStep(r, step.ActivityLoad) })
	w.endsCancelled(r)
	release()
	if got := w.content().rows; got != 3 {
		t.Errorf("the table holds %d rows, want 3", got)
	}
}

// TestCancelThatComesTooLate: the load commits before the cancel has reached it. The interval is loaded, and called so.
func TestCancelThatComesTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverPostgres)
	api := newWire(t, threeRows)
	w.worker(w.connect(api.url()))
	file := w.orders()
	w.run(file, "2026-01-15", 0)
	for range 5 { // the heartbeat that brings the cancel may come right then
		sessions, release := w.lockOrders()
		r := w.start(file, "2026-01-15")
		w.eventually("the load waits for the table", func() bool { return sessions() > 0 && w.pendingStep(r, step.ActivityLoad) })
		if err := w.temporal.CancelWorkflow(w.ctx, r.WorkflowID, r.RunID); err != nil {
			t.Fatal(err)
		}
		release()
		if err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil); err != nil {
			w.endsCancelled(r)
			continue
		}
		outcomes := w.outcomes(time.Time{}, time.Time{})
		if len(outcomes) != 1 || outcomes[0].Status != warehouse.OutcomeLoaded || outcomes[0].RunID != r.RunID {
			t.Errorf("the run %s is complete, and the ledger holds %+v", r.RunID, outcomes)
		}
		return
	}
	t.Error("no run that was cancelled while it committed is complete")
}

// TestCancelEndsAWaitForSQLite: a load that waits for another process leaves its slot. The outcome goes to the same
// file, so the run ends when that is free.
func TestCancelEndsAWaitForSQLite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect("http://127.0.0.1:1"))
	file := w.fileOrders("")
	release := w.lockSQLite()
	r := w.start(file, "2026-01-15")
	w.eventually("the load waits for the file", func() bool { return w.pendingStep(r, step.ActivityLoad) })
	w.cancelInTime(r, func() bool { return !w.pendingStep(r, step.ActivityLoad) })
	release()
	w.endsCancelled(r)
}

// TestCancelEndsAProgram: it ignores SIGTERM, and so does what it has started.
func TestCancelEndsAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec")
	r := w.start(w.program(stubborn, ""), "2026-01-15")
	processes := w.family()
	w.cancelInTime(r, func() bool { return dead(processes) })
	w.endsCancelled(r)
}

// TestAStoppingWorkerEndsItsPrograms: a step that is handed back leaves no program behind, and neither does a worker
// that is killed.
func TestAStoppingWorkerEndsItsPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	connections := w.connect("http://127.0.0.1:1")
	first := w.worker(connections, "--allow-exec", "--stop-timeout", "100ms")
	r := w.start(w.program(`if [ -e "$FOLDER/self" ]; then exit 0; fi; `+stubborn, "    timeout: { heartbeat: 3s }\n"), "2026-01-15")
	processes := w.family()
	if code, err := first.Stop(patience / 2); err != nil || code != 0 {
		t.Errorf("the worker exits %d: %v", code, err)
	}
	if !dead(processes) {
		t.Errorf("the worker has stopped, and of the processes %v some still run", processes)
	}
	w.worker(connections, "--allow-exec")
	if err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil); err != nil {
		t.Error(err)
	}
}

// TestAStoppingWorkerRemovesTheFolderOfAProgram: the program ignores SIGTERM, and what it has started has left its
// process group and keeps its output open, so that ending it takes as long as it can.
func TestAStoppingWorkerRemovesTheFolderOfAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	p := w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec", "--stop-timeout", "100ms")
	w.start(w.program(`trap "" TERM; setsid sleep 60 & pwd >"$FOLDER/draft"; mv "$FOLDER/draft" "$FOLDER/where"; while :; do sleep 1; done`, ""), "2026-01-15")
	var folder string
	w.eventually("the program runs", func() bool {
		data, err := os.ReadFile(filepath.Join(w.folder, "where"))
		folder = strings.TrimSpace(string(data))
		return err == nil
	})
	if _, err := os.Stat(folder); err != nil || !strings.Contains(folder, "tranche-exec-") {
		t.Fatalf("the program runs in %q: %v", folder, err)
	}
	if code, err := p.Stop(patience / 2); err != nil || code != 0 {
		t.Errorf("the worker exits %d: %v", code, err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the worker has stopped, and the folder of its program is still there: %v", err)
	}
}

// TestAWarehouseThatHangs: it takes connections and never says a word. The same worker goes on to use another warehouse
// meanwhile, and a cancel ends the step. The outcome goes to the mute one, which the run waits for as long as it does.
func TestAWarehouseThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	api := newWire(t, threeRows)
	connections := w.connect(api.url())
	w.write("connections.yaml", w.read(connections)+fmt.Sprintf("  mute: { postgres: { url: \"postgres://u@%s/d?sslmode=disable\" } }\n", listener.Addr()))
	w.worker(connections)
	good := w.orders()
	mute := w.write("mute.yaml", strings.NewReplacer("warehouse: warehouse", "warehouse: mute", "pipeline: "+w.name, "pipeline: "+w.name+"-mute").Replace(w.read(good)))
	r := w.start(mute, "2026-01-15")
	w.eventually("the step is at work", func() bool { return w.pendingStep(r, step.ActivityHTTP) })
	if got := w.run(good, "2026-01-15", 0); got.Result.Rows != 3 {
		t.Errorf("the other warehouse's run answers %+v", got)
	}
	if !w.pendingStep(r, step.ActivityHTTP) {
		t.Error("the step has ended by itself")
	}
	w.cancelInTime(r, func() bool { return !w.pendingStep(r, step.ActivityHTTP) })
}

// TestAKilledWorkerLeavesNoProgram: on Linux a program ends with the worker that has started it.
func TestAKilledWorkerLeavesNoProgram(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("skipped: only Linux ends a program with its parent")
	}
	w := newWorld(t, warehouse.DriverSQLite)
	p := w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec")
	w.start(w.program(`echo $$ >"$FOLDER/draft"; mv "$FOLDER/draft" "$FOLDER/self"; echo $$ >"$FOLDER/child"; exec sleep 600`, ""), "2026-01-15")
	processes := w.family()
	if dead(processes) {
		t.Fatal("the program does not run")
	}
	p.Kill()
	w.eventually("the program has ended", func() bool { return dead(processes) })
}
