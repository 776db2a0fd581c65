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
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// TestDailyRunsOvertakeABackfill: the places of the worker are all taken by steps of a backfill, and more wait. The
// run of a day that is started now gets the first place that is free.
func TestDailyRunsOvertakeABackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	// Priorities hold within a partition of a task queue, of which there are four by default.
	w.onServer("--port", "0", "--dynamic-config-value", "matching.numTaskqueueReadPartitions=1", "--dynamic-config-value", "matching.numTaskqueueWritePartitions=1")
	a := newAPI(t)
	line := make(chan string, 1000) // who was served
	pass := make(chan struct{})
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		line <- strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z")
		select {
		case <-pass:
		case <-r.Context().Done():
			return true
		}
		writePage(answer, r, 1, "row")
		return true
	})
	w.worker(w.connect(a.URL), "--max-activities", "2")
	file := w.orders()
	const backlog = 40
	id := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-03-02", "--max-active-runs", fmt.Sprint(backlog)).ID
	served := []string{<-line, <-line}
	w.eventually("the backlog is there", func() bool {
		waiting := 0
		for _, each := range w.steer("show", id).Running {
			for _, event := range w.events(each.WorkflowID, "") {
				if event.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
					waiting++
					break
				}
			}
		}
		return waiting == backlog
	})
	today := w.start(file, "2026-06-01")
	w.awaitEvent(today, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	w.eventually("its step waits in the task queue", func() bool {
		described, err := w.temporal.WorkflowService().DescribeTaskQueue(w.ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: client.DefaultNamespace, TaskQueue: &taskqueue.TaskQueue{Name: w.name},
			TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
		})
		return err == nil && described.GetStatsByPriorityKey()[int32(launch.Priority(step.Manual))].GetApproximateBacklogCount() > 0
	})
	for !slices.Contains(served, "2026-06-01") && len(served) < 2*backlog {
		pass <- struct{}{}
		select {
		case next := <-line:
			served = append(served, next)
		case <-w.ctx.Done():
			t.Fatalf("served were %v", served)
		}
	}
	// A poll that is under way may have taken one more of the backfill's steps.
	if at := slices.Index(served, "2026-06-01"); at > 3 {
		t.Errorf("the run of the day came as number %d: %v", at, served)
	}
	t.Logf("the run of the day came as number %d of %d that wait", slices.Index(served, "2026-06-01")-1, backlog)
	close(pass)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, today)
	if got := w.starter("backfill", "show", id, "--wait"); got.code != 0 {
		t.Errorf("the backfill exits %d: %s", got.code, got.talk)
	}
}

