package connection

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/trancheflow/tranche/retry"
)

// permits hands out the right to send one request. The limits are kept by each worker process for
// itself: two workers ask the API up to twice as often. This is the one place where a request asks for
// leave, so a budget that all workers share would come here.
type permits struct {
	limiter  *rate.Limiter
	inFlight chan struct{} // nil: no limit

	mutex sync.Mutex
	until time.Time // nobody asks before
	why   string
}

func newPermits(perSecond float64, burst, inFlight int) *permits {
	p := &permits{limiter: rate.NewLimiter(rate.Inf, 0)}
	if perSecond > 0 {
		p.limiter = rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))
	}
	if inFlight > 0 {
		p.inFlight = make(chan struct{}, inFlight)
	}
	return p
}

// acquire returns once a request may be sent. release must be called when the answer's body has been
// read or given up. A wait that does not fit into the turn is a throttled error that says how long it is; it
// uses nothing up.
func (p *permits) acquire(ctx context.Context, t *turn) (release func(), err error) {
	if release, err = p.enter(ctx, t); err != nil {
		return nil, err
	}
	for {
		err = p.waitForRelease(ctx, t)
		if err == nil {
			err = p.waitForRate(ctx, t)
		}
		if err != nil {
			release()
			return nil, err
		}
		if d, _ := p.held(); d <= 0 { // nobody was refused while this one waited for the rate
			return release, nil
		}
	}
}

// enter takes a place among the requests in flight.
func (p *permits) enter(ctx context.Context, t *turn) (release func(), err error) {
	if p.inFlight == nil {
		return func() {}, nil
	}
	release = func() { <-p.inFlight }
	select {
	case p.inFlight <- struct{}{}:
		return release, nil
	default:
	}
	why := fmt.Sprintf("the connection's own limit of %d requests in flight", cap(p.inFlight))
	timer := time.NewTimer(t.left)
	defer timer.Stop()
	defer t.begin(ctx, why)()
	select {
	case p.inFlight <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, retry.ThrottledError(TypeRateLimited, 0, fmt.Errorf("%s is used up for more than %s", why, maximumSatOut))
	}
}

func (p *permits) waitForRate(ctx context.Context, t *turn) error {
	reservation := p.limiter.Reserve()
	delay := reservation.Delay()
	if delay == 0 {
		return nil
	}
	why := fmt.Sprintf("the connection's own limit of %g requests per second", float64(p.limiter.Limit()))
	if delay > t.left {
		reservation.Cancel()
		return retry.ThrottledError(TypeRateLimited, delay, fmt.Errorf("%s is used up for %s", why, delay.Round(time.Millisecond)))
	}
	err := t.wait(ctx, delay, why, nil)
	if err != nil {
		reservation.Cancel()
	}
	return err
}

// hold keeps every request back for some time. A longer one that is in force stays.
func (p *permits) hold(d time.Duration, why string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if until := time.Now().Add(d); until.After(p.until) {
		p.until, p.why = until, why
	}
}

// held says how long requests are kept back still, and why.
func (p *permits) held() (time.Duration, string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return time.Until(p.until), p.why
}

func (p *permits) waitForRelease(ctx context.Context, t *turn) error {
	for {
		d, why := p.held()
		if d <= 0 {
			return nil
		}
		if d > t.left {
			return retry.ThrottledError(TypeRateLimited, d, fmt.Errorf("nothing is sent for %s: %s", d.Round(time.Millisecond), why))
		}
		if err := t.wait(ctx, d, why, nil); err != nil {
			return err
		}
	}
}
