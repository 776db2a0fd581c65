package systemtest

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/warehouse"
)

// onServer gives the test's programs a Temporal server of their own.
func (w *world) onServer(args ...string) *stack.Process {
	w.t.Helper()
	server, err := shared.binaries.Server(w.ctx, w.folder, append([]string{"--headless"}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(server.Kill)
	w.environment = stack.Environment("TEMPORAL_ADDRESS="+server.Ready.Address, "API_TOKEN="+apiToken, "WAREHOUSE="+w.config.DSN)
	if w.temporal, err = client.NewLazyClient(client.Options{HostPort: server.Ready.Address, Logger: quiet{}}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.temporal.Close)
	return server
}

// TestAClusterWithoutOurAttributes works too, says once how to add them, and has them after `starter setup`.
func TestAClusterWithoutOurAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.onServer("--port", "0", "--no-search-attributes")
	a := newAPI(t)
	a.set("2026-01-15", 3)
	w.worker(w.connect(a.URL))
	file := w.orders()
	got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
	if got.code != 0 || !strings.Contains(got.talk, "starter setup") || strings.Count(got.talk, "starter setup") != 1 {
		t.Errorf("without attributes the run exits %d: %s%s", got.code, got.out, got.talk)
	}
	setup := func() (report struct{ Registered, Present []string }) {
		got := w.starter("setup", "--json")
		if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 0 {
			t.Fatalf("setup exits %d: %v %s%s", got.code, err, got.out, got.talk)
		}
		return report
	}
	names := []string{"TranchePipeline", "TrancheRunKind", "TrancheInterval"}
	if r := setup(); !slices.Equal(r.Registered, names) {
		t.Errorf("setup registers %v", r)
	}
	if r := setup(); len(r.Registered) != 0 || !slices.Equal(r.Present, names) {
		t.Errorf("setup again answers %v", r)
	}
	// The server sees new attributes a moment later; a start in between must not fail.
	if got := w.starter("run", file, "--interval", "2026-01-15", "--wait"); got.code != 0 {
		t.Errorf("right after setup the run exits %d: %s%s", got.code, got.out, got.talk)
	}
	if got := w.starter("runs", w.name, "--json"); got.code != 0 || strings.Count(got.out, w.name+"-2026-01-16T00:00:00Z") != 2 {
		t.Errorf("runs exits %d: %s%s", got.code, got.out, got.talk)
	}
}

// TestNoWorkers: whoever waits is told within seconds that nobody works.
func TestNoWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	file := w.orders()
	got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
	if got.code != 4 || !strings.Contains(got.talk, "no worker polls task queue "+w.name) {
		t.Errorf("without a worker the starter exits %d: %s%s", got.code, got.out, got.talk)
	}
	if got := w.starter("run", file, "--interval", "2026-01-15"); got.code != 0 || !strings.Contains(got.talk, "no worker") || !strings.Contains(got.talk, "joined") {
		t.Errorf("without --wait it exits %d: %s%s", got.code, got.out, got.talk)
	}
	a := newAPI(t)
	a.set("2026-01-15", 3)
	w.worker(w.connect(a.URL))
	if r, err := w.result(report{WorkflowID: w.name + "-2026-01-16T00:00:00Z"}); err != nil || r.Rows != 3 {
		t.Errorf("the run that waited for a worker answers %+v, %v", r, err)
	}
}

// TestUnknownNamespace is told as what it is.
func TestUnknownNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	got := w.starter("run", w.orders(), "--interval", "2026-01-15", "--namespace", "nope")
	if got.code != 4 || !strings.Contains(got.talk, "no namespace nope") || strings.Contains(got.talk, "setup") {
		t.Errorf("the starter exits %d: %s", got.code, got.talk)
	}
}

