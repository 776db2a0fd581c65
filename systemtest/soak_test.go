package systemtest

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// soak is how many intervals TestSoak runs. `make soak` asks for many.
var soak = flag.Int("soak", 500, "intervals of the backfill of TestSoak")

const (
	// soakServerKill is the part of the intervals that is asked for when the server is killed.
	soakServerKill = 0.6
	soakWindow     = 16
	// soakEvents is the most that a history of a backfill may hold: it continues as new long before Temporal warns
	// of its length, at 10,240.
	soakEvents = 5000
)

// TestSoak is a long backfill of small intervals through kills of the workers and of the server: no interval is lost,
// none is run twice, and no history grows with the number of intervals. A short one has a kill of each.
func TestSoak(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	intervals, kills := *soak, []float64{0.2, soakServerKill}
	if intervals > 500 {
		w.ctx, kills = t.Context(), []float64{0.2, 0.4, soakServerKill, 0.8}
	}
	kill, restart := w.stateful()
	a := newAPI(t)
	at := func(part float64) int { return int(part * float64(intervals)) }
	m := newMilestones(a)
	for _, part := range kills {
		m.add(at(part))
	}
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	from := time.Date(2025, time.March, 1, 0, 0, 0, 0, time.UTC)
	to := from.Add(time.Duration(intervals) * time.Minute)
	file := w.ticking(`every: 1m, start_date: 2025-03-01`,
		"defaults: { timeout: { heartbeat: 3s }, retry: { maximum_attempts: 100, maximum_interval: 1s } }\n")
	began := time.Now()
	run := w.backfill("tranche/backfill/"+w.name+"/soak", file, "2025-03-01", "2025-03-02", func(in *workflows.BackfillInput) {
		in.Range, in.Window = step.Range{From: from, To: to}, soakWindow
	})
	for _, part := range kills {
		w.await("so many intervals are asked for", m.reached(at(part)))
		if part == soakServerKill {
			kill()
			restart()
			continue
		}
		worker.Kill()
		worker = w.worker(connections)
	}
	result := w.patiently(run)
	took := time.Since(began)

	if result.Passed() != int64(intervals) || result.Failed+result.Cancelled != 0 {
		t.Errorf("the backfill answers %+v", result)
	}
	if got := w.content().rows; got != int64(intervals) {
		t.Errorf("the table holds %d rows, want %d", got, intervals)
	}
	loaded := 0
	for status, err := range w.database.Statuses(w.ctx, w.name, from, to) {
		if err != nil {
			t.Fatal(err)
		}
		if loaded++; status.Status != warehouse.OutcomeLoaded {
			t.Errorf("%s is %s", status.Interval, status.Status)
		}
	}
	if loaded != intervals {
		t.Errorf("%d intervals are loaded, want %d", loaded, intervals)
	}
	ids := map[string]int{}
	longestRun, longestBackfill, bytes := int64(0), int64(0), int64(0)
	w.closed(func(id, kind string, events, size int64) {
		switch kind {
		case launch.RunType:
			ids[id]++
			longestRun = max(longestRun, events)
		case workflows.BackfillType:
			longestBackfill, bytes = max(longestBackfill, events), max(bytes, size)
		}
	})
	for id, count := range ids {
		if count != 1 {
			t.Errorf("%s was run %d times", id, count)
		}
	}
	if len(ids) != intervals || longestBackfill == 0 || longestBackfill > soakEvents {
		t.Errorf("%d ids were run, want %d; the longest history of the backfill has %d events, want at most %d", len(ids), intervals, longestBackfill, soakEvents)
	}
	t.Logf("%d intervals in %s, %d kills; the longest history of the backfill has %d events, %d bytes, that of a run %d events",
		intervals, took.Round(time.Second), len(kills), longestBackfill, bytes, longestRun)
}

// milestones is an API of one row an interval that tells when so many intervals were asked for.
type milestones struct {
	mutex sync.Mutex
	asked map[string]bool
	at    map[int]chan struct{}
}

func newMilestones(a *api) *milestones {
	m := &milestones{asked: map[string]bool{}, at: map[int]chan struct{}{}}
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		m.mutex.Lock()
		from := r.URL.Query().Get("from")
		if !m.asked[from] {
			m.asked[from] = true
			if reached := m.at[len(m.asked)]; reached != nil {
				close(reached)
			}
		}
		m.mutex.Unlock()
		writePage(answer, r, 1, "row")
		return true
	})
	return m
}

func (m *milestones) add(count int) { m.at[count] = make(chan struct{}) }

func (m *milestones) reached(count int) <-chan struct{} { return m.at[count] }

// closed walks through the closed executions of the test's own server.
func (w *world) closed(each func(id, kind string, events, size int64)) {
	w.t.Helper()
	var token []byte
	for {
		page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: client.DefaultNamespace, PageSize: 1000, NextPageToken: token, Query: "ExecutionStatus != 'Running'",
		})
		if err != nil {
			if strings.Contains(err.Error(), "rate limit") {
				continue
			}
			w.t.Fatal(err)
		}
		for _, found := range page.GetExecutions() {
			if found.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				w.t.Fatal(fmt.Errorf("%s is open", found.GetExecution().GetWorkflowId()))
			}
			each(found.GetExecution().GetWorkflowId(), found.GetType().GetName(), found.GetHistoryLength(), found.GetHistorySizeBytes())
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return
		}
	}
}
