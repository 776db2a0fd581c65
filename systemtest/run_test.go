package systemtest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/trancheflow/tranche/warehouse"
)

// TestRunningAgainChangesNothing is the promise: once, twice, ten times, the table is what one run leaves.
func TestRunningAgainChangesNothing(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 250)
		a.set("2026-01-16", 7)
		w.worker(w.connect(a.URL))
		file := w.orders()
		first := w.run(file, "2026-01-15", 0)
		w.run(file, "2026-01-16", 0)
		if first.Outcome != "loaded" || first.Result.Rows != 250 {
			w.t.Fatalf("the first run answers %+v", first)
		}
		want := w.content()
		if want.rows != 257 {
			w.t.Fatalf("the table holds %d rows, want 257", want.rows)
		}
		for range 9 {
			again := w.run(file, "2026-01-15", 0)
			load := again.Result.Steps[1].Receipt
			if load.Inserted != 250 || load.Deleted != 250 {
				w.t.Errorf("a run again inserts %d and deletes %d rows, want 250 each", load.Inserted, load.Deleted)
			}
			if got := w.content(); got != want {
				w.t.Fatalf("running again changes the table from %+v to %+v", want, got)
			}
		}
	})
}

// TestTwoTerminals starts the same interval from many terminals at once: one run is open at a time, and the
// others join it.
func TestTwoTerminals(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 250)
		gate, entered := make(chan struct{}), make(chan struct{})
		var once sync.Once
		a.intercept(func(http.ResponseWriter, *http.Request) bool {
			once.Do(func() { close(entered) })
			<-gate
			return false
		})
		w.worker(w.connect(a.URL))
		file := w.orders()
		first := w.start(file, "2026-01-15")
		<-entered
		reports := make([]report, 4)
		var terminals sync.WaitGroup
		for i := range reports {
			terminals.Go(func() { reports[i] = w.start(file, "2026-01-15") })
		}
		terminals.Wait()
		close(gate)
		for _, r := range reports {
			if !r.Joined || r.RunID != first.RunID || r.Kind != "manual" {
				w.t.Errorf("a terminal started %+v beside %+v", r, first)
			}
		}
		for i := range reports {
			terminals.Go(func() { reports[i] = w.run(file, "2026-01-15", 0) })
		}
		terminals.Wait()
		if got := w.content().rows; got != 250 {
			w.t.Errorf("the table holds %d rows, want 250", got)
		}
	})
}

// TestAnEmptySourceEmptiesItsSliceOnly also holds that an answer which is not the listing empties nothing.
func TestAnEmptySourceEmptiesItsSliceOnly(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		days := []string{"2026-01-11", "2026-01-12", "2026-01-13", "2026-01-14", "2026-01-15"}
		w.worker(w.connect(a.URL))
		file := w.orders()
		for _, day := range days {
			a.set(day, 10)
			w.run(file, day, 0)
		}
		for _, body := range []string{"", "<html>maintenance</html>", `{"error":"quota"}`, `{"rows":null}`, `{"rows":{}}`, `[]`, `{"rows":[`} {
			a.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte(body))
				return true
			})
			once := w.orders("defaults: { retry: { maximum_attempts: 1 } }\n")
			if r := w.run(once, "2026-01-13", 5); r.Outcome != "failed" || r.Error == "" {
				w.t.Errorf("an answer of %q ends as %+v", body, r)
			}
			if got := w.slice("2026-01-13"); got != 10 {
				w.t.Errorf("an answer of %q leaves %d rows", body, got)
			}
		}
		a.intercept(nil)
		a.set("2026-01-13", 0)
		if r := w.run(file, "2026-01-13", 0); r.Result.Steps[1].Receipt.Deleted != 10 || r.Result.Rows != 0 {
			w.t.Errorf("the empty day answers %+v", r.Result)
		}
		for _, day := range days {
			want := int64(10)
			if day == "2026-01-13" {
				want = 0
			}
			if got := w.slice(day); got != want {
				w.t.Errorf("%s holds %d rows, want %d", day, got, want)
			}
		}
	})
}