// TestKilledServer: the server is killed in the middle of a run and comes back on its file.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	state := filepath.Join(w.folder, "temporal.db")
	server := w.onServer("--port", "0", "--db-filename", state)
	_, port, err := net.SplitHostPort(server.Ready.Address)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t)
	a.set("2026-01-15", 350)
	entered, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("page") == "2" {
			once.Do(func() { close(entered); <-gate })
		}
		return false
	})
	w.worker(w.connect(a.URL))
	file := w.orders()
	started := w.start(file, "2026-01-15")
	<-entered
	server.Kill()
	close(gate)
	w.onServer("--port", port, "--db-filename", state)
	var got answer
	w.eventually("the worker has found the server again", func() bool {
		got = w.starter("run", file, "--interval", "2026-01-15", "--wait", "--json")
		return got.code != 4
	})
	var r report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 || r.Result.Rows != 350 {
		t.Errorf("the run %s: %v, exit code %d: %s%s", started.RunID, err, got.code, got.talk, got.out)
	}
	if got := w.content().rows; got != 350 {
		t.Errorf("the table holds %d rows, want 350", got)
	}
}

// TestAStepThatComesBackTooLate: nobody worked while a step's schedule_to_close ran out. The run ends and says
// so; it does not hang.
func TestAStepThatComesBackTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "4")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	connections := w.connect(a.URL)
	first := w.worker(connections)
	const limit = 6 * time.Second
	file := w.orders("defaults: { timeout: { start_to_close: 5s, schedule_to_close: 6s, heartbeat: 4s } }\n")
	started := w.start(file, "2026-01-15")
	w.awaitEvent(started, enums.EVENT_TYPE_TIMER_STARTED)
	over := time.NewTimer(limit)
	first.Kill()
	<-over.C
	w.worker(connections)
	if r := w.run(file, "2026-01-15", 5); !strings.Contains(r.Error, "WaitTooLong") || !strings.Contains(r.Error, "429") {
		t.Errorf("the run ends with %q", r.Error)
	}
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
	if err != nil || len(outcomes) != 1 || outcomes[0].Status != "failed" {
		t.Errorf("the ledger holds %+v, %v", outcomes, err)
	}
}

// TestAResetRunHasTheLastWord: an older run of the interval is reset after a newer one has failed, and loads.
func TestAResetRunHasTheLastWord(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 3)
		a.intercept(answer404)
		w.worker(w.connect(a.URL))
		file := w.orders()
		older := w.run(file, "2026-01-15", 5)
		w.run(file, "2026-01-15", 5)
		a.intercept(nil)
		reset, err := w.temporal.ResetWorkflowExecution(w.ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", Reason: "by the test", RequestId: w.name, WorkflowTaskFinishEventId: 4,
			WorkflowExecution: &common.WorkflowExecution{WorkflowId: older.WorkflowID, RunId: older.RunID},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.temporal.GetWorkflow(w.ctx, older.WorkflowID, reset.GetRunId()).Get(w.ctx, nil); err != nil {
			w.t.Fatal(err)
		}
		outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
		if err != nil || len(outcomes) != 1 || outcomes[0].Status != "loaded" || outcomes[0].RunID != reset.GetRunId() {
			w.t.Errorf("the ledger holds %+v, %v", outcomes, err)
		}
	})
}

// TestAWarehouseThatCannotBe ends a run at once, with the reason: there is no ledger that could take an outcome.
func TestAWarehouseThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	for name, place := range map[string]string{
		"a folder": w.folder, "no folder": filepath.Join(w.folder, "missing", "x.db"), "another file": w.write("text.db", strings.Repeat("not a database\n", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t, w.name = t, w.name+"-"+strings.Fields(name)[0]
			w.environment = append(slices.Clone(w.environment), "WAREHOUSE="+place)
			w.worker(w.connect(a.URL))
			began := time.Now()
			if r := w.run(w.orders(), "2026-01-15", 5); r.Error == "" || time.Since(began) > 30*time.Second {
				t.Errorf("after %s the run ends with %q", time.Since(began), r.Error)
			}
		})
	}
}
