package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/warehouse/pgtest"
)

// system is what all tests share: the programs, and one Temporal server. Each test has its own task
// queue, pipelines, folder and database.
type system struct {
	binaries stack.Binaries
	server   *stack.Process
	missing  error
}

var shared system

// TestMain starts one Temporal server for all tests. Without the programs the tests that need them are
// skipped, and fail where CI=true.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if shared.binaries, err = stack.FindBinaries(".."); err != nil {
		shared.missing = err
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "tranche-systemtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if shared.server, err = shared.binaries.Server(context.Background(), folder, "--port", "0", "--headless"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.server.Kill()
	return m.Run()
}

// patience bounds every wait of a test, on a machine that is busy with other tests.
const patience = 4 * time.Minute

// world is what one test has for itself.
type world struct {
	t      *testing.T
	ctx    context.Context
	name   string // of the pipeline, and the task queue
	folder string
	// config of the warehouse, database opened on it.
	config   warehouse.Config
	database *warehouse.Warehouse
	// environment of the programs.
	environment []string
	temporal    client.Client
}

var worlds atomic.Int64

// databases runs a test once for each kind of warehouse.
func databases(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, driver := range []string{warehouse.DriverSQLite, warehouse.DriverPostgres} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, driver))
		})
	}
}

// needPrograms skips a test where the programs are not built, and fails it where CI=true.
func needPrograms(t *testing.T) {
	t.Helper()
	if shared.missing != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(shared.missing)
		}
		t.Skipf("skipped: %v", shared.missing)
	}
}

