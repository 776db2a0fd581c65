package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trancheflow/tranche/retry"
)

const token = "TOKEN-abc123"

// api makes a connection to base with more settings.
func api(t *testing.T, base, settings string) *HTTP {
	t.Helper()
	text := fmt.Sprintf("connections: { api: { http: { base_url: %q, %s } } }", base, settings)
	c, err := mustParse(t, text, map[string]string{"TOKEN": token}).HTTP("api")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// get asks for a path and reads the whole answer.
func get(t *testing.T, c *HTTP, path string) (string, error) {
	t.Helper()
	u, err := c.URL(path, nil)
	if err != nil {
		return "", err
	}
	return read(t.Context(), c, Request{URL: u})
}

func read(ctx context.Context, c *HTTP, r Request) (string, error) {
	response, err := c.Do(ctx, r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func wantVerdict(t *testing.T, err error, class retry.Class, kind string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v %s", class, kind)
	}
	if v := retry.Classify(err); v.Class != class || v.Type != kind {
		t.Errorf("%v %s; want %v %s: %v", v.Class, v.Type, class, kind, err)
	}
	if strings.Contains(err.Error(), token) {
		t.Errorf("the token stands in %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings string
		header   string
		want     string
		query    string
	}{
		"header":          {`headers: { X-Client: tranche, X-Token: "${TOKEN}" }`, "X-Token", token, ""},
		"header, partly":  {`headers: { Authorization: "Token ${TOKEN}" }`, "Authorization", "Token " + token, ""},
		"bearer":          {`bearer: "${TOKEN}"`, "Authorization", "Bearer " + token, ""},
		"basic":           {`basic: { username: u, password: "${TOKEN}" }`, "Authorization", "Basic dTpUT0tFTi1hYmMxMjM=", ""},
		"api key, header": {`api_key: { header: x-key, value: "${TOKEN}" }`, "X-Key", token, ""},
		"api key, query":  {`api_key: { query: key, value: "${TOKEN}" }`, "X-None", "", token},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get(test.header); got != test.want {
					t.Errorf("%s: %q", test.header, got)
				}
				if got := r.URL.Query()["key"]; strings.Join(got, "|") != test.query {
					t.Errorf("key: %q", got)
				}
				http.Error(w, "no: "+r.URL.String()+" "+r.Header.Get(test.header), http.StatusTeapot)
			})
			// The API repeats the key in its links: it is sent once all the same.
			c := api(t, server.URL, test.settings)
			path := "/orders"
			if test.query != "" {
				path += "?key=" + test.query
			}
			_, err := get(t, c, path)
			wantVerdict(t, err, retry.Permanent, TypeHTTPStatus)
			if !strings.Contains(err.Error(), "GET "+server.URL+"/orders: answered 418 I'm a teapot: no: /orders") {
				t.Error(err)
			}
		})
	}
}

// TestCredentialsStayHome sends redirects to a second host, which must never see a credential.
func TestCredentialsStayHome(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, ""), "TOKEN") || name == "X-Client" || name == "Referer" {
				t.Errorf("the other host was sent %s: %q", name, values)
			}
		}
		if strings.Contains(r.URL.RawQuery, "TOKEN") {
			t.Errorf("the other host was asked for %s", r.URL)
		}
		io.WriteString(w, "elsewhere")
	})
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Query().Get("key") != token {
			t.Errorf("home was not sent the credentials for %s", r.URL.Path)
		}
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/steal", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		default:
			io.WriteString(w, "here")
		}
	})
	const credentials = `bearer: "${TOKEN}", headers: { X-Client: tranche }, api_key: { query: key, value: "${TOKEN}" }`
	closed := api(t, home.URL, credentials)
	_, err := get(t, closed, "/away")
	wantVerdict(t, err, retry.Permanent, TypeHostNotAllowed)
	if host := strings.TrimPrefix(other.URL, "http://"); !strings.Contains(err.Error(), host) || asked.Load() != 0 {
		t.Errorf("%d requests; the host is not named: %v", asked.Load(), err)
	}
	if body, err := get(t, closed, "/moved"); err != nil || body != "here" {
		t.Errorf("%q, %v", body, err)
	}
	_, err = get(t, closed, "/loop")
	wantVerdict(t, err, retry.Permanent, TypeRedirect)
	_, err = get(t, closed, "/file")
	wantVerdict(t, err, retry.Permanent, TypeHostNotAllowed)

	open := api(t, home.URL, fmt.Sprintf("%s, allowed_hosts: [%q]", credentials, strings.TrimPrefix(other.URL, "http://")))
	if body, err := get(t, open, "/away"); err != nil || body != "elsewhere" || asked.Load() != 1 {
		t.Errorf("%q, %v", body, err)
	}
}

