package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// shop is an API that a test switches.
type shop struct {
	mutex  sync.Mutex
	status int
	hang   chan struct{} // when it is not nil, answers wait for it
	asked  atomic.Int64
}

func (s *shop) set(status int, hang chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.status, s.hang = status, hang
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	status, hang := s.status, s.hang
	s.mutex.Unlock()
	s.asked.Add(1)
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(status)
	fmt.Fprint(w, "[]")
}

// open makes the API fail until the circuit is open, and the circuit half-open.
func (s *shop) open(t *testing.T, c *HTTP) {
	t.Helper()
	s.set(http.StatusServiceUnavailable, nil)
	for range 5 {
		_, err := get(t, c, "/x")
		wantVerdict(t, err, retry.Transient, TypeHTTPStatus)
	}
	_, err := get(t, c, "/x")
	wantVerdict(t, err, retry.Throttled, TypeCircuitOpen)
	if s.asked.Load() != 5 {
		t.Fatalf("the API was asked %d times", s.asked.Load())
	}
	time.Sleep(retry.Classify(err).After) // as a step does that is told to come back
	s.asked.Store(0)
}

// Twenty steps wait for an API that does not answer yet: it is asked once, and what becomes of that
// decides for all.
func TestOneRequestForManyThatWait(t *testing.T) {
	t.Parallel()
	const steps = 20
	for name, test := range map[string]struct {
		status int
		sent   int64
	}{"it is back": {200, steps}, "it is not": {503, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{}
			c := api(t, serve(t, s.ServeHTTP).URL, "circuit_breaker: { cool_down: 300ms }")
			s.open(t, c)
			hang := make(chan struct{})
			s.set(test.status, hang)
			waiting := make(chan string, steps)
			ctx := WithWaits(t.Context(), func(why string) func() { waiting <- why; return func() {} })
			u, _ := c.URL("/x", nil)
			var group sync.WaitGroup
			var failed, refused atomic.Int64
			for range steps {
				group.Go(func() {
					_, err := read(ctx, c, Request{URL: u})
					switch verdict := retry.Classify(err); {
					case verdict.Type == TypeCircuitOpen && verdict.Class == retry.Throttled && verdict.After > 0:
						refused.Add(1)
					case err != nil:
						failed.Add(1)
					}
				})
			}
			for range steps - 1 {
				if why := <-waiting; !strings.Contains(why, "half-open") {
					t.Error(why)
				}
			}
			if got := s.asked.Load(); got > 1 {
				t.Errorf("%d requests while the outcome of the first is open", got)
			}
			s.set(test.status, nil)
			close(hang)
			group.Wait()
			wantFailed, wantRefused := int64(0), int64(0)
			if test.status != 200 {
				wantFailed, wantRefused = 1, steps-1
			}
			if s.asked.Load() != test.sent || failed.Load() != wantFailed || refused.Load() != wantRefused {
				t.Errorf("%d requests, %d failed, %d refused; want %d, %d, %d", s.asked.Load(), failed.Load(), refused.Load(), test.sent, wantFailed, wantRefused)
			}
		})
	}
}