func newWorld(t *testing.T, driver string) *world {
	t.Helper()
	needPrograms(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, name: fmt.Sprintf("p%d", worlds.Add(1)), folder: t.TempDir()}
	w.config = warehouse.Config{Driver: warehouse.DriverSQLite, DSN: filepath.Join(w.folder, "warehouse.db")}
	if driver == warehouse.DriverPostgres {
		w.config = warehouse.Config{Driver: driver, DSN: pgtest.Postgres(t)}
	}
	var err error
	if w.database, err = warehouse.Open(ctx, w.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.database.Close)
	if err := w.database.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	w.environment = stack.Environment("TEMPORAL_ADDRESS="+shared.server.Ready.Address, "API_TOKEN="+apiToken, "WAREHOUSE="+w.config.DSN)
	if w.temporal, err = client.DialContext(ctx, client.Options{HostPort: shared.server.Ready.Address, Logger: quiet{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.temporal.Close)
	return w
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// apiToken is a secret that must never be seen outside the worker.
const apiToken = "TOKEN-abc123-only-the-worker"

// write puts a file into the test's folder and returns its path.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// connect writes connections.yaml for an API at this address. It has two connections, so that one can be left alone
// while the other is used.
func (w *world) connect(api string) string {
	target := `sqlite: { path: "${WAREHOUSE}" }`
	if w.config.Driver == warehouse.DriverPostgres {
		target = `postgres: { url: "${WAREHOUSE}" }`
	}
	return w.write("connections.yaml", fmt.Sprintf(`connections:
  api: { http: { base_url: %[1]q, bearer: "${API_TOKEN}" } }
  twin: { http: { base_url: %[1]q, bearer: "${API_TOKEN}" } }
  files: { files: { url: ./files } }
  warehouse: { %[2]s }
`, api, target))
}

// worker starts a worker for the test's task queue.
func (w *world) worker(connections string, args ...string) *stack.Process {
	w.t.Helper()
	p, err := shared.binaries.Worker(w.ctx, w.folder, w.environment,
		append([]string{"--connections", connections, "--task-queue", w.name}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if p.Kill(); w.t.Failed() {
			w.t.Logf("worker:\n%s", p.Tail())
		}
	})
	return p
}

// answer is what the starter said.
type answer struct {
	code      int
	out, talk string
}

// starter runs the starter as a user would.
func (w *world) starter(args ...string) answer {
	w.t.Helper()
	command := exec.CommandContext(w.ctx, shared.binaries.Path("starter"), args...)
	var out, talk bytes.Buffer
	command.Env, command.Stdout, command.Stderr = w.environment, &out, &talk
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("starter %v: %v", args, err)
	}
	return answer{command.ProcessState.ExitCode(), out.String(), talk.String()}
}

// report is the JSON of `starter run`.
type report struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	Joined     bool   `json:"joined"`
	Kind       string `json:"kind"`
	Outcome    string `json:"outcome"`
	Error      string `json:"error"`
	Result     *struct {
		Rows  int64 `json:"rows"`
		Steps []struct {
			Name     string `json:"name"`
			State    string `json:"state"`
			Attempts int    `json:"attempts"`
			Note     string `json:"note"`
			Waited   *struct {
				Times int      `json:"times"`
				Total string   `json:"total"`
				Shown []string `json:"shown"`
			} `json:"waited"`
			Receipt *struct {
				Inserted int64 `json:"inserted"`
				Deleted  int64 `json:"deleted"`
				Dropped  int64 `json:"dropped"`
			} `json:"receipt"`
		} `json:"steps"`
	} `json:"result"`
}

// run runs an interval to its end and wants this exit code.
func (w *world) run(file, start string, wantCode int) report {
	w.t.Helper()
	got := w.starter("run", file, "--interval", start, "--wait", "--json")
	if got.code != wantCode {
		w.t.Fatalf("starter run exits %d, want %d\n%s%s", got.code, wantCode, got.talk, got.out)
	}
	var r report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil {
		w.t.Fatalf("starter run --json: %v\n%s%s", err, got.out, got.talk)
	}
	return r
}

// start starts an interval without waiting.
func (w *world) start(file, start string) report {
	w.t.Helper()
	got := w.starter("run", file, "--interval", start, "--json")
	var r report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 {
		w.t.Fatalf("starter run exits %d: %v\n%s%s", got.code, err, got.out, got.talk)
	}
	return r
}

// columns of the rows that the test's API serves.
var columns = []pipeline.Column{{Name: "id", Type: "bigint"}, {Name: "at", Type: "timestamptz"}, {Name: "note", Type: "text"}}

// orders is a pipeline over the API: daily, delete+insert by time.
func (w *world) orders(more ...string) string {
	return w.write("pipeline.yaml", w.ordersText(more...))
}

func (w *world) ordersText(more ...string) string {
	return fmt.Sprintf(`pipeline: %[1]s
warehouse: warehouse
task_queue: %[1]s
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
%[2]ssteps:
  - name: extract
    http:
      connection: api
      path: /rows
      query: { from: "{{ .Interval.Start }}", to: "{{ .Interval.End }}" }
      pagination: { kind: page, size_parameter: per_page, size: 100 }
      records: rows
      columns:
        - { name: id, type: bigint }
        - { name: at, type: timestamptz }
        - { name: note, type: text }
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`, w.name, strings.Join(more, ""))
}

// content is what the table orders holds.
type content struct {
	rows     int64
	checksum string
}

func (w *world) content() content {
	w.t.Helper()
	rows, sum, err := w.database.Checksum(w.ctx, "orders", columns, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return content{rows, sum}
}

// slice returns the number of rows of one day.
func (w *world) slice(day string) int64 {
	w.t.Helper()
	start, err := time.Parse(time.DateOnly, day)
	if err != nil {
		w.t.Fatal(err)
	}
	rows, _, err := w.database.Checksum(w.ctx, "orders", columns, &warehouse.Slice{
		Interval: interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}, TimeColumn: "at",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

// events returns a run's history.
func (w *world) events(id, run string) []*history.HistoryEvent {
	w.t.Helper()
	var events []*history.HistoryEvent
	stream := w.temporal.GetWorkflowHistory(w.ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for stream.HasNext() {
		event, err := stream.Next()
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// api serves rows by day; a test may stand in the way of a request.
type api struct {
	*httptest.Server
	mutex    sync.Mutex
	days     map[string]int // rows of each day
	note     string
	requests []string
	// before, when set, answers a request itself if it returns true.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{days: map[string]int{}, note: "first"}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.CloseClientConnections)
	t.Cleanup(a.Close)
	return a
}

func (a *api) set(day string, rows int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.days[day] = rows
}

func (a *api) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.before = before
}

func (a *api) seen() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]string(nil), a.requests...)
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	a.requests = append(a.requests, r.URL.Query().Get("from")+" "+r.URL.Query().Get("page"))
	before, note := a.before, a.note
	rows := a.days[strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z")]
	a.mutex.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+apiToken {
		http.Error(w, `{"error":"who are you?"}`, http.StatusUnauthorized)
		return
	}
	writePage(w, r, rows, note)
}

func writePage(w http.ResponseWriter, r *http.Request, rows int, note string) {
	query := r.URL.Query()
	from, err := time.Parse(time.RFC3339, query.Get("from"))
	var page, size int
	if _, e := fmt.Sscan(query.Get("page")+" "+query.Get("per_page"), &page, &size); err != nil || e != nil {
		http.Error(w, `{"error":"bad query"}`, http.StatusBadRequest)
		return
	}
	type row struct {
		ID   int64     `json:"id"`
		At   time.Time `json:"at"`
		Note string    `json:"note"`
	}
	answer := struct {
		Rows []row `json:"rows"`
	}{Rows: []row{}}
	for i := (page - 1) * size; i < min(page*size, rows); i++ {
		answer.Rows = append(answer.Rows, row{from.Unix()*1000 + int64(i), from.Add(time.Duration(i) * time.Second), note})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// read returns a file's text.
func (w *world) read(path string) string {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}
