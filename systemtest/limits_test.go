package systemtest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// limits are the defaults of a pipeline: how often, how long, and what else its retry policy says.
func limits(attempts int, startToClose time.Duration, more string) string {
	return fmt.Sprintf("defaults: { retry: { maximum_attempts: %d, initial_interval: 20ms%s }, timeout: { start_to_close: %s } }\n", attempts, more, startToClose)
}

// onTime wants an attempt to have ended when its time was up: not at once, and long before anything else would have ended it.
// Other limits are 30 s and above.
func onTime(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	if took < limit/2 || took > limit+10*time.Second {
		t.Errorf("%s took %s, with a limit of %s", what, took, limit)
	}
}

// TestSourcesThatHang: no answer, a body that trickles, a body that stops. Each attempt ends at its start_to_close, the run
// fails as a timeout, the table stays, and nothing of it is left on the worker, which has one slot.
func TestSourcesThatHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	api := newWire(t, threeRows)
	w.worker(w.connect(api.url()), "--max-activities", "1")
	const limit = 2 * time.Second
	file := w.orders(limits(2, limit, ""))
	w.run(file, "2026-01-15", 0)
	loaded := w.content()
	for name, hang := range map[string]func(*call){"no answer": silent, "a body that trickles": trickle, "ten rows": tenRows} {
		api.behave(hang)
		before := len(api.seen())
		r := w.run(file, "2026-01-15", 5)
		w.failedAs(r, "Timeout")
		if !strings.Contains(r.Error, "start_to_close of 2s") || !strings.Contains(r.Error, "list api") {
			t.Errorf("%s: the error does not say what took how long: %s", name, r.Error)
		}
		if got := r.Result.Steps[0].Attempts; got != 2 {
			t.Errorf("%s: the run tells of %d attempts, want 2", name, got)
		}
		calls := api.seen()[before:]
		if len(calls) != 2 {
			t.Errorf("%s: %d requests, want 2", name, len(calls))
		}
		for _, c := range calls {
			<-c.closed
			onTime(t, name+": a connection", c.lasted, limit)
		}
		if got := w.content(); got != loaded {
			t.Errorf("%s: the table was changed", name)
		}
	}
	api.behave(threeRows)
	if r := w.run(file, "2026-01-16", 0); r.Result.Rows != 3 {
		t.Errorf("afterwards a run answers %+v", r.Result)
	}
}

// TestALockedTable: another session holds the table that is to be loaded.
func TestALockedTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverPostgres)
	api := newWire(t, threeRows)
	w.worker(w.connect(api.url()), "--max-activities", "1")
	const limit = 2 * time.Second
	file := w.orders(limits(2, limit, ""))
	w.run(file, "2026-01-15", 0)
	sessions, release := w.lockOrders()
	r := w.run(file, "2026-01-15", 5)
	w.failedAs(r, "Timeout")
	if got := r.Result.Steps[1]; got.Attempts != 2 || got.State != "failed" {
		t.Errorf("the load is %+v, want 2 attempts", got)
	}
	for _, took := range w.attempts(r, "load") {
		onTime(t, "an attempt to load", took, limit)
	}
	w.eventually("no statement of ours is left", func() bool { return sessions() == 0 })
	release()
	if got := w.content().rows; got != 3 {
		t.Errorf("the table holds %d rows, want 3", got)
	}
	w.run(file, "2026-01-15", 0)
}

