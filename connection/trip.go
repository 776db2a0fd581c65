package connection

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/trancheflow/tranche/retry"
)

type tripKey struct{}

// trip is what becomes of one request on its way through the layers, redirects included.
type trip struct {
	turn *turn
	sent atomic.Bool // it got as far as the API, or the endpoint of its tokens
}

// outcome is what the error of a request tells the circuit.
func (t *trip) outcome(err error) outcome {
	var status *StatusError
	verdict := retry.Classify(err)
	switch {
	case !t.sent.Load(), verdict.Class == retry.Throttled, verdict.Class == retry.Canceled, errors.Is(err, errTokenRefused):
		return neutral
	case errors.As(err, &status):
		if status.Status >= http.StatusInternalServerError {
			return failure
		}
		return neutral
	case verdict.Class == retry.Transient:
		return failure
	default:
		return neutral
	}
}

// permitted asks for a permit before each request and gives it back with the answer's body. It heeds what
// answers say about when to ask again.
type permitted struct {
	next    http.RoundTripper
	permits *permits
	answers answers
	now     func() time.Time
}

func (t *permitted) RoundTrip(request *http.Request) (*http.Response, error) {
	trip, ok := request.Context().Value(tripKey{}).(*trip)
	if !ok {
		return nil, errors.New("a request must be sent by Do")
	}
	release, err := t.permits.acquire(request.Context(), trip.turn)
	if err != nil {
		if request.Body != nil {
			request.Body.Close() // a RoundTripper must, also when it fails
		}
		return nil, err
	}
	trip.sent.Store(true)
	response, err := t.next.RoundTrip(request)
	if err != nil {
		release()
		return nil, err
	}
	if pause, why := t.answers.pause(response.StatusCode, response.Header, t.now()); pause > 0 {
		t.permits.hold(pause, why)
	}
	response.Body = &releasing{ReadCloser: response.Body, release: release}
	return response, nil
}

// releasing gives a permit back at the first Close.
type releasing struct {
	io.ReadCloser
	release func()
}

func (b *releasing) Close() error {
	err := b.ReadCloser.Close()
	if b.release != nil {
		b.release()
		b.release = nil
	}
	return err
}
