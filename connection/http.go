package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// Defaults and bounds of an http connection.
const (
	defaultTimeout     = 30 * time.Second
	defaultIdleTimeout = 30 * time.Second
	maximumRedirects   = 10 // as net/http's own
	// idleConnections are kept open to an API for the next request: as many as a worker is likely to
	// use at once.
	idleConnections = 32
)

// HTTP is one HTTP API. It is safe for concurrent use.
//
// Its credentials go to the host of its base URL and to no other, neither along a redirect nor along
// a link, and never from https to http. Its rate limit, its number of requests in flight and its circuit
// are kept by each worker process for itself: two workers ask twice as often.
type HTTP struct {
	name      string
	base      *url.URL
	origins   origins
	transport *http.Transport
	client    *http.Client
	permits   *permits
	circuit   *circuit // nil: none
	masker    *masker
	answers   answers
	idle      time.Duration
	now       func() time.Time
	queue     string // of its own, or ""
}

// httpSettings is an http connection as it stands in the file.
type httpSettings struct {
	base              *url.URL
	header            http.Header // sent to the own host only
	apiKeyQuery       string      // name of the query parameter, or ""
	apiKey            string
	timeout           time.Duration
	idleTimeout       time.Duration
	requestsPerSecond float64
	burst             int
	maxInFlight       int
	allowedHosts      []string
	answers           answers
	failures          int // in a row that open the circuit; 0: there is none
	coolDown          time.Duration
	oauth2            *oauth2Settings // nil: no tokens are fetched
	taskQueue         TaskQueue       // without a name: none
}

func newHTTP(name string, s httpSettings, m *masker, log *atomic.Pointer[slog.Logger]) *HTTP {
	if s.base.Path == "" {
		s.base.Path = "/"
	}
	c := &HTTP{
		name: name, base: s.base, origins: newOrigins(s.base, s.allowedHosts), masker: m,
		answers: s.answers, idle: s.idleTimeout, now: time.Now, queue: s.taskQueue.Name,
		permits: newPermits(s.requestsPerSecond, s.burst, s.maxInFlight),
	}
	if s.failures > 0 {
		c.circuit = newCircuit(name, s.failures, s.coolDown, log)
	}
	c.transport = newTransport(s.timeout)
	// Each layer sees every hop of a redirect. The order is that of the questions: may it be sent now, and
	// who is asking. Whether the API answers at all is asked before, in Do: a request with all its hops
	// is one, what the circuit refuses must not use a permit up, and how a request ended is known only
	// when its body has been read.
	credentials := &credentialed{next: c.transport, origins: c.origins, header: s.header, query: s.apiKeyQuery, key: s.apiKey}
	if s.oauth2 != nil {
		credentials.tokens = newTokens(name, *s.oauth2, c.transport, s.timeout, s.answers, m)
	}
	stack := &permitted{next: credentials, permits: c.permits, answers: c.answers, now: c.now}
	c.client = &http.Client{Transport: stack, CheckRedirect: c.checkRedirect}
	return c
}

// newTransport makes connections, and keeps some of them open.
func newTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout:   timeout,
		ResponseHeaderTimeout: timeout,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          idleConnections,
		MaxIdleConnsPerHost:   idleConnections,
		IdleConnTimeout:       90 * time.Second, // as net/http's own
	}
}

// Name is the connection's name in connections.yaml.
func (c *HTTP) Name() string { return c.name }

// Mask does what [Set.Mask] does.
func (c *HTTP) Mask(text string) string { return c.masker.mask(text) }

// URL is the base URL with path appended and the query added. A base URL's own query stays.
func (c *HTTP) URL(path string, query url.Values) (*url.URL, error) {
	relative, err := url.Parse(path)
	if err != nil || relative.IsAbs() || relative.Host != "" || relative.Fragment != "" {
		return nil, retry.Permanentf(TypeBadRequest, "path %q of an http step: a path below the connection's base_url is wanted, such as /orders", c.Mask(path))
	}
	for _, element := range strings.Split(relative.Path, "/") {
		if element == ".." {
			return nil, retry.Permanentf(TypeBadRequest, "path %q of an http step must not hold ..", c.Mask(path))
		}
	}
	u := *c.base
	if path != "" {
		u = *c.base.JoinPath(relative.EscapedPath())
	}
	values := u.Query()
	for _, from := range []url.Values{relative.Query(), query} {
		for key, list := range from {
			values[key] = list
		}
	}
	u.RawQuery = values.Encode()
	return &u, nil
}

// CheckLink says whether a link that an answer holds may be followed: to the connection's own host or
// to one of its allowed hosts, and never from https to http. The error is permanent and names the host.
func (c *HTTP) CheckLink(u *url.URL) error {
	if err := c.origins.check(u); err != nil {
		return retry.Permanentf(TypeHostNotAllowed, "link to the next page: %s", c.Mask(err.Error()))
	}
	return nil
}

