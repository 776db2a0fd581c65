package systemtest

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/warehouse"
)

var record = flag.Bool("record", false, "record the histories that package workflows replays")

// recordedVersion names the build whose histories are recorded, and the version of the input of its runs.
// Histories are recorded from released code, never from the change under test, and kept while such a run may
// still be open.
const recordedVersion = "v0.1.0-input2"

// TestRecordHistories runs one of each kind of run and writes what Temporal kept of it to
// workflows/testdata/replay. It does so only with -record.
func TestRecordHistories(t *testing.T) {
	if !*record {
		t.Skip("skipped: records only with -record")
	}
	for name, scenario := range map[string]func(w *world, a *api) report{
		"loaded": func(w *world, a *api) report {
			return w.run(w.orders(), "2026-01-15", 0)
		},
		"from-step": func(w *world, a *api) report {
			file := w.chain("chain.yaml", "seconds")
			w.run(file, "2026-01-15", 0)
			r, _ := w.rerun(file, "2026-01-15", 0, "--from-step", "load2")
			return r
		},
		"failed": func(w *world, a *api) report {
			a.intercept(answer404)
			return w.run(w.orders(), "2026-01-15", 5)
		},
		"retried": func(w *world, a *api) report {
			a.intercept(firstTimes(2, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }))
			return w.run(w.orders(), "2026-01-15", 0)
		},
		"waited": func(w *world, a *api) report {
			a.intercept(firstTimes(2, func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			return w.run(w.orders("run_timeout: 40m\n"), "2026-01-15", 0)
		},
		"skipped": func(w *world, a *api) report {
			a.intercept(answer404)
			return w.run(w.write("skip.yaml", strings.Replace(read(w.t, w.orders()), "    http:", "    on_failure: skip\n    http:", 1)), "2026-01-15", 5)
		},
		"timed-out": func(w *world, a *api) report {
			a.intercept(firstTimes(1000, func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			return w.run(w.orders("run_timeout: 5s\n", "defaults: { timeout: { start_to_close: 4s, schedule_to_close: 5s, heartbeat: 2s } }\n"), "2026-01-15", 5)
		},
		"program": func(w *world, a *api) report {
			text := read(w.t, w.program(`[ "$TRANCHE_ATTEMPT" = 2 ] || exit 75`, "    retry: { initial_interval: 10ms }\n"))
			return w.run(w.write("program.yaml", strings.Replace(text, w.folder, "/tmp", 1)), "2026-01-15", 0)
		},
		"cancelled": func(w *world, a *api) report {
			entered := make(chan struct{})
			var once sync.Once
			a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				once.Do(func() { close(entered) })
				<-r.Context().Done()
				return true
			})
			file := w.orders()
			started := w.start(file, "2026-01-15")
			<-entered
			if err := w.temporal.CancelWorkflow(w.ctx, started.WorkflowID, started.RunID); err != nil {
				w.t.Fatal(err)
			}
			if err := w.temporal.GetWorkflow(w.ctx, started.WorkflowID, started.RunID).Get(w.ctx, nil); err == nil {
				w.t.Fatal("the run was not cancelled")
			}
			return started
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			w.name = "replay" // what is recorded should not depend on the order of the tests
			w.name += "-" + name
			a := newAPI(t)
			a.set("2026-01-15", 3)
			w.worker(w.connect(a.URL), "--allow-exec")
			r := scenario(w, a)
			w.save(name, &history.History{Events: w.events(r.WorkflowID, r.RunID)})
		})
	}
}

