package systemtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// arrival is a request that reached a source.
type arrival struct {
	at     time.Time
	url    *url.URL
	header http.Header
}

// source is an API whose answers a test writes itself; it remembers when it was asked, and for what.
type source struct {
	*httptest.Server
	mutex    sync.Mutex
	arrivals []arrival
}

// newSource makes a source. Requests are counted from 1.
func newSource(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *source {
	t.Helper()
	s := &source{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		s.mutex.Lock()
		s.arrivals = append(s.arrivals, arrival{at, r.URL, r.Header.Clone()})
		n := len(s.arrivals)
		s.mutex.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s
}

// came returns the requests so far; with a path, those for it.
func (s *source) came(path ...string) []arrival {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var came []arrival
	for _, each := range s.arrivals {
		if len(path) == 0 || each.url.Path == path[0] {
			came = append(came, each)
		}
	}
	return came
}

// gaps returns the time between each request and the next one.
func gaps(came []arrival) []time.Duration {
	var between []time.Duration
	for i := 1; i < len(came); i++ {
		between = append(between, came[i].at.Sub(came[i-1].at))
	}
	return between
}

// busiest returns the greatest number of requests in any stretch of this length.
func busiest(came []arrival, stretch time.Duration) int {
	most, first := 0, 0
	for i := range came {
		for came[i].at.Sub(came[first].at) >= stretch {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// rowsOf is a JSON document with rows of a day, whose ids begin after the given one.
func rowsOf(day string, after, rows int, more ...string) string {
	var list []string
	for i := range rows {
		list = append(list, fmt.Sprintf(`{"id":%d,"at":"%sT%02d:%02d:00Z","note":"n"}`, after+i+1, day, i/60%24, i%60))
	}
	return `{"rows":[` + strings.Join(list, ",") + `]` + strings.Join(more, "") + `}`
}

func answerJSON(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text))
}

// dayOf is the day that a request asks for.
func dayOf(r *http.Request) string {
	return strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z")
}

// breakOff writes raw bytes as the answer and ends the connection: in order, or with a reset.
func breakOff(w http.ResponseWriter, raw string, reset bool) {
	connection, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	writer := bufio.NewWriter(connection)
	_, _ = writer.WriteString(raw)
	_ = writer.Flush()
	_ = buffer.Flush()
	if tcp, ok := connection.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
}

// in returns the same world for a subtest, whose patience begins now: it may have waited for its turn.
func (w *world) in(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	same := *w
	same.t, same.ctx = t, ctx
	return &same
}

// settings adds settings to the connection api of a connections.yaml.
func (w *world) settings(connections, settings string) string {
	w.t.Helper()
	return w.write("connections.yaml", strings.Replace(w.read(connections), `api: { http: {`, `api: { http: { `+settings+`,`, 1))
}

// also writes another pipeline beside orders, on the same task queue and with a table of its own name; changes are
// pairs of a text and what takes its place.
func (w *world) also(name string, changes ...string) string {
	w.t.Helper()
	text := w.ordersText()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			w.t.Fatalf("the pipeline has no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	text = strings.Replace(text, "pipeline: "+w.name, "pipeline: "+w.name+"-"+name, 1)
	text = strings.Replace(text, "table: orders", "table: "+strings.ReplaceAll(name, "-", "_"), 1)
	return w.write(name+".yaml", text)
}

// rowsIn counts the rows of a table; none when there is no table.
func (w *world) rowsIn(table string) int64 {
	w.t.Helper()
	rows, _, err := w.database.Checksum(w.ctx, table, columns, nil)
	if err != nil {
		return 0
	}
	return rows
}

// output is what a starter printed, line by line and with single blanks.
func (a answer) output() []string {
	var lines []string
	for line := range strings.Lines(a.out + a.talk) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// wantLines fails unless each text is a part of some line, and logs the output.
func (w *world) wantLines(a answer, want ...string) {
	w.t.Helper()
	w.t.Logf("\n%s%s", a.out, a.talk)
	text := strings.Join(a.output(), "\n")
	for _, each := range want {
		if !strings.Contains(text, each) {
			w.t.Errorf("the output does not say %q", each)
		}
	}
}
