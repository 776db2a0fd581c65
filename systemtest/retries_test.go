package systemtest

import (
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// TestBrokenConnections: a source breaks the connection twice and answers at the third attempt, after pauses of 0.2 s
// and 0.4 s with up to a quarter on top. Temporal lets a timer that is due within the second go off up to a second
// late, unless its server is told otherwise.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	w.onServer("--port", "0", "--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		if n <= 2 {
			breakOff(rw, "", true)
			return
		}
		answerJSON(rw, rowsOf(dayOf(r), 0, 3))
	})
	w.worker(w.connect(s.URL))
	file := w.orders("defaults: { retry: { initial_interval: 200ms, backoff_coefficient: 2, jitter: 0.25, maximum_attempts: 3 } }\n")
	got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
	w.wantLines(got, "started "+w.name+"-2026-01-16T00:00:00Z", "loaded, 3 rows",
		"STEP STATE ATTEMPTS ROWS TABLE INSERTED DELETED NOTE", "extract done 3 3", "load done 1 3 orders 3 0")
	if got.code != 0 {
		t.Fatalf("starter run exits %d", got.code)
	}
	paused := gaps(s.came())
	if len(paused) != 2 {
		t.Fatalf("%d requests, want 3", len(paused)+1)
	}
	t.Logf("the requests came after %v", paused)
	// What is on top of what was asked for is Temporal's, and the machine's.
	const noise = 10 * time.Second
	for i, least := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
		if paused[i] < least || paused[i] > least*5/4+noise {
			t.Errorf("pause %d took %s, want %s and up to a quarter more", i+1, paused[i], least)
		}
	}
	for _, event := range w.events(w.name+"-2026-01-16T00:00:00Z", "") {
		started := event.GetActivityTaskStartedEventAttributes()
		if started.GetLastFailure() == nil {
			continue
		}
		failure := started.GetLastFailure().GetApplicationFailureInfo()
		asked := failure.GetNextRetryDelay().AsDuration()
		if asked < 400*time.Millisecond || asked > 500*time.Millisecond || started.GetAttempt() != 3 || failure.GetType() != "Network" {
			t.Errorf("attempt %d came after a failure of the type %s with a pause of %s", started.GetAttempt(), failure.GetType(), asked)
		}
		return
	}
	t.Error("the history knows of no failure")
}

// TestMissingColumn: a table without a column that the load writes fails at the first attempt.
func TestMissingColumn(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		s := newSource(w.t, func(rw http.ResponseWriter, r *http.Request, _ int) { answerJSON(rw, rowsOf(dayOf(r), 0, 3)) })
		w.worker(w.connect(s.URL))
		file := w.orders()
		before := strings.Replace(w.read(file), "        - { name: note, type: text }\n", "", 1)
		w.run(w.write("before.yaml", before), "2026-01-14", 0)
		got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
		w.wantLines(got, "failed, 0 rows", "extract done 1 3", "load failed 1", `"note"`, "not tried again: another try would fail in the same way")
		if requests := len(s.came()); got.code != 5 || requests != 2 {
			w.t.Errorf("starter run exits %d after %d requests", got.code, requests)
		}
		var attempts []int32
		for _, event := range w.events(w.name+"-2026-01-16T00:00:00Z", "") {
			if event.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_STARTED {
				attempts = append(attempts, event.GetActivityTaskStartedEventAttributes().GetAttempt())
			}
		}
		if fmt.Sprint(attempts) != "[1 1]" {
			w.t.Errorf("extract and load took %v attempts, want one each", attempts)
		}
	})
}

// TestWhatIsTriedAgain counts the requests of each kind of answer.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	// The path says which status is answered.
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		status, err := strconv.Atoi(path.Base(r.URL.Path))
		if err != nil {
			status = http.StatusTeapot
		}
		rw.WriteHeader(status)
	})
	// A source of its own, so that no connection is kept: net/http sends a request again by itself when one that was
	// kept breaks at its first byte.
	broken := newSource(t, func(rw http.ResponseWriter, _ *http.Request, _ int) { breakOff(rw, "", true) })
	connections := w.settings(w.connect(s.URL), "circuit_breaker: off")
	w.write("connections.yaml", strings.Replace(w.read(connections), "  twin:", fmt.Sprintf(
		"  broken: { http: { base_url: %q, circuit_breaker: off } }\n  lenient: { http: { base_url: %q, circuit_breaker: off, retry_on_status: [500] } }\n  twin:",
		broken.URL, s.URL), 1))
	w.worker(connections)
	for _, test := range []struct {
		what, connection string
		requests         int
	}{
		{"400", "api", 1}, {"401", "api", 1}, {"403", "api", 1}, {"404", "api", 1}, {"422", "api", 1}, {"500", "api", 1}, {"501", "api", 1},
		{"408", "api", 5}, {"425", "api", 5}, {"502", "api", 5}, {"503", "api", 5}, {"504", "api", 5}, {"reset", "broken", 5}, {"500", "lenient", 5},
	} {
		name := test.what + "-" + test.connection
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			where := "/" + test.connection + "/" + test.what
			file := w.also(name, "path: /rows", "path: "+where, "connection: api", "connection: "+test.connection,
				"steps:", "defaults: { retry: { initial_interval: 20ms, maximum_interval: 50ms, maximum_attempts: 5 } }\nsteps:")
			r := w.run(file, "2026-01-15", 5)
			if got := len(s.came(where)) + len(broken.came(where)); got != test.requests || r.Result.Steps[0].Attempts != test.requests {
				t.Errorf("%d requests and %d attempts, want %d", got, r.Result.Steps[0].Attempts, test.requests)
			}
			want := "another try would fail in the same way"
			if test.requests > 1 {
				want = "the last of maximum_attempts"
			}
			if note := r.Result.Steps[0].Note; !strings.Contains(note, want) {
				t.Errorf("the step says %q", note)
			}
			if test.what != "reset" && !strings.Contains(r.Error, test.what) {
				t.Errorf("the error does not name the status: %s", r.Error)
			}
		})
	}
}