// TestSecretsStayInTheWorker looks through everything that Temporal keeps of runs that succeed and fail.
func TestSecretsStayInTheWorker(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 3)
		connections := w.connect(a.URL)
		w.worker(connections)
		file := w.orders()
		good := w.run(file, "2026-01-15", 0)
		a.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			// An API that repeats the credentials it was sent.
			http.Error(w, "bad token "+r.Header.Get("Authorization"), http.StatusForbidden)
			return true
		})
		bad := w.run(file, "2026-01-15", 5)
		if !strings.Contains(bad.Error, "403") {
			w.t.Errorf("the error does not name the status: %s", bad.Error)
		}
		secrets := []string{apiToken, base64.StdEncoding.EncodeToString([]byte(apiToken))}
		if w.config.Driver == warehouse.DriverPostgres {
			secrets = append(secrets, w.config.DSN)
		}
		for _, r := range []report{good, bad} {
			var kept strings.Builder
			for _, event := range w.events(r.WorkflowID, r.RunID) {
				kept.WriteString(protojson.Format(event))
				for _, payload := range payloads(event.ProtoReflect()) {
					kept.Write(payload)
				}
			}
			described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
			if err != nil {
				w.t.Fatal(err)
			}
			kept.WriteString(protojson.Format(described.RawResponse))
			if !strings.Contains(kept.String(), w.name) || !strings.Contains(kept.String(), `"definition"`) {
				w.t.Fatal("the test does not see the payloads")
			}
			for _, secret := range secrets {
				if strings.Contains(kept.String(), secret) || strings.Contains(bad.Error, secret) {
					w.t.Errorf("a secret is in what Temporal keeps of %s", r.RunID)
				}
			}
		}
	})
}

