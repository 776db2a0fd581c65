package connection

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trancheflow/tranche/retry"
)

const clientSecret = "S+cret/9 of the client"

// issuer hands out tokens as its test says.
type issuer struct {
	*httptest.Server
	asked  atomic.Int64
	answer func(w http.ResponseWriter, n int64)
}

func issue(t *testing.T, answer func(w http.ResponseWriter, n int64)) *issuer {
	t.Helper()
	i := &issuer{answer: answer}
	i.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := i.asked.Add(1)
		id, secret, _ := r.BasicAuth()
		unescaped, _ := url.QueryUnescape(secret)
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || id != "tranche" || unescaped != clientSecret ||
			r.FormValue("scope") != "read write" || r.FormValue("audience") != "orders" {
			t.Errorf("%s %v: %q %q", r.Method, r.Form, id, secret)
		}
		i.answer(w, n)
	})
	return i
}

func grant(lifetime time.Duration) func(w http.ResponseWriter, n int64) {
	return func(w http.ResponseWriter, n int64) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "%s", "token_type": "bearer", "expires_in": %d}`, issued(n), int(lifetime.Seconds()))
	}
}

// issued is the nth token, with characters that travel escaped.
func issued(n int64) string { return fmt.Sprintf("tok/en+%d==", n) }

func granted(t *testing.T, base string, i *issuer, more string) (*HTTP, *Set) {
	t.Helper()
	set := mustParse(t, fmt.Sprintf(`connections: { api: { http: { base_url: %q, oauth2: { token_url: "%s/token",
		client_id: tranche, client_secret: "${SECRET}", scopes: [read, write], parameters: { audience: orders } } %s } } }`, base, i.URL, more), map[string]string{"SECRET": clientSecret})
	c, err := set.HTTP("api")
	if err != nil {
		t.Fatal(err)
	}
	return c, set
}

func wantNoSecret(t *testing.T, text string) {
	t.Helper()
	basic := base64.StdEncoding.EncodeToString([]byte("tranche:" + url.QueryEscape(clientSecret)))
	for _, secret := range []string{clientSecret, url.QueryEscape(clientSecret), basic, issued(1), url.QueryEscape(issued(1)), issued(2)} {
		if strings.Contains(text, secret) {
			t.Errorf("%q stands in %q", secret, text)
		}
	}
}

// One token serves all requests until it expires, however many ask at once, and goes to the own host only.
func TestTokenIsFetchedOnceAndStaysHome(t *testing.T) {
	t.Parallel()
	i := issue(t, grant(time.Hour))
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the other host was sent %q", r.Header.Get("Authorization"))
		}
	})
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+issued(1) {
			t.Errorf("home was sent %q", got)
		}
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL+"/x", http.StatusFound)
		}
	})
	c, _ := granted(t, home.URL, i, fmt.Sprintf(", allowed_hosts: [%q]", strings.TrimPrefix(other.URL, "http://")))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for _, path := range []string{"/x", "/away"} {
				if _, err := get(t, c, path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if i.asked.Load() != 1 {
		t.Errorf("%d tokens were fetched", i.asked.Load())
	}
}

func TestTokenIsFetchedAgainBeforeItExpires(t *testing.T) {
	t.Parallel()
	i := issue(t, grant(5*time.Second)) // less than what a request may take
	var mutex sync.Mutex
	var seen []string
	home := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
	})
	c, _ := granted(t, home.URL, i, "")
	for range 2 {
		if _, err := get(t, c, "/x"); err != nil {
			t.Fatal(err)
		}
	}
	if want := "Bearer " + issued(1) + "|Bearer " + issued(2); strings.Join(seen, "|") != want {
		t.Errorf("%q", seen)
	}
}

// A 401 to a token that has served before is worth another try with a new one; to a new one it is final.
func TestTokenThatIsRefused(t *testing.T) {
	t.Parallel()
	i := issue(t, grant(time.Hour))
	var accepted atomic.Int64
	accepted.Store(1)
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+issued(accepted.Load()) {
			http.Error(w, "not "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		}
	})
	c, set := granted(t, home.URL, i, ", circuit_breaker: { consecutive_failures: 1 }")
	if _, err := get(t, c, "/x"); err != nil {
		t.Fatal(err)
	}
	accepted.Store(2)
	_, err := get(t, c, "/x")
	wantVerdict(t, err, retry.Transient, TypeCredentials)
	if _, err = get(t, c, "/x"); err != nil {
		t.Fatal(err)
	}
	accepted.Store(9)
	_, err = get(t, c, "/x")
	wantVerdict(t, err, retry.Transient, TypeCredentials)
	_, err = get(t, c, "/x")
	wantVerdict(t, err, retry.Permanent, TypeHTTPStatus)
	wantNoSecret(t, err.Error())
	if !strings.Contains(err.Error(), "401 Unauthorized: not Bearer ***") || c.Circuit() != CircuitClosed || i.asked.Load() != 3 {
		t.Errorf("%d tokens, circuit %s: %v", i.asked.Load(), c.Circuit(), err)
	}
	wantNoSecret(t, set.Mask(issued(1)+" "+url.QueryEscape(issued(2))+" "+strings.ReplaceAll(issued(2), "/", `\/`)))
}

// What becomes of a step whose credentials bring no token.
func TestNoToken(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, body string, more ...string) func(http.ResponseWriter, int64) {
		return func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Type", contentType)
			for i := 0; i < len(more); i += 2 {
				w.Header().Set(more[i], more[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, int64)
		class  retry.Class
		kind   string
		says   string
	}{
		"refused":                 {answer(401, "application/json", `{"error": "invalid_client", "error_description": "not `+clientSecret+`"}`), retry.Permanent, TypeCredentials, "answered 401 Unauthorized: {\"error\": \"invalid_client\""},
		"refused with 200":        {answer(200, "application/json", `{"error": "invalid_scope"}`), retry.Permanent, TypeCredentials, "invalid_scope"},
		"HTML":                    {answer(200, "text/html", "<html>"), retry.Permanent, TypeCredentials, "no access token"},
		"no token":                {answer(200, "application/json", "{}"), retry.Permanent, TypeCredentials, "no access token"},
		"down":                    {answer(503, "text/plain", "down"), retry.Transient, TypeCredentials, "answered 503"},
		"broken":                  {answer(500, "text/plain", "oops"), retry.Permanent, TypeCredentials, "answered 500"},
		"throttled":               {answer(429, "text/plain", "", "Retry-After", "7"), retry.Throttled, TypeRateLimited, "answered 429"},
		"leads elsewhere":         {answer(307, "text/plain", "", "Location", "http://elsewhere.example/token"), retry.Permanent, TypeRedirect, "elsewhere.example"},
		"breaks off":              {answer(200, "application/json", `{"access_token": "x`, "Content-Length", "1000"), retry.Transient, retry.TypeNetwork, ""},
		"a token with a line end": {answer(200, "application/json", `{"access_token": "abcdefgh\nX: y"}`), retry.Permanent, TypeBadAnswer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			home := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
			c, _ := granted(t, home.URL, issue(t, test.answer), "")
			_, err := get(t, c, "/x")
			wantVerdict(t, err, test.class, test.kind)
			wantNoSecret(t, err.Error())
			var status *StatusError
			if !strings.Contains(err.Error(), test.says) || errors.As(err, &status) || asked.Load() != 0 {
				t.Errorf("%d requests: %v", asked.Load(), err)
			}
		})
	}
}