// TestRecordNotifications does the same for a run that fails and one that recovers, of a pipeline which tells of that,
// and for what delivers the messages.
func TestRecordNotifications(t *testing.T) {
	if !*record {
		t.Skip("skipped: records only with -record")
	}
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.name = "replay-told"
	a, ops := newAPI(t), newReceiver(t)
	ops.answer = func(n int) int {
		if n == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	w.worker(w.notifying(a.URL, ops))
	a.intercept(answer404)
	failed := w.run(w.orders(notify), "2026-01-15", 5)
	m := w.untilTaken(ops, 1)
	w.delivery(m.ID)
	a.intercept(nil)
	recovered := w.run(w.orders(notify), "2026-01-15", 0)
	w.save("failed-told", &history.History{Events: w.events(failed.WorkflowID, failed.RunID)})
	w.save("recovered-told", &history.History{Events: w.events(recovered.WorkflowID, recovered.RunID)})
	w.save("notify", &history.History{Events: w.events(m.ID, "")})
}

// TestRecordScheduledHistories does the same for what a Schedule starts, and for the workflows that look after
// runs: the gate, a catchup, the reconciler and the ledger.
func TestRecordScheduledHistories(t *testing.T) {
	if !*record {
		t.Skip("skipped: records only with -record")
	}
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.name = "replay-scheduled"
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := today().AddDate(0, 0, -3)
	w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all, depends_on_past: true, lookback: 1`, start.Format(time.DateOnly))))
	w.awaitLoaded(daily(t, start), start, today())
	w.patch(&schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
		StartTime: timestamppb.New(today()), EndTime: timestamppb.New(today()), OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	}}})
	w.awaitRuns(func(runs map[string]int) bool {
		return runs[w.name+"-"+today().Format(time.RFC3339)] == 2 && runs[w.name+"-"+today().AddDate(0, 0, -1).Format(time.RFC3339)] == 2
	})
	w.patch(&schedulepb.SchedulePatch{TriggerImmediately: &schedulepb.TriggerImmediatelyRequest{}})
	w.awaitRuns(func(runs map[string]int) bool { return len(runs) == 4 })
	w.awaitIdle()
	for name, workflowID := range map[string]string{
		"caught-up": w.name + "-" + start.AddDate(0, 0, 2).Format(time.RFC3339),
		"scheduled": w.name + "-" + today().Format(time.RFC3339),
		"gate":      launch.GateID(w.name),
		"catchup":   launch.CatchupID(w.name),
	} {
		w.save(name, &history.History{Events: w.events(workflowID, "")})
	}
	for name, prefix := range map[string]string{"reconcile": launch.ReconcileID(w.name), "ledger": launch.LedgerID(w.name), "handed-over": w.name + "-2"} {
		w.save(name, &history.History{Events: w.events(w.newest(prefix, name == "handed-over"))})
	}
}

// TestRecordStandingHistory does the same for what tells how intervals stand.
func TestRecordStandingHistory(t *testing.T) {
	if !*record {
		t.Skip("skipped: records only with -record")
	}
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.name = "replay-standing"
	w.worker(w.connect("http://127.0.0.1:1"))
	file := w.twelve("")
	w.gaps(0, file, "--accept", "--reason", "none", "--by", "anna")
	w.save("standing", &history.History{Events: w.events(w.newest(launch.LedgerID(w.name), false))})
}

// newest returns a completed workflow whose id begins so; an odd one is one of no midnight.
func (w *world) newest(prefix string, odd bool) (workflowID, runID string) {
	w.t.Helper()
	page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default",
		Query: fmt.Sprintf(`WorkflowId STARTS_WITH %q AND ExecutionStatus = "Completed"`, prefix)})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, each := range page.GetExecutions() {
		if id := each.GetExecution().GetWorkflowId(); !odd || !strings.HasSuffix(id, "T00:00:00Z") {
			return id, each.GetExecution().GetRunId()
		}
	}
	w.t.Fatalf("no workflow begins with %s", prefix)
	return "", ""
}

func answer404(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusNotFound)
	return true
}

// firstTimes answers the first n requests.
func firstTimes(n int, answer func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	var mutex sync.Mutex
	return func(w http.ResponseWriter, _ *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if n--; n < 0 {
			return false
		}
		answer(w)
		return true
	}
}

// identities name the machine that recorded: as a field, and inside the text of errors.
var identities = []*regexp.Regexp{
	regexp.MustCompile(`("(?:identity|workerId|binaryChecksum|buildId)":\s*")[^"]*`),
	regexp.MustCompile(`(identity: )[^)]*`),
}

func (w *world) save(name string, recorded *history.History) {
	w.t.Helper()
	data, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(recorded)
	if err != nil {
		w.t.Fatal(err)
	}
	folder := filepath.Join("..", "workflows", "testdata", "replay")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, identity := range identities {
		data = identity.ReplaceAll(data, []byte("${1}recorder"))
	}
	if err := os.WriteFile(filepath.Join(folder, recordedVersion+"-"+name+".json"), append(data, '\n'), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestRecordBackfillHistories does the same for a backfill that is paused, made wider, resumed, retried and cancelled
// with its runs, for one that is cancelled in Temporal's UI, and for a plan.
func TestRecordBackfillHistories(t *testing.T) {
	if !*record {
		t.Skip("skipped: records only with -record")
	}
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.name = "replay-backfill"
	a := newAPI(t)
	held := days(4, 12)
	h := newHurdles(a, held)
	h.fail("2026-01-02")
	w.worker(w.connect(a.URL))
	file := w.orders("defaults: { timeout: { heartbeat: 3s } }\n")
	steered := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-31", "--max-active-runs", "2")
	w.awaitEntered(h, days(4, 5)...)
	w.steer("pause", steered.ID)
	h.release(days(4, 5)...)
	w.eventually("the open runs have ended", func() bool { return len(w.steer("show", steered.ID).Running) == 0 })
	w.steer("resize", steered.ID, "--max-active-runs", "3")
	w.steer("resume", steered.ID)
	w.awaitEntered(h, days(6, 8)...)
	h.heal("2026-01-02")
	w.steer("retry", steered.ID)
	h.release(days(6, 8)...)
	w.awaitEntered(h, days(9, 11)...)
	w.steer("cancel", steered.ID, "--runs")
	_ = w.temporal.GetWorkflow(w.ctx, steered.WorkflowID, "").Get(w.ctx, nil)
	w.save("backfill-steered", &history.History{Events: w.events(steered.WorkflowID, "")})

	cancelled := w.oneBackfill(file, "--from", "2026-01-11", "--to", "2026-01-13", "--reprocess", "failed")
	w.awaitEntered(h, "2026-01-12")
	if err := w.temporal.CancelWorkflow(w.ctx, cancelled.WorkflowID, ""); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is cancelling", func() bool { return w.steer("show", cancelled.ID).State == "cancelling" })
	h.release(days(9, 12)...)
	_ = w.temporal.GetWorkflow(w.ctx, cancelled.WorkflowID, "").Get(w.ctx, nil)
	w.save("backfill-cancelled", &history.History{Events: w.events(cancelled.WorkflowID, "")})
	w.save("plan", &history.History{Events: w.events(w.newest(launch.PlanID(w.name), false))})
}