func TestCheckLink(t *testing.T) {
	t.Parallel()
	secure := api(t, "https://api.example.com/v1", `allowed_hosts: [files.example.com, "other.example.com:8443"]`)
	plain := api(t, "http://api.example.com", "timeout: 1s")
	for _, test := range []struct {
		from *HTTP
		link string
		ok   bool
	}{
		{secure, "https://api.example.com/page2", true},
		{secure, "https://API.example.com.:443/page2", true},
		{secure, "https://files.example.com/x", true},
		{secure, "https://other.example.com:8443/x", true},
		{secure, "https://other.example.com/x", false},
		{secure, "https://api.example.com:8443/x", false},
		{secure, "http://api.example.com/page2", false},
		{secure, "http://files.example.com/x", false},
		{secure, "https://api.example.com.evil.example/x", false},
		{secure, "https://evil.example/?api.example.com", false},
		{secure, "https://api.example.com@evil.example/", false},
		{secure, "https://user:pass@api.example.com/", false},
		{secure, "http://169.254.169.254/latest/", false},
		{secure, "file:///etc/passwd", false},
		{secure, "gopher://api.example.com", false},
		{plain, "https://api.example.com/page2", true},
		{plain, "http://localhost/steal", false},
	} {
		u, err := url.Parse(test.link)
		if err != nil {
			t.Fatal(err)
		}
		err = test.from.CheckLink(u)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.link, err)
		}
		if err != nil {
			wantVerdict(t, err, retry.Permanent, TypeHostNotAllowed)
		}
	}
}

func TestRedirectOfAPostIsNotMadeAGet(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/found":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/kept":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		default:
			fmt.Fprint(w, r.Method, " ", string(body))
		}
	})
	c := api(t, server.URL, "timeout: 5s")
	for path, want := range map[string]string{"/found": "", "/kept": "POST {}"} {
		u, _ := c.URL(path, nil)
		got, err := read(t.Context(), c, Request{Method: http.MethodPost, URL: u, Body: []byte("{}")})
		if got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		if want == "" {
			wantVerdict(t, err, retry.Permanent, TypeRedirect)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	c := api(t, "https://h.example/v1/?fixed=1", "timeout: 1s")
	for path, want := range map[string]string{
		"":            "https://h.example/v1/?a=b+c&fixed=1",
		"/orders":     "https://h.example/v1/orders?a=b+c&fixed=1",
		"orders/1":    "https://h.example/v1/orders/1?a=b+c&fixed=1",
		"/a%2Fb":      "https://h.example/v1/a%2Fb?a=b+c&fixed=1",
		"/o?x=1&a=no": "https://h.example/v1/o?a=b+c&fixed=1&x=1",
	} {
		got, err := c.URL(path, url.Values{"a": {"b c"}})
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for _, path := range []string{"https://evil.example/x", "//evil.example/x", "/a/../../admin", "/%zz", "/%2e%2e/admin"} {
		if got, err := c.URL(path, nil); err == nil {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestStatusErrors(t *testing.T) {
	t.Parallel()
	long := "\x1b[31m" + strings.Repeat("row ", 2000) + "\n"
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/limited":
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, long+token)
		case "/encoded":
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, "x")
		}
	})
	c := api(t, server.URL, `bearer: "${TOKEN}"`)
	_, err := get(t, c, "/limited")
	wantVerdict(t, err, retry.Throttled, TypeRateLimited)
	if after := retry.Classify(err).After; after != 2*time.Second {
		t.Error(after)
	}
	_, err = get(t, c, "/broken?secret=x")
	wantVerdict(t, err, retry.Permanent, TypeHTTPStatus)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 500 || len(status.Snippet) > 200 || strings.ContainsAny(err.Error(), "\x1b\n?") {
		t.Errorf("%q", err)
	}
	_, err = get(t, c, "/encoded")
	wantVerdict(t, err, retry.Permanent, TypeBadAnswer)
	_, err = get(t, api(t, server.URL, `retry_on_status: [500]`), "/broken")
	wantVerdict(t, err, retry.Transient, TypeHTTPStatus)
}