// lockOrders locks the table orders in a session of the test. sessions counts the others that are at work.
func (w *world) lockOrders() (sessions func() int, release func()) {
	w.t.Helper()
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := pgx.Connect(w.ctx, w.config.DSN)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = conn.Close(w.ctx) })
		conns[i] = conn
	}
	holder, looker := conns[0], conns[1]
	if _, err := holder.Exec(w.ctx, "begin; lock table orders in access exclusive mode"); err != nil {
		w.t.Fatal(err)
	}
	sessions = func() (n int) {
		w.t.Helper()
		if err := looker.QueryRow(w.ctx, `select count(*) from pg_stat_activity where datname = current_database()
			and backend_type = 'client backend' and state <> 'idle' and pid <> all($1)`,
			[]int32{int32(holder.PgConn().PID()), int32(looker.PgConn().PID())}).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	return sessions, func() {
		if _, err := holder.Exec(w.ctx, "rollback"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// attempts returns how long the last attempts of the activities of a type took, by the server's clock.
func (w *world) attempts(r report, activityType string) []time.Duration {
	w.t.Helper()
	scheduled, began := map[int64]bool{}, map[int64]time.Time{}
	var took []time.Duration
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		var id int64
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			scheduled[event.GetEventId()] = event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activityType
			continue
		case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			began[event.GetActivityTaskStartedEventAttributes().GetScheduledEventId()] = event.GetEventTime().AsTime()
			continue
		case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
			id = event.GetActivityTaskFailedEventAttributes().GetScheduledEventId()
		case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
			id = event.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId()
		}
		if scheduled[id] {
			took = append(took, event.GetEventTime().AsTime().Sub(began[id]))
		}
	}
	if len(took) == 0 {
		w.t.Fatalf("the history tells of no attempt of %s that failed", activityType)
	}
	return took
}

// fileOrders is a pipeline over a file, which is not staged: only the load writes.
func (w *world) fileOrders(more string) string {
	w.write("files/2026-01-15.csv", "id,at,note\n1,2026-01-15T00:00:00Z,a\n")
	return w.write("pipeline.yaml", fmt.Sprintf(`pipeline: %[1]s
warehouse: warehouse
task_queue: %[1]s
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
%[2]ssteps:
  - name: extract
    file:
      connection: files
      path: "{{ date .Interval.Start }}.csv"
      columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }]
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`, w.name, more))
}

// lockSQLite takes the write lock of the SQLite file, as another process than the worker.
func (w *world) lockSQLite() (release func()) {
	w.t.Helper()
	conn, err := sqlite3.Open("file:" + w.config.DSN)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.BusyTimeout(time.Minute); err != nil {
		w.t.Fatal(err)
	}
	if err := conn.Exec("begin immediate"); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := conn.Exec("rollback"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestALockedSQLiteFile: another process is writing to the file and does not end.
func TestALockedSQLiteFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect("http://127.0.0.1:1"), "--max-activities", "1")
	const limit = 2 * time.Second
	file := w.fileOrders(limits(2, limit, ""))
	w.run(file, "2026-01-15", 0)
	release := w.lockSQLite()
	started := w.start(file, "2026-01-15")
	// The outcome has to be written to the same file, so the run waits with it.
	w.eventually("both attempts are over", func() bool { return len(w.ended(started, "load")) == 1 })
	release()
	w.failedAs(started, "Timeout")
	for _, took := range w.attempts(started, "load") {
		onTime(t, "an attempt to load", took, limit)
	}
	w.run(file, "2026-01-15", 0)
}

// ended returns the events that end activities of a type with a failure.
func (w *world) ended(r report, activityType string) (ids []int64) {
	w.t.Helper()
	scheduled := map[int64]bool{}
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			scheduled[event.GetEventId()] = event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activityType
		case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
			if scheduled[event.GetActivityTaskFailedEventAttributes().GetScheduledEventId()] {
				ids = append(ids, event.GetEventId())
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
			if scheduled[event.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId()] {
				ids = append(ids, event.GetEventId())
			}
		}
	}
	return ids
}

// TestAProgramThatHangs: it ignores SIGTERM, and so does what it has started.
func TestAProgramThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec", "--max-activities", "1")
	const limit = 4 * time.Second
	file := w.program(stubborn, "    retry: { maximum_attempts: 1 }\n    timeout: { start_to_close: 4s }\n")
	r := w.run(file, "2026-01-15", 5)
	w.failedAs(r, "Timeout")
	if processes := w.family(); !dead(processes) {
		t.Errorf("the run has ended, and of the processes %v some still run", processes)
	}
	for _, took := range w.attempts(r, "exec") {
		onTime(t, "the program", took, limit)
	}
	w.run(w.program("exit 0", ""), "2026-01-15", 0)
}

// TestAShortLimit: work of one second with a limit of 0.3 s ends as a timeout at about 0.3 s.
func TestAShortLimit(t *testing.T) {
	t.Parallel()
	const limit, work = 300 * time.Millisecond, time.Second
	check := func(w *world, file, activityType string) {
		w.t.Helper()
		r := w.run(file, "2026-01-15", 5)
		w.failedAs(r, "Timeout")
		for _, took := range w.attempts(r, activityType) {
			w.t.Logf("%s of work with a limit of %s ended after %s", work, limit, took)
			if took < limit/2 || took > 900*time.Millisecond {
				w.t.Errorf("it ended after %s", took)
			}
		}
	}
	// Where the worker is late, the server ends the attempt; its timers may go off up to a second late, unless it is
	// told otherwise.
	exact := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, warehouse.DriverSQLite)
		w.onServer("--port", "0", "--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`)
		return w
	}
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		w := exact(t)
		api := newWire(t, func(c *call) {
			timer := time.NewTimer(work)
			defer timer.Stop()
			select {
			case <-timer.C:
				threeRows(c)
			case <-c.closed:
			}
		})
		w.worker(w.connect(api.url()))
		check(w, w.orders(limits(1, limit, "")), "extract-http")
	})
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		w := exact(t)
		w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec")
		file := w.program("sleep 1", "    retry: { maximum_attempts: 1 }\n    timeout: { start_to_close: 300ms }\n")
		check(w, file, "exec")
	})
}

