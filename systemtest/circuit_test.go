package systemtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/warehouse"
)

// TestOpenCircuit: an API that is down is left alone for the cool-down, which uses up no attempt; the wait is a
// timer that says what is waited for, and the run succeeds once the API is back.
func TestOpenCircuit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	var mutex sync.Mutex
	var at []time.Time
	a.intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if at = append(at, time.Now()); len(at) > 5 {
			return false
		}
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	connections := w.connect(a.URL)
	w.write("connections.yaml", strings.Replace(w.read(connections), `"${API_TOKEN}"`, `"${API_TOKEN}", circuit_breaker: { cool_down: 4s }`, 1))
	p := w.worker(connections)
	file := w.orders("defaults: { retry: { maximum_attempts: 6, initial_interval: 50ms, maximum_interval: 100ms } }\n")
	r := w.run(file, "2026-01-15", 0)
	if r.Result.Rows != 3 || r.Result.Steps[0].Attempts != 6 || len(at) != 6 {
		t.Errorf("%d requests, the run answers %+v", len(at), r.Result)
	}
	if gap := at[5].Sub(at[4]); gap < 4*time.Second {
		t.Errorf("the API was asked again after %s", gap)
	}
	timers := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if event.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED {
			if got := string(event.GetUserMetadata().GetSummary().GetData()); strings.Contains(got, "circuit of connection api is open until") {
				timers++
			}
		}
	}
	if timers != 1 {
		t.Errorf("the history has %d timers of the circuit, want 1", timers)
	}
	for _, name := range []string{`tranche_circuit_state{connection="api",state="closed"}`, `tranche_circuit_opened_total{connection="api"}`} {
		if got := w.metric(p, name); got != 1 {
			t.Errorf("the metric %s is %v, want 1", name, got)
		}
	}
}

// TestRulesOfAStep: what the file says about types of errors decides, over the table.
func TestRulesOfAStep(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]int{
		"non_retryable_error_types: [HTTPStatus]":               1,
		"retry_only: [Network]":                                 1,
		"retry_only: [HTTPStatus]":                              3,
		"rules: [{ error_types: [HTTPStatus], action: fail }]":  1,
		"rules: [{ error_types: [HTTPStatus], action: retry }]": 3,
		`rules: [{ error_types: [HTTPStatus], action: default }, { error_types: ["*"], action: fail }]`: 3,
	} {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			var mutex sync.Mutex
			asked := 0
			a.intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
				mutex.Lock()
				defer mutex.Unlock()
				asked++
				rw.WriteHeader(http.StatusBadGateway)
				return true
			})
			w.worker(w.connect(a.URL))
			w.run(w.orders("defaults: { retry: { maximum_attempts: 3, initial_interval: 10ms, "+rules+" } }\n"), "2026-01-15", 5)
			if asked != want {
				t.Errorf("%d requests, want %d", asked, want)
			}
		})
	}
}

// metric returns the value of a worker's metric; 0 while there is none.
func (w *world) metric(p *stack.Process, name string) float64 {
	w.t.Helper()
	response, err := http.Get("http://" + p.Ready.Address + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var value float64
		if rest, found := strings.CutPrefix(line, name+" "); found {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				w.t.Fatal(err)
			}
			return value
		}
	}
	return 0
}

