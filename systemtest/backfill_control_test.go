package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// days of a month from one to another.
func days(from, to int) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, januaryDay(n))
	}
	return all
}

func (w *world) awaitEntered(h *hurdles, days ...string) {
	w.t.Helper()
	for _, each := range days {
		w.await("the run of "+each+" is open", h.entered[each])
	}
}

func (h *hurdles) release(days ...string) {
	for _, each := range days {
		close(h.held[each])
	}
}

// TestBackfillCancelled: after a cancel nothing more is started. The open runs end by themselves, or are cancelled if
// that is asked for, and Temporal's own cancel does the same. The rest can be run later.
func TestBackfillCancelled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cancel func(w *world, view backfillView)
		runs   bool
	}{
		"by the command": {func(w *world, view backfillView) {
			got := w.starter("backfill", "cancel", view.ID)
			if got.code != 0 || !strings.Contains(got.talk, "starts nothing more") || !strings.Contains(got.talk, "4 runs open") {
				w.t.Errorf("cancel exits %d: %s", got.code, got.talk)
			}
		}, false},
		"with its runs": {func(w *world, view backfillView) { w.steer("cancel", view.ID, "--runs") }, true},
		"in Temporal": {func(w *world, view backfillView) {
			if err := w.temporal.CancelWorkflow(w.ctx, view.WorkflowID, ""); err != nil {
				w.t.Fatal(err)
			}
			w.eventually("it is cancelling", func() bool { return w.steer("show", view.ID).State == "cancelling" })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			open := days(7, 10)
			h := newHurdles(a, open)
			w.worker(w.connect(a.URL))
			file := w.orders("defaults: { timeout: { heartbeat: 3s } }\n")
			view := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-31")
			w.awaitEntered(h, open...)
			test.cancel(w, view)
			if started := len(w.startedBy(view.WorkflowID)); started != 10 {
				t.Errorf("%d runs were started when the command has returned", started)
			}
			if !test.runs {
				h.release(open...)
			}
			if got := w.starter("backfill", "show", view.ID, "--wait"); got.code != 5 || !strings.Contains(got.talk, "cancelled") {
				t.Errorf("show --wait exits %d: %s", got.code, got.talk)
			}
			ended := w.steer("show", view.ID)
			want := step.WindowCounts{Started: 10, Loaded: 10}
			if test.runs {
				want = step.WindowCounts{Started: 10, Loaded: 6, Cancelled: 4}
			}
			if ended.State != "cancelled" || ended.Counts != want || ended.NotRun != 20 || len(w.executions()) != 10 {
				t.Errorf("it has ended as %+v, with %d runs", ended, len(w.executions()))
			}
			if got := w.starter("backfill", "pause", view.ID); got.code != 1 || !strings.Contains(got.talk, "has ended already, as cancelled") {
				t.Errorf("a pause of one that has ended exits %d: %s", got.code, got.talk)
			}
			if test.runs {
				h.release(open...)
			}
			rest := w.backfills(0, file, "--from", "2026-01-01", "--to", "2026-01-31", "--reprocess", "failed", "--wait")[0]
			if rest.Counts.Started != 30-want.Loaded || rest.Counts.Left != want.Loaded || w.content().rows != 30 {
				t.Errorf("the rest ends as %+v, the table holds %d rows", rest, w.content().rows)
			}
		})
	}
}

// TestBackfillCancelsOnlyItsOwn: a run that somebody else has started is waited for, and never cancelled.
func TestBackfillCancelsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, days(1, 2))
	w.worker(w.connect(a.URL))
	file := w.orders("defaults: { timeout: { heartbeat: 3s } }\n")
	other := w.start(file, "2026-01-01")
	w.awaitEntered(h, "2026-01-01")
	view := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-03")
	w.awaitEntered(h, "2026-01-02")
	w.steer("cancel", view.ID, "--runs")
	w.eventually("its own run is cancelled", func() bool { return w.steer("show", view.ID).Counts.Cancelled == 1 })
	if got := w.steer("show", view.ID); got.State != "cancelling" || len(got.Running) != 1 || got.Running[0].WorkflowID != other.WorkflowID {
		t.Errorf("it waits as %+v", got)
	}
	h.release(days(1, 2)...)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, other)
}