// TestALateAttempt: the API answers the first attempt only after that attempt's time; the second at once. The rows are
// there once, and the late answer changes nothing.
func TestALateAttempt(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		const limit = 2 * time.Second
		answered := make(chan struct{})
		var first sync.Once
		api := newWire(w.t, func(c *call) {
			late := false
			first.Do(func() { late = true })
			if late {
				<-c.closed
				defer close(answered)
			}
			threeRows(c)
		})
		w.worker(w.connect(api.url()))
		r := w.run(w.orders(limits(3, limit, "")), "2026-01-15", 0)
		if got := r.Result.Steps[0].Attempts; got != 2 || len(api.seen()) != 2 {
			w.t.Errorf("%d attempts and %d requests, want 2", got, len(api.seen()))
		}
		onTime(w.t, "the first connection", api.seen()[0].lasted, limit)
		<-answered
		if got := w.content().rows; got != 3 {
			w.t.Errorf("the table holds %d rows, want 3", got)
		}
	})
}

// TestRunTimeout: a source that always hangs for one day. The run ends as RunTimeout when its time is over, asks for
// nothing more, and gives its slot to the next one.
func TestRunTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	hangs := func(c *call) bool { return strings.HasPrefix(c.request.URL.Query().Get("from"), "2026-01-15") }
	api := newWire(t, func(c *call) {
		if hangs(c) {
			silent(c)
		} else {
			threeRows(c)
		}
	})
	w.worker(w.connect(api.url()))
	const limit = 5 * time.Second
	file := w.orders("run_timeout: 5s\n", limits(5, 2*time.Second, ""))
	started := w.start(file, "2026-01-15")
	w.eventually("the run has its slot", func() bool { return len(api.seen()) > 0 })
	next := w.start(file, "2026-01-16")
	w.failedAs(started, "RunTimeout")
	if err := w.failure(started); err == nil || !strings.Contains(err.Error(), "its run_timeout of 5s; step extract was running") {
		t.Errorf("the run ends with %v, which does not say at what", err)
	}
	if r := w.run(file, "2026-01-16", 0); r.Result.Rows != 3 {
		t.Errorf("the next run, %s, answers %+v", next.RunID, r)
	}
	asked := 0
	for _, c := range api.seen() {
		if hangs(c) {
			asked++
			<-c.closed
		}
	}
	if asked < 2 || asked > 3 {
		t.Errorf("%d requests, want 3 or, on a slow machine, 2", asked)
	}
	var began, over time.Time
	for _, event := range w.events(started.WorkflowID, started.RunID) {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			began = event.GetEventTime().AsTime()
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
			over = event.GetEventTime().AsTime()
		}
	}
	onTime(t, "the run", over.Sub(began), limit)
}

// TestWhatFollowsATimeout: the file decides, whichever name of the timeout it uses.
func TestWhatFollowsATimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	api := newWire(t, silent)
	w.worker(w.settings(w.connect(api.url()), "circuit_breaker: off"))
	day := 1
	for more, want := range map[string]int{
		"":                                       2,
		", non_retryable_error_types: [Timeout]": 1,
		`, non_retryable_error_types: ["TemporalTimeout:StartToClose"]`: 1,
		", retry_only: [Network]":                                                                                1,
		", retry_only: [Timeout]":                                                                                2,
		", rules: [{ error_types: [Timeout], action: fail }]":                                                    1,
		`, rules: [{ error_types: ["TemporalTimeout:StartToClose"], action: fail }]`:                             1,
		`, rules: [{ error_types: [Timeout], action: retry }, { error_types: ["*"], action: fail }]`:             2,
		`, rules: [{ error_types: ["TemporalTimeout:StartToClose"], action: retry }], retry_only: [CheckFailed]`: 2,
	} {
		before := len(api.seen())
		r := w.run(w.orders(limits(2, time.Second, more)), fmt.Sprintf("2026-01-%02d", day), 5)
		w.failedAs(r, "Timeout")
		if got := len(api.seen()) - before; got != want || r.Result.Steps[0].Attempts != want {
			t.Errorf("%q: %d requests and %d attempts, want %d", more, got, r.Result.Steps[0].Attempts, want)
		}
		day++
	}
}

