package systemtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// wire is an API that misbehaves below HTTP: it writes to the bare connection what a test says, and sees when the other
// side closes it.
type wire struct {
	listener net.Listener

	mutex  sync.Mutex
	calls  []*call
	answer func(c *call)
}

// call is one request on a connection of its own.
type call struct {
	net.Conn
	request  *http.Request
	accepted time.Time
	// closed is closed when the other side is gone; lasted says for how long it was there.
	closed chan struct{}
	lasted time.Duration
}

func newWire(t *testing.T, answer func(c *call)) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		for _, c := range w.seen() {
			c.Close()
		}
		serving.Wait()
	})
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

func (w *wire) behave(answer func(c *call)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.answer = answer
}

// seen returns the requests so far.
func (w *wire) seen() []*call {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]*call(nil), w.calls...)
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	c := &call{Conn: conn, request: request, accepted: time.Now(), closed: make(chan struct{})}
	w.mutex.Lock()
	w.calls = append(w.calls, c)
	answer := w.answer
	w.mutex.Unlock()
	go func() {
		// Nothing more comes on this connection: what ends the read is its end.
		_, _ = reader.ReadByte()
		c.lasted = time.Since(c.accepted)
		close(c.closed)
	}()
	answer(c)
}

// silent accepts and never answers.
func silent(c *call) { <-c.closed }

// trickle sends headers, and then a byte every now and then without end.
func trickle(c *call) {
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-ticker.C:
			fmt.Fprint(c, " ")
		}
	}
}

// tenRows sends ten rows, and then nothing.
func tenRows(c *call) {
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{\"rows\":["+rowsFor(c, 10)+",")
	<-c.closed
}

// threeRows answers as it should.
func threeRows(c *call) {
	body := `{"rows":[` + rowsFor(c, 3) + `]}`
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func rowsFor(c *call, n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":%d,"at":%q,"note":"wire"}`, i, c.request.URL.Query().Get("from"))
	}
	return strings.Join(rows, ",")
}

// failure returns the error that a run has ended with.
func (w *world) failure(r report) error {
	w.t.Helper()
	err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil)
	if err == nil {
		w.t.Fatalf("%s has succeeded", r.WorkflowID)
	}
	return err
}

// failedAs wants a run to have failed with a type of error.
func (w *world) failedAs(r report, kind string) {
	w.t.Helper()
	var failed *temporal.ApplicationError
	if err := w.failure(r); !errors.As(err, &failed) || failed.Type() != kind {
		w.t.Errorf("the run ends with %v, want the type %s", err, kind)
	}
	if r.Error != "" && !strings.HasPrefix(r.Error, kind+":") {
		w.t.Errorf("the run says %q, want the type %s", r.Error, kind)
	}
}

// pendingStep says whether a step is being worked at.
func (w *world) pendingStep(r report, activityType string) bool {
	w.t.Helper()
	described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pending := range described.RawResponse.GetPendingActivities() {
		if pending.GetActivityType().GetName() == activityType && pending.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			return true
		}
	}
	return false
}

// stubborn is a script that ignores SIGTERM and has a child that does, too; both say who they are.
const stubborn = `trap '' TERM; (while :; do sleep 1; done) & echo $$ >"$FOLDER/draft-self"; echo $! >"$FOLDER/draft-child"; mv "$FOLDER/draft-self" "$FOLDER/self"; mv "$FOLDER/draft-child" "$FOLDER/child"; while :; do sleep 1; done`

// family waits until the script has said who it is.
func (w *world) family() []int {
	w.t.Helper()
	var found []int
	for _, name := range []string{"self", "child"} {
		w.eventually("the program has started", func() bool {
			text, err := os.ReadFile(filepath.Join(w.folder, name))
			if err != nil {
				return false
			}
			id, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				w.t.Fatal(err)
			}
			found = append(found, id)
			return true
		})
	}
	return found
}

// dead says whether none of the processes runs any more.
func dead(processes []int) bool {
	for _, id := range processes {
		if syscall.Kill(id, 0) != nil {
			continue
		}
		// A process whose end its parent has not asked for yet is dead all the same.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return errors.Is(err, os.ErrNotExist) && syscall.Kill(id, 0) != nil
		}
		if _, state, found := strings.Cut(string(stat), ") "); !found || !strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return true
}

// cancel cancels a run as Temporal's UI does.
func (w *world) cancel(r report) {
	w.t.Helper()
	if err := w.temporal.CancelWorkflow(w.ctx, r.WorkflowID, r.RunID); err != nil {
		w.t.Fatal(err)
	}
}
