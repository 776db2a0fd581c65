package connection

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/trancheflow/tranche/retry"
)

// maximumSatOut is the longest wait for a permit that a request sits out itself. A longer one is given
// back to the caller as a throttled error with its length, so that it becomes a timer instead of an
// occupied worker.
const maximumSatOut = 5 * time.Second

// permits hands out the right to send one request. The limits are kept by each worker process for
// itself: two workers ask the API up to twice as often.
type permits struct {
	limiter  *rate.Limiter
	inFlight chan struct{} // nil: no limit
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
// read or given up.
func (p *permits) acquire(ctx context.Context) (release func(), err error) {
	release = func() {}
	if p.inFlight != nil {
		select {
		case p.inFlight <- struct{}{}:
			release = func() { <-p.inFlight }
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := p.waitForRate(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (p *permits) waitForRate(ctx context.Context) error {
	reservation := p.limiter.Reserve()
	delay := reservation.Delay()
	if delay == 0 {
		return nil
	}
	if delay > maximumSatOut {
		reservation.Cancel()
		return retry.ThrottledError(TypeRateLimited, delay, fmt.Errorf(
			"the connection's own limit of %g requests per second is used up for %s", float64(p.limiter.Limit()), delay.Round(time.Millisecond)))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		reservation.Cancel()
		return ctx.Err()
	}
}