// TestABackfillHasItsOwnWidth: a pipeline may have one run at work, and a backfill of it three. Together they are four,
// and never more.
func TestABackfillHasItsOwnWidth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	open := append(days(1, 3), januaryDay(20))
	h := newHurdles(a, open)
	connections := w.connect(a.URL)
	w.worker(connections)
	w.worker(connections)
	file := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, max_active_runs: 1`)
	byHand := w.startDays(file, 20, 20)
	w.awaitEntered(h, januaryDay(20))
	byHand = append(byHand, w.startDays(file, 21, 24)...)
	id := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-01-06", "--max-active-runs", "3").ID
	w.awaitEntered(h, days(1, 3)...)
	w.untilGate(1, 4)
	w.eventually("the backfill says that three are open", func() bool { return len(w.steer("show", id).Running) == 3 })
	if len(a.seen()) != 4 {
		t.Errorf("the API was asked for %v", a.seen())
	}
	h.release(open...)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, byHand...)
	if got := w.starter("backfill", "show", id, "--wait"); got.code != 0 {
		t.Errorf("the backfill exits %d: %s", got.code, got.talk)
	}
	if peak := w.peak(byHand); peak != 1 {
		t.Errorf("%d of the runs by hand were at work at a time", peak)
	}
	var ours []report
	for n := 1; n <= 5; n++ {
		ours = append(ours, report{WorkflowID: step.WorkflowID(w.name, january(n).End)})
	}
	if peak := w.peak(ours); peak != 3 {
		t.Errorf("%d of the backfill's runs were at work at a time", peak)
	}
}

// TestWorkflowTasksOvertakeABackfill: a backlog of runs waits for a worker. When one comes, the run of the day that was
// started last is among the first.
func TestWorkflowTasksOvertakeABackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newHurdles(a, nil)
	file := w.orders()
	starter := launch.New(w.temporal, "default", nil)
	const backlog = 150
	definition := w.definition(file)
	for n := range backlog {
		start := january(1).Start.AddDate(0, 0, n)
		if _, err := starter.Start(w.ctx, launch.Request{
			Definition: definition, Kind: step.Backfill, Interval: interval.Interval{Start: start, End: start.AddDate(0, 0, 1)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	today := w.start(file, "2026-06-01")
	w.worker(w.connect(a.URL))
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, today)
	described, err := w.temporal.DescribeWorkflow(w.ctx, today.WorkflowID, "")
	if err != nil {
		t.Fatal(err)
	}
	at, before := described.RawResponse.GetWorkflowExecutionInfo().GetCloseTime().AsTime(), 0
	w.awaitIdle()
	for n := range backlog {
		other, err := w.temporal.DescribeWorkflow(w.ctx, step.WorkflowID(w.name, january(2).Start.AddDate(0, 0, n)), "")
		if err != nil {
			t.Fatal(err)
		}
		if other.RawResponse.GetWorkflowExecutionInfo().GetCloseTime().AsTime().Before(at) {
			before++
		}
	}
	if before > backlog/3 {
		t.Errorf("%d of %d runs of a backfill had ended before that of the day", before, backlog)
	}
	t.Logf("%d of %d runs of a backfill had ended before that of the day", before, backlog)
}

// TestPipelinesDoNotStarveEachOther: one pipeline has a long backfill with a width of two. The runs of another, that
// ticks every few seconds, start within seconds, and the backfill never has more than its two.
func TestPipelinesDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	var mutex sync.Mutex
	active, peak := 0, 0
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Query().Get("from"), "T00:00:00Z") {
			writePage(answer, r, 1, "row")
			return true
		}
		mutex.Lock()
		active++
		peak = max(peak, active)
		mutex.Unlock()
		writePage(answer, r, 1, "row")
		mutex.Lock()
		active--
		mutex.Unlock()
		return true
	})
	w.worker(w.connect(a.URL), "--max-activities", "3")
	long := w.write("long.yaml", strings.ReplaceAll(strings.Replace(w.read(w.orders()), "pipeline: "+w.name, "pipeline: "+w.name+"-long", 1), "table: orders", "table: long"))
	id := w.oneBackfill(long, "--from", "2026-01-01", "--to", "2026-11-01", "--max-active-runs", "2").ID
	start := ago(0)
	w.apply(w.ticking(every(start, "")))
	w.awaitLoaded(beats(t, start), start, start.Add(4*beat))
	if view := w.steer("show", id); view.State == "done" {
		t.Logf("the backfill was done before the ticks were: %+v", view.Counts)
	}
	for iv := range beats(t, start).Between(start, start.Add(4*beat)) {
		history := w.events(step.WorkflowID(w.name, iv.End), "")
		for _, event := range history {
			if event.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED {
				if late := event.GetEventTime().AsTime().Sub(iv.End); late > 10*time.Second {
					t.Errorf("the first step of %s had ended %s after its tick", iv, late)
				}
				break
			}
		}
	}
	w.steer("cancel", id, "--runs")
	mutex.Lock()
	defer mutex.Unlock()
	if peak > 2 {
		t.Errorf("the backfill had %d at work at a time", peak)
	}
}

// TestADailyRunBesideAThousand: a backfill of a thousand intervals keeps every place taken and many of its steps
// waiting, on a task queue as a cluster has it by default. The run of the day is done within seconds.
func TestADailyRunBesideAThousand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	m := newMilestones(a)
	const underWay = 50
	m.add(underWay)
	w.worker(w.connect(a.URL))
	file := w.ticking(`every: 1h, start_date: 2026-01-01`)
	id := w.oneBackfill(file, "--from", "2026-01-01T00:00:00Z", "--to", "2026-02-11T16:00:00Z", "--max-active-runs", "200").ID
	w.await("the backfill is under way", m.reached(underWay))
	r := w.start(file, "2026-06-01T00:00:00Z")
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, r)
	view := w.steer("show", id)
	if view.State != "running" || view.Expected.Total() != 1000 {
		t.Errorf("the backfill was no backlog any more: %+v", view)
	}
	events := w.events(r.WorkflowID, r.RunID)
	took := events[len(events)-1].GetEventTime().AsTime().Sub(events[0].GetEventTime().AsTime())
	t.Logf("the run of the day took %s, with %d of 1,000 intervals done", took, view.Counts.Passed())
	if took > 20*time.Second {
		t.Errorf("the run of the day took %s", took)
	}
	w.starter("backfill", "cancel", id, "--runs")
}