// TestHistoryShowsWhatTheFileDeclares: policy, timeouts, ids, attributes, summaries and memo.
func TestHistoryShowsWhatTheFileDeclares(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	w.worker(w.connect(a.URL))
	file := w.orders(`defaults:
  retry: { initial_interval: 250ms, backoff_coefficient: 3, maximum_interval: 7s, maximum_attempts: 4, non_retryable_error_types: [CheckFailed] }
  timeout: { start_to_close: 90s, schedule_to_close: 10m, heartbeat: 20s }
`)
	r := w.run(file, "2026-01-15", 0)
	if want := w.name + "-2026-01-16T00:00:00Z"; r.WorkflowID != want {
		t.Errorf("the workflow id is %s, want %s", r.WorkflowID, want)
	}
	scheduled := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
			if got := string(event.GetUserMetadata().GetSummary().GetData()); got != fmt.Sprintf("%q", w.name+" 2026-01-15 (manual)") {
				t.Errorf("the summary is %s", got)
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			scheduled++
			got := event.GetActivityTaskScheduledEventAttributes()
			policy := got.GetRetryPolicy()
			if policy.GetInitialInterval().AsDuration() != 250*time.Millisecond || policy.GetBackoffCoefficient() != 3 ||
				policy.GetMaximumInterval().AsDuration() != 7*time.Second || policy.GetMaximumAttempts() != 4 ||
				!slices.Equal(policy.GetNonRetryableErrorTypes(), []string{"CheckFailed"}) {
				t.Errorf("%s has the policy %v", got.GetActivityType().GetName(), policy)
			}
			if got.GetStartToCloseTimeout().AsDuration() != 90*time.Second || got.GetScheduleToCloseTimeout().AsDuration() != 10*time.Minute ||
				got.GetHeartbeatTimeout().AsDuration() != 20*time.Second {
				t.Errorf("%s has the timeouts %v, %v, %v", got.GetActivityType().GetName(), got.GetStartToCloseTimeout(),
					got.GetScheduleToCloseTimeout(), got.GetHeartbeatTimeout())
			}
			if len(event.GetUserMetadata().GetSummary().GetData()) == 0 {
				t.Errorf("%s has no summary", got.GetActivityType().GetName())
			}
		}
	}
	if scheduled != 2 {
		t.Errorf("%d activities were scheduled, want 2", scheduled)
	}
	described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	attributes := described.RawResponse.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()
	for name, want := range map[string]string{
		"TranchePipeline": fmt.Sprintf("%q", w.name), "TrancheRunKind": `"manual"`, "TrancheInterval": `"2026-01-15T00:00:00Z"`,
		"TemporalScheduledById": fmt.Sprintf("%q", w.name),
	} {
		if got := string(attributes[name].GetData()); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestALateAttemptNeverOverwrites stops a worker inside a load, lets another one finish a newer run, and
// lets the first go on.
func TestALateAttemptNeverOverwrites(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 60_000)
		connections := w.connect(a.URL)
		first := w.worker(connections)
		file := w.write("pipeline.yaml", strings.NewReplacer(
			"size: 100", "size: 60000").Replace(read(w.t, w.orders("defaults: { timeout: { heartbeat: 4s, start_to_close: 60s } }\n"))))
		started := w.start(file, "2026-01-15")
		w.awaitLoad(started)
		if err := first.Signal(syscall.SIGSTOP); err != nil {
			w.t.Fatal(err)
		}
		a.mutex.Lock()
		a.note = "second"
		a.mutex.Unlock()
		w.worker(connections)
		// The stopped worker falls silent; Temporal gives its attempt to the second one. In PostgreSQL that
		// one ends the session of the first. The lock on an SQLite file cannot be taken from a process that
		// was stopped inside its transaction: there the load goes on when that process does, or is killed.
		if w.config.Driver == warehouse.DriverSQLite {
			w.awaitLoadAttempt(started, 2)
			if err := first.Signal(syscall.SIGCONT); err != nil {
				w.t.Fatal(err)
			}
		}
		if r := w.run(file, "2026-01-15", 0); !r.Joined && r.RunID == started.RunID {
			w.t.Errorf("the run was not joined: %+v", r)
		}
		// A newer run, with newer rows.
		if r := w.run(file, "2026-01-15", 0); r.RunID == started.RunID || r.Result.Rows != 60_000 {
			w.t.Errorf("the newer run answers %+v", r)
		}
		want := w.content()
		if err := first.Signal(syscall.SIGCONT); err != nil {
			w.t.Fatal(err)
		}
		if code, err := first.Stop(patience / 2); err != nil || code != 0 {
			w.t.Errorf("the first worker exits %d: %v", code, err)
		}
		if got := w.content(); got != want || got.rows != 60_000 {
			w.t.Errorf("the late attempt changes the table from %+v to %+v", want, got)
		}
	})
}

// awaitLoad waits until the load step of a run has been picked up by a worker.
func (w *world) awaitLoad(r report) {
	w.t.Helper()
	w.awaitLoadAttempt(r, 1)
}

// awaitLoadAttempt waits until that attempt of the load has been picked up by a worker.
func (w *world) awaitLoadAttempt(r report, attempt int32) {
	w.t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		answer, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
		if err != nil {
			w.t.Fatal(err)
		}
		described := answer.RawResponse
		for _, pending := range described.GetPendingActivities() {
			if pending.GetActivityType().GetName() == "load" && pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED && pending.GetAttempt() >= attempt {
				return
			}
		}
		if described.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return // it was quicker than the test could look
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatal("the load never started")
		case <-ticker.C:
		}
	}
}