// The endpoint of the tokens counts as a part of the API: while it is down the circuit opens.
func TestCircuitCountsTokens(t *testing.T) {
	t.Parallel()
	i := issue(t, func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusBadGateway) })
	c, _ := granted(t, "http://api.example", i, "")
	for range 5 {
		_, err := get(t, c, "/x")
		wantVerdict(t, err, retry.Transient, TypeCredentials)
	}
	_, err := get(t, c, "/x")
	wantVerdict(t, err, retry.Throttled, TypeCircuitOpen)
	wantNoSecret(t, err.Error())
	if i.asked.Load() != 5 {
		t.Errorf("%d requests", i.asked.Load())
	}
}

func TestSecretInTheBody(t *testing.T) {
	t.Parallel()
	auth := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "tranche" || r.FormValue("client_secret") != clientSecret || r.Header.Get("Authorization") != "" {
			t.Errorf("%v, %q", r.Form, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"access_token": "abcdefgh"}`)
	})
	home := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer abcdefgh" {
			t.Error(r.Header)
		}
	})
	set := mustParse(t, fmt.Sprintf(`connections: { api: { http: { base_url: %q, oauth2: { token_url: %q, client_id: tranche, client_secret: "${SECRET}", send_secret: body } } } }`, home.URL, auth.URL),
		map[string]string{"SECRET": clientSecret})
	c, err := set.HTTP("api")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, c, "/x"); err != nil {
		t.Error(err)
	}
}