// TestAttemptsOverAWait: four failures, a wait and one more failure are five attempts.
func TestAttemptsOverAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 5 {
			rw.Header().Set("Retry-After", "3")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		rw.WriteHeader(http.StatusBadGateway)
	})
	w.worker(w.settings(w.connect(s.URL), "circuit_breaker: off"))
	r := w.run(w.orders("defaults: { retry: { initial_interval: 20ms, maximum_interval: 50ms, maximum_attempts: 5 } }\n"), "2026-01-15", 5)
	came := s.came()
	if len(came) != 6 || r.Result.Steps[0].Attempts != 5 {
		t.Fatalf("%d requests, %d attempts: %+v", len(came), r.Result.Steps[0].Attempts, r)
	}
	if gap := gaps(came)[4]; gap < 3*time.Second {
		t.Errorf("the API was asked again after %s", gap)
	}
	var executions []int32
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if attributes := event.GetActivityTaskScheduledEventAttributes(); attributes != nil {
			executions = append(executions, attributes.GetRetryPolicy().GetMaximumAttempts())
		}
	}
	if fmt.Sprint(executions) != "[5 1]" {
		t.Errorf("the executions were given %v attempts, want 5 and then what was left", executions)
	}
}

// TestAWaitThatWouldEndTooLate: a wait that ends after schedule_to_close is not begun.
func TestAWaitThatWouldEndTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, _ *http.Request, _ int) {
		rw.Header().Set("Retry-After", "3000")
		rw.WriteHeader(http.StatusTooManyRequests)
	})
	w.worker(w.connect(s.URL))
	file := w.orders("defaults: { timeout: { schedule_to_close: 30m } }\n")
	got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
	w.wantLines(got, "WaitTooLong", "429", "waiting 50m0s as its header Retry-After asked", "would end after the step's schedule_to_close of 30m", "extract failed 1 ")
	if requests := len(s.came()); got.code != 5 || requests != 1 {
		t.Errorf("starter run exits %d after %d requests", got.code, requests)
	}
	for _, event := range w.events(w.name+"-2026-01-16T00:00:00Z", "") {
		if event.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED && strings.Contains(string(event.GetUserMetadata().GetSummary().GetData()), "waits") {
			t.Error("the wait was begun")
		}
	}
}

// TestBodiesThatDie: an answer that breaks off is asked for again, and what had come of it is nowhere to be seen.
func TestBodiesThatDie(t *testing.T) {
	t.Parallel()
	line := func(day string, n int) string {
		return fmt.Sprintf(`{"id":%d,"at":"%sT00:00:0%dZ","note":"n"}`+"\n", n, day, n)
	}
	record := func(day string, n int) string { return fmt.Sprintf("%d,%sT00:00:0%dZ,n\n", n, day, n) }
	five := func(head string, row func(string, int) string, day string, rows int) string {
		for n := range rows {
			head += row(day, n+1)
		}
		return head
	}
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	for name, test := range map[string]struct {
		format, records, media string
		whole                  func(day string, rows int) string
		dying                  func(day string) string
	}{
		"content-length": {"", "", "application/json",
			func(day string, rows int) string { return rowsOf(day, 0, rows) },
			func(day string) string {
				body := rowsOf(day, 0, 5)
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:len(body)*6/10])
			}},
		"longer-content-length": {"", "", "application/json",
			func(day string, rows int) string { return rowsOf(day, 0, rows) },
			func(day string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + rowsOf(day, 0, 5)
			}},
		"chunked-ndjson": {"format: ndjson", "", "application/x-ndjson",
			func(day string, rows int) string { return five("", line, day, rows) },
			func(day string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(line(day, 1)) + chunk(line(day, 2))
			}},
		"chunked-csv": {"format: csv", "", "text/csv",
			func(day string, rows int) string { return five("id,at,note\n", record, day, rows) },
			func(day string) string {
				return "HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("id,at,note\n"+record(day, 1)+record(day, 2))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			var seen []int64
			s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
				rows := 5
				switch n {
				case 1:
					rows = 3
				case 2:
					breakOff(rw, test.dying(dayOf(r)), false)
					return
				default:
					count, _, err := w.database.Checksum(w.ctx, "orders", columns, nil)
					if err != nil {
						count = -1
					}
					seen = append(seen, count)
				}
				rw.Header().Set("Content-Type", test.media)
				_, _ = rw.Write([]byte(test.whole(dayOf(r), rows)))
			})
			w.worker(w.connect(s.URL))
			text := w.read(w.orders("defaults: { retry: { initial_interval: 50ms } }\n"))
			text = strings.Replace(text, "      pagination: { kind: page, size_parameter: per_page, size: 100 }\n", "", 1)
			if test.format != "" {
				text = strings.Replace(text, "      records: rows\n", "      "+test.format+"\n", 1)
			}
			file := w.write("pipeline.yaml", text)
			w.run(file, "2026-01-15", 0)
			r := w.run(file, "2026-01-15", 0)
			if came := s.came(); len(came) != 3 || r.Result.Steps[0].Attempts != 2 || r.Result.Rows != 5 || w.content().rows != 5 {
				t.Errorf("%d requests, %+v, %d rows", len(came), r.Result, w.content().rows)
			}
			if len(seen) != 1 || seen[0] != 3 {
				t.Errorf("when it was asked for again the table had %v rows, want the 3 of the run before", seen)
			}
		})
	}
}