// TestWorkerHandsBackOnSIGTERM: a step that takes too long is handed back, uses up no attempt, and is
// finished by a second worker from the page where it stood.
func TestWorkerHandsBackOnSIGTERM(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 350)
		entered, gate := make(chan struct{}), make(chan struct{})
		var once sync.Once
		a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("page") == "3" {
				once.Do(func() { close(entered) })
				select {
				case <-gate:
				case <-r.Context().Done():
				}
			}
			return false
		})
		connections := w.connect(a.URL)
		first := w.worker(connections, "--stop-timeout", "1s")
		file := w.orders("defaults: { retry: { maximum_attempts: 1 } }\n")
		started := w.start(file, "2026-01-15")
		<-entered
		if code, err := first.Stop(patience / 2); err != nil || code != 0 {
			w.t.Fatalf("the worker exits %d on SIGTERM: %v\n%s", code, err, first.Tail())
		}
		close(gate)
		w.worker(connections)
		if r, err := w.result(started); err != nil || r.Rows != 350 {
			w.t.Errorf("the second worker answers %+v, %v", r, err)
		}
		pages := map[string]int{}
		for _, request := range a.seen() {
			pages[request]++
		}
		if pages["2026-01-15T00:00:00Z 1"] != 1 || pages["2026-01-15T00:00:00Z 2"] != 1 {
			w.t.Errorf("committed pages were read again: %v", pages)
		}
		if got := w.content().rows; got != 350 {
			w.t.Errorf("the table holds %d rows, want 350", got)
		}
	})
}

// TestWorkerFinishesOnSIGTERM: a step that is nearly done is finished, not repeated.
func TestWorkerFinishesOnSIGTERM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 50)
	entered, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a.intercept(func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(entered) })
		<-gate
		return false
	})
	connections := w.connect(a.URL)
	first := w.worker(connections)
	file := w.orders()
	started := w.start(file, "2026-01-15")
	<-entered
	if err := first.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.worker(connections)
	close(gate)
	if code, err := first.Wait(patience / 2); err != nil || code != 0 {
		t.Errorf("the worker exits %d on SIGTERM: %v", code, err)
	}
	if r := w.run(file, "2026-01-15", 0); r.Result.Rows != 50 {
		t.Errorf("the run answers %+v", r)
	}
	if got := a.seen(); len(got) > 2 { // the run, and perhaps the one after it
		t.Errorf("the page was read %d times: %v", len(got), got)
	}
	_ = started
}

// TestKilledWorker kills the worker while it reads and while it loads.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 1000)
		connections := w.connect(a.URL)
		entered := make(chan struct{})
		var once sync.Once
		a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("page") == "6" {
				once.Do(func() { close(entered); <-r.Context().Done() })
			}
			return false
		})
		first := w.worker(connections)
		file := w.orders("defaults: { timeout: { heartbeat: 3s } }\n")
		started := w.start(file, "2026-01-15")
		<-entered
		first.Kill()
		second := w.worker(connections)
		w.awaitLoad(started)
		second.Kill()
		w.worker(connections)
		if r := w.run(file, "2026-01-15", 0); r.Result.Rows != 1000 {
			w.t.Errorf("the run answers %+v", r)
		}
		if got := w.content().rows; got != 1000 {
			w.t.Errorf("the table holds %d rows, want 1000", got)
		}
	})
}

// TestThrottled: the first request is refused with Retry-After, the second without, as rate-limited APIs do;
// a longer wait is a timer of the workflow and uses up no attempt.
func TestThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set("2026-01-15", 3)
	var mutex sync.Mutex
	var at []time.Time
	a.intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		at = append(at, time.Now())
		switch len(at) {
		case 1:
			rw.Header().Set("Retry-After", "1")
		case 2:
		case 3:
			rw.Header().Set("Retry-After", "4")
		default:
			return false
		}
		rw.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	w.worker(w.connect(a.URL))
	file := w.orders("defaults: { retry: { maximum_attempts: 1 } }\n")
	r := w.run(file, "2026-01-15", 0)
	if r.Result.Rows != 3 || r.Result.Steps[0].Attempts != 1 || len(at) != 4 {
		t.Fatalf("%d requests, the run answers %+v", len(at), r.Result)
	}
	gaps := []time.Duration{at[1].Sub(at[0]), at[2].Sub(at[1]), at[3].Sub(at[2])}
	// A bare refusal backs off by 0.5 to 1.5 times the pause of the second refusal in a row, 1 s.
	if gaps[0] < time.Second || gaps[1] < 500*time.Millisecond || gaps[2] < 4*time.Second {
		t.Errorf("the requests came after %v", gaps)
	}
	timers := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if event.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED {
			timers++
			if got := string(event.GetUserMetadata().GetSummary().GetData()); !strings.Contains(got, "429") {
				t.Errorf("the timer does not say what it waits for: %s", got)
			}
		}
	}
	if timers != 1 {
		t.Errorf("the history has %d timers, want 1", timers)
	}
}

