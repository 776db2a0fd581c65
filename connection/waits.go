package connection

import (
	"context"
	"time"
)

// maximumSatOut is the longest that a request waits for its turn by itself. A longer wait is given back to
// the caller as a throttled error with its length, so that it becomes a timer instead of an occupied
// worker.
const maximumSatOut = 5 * time.Second

type waitsKey struct{}

// WithWaits returns a context whose requests tell begin what they wait for when they have to wait for their
// turn: for the rate limit, for a place among those in flight, for a quota, or for what becomes of the
// one request that a half-open circuit lets through. The function that begin returns is called when the
// wait ends. No secret is in what begin is told. begin may be called by several goroutines at once and must
// not block.
func WithWaits(ctx context.Context, begin func(why string) (end func())) context.Context {
	return context.WithValue(ctx, waitsKey{}, begin)
}

// turn is the time that one request has for all that it waits for.
type turn struct {
	left time.Duration
}

func newTurn() *turn { return &turn{left: maximumSatOut} }

// begin tells whoever wants to know that a wait begins. The function that it returns ends the wait and takes
// what it took off the turn.
func (t *turn) begin(ctx context.Context, why string) (end func()) {
	told := func() {}
	if begin, ok := ctx.Value(waitsKey{}).(func(string) func()); ok {
		told = begin(why)
	}
	began := time.Now()
	return func() {
		t.left -= time.Since(began)
		told()
	}
}

// wait sits out d, or less when woken is ready or ctx ends, whose error it returns.
func (t *turn) wait(ctx context.Context, d time.Duration, why string, woken <-chan struct{}) error {
	defer t.begin(ctx, why)()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
