package connection

import (
	"net/http"
)

// credentialed adds the connection's headers and credentials to requests for its own host.
type credentialed struct {
	next    http.RoundTripper
	origins origins
	header  http.Header
	query   string
	key     string
	tokens  *tokens // nil: none are fetched
}

func (t *credentialed) RoundTrip(request *http.Request) (*http.Response, error) {
	if !t.origins.isOwn(request.URL) {
		return t.next.RoundTrip(request)
	}
	dressed := request.Clone(request.Context()) // a RoundTripper must not change what it was given
	for name, values := range t.header {
		dressed.Header[name] = values
	}
	if t.query != "" {
		values := dressed.URL.Query()
		values.Set(t.query, t.key) // an API may repeat the key in its links
		dressed.URL.RawQuery = values.Encode()
	}
	response, err := t.send(dressed)
	if response != nil {
		response.Request = request // links are resolved against this URL, and it is shown
	}
	return response, err
}

func (t *credentialed) send(dressed *http.Request) (*http.Response, error) {
	if t.tokens == nil {
		return t.next.RoundTrip(dressed)
	}
	token, fresh, err := t.tokens.get(dressed.Context())
	if err != nil {
		if dressed.Body != nil {
			dressed.Body.Close() // a RoundTripper must, also when it fails
		}
		return nil, err
	}
	token.SetAuthHeader(dressed)
	response, err := t.next.RoundTrip(dressed)
	if err != nil || response.StatusCode != http.StatusUnauthorized {
		return response, err
	}
	t.tokens.forget(token)
	if fresh {
		return response, nil
	}
	response.Body.Close()
	return nil, errTokenRefused
}
