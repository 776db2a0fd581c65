package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/trancheflow/tranche/retry"
)

// errTokenRefused is worth another try: an API may end a token before its time, and the next attempt asks for
// a new one. The same answer to a token that has just been fetched is permanent.
var errTokenRefused = retry.TransientError(TypeCredentials, errors.New(
	"answered 401 Unauthorized to an access token that was fetched earlier; the next attempt fetches a new one"))

// tokens fetches access tokens for an API by the client credentials grant (RFC 6749, 4.4) and keeps the
// current one until shortly before it expires. One request at a time fetches; the others wait for it.
type tokens struct {
	connection string
	config     clientcredentials.Config
	client     *http.Client
	answers    answers
	masker     *masker
	now        func() time.Time

	fetching chan struct{} // holds one entry while somebody fetches
	mutex    sync.Mutex
	current  *oauth2.Token
}

// oauth2Settings is what stands under oauth2 in the file.
type oauth2Settings struct {
	tokenURL     *url.URL
	clientID     string
	clientSecret string
	scopes       []string
	parameters   url.Values
	inBody       bool // the credentials go into the body instead of a header
}

func newTokens(connection string, s oauth2Settings, transport http.RoundTripper, timeout time.Duration, a answers, m *masker) *tokens {
	style := oauth2.AuthStyleInHeader
	if s.inBody {
		style = oauth2.AuthStyleInParams
	}
	return &tokens{
		connection: connection,
		config: clientcredentials.Config{
			ClientID: s.clientID, ClientSecret: s.clientSecret, TokenURL: s.tokenURL.String(),
			Scopes: s.scopes, EndpointParams: s.parameters, AuthStyle: style,
		},
		client: &http.Client{
			Transport: wholeAnswers{transport}, Timeout: timeout,
			CheckRedirect: func(next *http.Request, _ []*http.Request) error {
				return retry.Permanentf(TypeRedirect, "redirect to %s: the client's secret is sent to the token_url only; correct it", next.URL.Host)
			},
		},
		answers: a, masker: m, now: time.Now, fetching: make(chan struct{}, 1),
	}
}

// get returns a token that is valid for some seconds at least. fresh says that it was fetched for this call.
func (t *tokens) get(ctx context.Context) (token *oauth2.Token, fresh bool, err error) {
	if token := t.valid(); token != nil {
		return token, false, nil
	}
	select {
	case t.fetching <- struct{}{}:
		defer func() { <-t.fetching }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if token := t.valid(); token != nil { // somebody else was quicker
		return token, false, nil
	}
	token, err = t.config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		return nil, false, t.explain(err)
	}
	t.masker.learn(t.connection, token.AccessToken)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.current = token
	return token, true, nil
}

// valid returns the current token, or nil.
func (t *tokens) valid() *oauth2.Token {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.current.Valid() {
		return nil
	}
	return t.current
}

// forget drops a token that the API has refused, unless there is a newer one already.
func (t *tokens) forget(token *oauth2.Token) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.current == token {
		t.current = nil
	}
}

// wholeAnswers reads an answer before it passes it on, so that one that breaks off is an error of the
// transport and not one of what stands in it.
type wholeAnswers struct {
	next http.RoundTripper
}

// maximumTokenAnswer bounds the answer of a token endpoint, in bytes.
const maximumTokenAnswer = 1 << 20

func (t wholeAnswers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maximumTokenAnswer))
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// explain says what was attempted, and gives the error its class: that of the answer's status, with the
// connection's own settings for it, or that of the transport.
func (t *tokens) explain(err error) error {
	shown := url.URL{}
	if u, err := url.Parse(t.config.TokenURL); err == nil {
		shown = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	}
	what := t.masker.mask("fetch an access token: POST " + shown.String())
	var known *retry.Error
	var refused *oauth2.RetrieveError
	var wrapped *url.Error
	switch {
	case errors.As(err, &known):
		return &retry.Error{Class: known.Class, Type: known.Type, After: known.After, Err: fmt.Errorf("%s: %w", what, known.Err)}
	case errors.As(err, &refused):
		return t.refused(what, refused)
	case errors.As(err, &wrapped):
		why := explain(noAnswerWithin(t.client.Timeout, wrapped.Err), t.masker)
		verdict := retry.Classify(why)
		return &retry.Error{Class: verdict.Class, Type: verdict.Type, Err: fmt.Errorf("%s: %w", what, why)}
	default: // the answer is no token; the text may quote it
		return retry.Permanentf(TypeCredentials, "%s: the answer is no access token: %s", what, Snippet(t.masker.mask(err.Error())))
	}
}

// refused is no StatusError: what the API itself answers is another matter.
func (t *tokens) refused(what string, refused *oauth2.RetrieveError) error {
	status := StatusError{Status: refused.Response.StatusCode, Snippet: Snippet(t.masker.mask(string(refused.Body)))}
	class, after := retry.Permanent, time.Duration(0)
	if status.Status/100 != 2 { // some say 200 and put an error into the body
		class, after = t.answers.verdict(status.Status, refused.Response.Header, t.now())
	}
	kind := TypeCredentials
	if class == retry.Throttled {
		kind = TypeRateLimited
	}
	return &retry.Error{Class: class, Type: kind, After: after, Err: fmt.Errorf("%s: %s", what, status.Error())}
}