// What a request tells about the API, with a circuit that opens at the first failure.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	answer := func(status int, more string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 2\r\n%s\r\n[]", status, more)
	}
	for name, test := range map[string]struct {
		answer string
		hold   bool
		want   CircuitState
	}{
		"200":                        {answer(200, ""), false, CircuitClosed},
		"400":                        {answer(400, ""), false, CircuitClosed},
		"401":                        {answer(401, ""), false, CircuitClosed},
		"404":                        {answer(404, ""), false, CircuitClosed},
		"408":                        {answer(408, ""), false, CircuitClosed},
		"429":                        {answer(429, ""), false, CircuitClosed},
		"500":                        {answer(500, ""), false, CircuitOpen},
		"502":                        {answer(502, ""), false, CircuitOpen},
		"503":                        {answer(503, ""), false, CircuitOpen},
		"503 that says for how long": {answer(503, "Retry-After: 1\r\n"), false, CircuitClosed},
		"509, listed as throttling":  {answer(509, ""), false, CircuitClosed},
		"redirect to nowhere":        {answer(302, "Location: http://elsewhere.example/\r\n"), false, CircuitClosed},
		"encoded":                    {answer(200, "Content-Encoding: br\r\n"), false, CircuitClosed},
		"no answer":                  {"", false, CircuitOpen},
		"silence":                    {"", true, CircuitOpen},
		"short body":                 {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[", false, CircuitOpen},
		"body that stalls":           {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[", true, CircuitOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api(t, wire(t, test.hold, test.answer), "timeout: 200ms, idle_timeout: 200ms, throttle_on_status: [509], circuit_breaker: { consecutive_failures: 1 }")
			_, err := get(t, c, "/x")
			if got := c.Circuit(); got != test.want {
				t.Errorf("%s, want %s, after %v", got, test.want, err)
			}
		})
	}
}

func TestOutcomesOfWhoeverAsks(t *testing.T) {
	t.Parallel()
	const settings = "timeout: 1m, circuit_breaker: { consecutive_failures: 1 }"
	send := func(ctx context.Context, c *HTTP) (*http.Response, error) {
		u, _ := c.URL("/x", nil)
		return c.Do(ctx, Request{URL: u})
	}
	t.Run("the step has no time left", func(t *testing.T) {
		t.Parallel()
		c := api(t, wire(t, true, ""), settings)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := send(ctx, c); !errors.Is(err, context.DeadlineExceeded) || c.Circuit() != CircuitOpen {
			t.Error(c.Circuit(), err)
		}
	})
	t.Run("the step is canceled", func(t *testing.T) {
		t.Parallel()
		c := api(t, wire(t, true, ""), settings)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := send(ctx, c); !errors.Is(err, context.Canceled) || c.Circuit() != CircuitClosed {
			t.Error(c.Circuit(), err)
		}
	})
	t.Run("the body is not wanted", func(t *testing.T) {
		t.Parallel()
		c := api(t, wire(t, true, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n["), settings)
		response, err := send(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if c.Circuit() != CircuitClosed {
			t.Error(c.Circuit())
		}
	})
	t.Run("there was no permit in time", func(t *testing.T) {
		t.Parallel()
		c := api(t, wire(t, true, ""), settings)
		c.permits.hold(time.Second, "test")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := send(ctx, c); !errors.Is(err, context.DeadlineExceeded) || c.Circuit() != CircuitClosed {
			t.Error(c.Circuit(), err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		c := api(t, "http://"+listener.Addr().String(), settings)
		if _, err := send(t.Context(), c); c.Circuit() != CircuitOpen {
			t.Error(c.Circuit(), err)
		}
	})
	t.Run("it is switched off", func(t *testing.T) {
		t.Parallel()
		c := api(t, wire(t, false, ""), "circuit_breaker: off")
		for range 10 {
			_, err := send(t.Context(), c)
			wantVerdict(t, err, retry.Transient, retry.TypeNetwork)
		}
	})
}

// An answer whose body nobody closes, in a step that ends, does not keep the circuit half-open for ever.
func TestRequestThatIsNeverClosed(t *testing.T) {
	t.Parallel()
	s := &shop{}
	c := api(t, serve(t, s.ServeHTTP).URL, "circuit_breaker: { cool_down: 200ms }")
	s.open(t, c)
	s.set(200, nil)
	ctx, cancel := context.WithCancel(t.Context())
	u, _ := c.URL("/x", nil)
	response, err := c.Do(ctx, Request{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if body, err := get(t, c, "/x"); err != nil || body != "[]" {
		t.Errorf("%q, %v", body, err)
	}
	response.Body.Close()
	if c.Circuit() != CircuitClosed {
		t.Error(c.Circuit())
	}
}
