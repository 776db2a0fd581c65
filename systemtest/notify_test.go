package systemtest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// receiver is a webhook: it keeps what it took and what it refused.
type receiver struct {
	*httptest.Server
	mutex sync.Mutex
	// answer says what the n-th request gets, from 1; nil: everything is taken. 0 breaks the connection.
	answer   func(n int) int
	requests []string // the ids
	taken    []step.Message
	path     string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{path: "/services/T0/B0/SECRET-of-the-receiver"}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	body, _ := io.ReadAll(request.Body)
	r.requests = append(r.requests, request.Header.Get("Idempotency-Key"))
	status := http.StatusOK
	if r.answer != nil {
		status = r.answer(len(r.requests))
	}
	switch {
	case request.Method != http.MethodPost || request.URL.Path != r.path:
		status = http.StatusNotFound
	case status == 0:
		panic(http.ErrAbortHandler)
	case status == http.StatusOK:
		var message step.Message
		if err := json.Unmarshal(body, &message); err != nil || message.ID != request.Header.Get("Idempotency-Key") {
			status = http.StatusBadRequest
			break
		}
		r.taken = append(r.taken, message)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "answer to "+request.URL.Path)
}

func (r *receiver) set(answer func(n int) int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answer = answer
}

func (r *receiver) seen() (requests []string, taken []step.Message) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append(requests, r.requests...), append(taken, r.taken...)
}

// notifying writes connections with a webhook.
func (w *world) notifying(api string, r *receiver) string {
	w.t.Helper()
	w.environment = append(w.environment, "OPS_WEBHOOK="+r.URL+r.path)
	connections := w.connect(api)
	return w.write("connections.yaml", w.read(connections)+`  ops: { webhook: { url: "${OPS_WEBHOOK}", ui_url: "http://temporal.example:8233", timeout: 5s } }
`)
}

// untilTaken waits for so many messages, of which the last is returned. None may come twice.
func (w *world) untilTaken(r *receiver, n int) step.Message {
	w.t.Helper()
	var taken []step.Message
	w.eventually("the receiver has taken the messages", func() bool {
		_, taken = r.seen()
		return len(taken) >= n
	})
	ids := map[string]bool{}
	for _, message := range taken {
		if ids[message.ID] {
			w.t.Errorf("%s was told twice", message.ID)
		}
		ids[message.ID] = true
	}
	if len(taken) != n {
		w.t.Errorf("%d messages were taken, want %d: %+v", len(taken), n, taken)
	}
	return taken[len(taken)-1]
}

// tellings counts the times that a run has had something told, which stands in its history.
func (w *world) tellings(r report) int {
	w.t.Helper()
	n := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		for _, details := range event.GetMarkerRecordedEventAttributes().GetDetails() {
			for _, payload := range details.GetPayloads() {
				if strings.Contains(string(payload.GetData()), step.ActivityStartNotification) {
					n++
				}
			}
		}
	}
	return n
}

// delivery waits for the workflow that delivers a message to end, and returns how it did.
func (w *world) delivery(id string) enums.WorkflowExecutionStatus {
	w.t.Helper()
	return w.status(report{WorkflowID: id})
}

const notify = "notify: { connection: ops }\n"

