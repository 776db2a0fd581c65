package connection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/trancheflow/tranche/retry"
)

// Defaults of a circuit breaker.
const (
	defaultFailures = 5
	defaultCoolDown = time.Minute
	// probeRecheck is how long those stay away who find that the one request of a half-open circuit has had
	// no answer for longer than they can wait: it ends by the connection's own time limits.
	probeRecheck = 10 * time.Second
)

// outcome is what a request tells about the state of the API.
type outcome uint8

const (
	// neutral tells nothing: an answer 4xx, a refusal with a limit, a request that was not sent or given up.
	neutral outcome = iota
	// success is an answer that came whole, or as far as it was wanted.
	success
	// failure is an answer 5xx, a broken connection or body, or none in time.
	failure
)

var (
	errFailure = errors.New("failure")
	errNeutral = errors.New("neutral")
)

// circuit stops asking an API that does not answer: after some failures in a row it opens, and nothing is sent
// until it has cooled down; then one request is let through, and its outcome closes or opens it.
// Each worker process has a circuit of its own. A nil circuit is always closed.
type circuit struct {
	connection string
	failures   int
	coolDown   time.Duration
	breaker    *gobreaker.TwoStepCircuitBreaker[any]
	log        *atomic.Pointer[slog.Logger]

	opened, refused atomic.Int64

	mutex   sync.Mutex
	until   time.Time     // when it was last open, until when
	because string        // and why it was opened
	last    string        // the last failure
	changed chan struct{} // closed when somebody who waits should look again
}

func newCircuit(connection string, failures int, coolDown time.Duration, log *atomic.Pointer[slog.Logger]) *circuit {
	c := &circuit{connection: connection, failures: failures, coolDown: coolDown, log: log, changed: make(chan struct{})}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:          connection,
		MaxRequests:   1,
		Timeout:       coolDown,
		ReadyToTrip:   func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= uint32(failures) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: func(_ string, from, to gobreaker.State) { c.changes(from, to) },
	})
	return c
}

// pass lets one request through. It must end, once at least; only the first outcome counts.
type pass struct {
	once   sync.Once
	report func(outcome, error)
}

func (p *pass) end(o outcome, why error) {
	p.once.Do(func() { p.report(o, why) })
}

// enter asks whether a request may be sent. While the circuit is open the answer is a throttled error that
// says until when and why. While another request is on its way that a half-open circuit has let through,
// its outcome is awaited as far as the turn allows.
func (c *circuit) enter(ctx context.Context, t *turn) (*pass, error) {
	if c == nil {
		return &pass{report: func(outcome, error) {}}, nil
	}
	for {
		changed := c.change() // before asking, so that no change is missed
		done, err := c.breaker.Allow()
		switch {
		case err == nil:
			return &pass{report: func(o outcome, why error) { c.finish(done, o, why) }}, nil
		case errors.Is(err, gobreaker.ErrOpenState):
			return nil, c.refuse()
		case t.left <= 0:
			return nil, c.refuseProbing()
		}
		why := fmt.Sprintf("the circuit of connection %s is half-open: one request is on its way, and its outcome is awaited", c.connection)
		if err := t.wait(ctx, t.left, why, changed); err != nil {
			return nil, err
		}
	}
}

func (c *circuit) finish(done func(error), o outcome, why error) {
	switch o {
	case success:
		done(nil)
	case failure:
		c.mutex.Lock()
		c.last = Snippet(why.Error())
		c.mutex.Unlock()
		done(errFailure)
	default:
		done(errNeutral)
	}
	c.wake()
}

// refuse says until when the circuit is open, and why.
func (c *circuit) refuse() error {
	c.refused.Add(1)
	c.mutex.Lock()
	until, because, last := c.until, c.because, c.last
	c.mutex.Unlock()
	after := max(time.Until(until), time.Millisecond) // zero would mean that it is not known
	return retry.ThrottledError(TypeCircuitOpen, after, fmt.Errorf(
		"the circuit of connection %s is open until %s, %s (the last: %s); nothing is sent until then",
		c.connection, until.UTC().Format(time.RFC3339), because, last))
}

// refuseProbing says that the outcome of the one request that was let through is not known yet.
func (c *circuit) refuseProbing() error {
	c.refused.Add(1)
	return retry.ThrottledError(TypeCircuitOpen, min(c.coolDown, probeRecheck), fmt.Errorf(
		"the circuit of connection %s is half-open, and the one request that was let through has had no answer for %s; nothing else is sent until it ends",
		c.connection, maximumSatOut))
}

// change returns a channel that is closed when the answer to enter may have become another.
func (c *circuit) change() <-chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.changed
}

func (c *circuit) wake() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// changes is called with the breaker's own lock held: it must not ask the breaker anything.
func (c *circuit) changes(from, to gobreaker.State) {
	c.mutex.Lock()
	if to == gobreaker.StateOpen {
		c.until, c.because = time.Now().Add(c.coolDown), fmt.Sprintf("after %d failures in a row", c.failures)
		if from == gobreaker.StateHalfOpen {
			c.because = "since the one request that was let through failed, too"
		}
		c.opened.Add(1)
	}
	until, last := c.until, c.last
	c.mutex.Unlock()
	log := c.log.Load()
	if log == nil {
		return
	}
	switch to {
	case gobreaker.StateOpen:
		log.Warn("circuit opened: nothing is sent until it has cooled down", "connection", c.connection,
			"from", from.String(), "until", until.UTC().Format(time.RFC3339), "last_failure", last)
	case gobreaker.StateHalfOpen:
		log.Info("circuit half-open: the next request is let through, and its outcome decides", "connection", c.connection)
	default:
		log.Info("circuit closed: requests are sent again", "connection", c.connection)
	}
}

// CircuitState is the state of the circuit of a connection.
type CircuitState string

// The states of a circuit.
const (
	CircuitClosed   CircuitState = "closed"
	CircuitHalfOpen CircuitState = "half_open"
	CircuitOpen     CircuitState = "open"
)

func (c *circuit) state() CircuitState {
	switch c.breaker.State() {
	case gobreaker.StateOpen:
		return CircuitOpen
	case gobreaker.StateHalfOpen:
		return CircuitHalfOpen
	default:
		return CircuitClosed
	}
}
