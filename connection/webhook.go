package connection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// The shapes in which a webhook takes messages.
const (
	ShapeJSON  = "json"
	ShapeSlack = "slack"
)

// The headers of every message.
const (
	headerContentType = "Content-Type"
	// headerMessageID bears the message's id, by which a receiver knows one that it has got already: it is the same
	// for every try.
	headerMessageID = "Idempotency-Key"
)

// Webhook is where people are told what happens. It is safe for concurrent use.
//
// No redirect is followed. The URL may be a secret itself and stands in no error.
type Webhook struct {
	name      string
	settings  webhookSettings
	transport *http.Transport
	client    *http.Client
	masker    *masker
	now       func() time.Time
}

// webhookSettings is a webhook connection as it stands in the file.
type webhookSettings struct {
	url     *url.URL
	shape   string
	header  http.Header
	timeout time.Duration // for all of one try
	ui      *url.URL      // of Temporal; nil: messages bear no link
}

func newWebhook(name string, s webhookSettings, m *masker) *Webhook {
	w := &Webhook{name: name, settings: s, masker: m, transport: newTransport(s.timeout), now: time.Now}
	w.client = &http.Client{
		Transport:     w.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// Link returns where these path elements lead below the connection's ui_url; empty when it has none.
func (w *Webhook) Link(elements ...string) string {
	if w.settings.ui == nil {
		return ""
	}
	escaped := make([]string, len(elements))
	for i, element := range elements {
		escaped[i] = url.PathEscape(element)
	}
	return w.settings.ui.JoinPath(escaped...).String()
}

// webhookAnswers says what answers are worth. A message must arrive, and unlike an API's request it is never wrong
// for itself: everything that the receiver blames on itself is worth another try.
var webhookAnswers = answers{retryOn: serverErrors(), longest: defaultLongestWait}

func serverErrors() []int {
	statuses := make([]int, 0, 100)
	for status := http.StatusInternalServerError; status < 600; status++ {
		statuses = append(statuses, status)
	}
	return statuses
}

// Send delivers a message once. It returns an error, with its class, unless the receiver has answered 2xx; after one
// the receiver may have got the message all the same. A try takes at most the connection's timeout, and of the answer
// only the first 4 KiB are read.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	what := fmt.Sprintf("webhook %s at %s", w.name, w.masker.mask(w.settings.url.Host))
	body, err := json.Marshal(m.shaped(w.settings.shape, w.masker))
	if err != nil {
		return retry.Permanentf(TypeBadRequest, "%s: encode the message: %w", what, err)
	}
	sending, cancel := context.WithTimeout(ctx, w.settings.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(sending, http.MethodPost, w.settings.url.String(), bytes.NewReader(body))
	if err != nil {
		return retry.Permanentf(TypeBadRequest, "%s: %s", what, w.masker.mask(err.Error()))
	}
	request.Header = w.settings.header.Clone()
	request.Header.Set("User-Agent", "tranche")
	request.Header.Set(headerContentType, "application/json")
	request.Header.Set(headerMessageID, m.ID)
	response, err := w.client.Do(request)
	if err != nil {
		return w.failed(ctx, what, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		// The answer says nothing more, but its connection can be used again when it was read.
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, snippetSource))
		return nil
	}
	return w.refused(what, response)
}

func (w *Webhook) refused(what string, response *http.Response) error {
	if response.StatusCode/100 == 3 {
		return retry.Permanentf(TypeRedirect, "%s: answered %d with a redirect, and none is followed: correct the connection's url", what, response.StatusCode)
	}
	class, after := webhookAnswers.verdict(response.StatusCode, response.Header, w.now())
	head, _ := io.ReadAll(io.LimitReader(response.Body, snippetSource)) // the status says enough when the body breaks
	status := &StatusError{Status: response.StatusCode, Snippet: Snippet(w.masker.mask(string(head)))}
	kind := TypeHTTPStatus
	if class == retry.Throttled {
		kind = TypeRateLimited
	}
	return &retry.Error{Class: class, Type: kind, After: after, Err: fmt.Errorf("%s: %w", what, status)}
}

// failed names the class of an error of the transport. A name that nobody knows now may be known in an hour.
func (w *Webhook) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	var wrapped *url.Error // repeats the URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return retry.TransientError(retry.TypeTimeout, fmt.Errorf("%s: no answer came within %s", what, w.settings.timeout))
	}
	explained := explain(err, w.masker)
	if verdict := retry.Classify(explained); verdict.Type == retry.TypeNetwork {
		return retry.TransientError(verdict.Type, fmt.Errorf("%s: %w", what, explained))
	}
	return fmt.Errorf("%s: %w", what, explained)
}