// TestBackfillCancelledWhileItsWorkerIsLost: the worker is killed with runs in flight, and nobody can answer. The
// cancel is carried out by the next worker, which knows from the heartbeat of the last one what to wait for; the server
// is killed, too, before it has ended.
func TestBackfillCancelledWhileItsWorkerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	kill, restart := w.stateful()
	a := newAPI(t)
	open := days(7, 10)
	h := newHurdles(a, open)
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	file := w.orders("defaults: { timeout: { heartbeat: 3s }, retry: { maximum_attempts: 100, maximum_interval: 1s } }\n")
	view := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-31")
	w.awaitEntered(h, open...)
	w.eventually("the heartbeat knows it", func() bool {
		now := w.steer("show", view.ID)
		return len(now.Running) == 4 && now.Counts.Loaded == 6
	})
	worker.Kill()
	cancel := w.follow("backfill", "cancel", view.ID)
	w.worker(connections)
	if code := cancel.end(); code != 0 || !strings.Contains(cancel.talk.String(), "4 runs open") {
		t.Errorf("cancel exits %d: %s", code, cancel.talk)
	}
	kill()
	restart()
	h.release(open...)
	if got := w.starter("backfill", "show", view.ID, "--wait"); got.code != 5 {
		t.Errorf("show --wait exits %d: %s", got.code, got.talk)
	}
	ended := w.steer("show", view.ID)
	if ended.State != "cancelled" || ended.Counts.Started != 10 || ended.Counts.Loaded != 10 || ended.NotRun != 20 || len(w.executions()) != 10 {
		t.Errorf("it has ended as %+v, with %d runs", ended, len(w.executions()))
	}
	w.replay(report{WorkflowID: view.WorkflowID})
}

// TestBackfillPauseResumeResize: each takes effect when its command returns.
func TestBackfillPauseResumeResize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	held := slices.Concat(days(3, 4), days(5, 10))
	h := newHurdles(a, held)
	w.worker(w.connect(a.URL))
	id := w.oneBackfill(w.orders(), "--from", "2026-01-01", "--to", "2026-01-16", "--max-active-runs", "2").ID
	w.awaitEntered(h, days(3, 4)...)
	if view := w.steer("pause", w.name); view.State != "paused" || len(view.Running) != 2 {
		t.Errorf("after the pause it is %+v", view)
	}
	h.release(days(3, 4)...)
	w.eventually("the open runs have ended", func() bool { return len(w.steer("show", id).Running) == 0 })
	if view := w.steer("resize", id, "--max-active-runs", "6"); view.State != "paused" || view.Window != 6 || view.Counts.Loaded != 4 {
		t.Errorf("resized in the pause it is %+v", view)
	}
	if started := len(w.executions()); started != 4 {
		t.Errorf("%d runs were started by the end of the pause", started)
	}
	if got := w.starter("backfill", "show", id); !strings.Contains(got.out, "paused") {
		t.Errorf("it is shown as %s", got.out)
	}
	w.steer("resume", id)
	w.awaitEntered(h, days(5, 10)...)
	if got := w.starter("backfill", "resume", id); got.code != 1 || !strings.Contains(got.talk, "not paused") {
		t.Errorf("a second resume exits %d: %s", got.code, got.talk)
	}
	if view := w.steer("resize", id, "--max-active-runs", "1"); view.Window != 1 || len(view.Running) != 6 {
		t.Errorf("made narrow it is %+v", view)
	}
	h.release(days(5, 9)...)
	w.eventually("five of the six have ended", func() bool { return w.steer("show", id).Counts.Loaded == 9 })
	if started := len(w.executions()); started != 10 {
		t.Errorf("%d runs were started, where one may be open and is", started)
	}
	if view := w.steer("resize", id, "--max-active-runs", "3"); view.Window != 3 {
		t.Errorf("made wider it is %+v", view)
	}
	h.release("2026-01-10")
	if got := w.starter("backfill", "show", id, "--wait"); got.code != 0 {
		t.Errorf("it exits %d: %s", got.code, got.talk)
	}
	if view := w.steer("show", id); view.Counts.Loaded != 15 || view.Counts.Started != 15 || view.Counts.Left != 0 {
		t.Errorf("it has ended as %+v", view)
	}
}