// TestOnFailureAfterATimeout: skip and continue hold for a timeout as for any other failure.
func TestOnFailureAfterATimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	api := newWire(t, silent)
	w.worker(w.connect(api.url()), "--allow-exec")
	after := "  - name: after\n    needs: [slow]\n    exec: { command: [/bin/sh, -c, \"exit 0\"] }\n"
	for policy, want := range map[string][2]string{"skip": {"failed", "skipped"}, "continue": {"failed", "done"}} {
		text := w.read(w.program("sleep 600", "    on_failure: "+policy+"\n    retry: { maximum_attempts: 1 }\n    timeout: { start_to_close: 500ms }\n"+after))
		r := w.run(w.write(policy+".yaml", strings.Replace(text, "name: program", "name: slow", 1)), "2026-01-15", 0)
		if got := [2]string{r.Result.Steps[0].State, r.Result.Steps[1].State}; got != want || !strings.HasPrefix(r.Result.Steps[0].Note, "Timeout:") {
			t.Errorf("on_failure: %s leads to %v, noted %q, want %v", policy, got, r.Result.Steps[0].Note, want)
		}
	}
	file := w.write("source.yaml", strings.Replace(w.read(w.orders(limits(1, time.Second, ""))), "    http:", "    on_failure: skip\n    http:", 1))
	r := w.run(file, "2026-01-15", 5)
	w.failedAs(r, "LoadFailed")
	if got := [2]string{r.Result.Steps[0].State, r.Result.Steps[1].State}; got != [2]string{"failed", "skipped"} {
		t.Errorf("a skipped source leads to %v", got)
	}
}

// TestTemporalEndsAnAttempt: the worker is stopped and cannot end its attempt, so the server does. That is the same
// to everybody: the type, and what the file says of it.
func TestTemporalEndsAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	api := newWire(t, silent)
	p := w.worker(w.connect(api.url()))
	file := w.orders("defaults: { retry: { maximum_attempts: 1 }, timeout: { start_to_close: 4s } }\n")
	started := w.start(file, "2026-01-15")
	w.eventually("the API was asked", func() bool { return len(api.seen()) == 1 })
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.awaitEvent(started, enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.failedAs(started, "Timeout")
	<-api.seen()[0].closed
}

// TestADeadlineEndsNothing: a run that is late for its deadline goes on, and loads.
func TestADeadlineEndsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	late := make(chan struct{})
	a.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		select {
		case <-late:
		case <-r.Context().Done():
		}
		writePage(rw, r, 1, "row")
		return true
	})
	w.worker(w.connect(a.URL))
	start := ago(0)
	w.apply(w.ticking(every(start, ", catchup: none"), "deadline: 1s\n"))
	told := func() (n int) {
		for _, err := range w.database.Noticed(w.ctx, w.name, "deadline", start, start.Add(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for told() == 0 {
		w.sched("reconcile", w.name)
	}
	close(late)
	w.sched("pause", w.name, "--reason", "enough")
	w.eventually("the late runs have loaded", func() bool {
		outcomes := w.outcomes(start, start.Add(time.Hour))
		for _, o := range outcomes {
			if o.Status != "loaded" {
				t.Fatalf("%s is %s: %s", o.Interval, o.Status, o.Note)
			}
		}
		return len(outcomes) > 0
	})
}

// TestASessionThatHangs: the database's process for the load stands still, so that it takes no cancel request either. The
// attempt ends in time all the same, and when the process goes on, so does everything else.
func TestASessionThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverPostgres)
	api := newWire(t, threeRows)
	w.worker(w.connect(api.url()), "--max-activities", "1")
	const limit = 2 * time.Second
	file := w.orders(limits(1, limit, ""))
	w.run(file, "2026-01-15", 0)
	_, release := w.lockOrders()
	started := w.start(file, "2026-01-15")
	looker, err := pgx.Connect(w.ctx, w.config.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer looker.Close(w.ctx)
	var pid int
	w.eventually("the load waits for the table", func() bool {
		err := looker.QueryRow(w.ctx, `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&pid)
		return err == nil
	})
	title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if !strings.Contains(string(title), "postgres") || !strings.Contains(string(title), looker.Config().Database) {
		t.Skipf("skipped: the database does not run on this host")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Skipf("skipped: the test may not stop the database's process: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	w.eventually("the attempt is over", func() bool { return len(w.ended(started, "load")) == 1 })
	for _, took := range w.attempts(started, "load") {
		onTime(t, "an attempt to load", took, limit)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	release()
	w.failedAs(started, "Timeout")
	w.run(file, "2026-01-15", 0)
	if got := w.content().rows; got != 3 {
		t.Errorf("the table holds %d rows, want 3", got)
	}
}