// TestFilesOfTheInterval loads CSV by interval, also when the file changes between two runs.
func TestFilesOfTheInterval(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\n2,2026-01-15T23:59:59.9999999Z,b\n")
		w.write("files/2026-01-16.csv", "\ufeffid,note,at\r\n3,\"x\r\ny\",2026-01-16T00:00:00Z\r\n")
		file := w.write("pipeline.yaml", strings.ReplaceAll(`pipeline: NAME
warehouse: warehouse
task_queue: NAME
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
steps:
  - name: extract
    file:
      connection: files
      path: "{{ date .Interval.Start }}.csv"
      columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }]
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`, "NAME", w.name))
		w.worker(w.connect("http://127.0.0.1:1"))
		w.run(file, "2026-01-15", 0)
		w.run(file, "2026-01-16", 0)
		if a, b := w.slice("2026-01-15"), w.slice("2026-01-16"); a != 2 || b != 1 {
			w.t.Errorf("the days hold %d and %d rows, want 2 and 1", a, b)
		}
		w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\n")
		w.run(file, "2026-01-15", 0)
		if got := w.slice("2026-01-15"); got != 1 {
			w.t.Errorf("a row that is gone at the source is still there: %d rows", got)
		}
		w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\n2,2026-01-15T00:00:00Z\n")
		if r := w.run(file, "2026-01-15", 5); !strings.Contains(r.Error, "line 3") || !strings.Contains(r.Error, "2026-01-15.csv") {
			w.t.Errorf("the error does not name file and line: %s", r.Error)
		}
		w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\nSECRETVALUE,2026-01-15T00:00:00Z,b\n")
		r := w.run(file, "2026-01-15", 5)
		if !strings.Contains(r.Error, `column "id"`) || !strings.Contains(r.Error, "row 2") || strings.Contains(r.Error, "SECRETVALUE") {
			w.t.Errorf("the error does not name row and column, or holds the value: %s", r.Error)
		}
		if got := w.slice("2026-01-15"); got != 1 {
			w.t.Errorf("a refused file changed the slice to %d rows", got)
		}
		if r := w.run(file, "2026-01-17", 5); !strings.Contains(r.Error, "2026-01-17.csv") {
			w.t.Errorf("the error does not name the missing file: %s", r.Error)
		}
	})
}

// TestOutcomesAreInTheLedger: loaded and failed intervals are known after Temporal has forgotten them.
func TestOutcomesAreInTheLedger(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 3)
		w.worker(w.connect(a.URL))
		file := w.orders()
		w.run(file, "2026-01-15", 0)
		a.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		})
		w.run(file, "2026-01-16", 5)
		outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(outcomes) != 2 || outcomes[0].Status != "loaded" || outcomes[1].Status != "failed" || !strings.Contains(outcomes[1].Note, "404") {
			w.t.Errorf("the ledger holds %+v", outcomes)
		}
		if requests := len(a.seen()); requests != 2 {
			w.t.Errorf("a 404 was asked for again: %d requests", requests)
		}
		stages, err := w.database.OpenStages(w.ctx)
		if err != nil || len(stages) != 0 {
			w.t.Errorf("stages are left over: %v, %v", stages, err)
		}
	})
}