// A failure is told once, although the receiver answers 500 twice and the worker is killed in between. No secret is in
// what Temporal keeps of it.
func TestFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a, ops := newAPI(t), newReceiver(t)
	a.intercept(answer404)
	ops.answer = func(n int) int {
		if n <= 2 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	connections := w.notifying(a.URL, ops)
	killed := w.worker(connections)
	r := w.run(w.orders(notify, "owner: data-platform\ndescription: Orders of the shop.\n"), "2026-01-15", 5)
	id := "tranche/notify/" + w.name + "/failure/2026-01-16T00:00:00Z/" + r.RunID
	w.eventually("the first try has failed", func() bool {
		described, err := w.temporal.DescribeWorkflow(w.ctx, id, "")
		if err != nil || len(described.RawResponse.GetPendingActivities()) != 1 {
			return false
		}
		pending := described.RawResponse.GetPendingActivities()[0]
		return pending.GetAttempt() >= 2 && pending.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED
	})
	killed.Kill()
	p := w.worker(connections)
	m := w.untilTaken(ops, 1)
	if got := w.delivery(id); got != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		t.Errorf("the delivery ended as %s", got)
	}
	if requests, _ := ops.seen(); len(requests) != 3 || requests[0] != id || requests[1] != id || requests[2] != id {
		t.Errorf("the receiver was asked for %q", requests)
	}
	if n := w.tellings(r); n != 1 {
		t.Errorf("the run had it told %d times", n)
	}
	if m.Version != 1 || m.Event != "failure" || m.Pipeline != w.name || m.Owner != "data-platform" || m.Description != "Orders of the shop." ||
		m.Interval != january(15) || m.Kind != step.Manual || m.WorkflowID != r.WorkflowID || m.RunID != r.RunID || m.Step != "extract" ||
		m.Attempts != 1 || m.ErrorType != "HTTPStatus" || !strings.Contains(m.Reason, "answered 404 Not Found") || m.OccurredAt.IsZero() ||
		m.Link != "http://temporal.example:8233/namespaces/default/workflows/"+r.WorkflowID+"/"+r.RunID+"/history" {
		t.Errorf("the message is %+v", m)
	}
	for _, want := range []string{w.name + " 2026-01-15 failed (manual)", "HTTPStatus: ", "Step extract, 1 attempt", "Owner: data-platform", m.Link} {
		if !strings.Contains(m.Text, want) {
			t.Errorf("the text does not say %q:\n%s", want, m.Text)
		}
	}
	for _, event := range append(w.events(id, ""), w.events(r.WorkflowID, r.RunID)...) {
		for _, payload := range payloads(event.ProtoReflect()) {
			if strings.Contains(string(payload), "SECRET") || strings.Contains(string(payload), apiToken) {
				t.Errorf("a secret stands in %s", payload)
			}
		}
	}
	for _, event := range w.events(id, "") {
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil && (scheduled.GetTaskQueue().GetName() != launch.ControlQueue(w.name) ||
			scheduled.GetScheduleToCloseTimeout().AsDuration() != 24*time.Hour || scheduled.GetRetryPolicy().GetMaximumAttempts() != 0) {
			t.Errorf("it is tried as %s", scheduled)
		}
	}
	if log := read(t, killed.Log) + read(t, p.Log); strings.Contains(log, "SECRET") || !strings.Contains(log, "a notification was not delivered; it is tried again") {
		t.Errorf("the workers have logged %s", log)
	}
	response, err := http.Get("http://" + p.Ready.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, _ := io.ReadAll(response.Body)
	if !strings.Contains(string(metrics), "tranche_notifications_total{") || !strings.Contains(string(metrics), `result="delivered"`) {
		t.Errorf("the metrics do not count it:\n%s", metrics)
	}
}

// A recovery is told once: not of a run that went well as the one before it had, nor of one that was asked for again.
func TestRecoveryIsToldOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a, ops := newAPI(w.t), newReceiver(w.t)
		a.set("2026-01-15", 3)
		w.worker(w.notifying(a.URL, ops))
		file := w.orders(notify)
		w.run(file, "2026-01-14", 0)
		a.intercept(answer404)
		w.run(file, "2026-01-15", 5)
		failure := w.untilTaken(ops, 1)
		a.intercept(nil)
		loaded := w.run(file, "2026-01-15", 0)
		m := w.untilTaken(ops, 2)
		if failure.Event != "failure" || m.Event != "recovery" || m.Interval != january(15) || m.RunID != loaded.RunID || m.Rows == nil || *m.Rows != 3 || m.ErrorType != "" {
			w.t.Errorf("%+v, then %+v", failure, m)
		}
		if !strings.HasPrefix(m.Text, w.name+" 2026-01-15 has recovered: it is loaded (manual)\n3 rows written\n") {
			w.t.Errorf("the text is\n%s", m.Text)
		}
		again := w.run(file, "2026-01-15", 0)
		if n := w.tellings(again); n != 0 {
			w.t.Errorf("the run after it had something told %d times", n)
		}
		w.untilTaken(ops, 2)
	})
}

// Who asks for some events only is not told of others.
func TestOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a, ops := newAPI(t), newReceiver(t)
	a.intercept(answer404)
	w.worker(w.notifying(a.URL, ops))
	file := w.orders("notify: { connection: ops, on: [recovery] }\n")
	if r := w.run(file, "2026-01-15", 5); w.tellings(r) != 0 {
		t.Error("a failure was told of")
	}
	a.intercept(nil)
	w.run(file, "2026-01-15", 0)
	if m := w.untilTaken(ops, 1); m.Event != "recovery" {
		t.Errorf("%+v", m)
	}
}

