package systemtest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"

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
	response, err := http.Get("http://" + p.Ready.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, _ := io.ReadAll(response.Body)
	for _, want := range []string{`tranche_circuit_state{connection="api",state="closed"} 1`, `tranche_circuit_opened_total{connection="api"} 1`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics do not show %s", want)
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