// TestStagesOfTerminatedRunsAreDropped: a run that was terminated cannot clear up after itself.
func TestStagesOfTerminatedRunsAreDropped(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 250)
		a.set("2026-01-16", 3)
		entered := make(chan struct{})
		var once sync.Once
		a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("page") == "2" {
				once.Do(func() { close(entered) })
				<-r.Context().Done()
			}
			return false
		})
		w.worker(w.connect(a.URL), "--sweep-interval", "100ms")
		file := w.orders("defaults: { timeout: { heartbeat: 2s } }\n")
		started := w.start(file, "2026-01-15")
		<-entered
		if stages, err := w.database.OpenStages(w.ctx); err != nil || len(stages) != 1 {
			w.t.Fatalf("the open run has the stages %v: %v", stages, err)
		}
		if err := w.temporal.TerminateWorkflow(w.ctx, started.WorkflowID, started.RunID, "by the test"); err != nil {
			w.t.Fatal(err)
		}
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			stages, err := w.database.OpenStages(w.ctx)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(stages) == 0 {
				break
			}
			select {
			case <-w.ctx.Done():
				w.t.Fatalf("the stages %v are never dropped", stages)
			case <-ticker.C:
			}
		}
		a.intercept(nil)
		if r := w.run(file, "2026-01-15", 0); r.Result.Rows != 250 {
			w.t.Errorf("the next run answers %+v", r)
		}
	})
}

// TestReplaceKeepsTheNewestSnapshot: `replace` owns the whole table; an older snapshot never replaces a newer
// one, and an empty one is refused unless the file says otherwise.
func TestReplaceKeepsTheNewestSnapshot(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		a.set("2026-01-15", 5)
		a.set("2026-01-16", 7)
		w.worker(w.connect(a.URL))
		file := w.write("replace.yaml", strings.Replace(read(w.t, w.orders()), "disposition: delete+insert, time_column: at", "disposition: replace", 1))
		w.run(file, "2026-01-16", 0)
		r := w.run(file, "2026-01-15", 0)
		if got := w.content().rows; got != 7 || !strings.Contains(r.Result.Steps[1].Note, "newer snapshot") {
			w.t.Errorf("an older snapshot leaves %d rows and notes %q", got, r.Result.Steps[1].Note)
		}
		if r := w.run(file, "2026-01-17", 5); !strings.Contains(r.Error, "allow_empty") || w.content().rows != 7 {
			w.t.Errorf("an empty snapshot leaves %d rows and says %q", w.content().rows, r.Error)
		}
		allowed := w.write("replace.yaml", strings.Replace(read(w.t, file), "disposition: replace", "disposition: replace, allow_empty: true", 1))
		if w.run(allowed, "2026-01-17", 0); w.content().rows != 0 {
			w.t.Errorf("an empty snapshot that is allowed leaves %d rows", w.content().rows)
		}
	})
}

// TestWaitForAFile: a file that is not there yet is a durable wait and no failure.
func TestWaitForAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect("http://127.0.0.1:1"))
	file := w.write("pipeline.yaml", strings.ReplaceAll(`pipeline: NAME
warehouse: warehouse
task_queue: NAME
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
defaults: { retry: { maximum_attempts: 1 } }
steps:
  - name: extract
    file:
      connection: files
      path: "{{ date .Interval.Start }}.csv"
      missing: wait
      columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }]
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`, "NAME", w.name))
	w.write("files/other.csv", "")
	started := w.start(file, "2026-01-15")
	w.awaitEvent(started, enums.EVENT_TYPE_TIMER_STARTED)
	w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\n")
	if r, err := w.result(started); err != nil || r.Rows != 1 || r.Steps[0].Attempts != 1 {
		t.Errorf("the run answers %+v, %v", r, err)
	}
}

// awaitEvent waits until a run's history has an event of this type.
func (w *world) awaitEvent(r report, kind enums.EventType) {
	w.t.Helper()
	stream := w.temporal.GetWorkflowHistory(w.ctx, r.WorkflowID, r.RunID, true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for stream.HasNext() {
		event, err := stream.Next()
		if err != nil {
			w.t.Fatal(err)
		}
		if event.GetEventType() == kind {
			return
		}
	}
	w.t.Fatalf("%s ended without %s", r.WorkflowID, kind)
}