// A missed deadline is told once, in one message for all that were found together; also when whoever told of it was
// interrupted before that was recorded, and found more when it came back. What is loaded later has recovered.
func TestDeadlineIsToldOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a, ops := newAPI(w.t), newReceiver(w.t)
		w.worker(w.notifying(a.URL, ops))
		r := newReconciling(w)
		r.watched.TaskQueue, r.watched.Deadline, r.watched.Notify = w.name, pipeline.Duration(3*time.Hour), &pipeline.Notify{Connection: "ops"}
		r.load(1, 2, 6, 7, 8, 9)
		r.reconcile()
		m := w.untilTaken(ops, 1)
		if m.Event != "deadline" || m.Interval != january(5) || m.Count != 2 || m.LastInterval == nil || *m.LastInterval != january(10) ||
			m.Deadline != r.watched.Deadline || m.Link != "http://temporal.example:8233/namespaces/default/schedules/"+w.name {
			w.t.Errorf("%+v", m)
		}
		if !strings.HasPrefix(m.Text, w.name+": 2 intervals missed the deadline of 3h and are not loaded, from 2026-01-05 to 2026-01-10\n") {
			w.t.Errorf("the text is\n%s", m.Text)
		}
		r.reconcile()
		w.untilTaken(ops, 1)

		// As if the ledger had not heard of it, and the grid went on for a day meanwhile.
		w.forgetNotices()
		r.watched.Schedule.EndDate, r.watched.Updated = "2026-01-12", day(w.t, "2026-01-12").Add(time.Hour)
		if found := r.reconcile(); len(found.Late) != 3 {
			w.t.Errorf("%+v", found)
		}
		if m = w.untilTaken(ops, 2); m.Interval != january(11) || m.Count != 1 || m.LastInterval != nil {
			w.t.Errorf("%+v", m)
		}
		if !strings.HasPrefix(m.Text, w.name+" 2026-01-11 missed the deadline of 3h: it is not loaded\n") {
			w.t.Errorf("the text is\n%s", m.Text)
		}

		file := w.orders(notify)
		w.run(file, "2026-01-11", 0)
		if m = w.untilTaken(ops, 3); m.Event != "recovery" || m.Interval != january(11) {
			w.t.Errorf("%+v", m)
		}
		if again := w.run(file, "2026-01-11", 0); w.tellings(again) != 0 {
			w.t.Error("its recovery was told again")
		}
	})
}

// forgetNotices takes away what the ledger knows of what was told.
func (w *world) forgetNotices() {
	w.t.Helper()
	if w.config.Driver == warehouse.DriverPostgres {
		conn, err := pgx.Connect(w.ctx, w.config.DSN)
		if err != nil {
			w.t.Fatal(err)
		}
		defer conn.Close(w.ctx)
		if _, err := conn.Exec(w.ctx, "delete from tranche.notices"); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	conn, err := sqlite3.Open(w.config.DSN)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(conn.BusyTimeout(patience), conn.Exec("delete from tranche_notices")); err != nil {
		w.t.Fatal(err)
	}
}

// A webhook that is down holds up no run and fails none; when it is back it gets its message. One that is none shows
// in Temporal, and nowhere else.
func TestWebhookDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a, ops := newAPI(t), newReceiver(t)
	ops.answer = func(int) int { return 0 }
	w.worker(w.notifying(a.URL, ops))
	a.intercept(answer404)
	r := w.run(w.orders(notify), "2026-01-15", 5)
	w.eventually("it was tried again", func() bool {
		requests, _ := ops.seen()
		return len(requests) >= 3
	})
	a.intercept(nil)
	w.run(w.orders(notify), "2026-01-16", 0)
	ops.set(nil)
	if m := w.untilTaken(ops, 1); m.RunID != r.RunID {
		t.Errorf("%+v", m)
	}

	a.intercept(answer404)
	lost := w.run(w.orders("notify: { connection: api }\n"), "2026-01-17", 5)
	if lost.Result != nil && lost.Result.Steps[0].Note == "" || !strings.Contains(lost.Error, "404") {
		t.Errorf("the run answers %+v", lost)
	}
	id := "tranche/notify/" + w.name + "/failure/2026-01-18T00:00:00Z/" + lost.RunID
	if got := w.delivery(id); got != enums.WORKFLOW_EXECUTION_STATUS_FAILED {
		t.Errorf("the delivery ended as %s", got)
	}
	if err := w.temporal.GetWorkflow(w.ctx, id, "").Get(w.ctx, nil); err == nil || !strings.Contains(err.Error(), `connection "api" is not a webhook connection`) {
		t.Error(err)
	}
}