// TestTwentyRunsAndOneProbe: an API goes down, and then hangs. Nothing is sent while the circuit is open; of twenty
// runs that wait one sends a request when it is half-open; when that is answered all of them load. Waiting has used
// up no attempt.
func TestTwentyRunsAndOneProbe(t *testing.T) {
	t.Parallel()
	const (
		runs     = 20
		coolDown = 8 * time.Second
	)
	w := newWorld(t, warehouse.DriverSQLite)
	var hangs atomic.Bool
	back, probed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		if !hangs.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		once.Do(func() { close(probed) })
		select {
		case <-back:
			answerJSON(rw, rowsOf(dayOf(r), 0, 3))
		case <-r.Context().Done():
		}
	})
	t.Cleanup(closed(back))
	p := w.worker(w.settings(w.connect(s.URL), fmt.Sprintf("timeout: 200s, circuit_breaker: { consecutive_failures: 5, cool_down: %s }", coolDown)))
	file := w.also("many", "start_date: 2026-01-01", fmt.Sprintf("start_date: 2026-01-01, max_active_runs: %d", runs),
		"steps:", "defaults: { retry: { initial_interval: 50ms, maximum_interval: 100ms, maximum_attempts: 8 } }\nsteps:")
	started := w.startDays(file, 1, runs)
	const opened, refused = `tranche_circuit_opened_total{connection="api"}`, `tranche_circuit_refused_total{connection="api"}`
	w.eventually("the circuit opens", func() bool { return w.metric(p, opened) > 0 })
	hangs.Store(true)
	before := len(s.came())
	w.await("no request is let through", probed)
	probe := s.came()[before]
	if gap := probe.at.Sub(s.came()[before-1].at); gap < coolDown-time.Second {
		t.Errorf("the API was asked again %s after the last failure, want %s", gap, coolDown)
	}
	w.eventually("the others find the circuit half-open and wait", func() bool {
		waiting := 0
		for _, r := range started {
			if strings.Contains(w.details(r), "half-open") {
				waiting++
			}
		}
		return waiting == runs-1
	})
	if now := len(s.came()); now != before+1 {
		t.Errorf("%d requests were let through, want one", now-before)
	}
	close(back)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, started...)
	attempts := 0
	for i := range started {
		var result struct {
			Steps []struct{ Attempts int }
		}
		if err := w.temporal.GetWorkflow(w.ctx, started[i].WorkflowID, started[i].RunID).Get(w.ctx, &result); err != nil {
			t.Fatal(err)
		}
		attempts += result.Steps[0].Attempts
	}
	if requests := len(s.came()); attempts != requests || requests > before+runs || w.rowsIn("many") != 3*runs {
		t.Errorf("%d attempts, %d requests, %d while it was down, %d rows", attempts, requests, before, w.rowsIn("many"))
	}
	// Each run asks, waits, asks again: some lines for each, not a loop.
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	lines, refusals := strings.Count(string(log), "\n"), w.metric(p, refused)
	t.Logf("%d requests, %.0f refused by the circuit, %d lines in the worker's log", len(s.came()), refusals, lines)
	if lines > 15*runs || refusals > 6*runs {
		t.Errorf("the circuit refused %.0f times, and the worker's log has %d lines", refusals, lines)
	}
}

// closed closes a channel that is open still.
func closed(c chan struct{}) func() {
	return func() {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

// TestAnOpenCircuitTakesNoWorker: a run that waits for an API that is down leaves the only place for steps to others.
func TestAnOpenCircuitTakesNoWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	s := newSource(t, func(rw http.ResponseWriter, _ *http.Request, _ int) { rw.WriteHeader(http.StatusServiceUnavailable) })
	connections := w.connect(a.URL)
	w.write("connections.yaml", w.read(connections)+fmt.Sprintf("  dead: { http: { base_url: %q, circuit_breaker: { consecutive_failures: 2, cool_down: 10m } } }\n", s.URL))
	w.worker(connections, "--max-activities", "1")
	dead := w.also("dead", "connection: api", "connection: dead", "steps:", "defaults: { retry: { initial_interval: 50ms } }\nsteps:")
	waiting := w.start(dead, "2026-01-15")
	w.untilDetails(waiting, "the circuit of connection dead is open until")
	if r := w.run(w.orders(), "2026-01-15", 0); r.Result.Rows != 3 {
		t.Errorf("the other run answers %+v", r.Result)
	}
	if details := w.details(waiting); !strings.Contains(details, "| waiting") || len(s.came()) != 2 {
		t.Errorf("after %d requests the run says\n%s", len(s.came()), details)
	}
	if err := w.temporal.CancelWorkflow(w.ctx, waiting.WorkflowID, waiting.RunID); err != nil {
		t.Fatal(err)
	}
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, waiting)
}

// TestADelayTakesNoWorker: a scheduled run that is not to begin yet leaves the only place for steps to others.
func TestADelayTakesNoWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	w.worker(w.connect(a.URL), "--max-activities", "1")
	other := w.also("other")
	start := ago(0)
	w.apply(w.ticking(every(start, ", delay: 10m")))
	w.awaitRuns(func(runs map[string]int) bool { return len(runs) > 0 })
	var delayed report
	for id := range w.runsOf() {
		delayed.WorkflowID = id
	}
	const waits = "it begins 10m after its tick"
	w.untilDetails(delayed, waits)
	if r := w.run(other, "2026-01-15", 0); r.Result.Rows != 3 {
		t.Errorf("the other run answers %+v", r.Result)
	}
	if got := w.details(delayed); !strings.Contains(got, waits) {
		t.Errorf("the delayed run says\n%s", got)
	}
	w.sched("pause", w.name, "--reason", "enough")
	for id := range w.runsOf() {
		if err := w.temporal.CancelWorkflow(w.ctx, id, ""); err != nil {
			t.Error(err)
		}
	}
}