// Request is one request. Credentials and the connection's headers are added on the way.
type Request struct {
	// Method is GET when it is empty.
	Method string
	// URL must be of the own host or an allowed one.
	URL *url.URL
	// Shown stands for the URL in errors. Empty: the URL without its query, which may hold tokens.
	Shown string
	// Header is sent to whatever host the request ends at. It holds no credentials.
	Header http.Header
	// Body of a POST; nil for none.
	Body []byte
}

func (r Request) what() string {
	shown := r.Shown
	if shown == "" {
		bare := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path, RawPath: r.URL.RawPath}
		shown = bare.String()
	}
	return r.method() + " " + shown
}

func (r Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// Do sends a request and returns the answer if its status is 2xx. The body must be closed.
//
// Every other outcome is an error that names the request and has a class: what is transient,
// throttled or permanent stands in one table. Reading the body ends with an error when less than
// 1 KiB arrives within the connection's idle_timeout, when the body is shorter than it should be, and
// when ctx ends. Do may wait up to 5s for its turn, see [WithWaits]; when it would have to wait longer, or
// the circuit is open, it returns a throttled error that says how long.
func (c *HTTP) Do(ctx context.Context, r Request) (*http.Response, error) {
	what := c.Mask(r.what())
	if err := c.origins.check(r.URL); err != nil {
		return nil, retry.Permanentf(TypeHostNotAllowed, "%s: %s", what, c.Mask(err.Error()))
	}
	trip := &trip{turn: newTurn()}
	inner, cancel := context.WithCancel(context.WithValue(ctx, tripKey{}, trip))
	request, err := c.newRequest(inner, r)
	if err != nil {
		cancel()
		return nil, retry.Permanentf(TypeBadRequest, "%s: %s", what, c.Mask(err.Error()))
	}
	pass, err := c.circuit.enter(ctx, trip.turn)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	response, err := c.send(ctx, what, request, cancel, pass)
	if err != nil {
		pass.end(trip.outcome(err), err)
		cancel()
		return nil, err
	}
	return response, nil
}

func (c *HTTP) send(ctx context.Context, what string, request *http.Request, cancel context.CancelFunc, pass *pass) (*http.Response, error) {
	response, err := c.client.Do(request)
	if err != nil {
		return nil, c.failed(ctx, what, err)
	}
	body := watch(ctx, cancel, response.Body, c.idle, what, c.explain)
	response.Body = body
	if response.StatusCode/100 != 2 {
		return nil, c.refused(what, response)
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		response.Body.Close()
		return nil, retry.Permanentf(TypeBadAnswer, "%s: the answer is encoded as %q, which was not asked for", what, c.snippet([]byte(encoding)))
	}
	// A step that ends without closing the body must not leave its request on its way for ever.
	stop := context.AfterFunc(ctx, func() { pass.end(neutral, nil) })
	body.ended = func(o outcome, why error) {
		stop()
		pass.end(o, why)
	}
	return response, nil
}

func (c *HTTP) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.method(), r.URL.String(), body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "tranche")
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	return request, nil
}

// refused turns an answer other than 2xx into an error and closes it.
func (c *HTTP) refused(what string, response *http.Response) error {
	defer response.Body.Close()
	class, after := c.answers.verdict(response.StatusCode, response.Header, c.now())
	head, _ := io.ReadAll(io.LimitReader(response.Body, snippetSource)) // the status says enough when the body breaks
	status := &StatusError{Status: response.StatusCode, Snippet: c.snippet(head)}
	if after > 0 {
		status.Asked = asker(response.Header, c.now())
	}
	kind := TypeHTTPStatus
	if class == retry.Throttled {
		kind = TypeRateLimited
	}
	return &retry.Error{Class: class, Type: kind, After: after, Err: fmt.Errorf("%s: %w", what, status)}
}

// failed names the class of an error of the transport.
func (c *HTTP) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx)) // why it ended says whether the API is to blame
	}
	var wrapped *url.Error // repeats the method and the URL, query and all
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", what, c.explain(noAnswerWithin(c.transport.ResponseHeaderTimeout, err)))
}

// checkRedirect lets a redirect go only where a link may go.
func (c *HTTP) checkRedirect(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer") // would tell the next host the query of this one
	if len(via) > maximumRedirects {
		return retry.Permanentf(TypeRedirect, "more than %d redirects", maximumRedirects)
	}
	if err := c.origins.check(next.URL); err != nil {
		return retry.Permanentf(TypeHostNotAllowed, "redirect: %s", c.Mask(err.Error()))
	}
	before := via[len(via)-1]
	if before.URL.Scheme == "https" && next.URL.Scheme == "http" {
		return retry.Permanentf(TypeHostNotAllowed, "redirect: it leads from https to http://%s, where everybody could read along", c.Mask(next.URL.Host))
	}
	if next.Method != before.Method {
		return retry.Permanentf(TypeRedirect, "redirect: the %s would become a %s without its body; correct base_url or path", before.Method, next.Method)
	}
	return nil
}
