package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// progressBytes is what must arrive within the idle timeout of reading. Counting single bytes would let
// a body that trickles, a byte every few seconds, hold its step until the step's own timeout.
const progressBytes = 1024

// watchedBody ends a body that stalls or trickles. Only the time spent inside Read counts: a reader
// that is slow itself, because the warehouse makes it wait, costs the other side nothing.
type watchedBody struct {
	body     io.ReadCloser
	what     string // for errors: "GET https://host/path"
	outer    context.Context
	cancel   context.CancelFunc
	explain  func(error) error // names the class of a read error
	ended    func(outcome, error)
	timer    *time.Timer
	stalled  atomic.Bool
	idle     time.Duration
	left     time.Duration // of idle, for the current stretch of progressBytes
	progress int
	total    int64
}

// watch takes over body. cancel must end reads of the body that are under way; Close calls it too.
func watch(outer context.Context, cancel context.CancelFunc, body io.ReadCloser, idle time.Duration, what string, explain func(error) error) *watchedBody {
	w := &watchedBody{body: body, what: what, outer: outer, cancel: cancel, explain: explain, idle: idle, left: idle}
	w.timer = time.AfterFunc(idle, func() {
		w.stalled.Store(true)
		cancel()
	})
	w.timer.Stop()
	return w
}

func (w *watchedBody) Read(p []byte) (int, error) {
	began := time.Now()
	w.timer.Reset(w.left)
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.left -= time.Since(began)
	w.total += int64(n)
	if w.progress += n; w.progress >= progressBytes {
		w.progress, w.left = 0, w.idle
	}
	switch err {
	case nil:
	case io.EOF:
		w.tell(success, nil)
	default:
		err = w.name(err)
		w.tell(w.outcomeOf(err), err)
	}
	return n, err
}

// outcomeOf tells a body that broke from one that somebody did not want to wait for.
func (w *watchedBody) outcomeOf(err error) outcome {
	if w.outer.Err() == nil && retry.Classify(err).Class == retry.Transient {
		return failure
	}
	return neutral
}

func (w *watchedBody) tell(o outcome, why error) {
	if w.ended != nil {
		w.ended(o, why)
	}
}

func (w *watchedBody) name(err error) error {
	switch {
	case w.outer.Err() != nil:
		return fmt.Errorf("%s: reading the body: %w", w.what, context.Cause(w.outer))
	case w.stalled.Load():
		return retry.TransientError(retry.TypeTimeout, fmt.Errorf(
			"%s: the body stalled after %d bytes: less than %d bytes came within %s", w.what, w.total, progressBytes, w.idle))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return retry.TransientError(retry.TypeNetwork, fmt.Errorf(
			"%s: the connection ended in the middle of the body, after %d bytes", w.what, w.total))
	default:
		return fmt.Errorf("%s: reading the body after %d bytes: %w", w.what, w.total, w.explain(err))
	}
}

// Close gives up what was not read, which the API is not to blame for: it was there to answer.
func (w *watchedBody) Close() error {
	w.timer.Stop()
	if w.outer.Err() == nil {
		w.tell(success, nil)
	}
	w.cancel()
	return w.body.Close()
}