// That the warehouse is away is told while the run still waits for it.
func TestFailureIsToldWithoutTheWarehouse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a, ops := newAPI(t), newReceiver(t)
	connections := w.notifying(a.URL, ops)
	w.write("connections.yaml", strings.Replace(w.read(connections), `sqlite: { path: "${WAREHOUSE}" }`,
		`postgres: { url: "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2" }`, 1))
	w.worker(connections)
	r := w.start(w.orders(notify, "defaults: { retry: { maximum_attempts: 2, initial_interval: 10ms } }\n"), "2026-01-15")
	if m := w.untilTaken(ops, 1); m.Event != "failure" || m.RunID != r.RunID || m.Attempts != 2 {
		t.Errorf("%+v", m)
	}
	described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
	if err != nil || described.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Errorf("the run has ended before: %v, %v", described.Status, err)
	}
	if err := w.temporal.TerminateWorkflow(w.ctx, r.WorkflowID, r.RunID, "the test is done"); err != nil {
		t.Error(err)
	}
}

// Of a run that was terminated the reconciler tells, once; of one that was cancelled, and of one of a backfill, nobody.
func TestEndedRunsAreToldOf(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a, ops := newAPI(w.t), newReceiver(w.t)
		w.worker(w.notifying(a.URL, ops))
		r := newReconciling(w)
		r.watched.TaskQueue, r.watched.Notify = w.name, &pipeline.Notify{Connection: "ops"}
		terminated := r.stall(w.name, 3)
		definition := r.definition(r.orders())
		definition.TaskQueue = w.name + "-nobody"
		backfilled, err := r.temporal.Start(w.ctx, launch.Request{Definition: definition, Interval: january(4), Kind: step.Backfill})
		if err != nil {
			w.t.Fatal(err)
		}
		r.terminate(terminated.WorkflowID)
		r.terminate(backfilled.WorkflowID)
		for r.reconcile().Open > 0 && w.ctx.Err() == nil { // the list of open runs lags behind
		}
		m := w.untilTaken(ops, 1)
		if m.Event != "failure" || m.Interval != january(3) || m.RunID != terminated.RunID || m.Kind != step.Scheduled || m.ErrorType != "Terminated" || m.Reason != "by the test" {
			w.t.Errorf("%+v", m)
		}
		r.reconcile()
		w.eventually("there is one delivery", func() bool {
			page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default",
				Query: "WorkflowId STARTS_WITH 'tranche/notify/" + w.name + "/'"})
			return err == nil && len(page.GetExecutions()) == 1
		})
	})
}

// Of a run that was terminated while a catchup waited for it the catchup tells: the reconciler finds its outcome there.
func TestCatchupTellsOfTerminatedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a, ops := newAPI(t), newReceiver(t)
	entered := make(chan struct{})
	var once sync.Once
	a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		once.Do(func() { close(entered) })
		<-r.Context().Done()
		return true
	})
	w.worker(w.notifying(a.URL, ops))
	catchup := w.backfill("catchup/"+w.name, w.orders(notify), "2026-01-15", "2026-01-16", func(in *workflows.BackfillInput) { in.Kind = step.Catchup })
	w.await("the run is at work", entered)
	if err := w.temporal.TerminateWorkflow(w.ctx, step.WorkflowID(w.name, january(15).End), "", "by the test"); err != nil {
		t.Fatal(err)
	}
	if result := w.resultOf(catchup); result.Failed != 1 {
		t.Errorf("the catchup answers %+v", result)
	}
	if m := w.untilTaken(ops, 1); m.Event != "failure" || m.Kind != step.Catchup || m.ErrorType != "Terminated" || m.Reason != "by the test" || m.Interval != january(15) {
		t.Errorf("%+v", m)
	}
}