// wire serves each connection with the bytes of a misbehaving server. The connection stays open until
// the test ends when hold is set.
func wire(t *testing.T, hold bool, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer connection.Close()
				buffer := make([]byte, 4096)
				connection.Read(buffer)
				io.WriteString(connection, answer)
				if hold {
					<-ended
				}
			})
		}
	})
	t.Cleanup(func() {
		close(ended)
		listener.Close()
		group.Wait()
	})
	return "http://" + listener.Addr().String()
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		hold   bool
		class  retry.Class
		kind   string
		says   string
	}{
		"short of Content-Length":    {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[1,2", false, retry.Transient, retry.TypeNetwork, "after 4 bytes"},
		"chunked without its end":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n[1]\n\r\n", false, retry.Transient, retry.TypeNetwork, "middle of the body"},
		"closed without a word":      {"", false, retry.Transient, retry.TypeNetwork, ""},
		"closed in the header":       {"HTTP/1.1 200 OK\r\nContent-", false, retry.Transient, retry.TypeNetwork, ""},
		"not HTTP":                   {"SSH-2.0-OpenSSH\r\n\r\n", false, retry.Permanent, TypeBadAnswer, ""},
		"silence":                    {"", true, retry.Transient, retry.TypeTimeout, "no answer came within the connection's timeout of 200ms"},
		"stalls":                     {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[1,2", true, retry.Transient, retry.TypeTimeout, "stalled after 4 bytes"},
		"stalls in an error's body":  {"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\nnone", true, retry.Permanent, TypeHTTPStatus, "404 Not Found: none"},
		"a broken body of an error":  {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 1000\r\n\r\nnone", false, retry.Transient, TypeHTTPStatus, "502 Bad Gateway: none"},
		"gzip that ends in the data": {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", false, retry.Transient, retry.TypeNetwork, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api(t, wire(t, test.hold, test.answer), "timeout: 200ms, idle_timeout: 200ms")
			_, err := get(t, c, "/x")
			wantVerdict(t, err, test.class, test.kind)
			if !strings.Contains(err.Error(), test.says) {
				t.Error(err)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		_, err = get(t, api(t, "http://"+listener.Addr().String(), "timeout: 1s"), "/x")
		wantVerdict(t, err, retry.Transient, retry.TypeNetwork)
	})
	t.Run("untrusted certificate", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		_, err := get(t, api(t, server.URL, "timeout: 5s"), "/x")
		wantVerdict(t, err, retry.Permanent, TypeTLS)
	})
}

// A body that trickles, a byte now and then, is never silent for long, and must end all the same. One
// that is slow because its reader is must not.
func TestBodyThatTrickles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		body := watch(t.Context(), cancel, &slowBody{ctx: ctx, pause: 5 * time.Second, size: 1}, 30*time.Second, "GET x", nil)
		began := time.Now()
		n, err := io.Copy(io.Discard, body)
		if took := time.Since(began); took != 30*time.Second || n < 5 || n > 6 {
			t.Errorf("%d bytes in %s", n, took)
		}
		wantVerdict(t, err, retry.Transient, retry.TypeTimeout)
		body.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		body := watch(t.Context(), cancel, &slowBody{ctx: ctx, pause: 25 * time.Second, size: progressBytes, reads: 20}, 30*time.Second, "GET x", nil)
		buffer := make([]byte, 4096)
		for range 20 {
			if _, err := body.Read(buffer); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // the warehouse makes the reader wait
		}
		if _, err := body.Read(buffer); err != io.EOF {
			t.Error(err)
		}
		body.Close()
	})
}

// slowBody gives size bytes after each pause.
type slowBody struct {
	ctx   context.Context
	pause time.Duration
	size  int
	reads int // 0: without end
	given int
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(b.pause):
	}
	if b.given++; b.reads > 0 && b.given > b.reads {
		return 0, io.EOF
	}
	return b.size, nil
}

func (b *slowBody) Close() error { return nil }

func TestCancelEndsRequestAndBody(t *testing.T) {
	t.Parallel()
	c := api(t, wire(t, true, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[1,2"), "timeout: 1m")
	ctx, cancel := context.WithCancel(t.Context())
	u, _ := c.URL("/x", nil)
	response, err := c.Do(ctx, Request{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	cancel()
	if _, err = io.ReadAll(response.Body); retry.Classify(err).Class != retry.Canceled {
		t.Error(err)
	}
	if _, err = c.Do(ctx, Request{URL: u}); retry.Classify(err).Class != retry.Canceled {
		t.Error(err)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var peers []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		peers = append(peers, r.RemoteAddr)
		if len(peers) == 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, "[]")
	})
	c := api(t, server.URL, "timeout: 5s")
	for range 5 {
		_, _ = get(t, c, "/x")
	}
	if len(slices.Compact(peers)) != 1 {
		t.Errorf("connections: %v", peers)
	}
}

func TestRequestsInFlight(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	arrived := make(chan struct{}, 10)
	proceed := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		arrived <- struct{}{}
		<-proceed
		now.Add(-1)
		if r.URL.Path == "/0" {
			w.WriteHeader(http.StatusBadGateway) // a refused answer gives its permit back, too
		}
	})
	c := api(t, server.URL, "max_in_flight: 2")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { _, _ = get(t, c, fmt.Sprint("/", i)) })
	}
	<-arrived
	<-arrived
	close(proceed)
	group.Wait()
	if most.Load() != 2 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(10, 5, 0)
		began := time.Now()
		for range 25 {
			if _, err := p.acquire(t.Context(), newTurn()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 1999*time.Millisecond || took > 2001*time.Millisecond {
			t.Errorf("25 permits at 10/s with a burst of 5 took %s", took)
		}
	})
}

// A long wait is handed to the caller, uses nothing up and holds no place among those in flight.
func TestLongWaitForAPermitIsHandedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(0.01, 1, 1)
		release, err := p.acquire(t.Context(), newTurn())
		if err != nil {
			t.Fatal(err)
		}
		release()
		for range 3 {
			_, err = p.acquire(t.Context(), newTurn())
			v := retry.Classify(err)
			if v.Class != retry.Throttled || v.Type != TypeRateLimited || v.After != 100*time.Second {
				t.Fatalf("%+v: %v", v, err)
			}
		}
		time.Sleep(100 * time.Second)
		if _, err = p.acquire(t.Context(), newTurn()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = p.acquire(ctx, newTurn()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