// TestBackfillViaSchedule hands the range to the Schedule's own backfill.
func TestBackfillViaSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newHurdles(a, nil)
	w.worker(w.connect(a.URL))
	file := w.orders()
	within := []string{"backfill", w.name, "--from", "2026-01-03T12:00", "--to", "2026-01-09", "--via-schedule"}
	if got := w.starter(within...); got.code != 2 || !strings.Contains(got.talk, "no pipeline of this name has a Schedule") {
		t.Errorf("without a Schedule it exits %d: %s", got.code, got.talk)
	}
	w.apply(file)
	w.sched("pause", w.name, "--reason", "by the test")
	if got := w.starter(append(within, "--reprocess", "failed")...); got.code != 2 || !strings.Contains(got.talk, "--reprocess does not go with") {
		t.Errorf("with --reprocess it exits %d: %s", got.code, got.talk)
	}
	w.run(file, "2026-01-05", 0)
	got := w.starter(within...)
	if got.code != 0 || !strings.Contains(got.talk, "5 intervals from 2026-01-04T00:00:00Z to 2026-01-09T00:00:00Z") || !strings.Contains(got.talk, "cannot be paused") ||
		!strings.Contains(got.talk, "2026-01-03T00:00:00Z/2026-01-04T00:00:00Z lies only partly") {
		t.Errorf("it exits %d: %s", got.code, got.talk)
	}
	w.awaitRuns(func(runs map[string]int) bool {
		return len(runs) == 5 && runs[step.WorkflowID(w.name, january(5).End)] == 2
	})
	w.awaitIdle()
	for _, o := range w.outcomes(time.Time{}, time.Time{}) {
		if o.Status != warehouse.OutcomeLoaded || o.Kind != string(step.Scheduled) {
			t.Errorf("%s is %s by %s", o.Interval, o.Status, o.Kind)
		}
	}
}

// TestBackfillBesideTheSchedulesOwn: a backfill is pressed in Temporal's UI while one of ours goes over the same range.
// No interval has two runs at a time, and each has its rows once.
func TestBackfillBesideTheSchedulesOwn(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		var mutex sync.Mutex
		asking, doubled := map[string]int{}, 0
		a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
			from := r.URL.Query().Get("from")
			mutex.Lock()
			if asking[from]++; asking[from] > 1 {
				doubled++
			}
			mutex.Unlock()
			writePage(answer, r, 3, "row")
			mutex.Lock()
			asking[from]--
			mutex.Unlock()
			return true
		})
		w.worker(w.connect(a.URL))
		file := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 4`)
		w.apply(file)
		id := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-31", "--reprocess", "all", "--order", "newest").ID
		w.patch(&schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
			StartTime: timestamppb.New(january(1).End), EndTime: timestamppb.New(january(30).End), OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
		}}})
		if got := w.starter("backfill", "show", id, "--wait"); got.code != 0 {
			w.t.Errorf("the backfill exits %d: %s%s", got.code, got.out, got.talk)
		}
		w.eventually("the Schedule has run its last day", func() bool {
			for _, o := range w.outcomes(january(1).Start, january(31).Start) {
				if o.Kind == string(step.Scheduled) {
					return true
				}
			}
			return false
		})
		w.awaitIdle()
		outcomes := w.outcomes(january(1).Start, january(31).Start)
		if len(outcomes) != 30 {
			w.t.Errorf("%d outcomes", len(outcomes))
		}
		for _, o := range outcomes {
			if o.Status != warehouse.OutcomeLoaded || w.slice(o.Interval.Start.Format(time.DateOnly)) != 3 {
				w.t.Errorf("%s is %s and holds %d rows", o.Interval, o.Status, w.slice(o.Interval.Start.Format(time.DateOnly)))
			}
		}
		w.apart(january(1).Start, january(31).Start)
		mutex.Lock()
		defer mutex.Unlock()
		if doubled > 0 {
			w.t.Errorf("the API was asked %d times for a day that it was already asked for", doubled)
		}
	})
}

// apart wants that no two runs of one interval were open at the same time.
func (w *world) apart(from, to time.Time) {
	w.t.Helper()
	type stretch struct{ from, to time.Time }
	runs := map[string][]stretch{}
	page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", PageSize: 1000, Query: fmt.Sprintf("WorkflowId STARTS_WITH '%s-' AND WorkflowType = '%s'", w.name, launch.RunType),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	twice := 0
	for _, each := range page.GetExecutions() {
		id := each.GetExecution().GetWorkflowId()
		runs[id] = append(runs[id], stretch{each.GetStartTime().AsTime(), each.GetCloseTime().AsTime()})
	}
	for id, all := range runs {
		slices.SortFunc(all, func(a, b stretch) int { return a.from.Compare(b.from) })
		for i := 1; i < len(all); i++ {
			twice++
			if all[i].from.Before(all[i-1].to) {
				w.t.Errorf("%s was open twice at the same time", id)
			}
		}
	}
	w.t.Logf("%d intervals from %s to %s, %d of their runs came after another", len(runs), from.Format(time.DateOnly), to.Format(time.DateOnly), twice)
}
