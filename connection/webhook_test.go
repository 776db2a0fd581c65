package connection

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// hookPath is what must not be known: whoever has it can post.
const hookPath = "/services/T00000000/B00000000/Hidden-secret-of-the-hook"

// hook makes a webhook at base with more settings.
func hook(t *testing.T, base, settings string) *Webhook {
	t.Helper()
	text := fmt.Sprintf(`connections: { ops: { webhook: { url: "${HOOK}"%s } } }`, settings)
	w, err := mustParse(t, text, map[string]string{"HOOK": base + hookPath, "TOKEN": token}).Webhook("ops")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// hostile is a message in which others have written.
func hostile() Message {
	return Message{
		ID:    "tranche/notify/orders/failure/2026-01-16T00:00:00Z/run",
		Title: "orders 2026-01-15 failed",
		Quote: "HTTPStatus: <!channel> <https://evil.example|click> & `code` @here\x1b[31m\u202e\r\n*bold* https://evil.example/x " + hookPath,
		Lines: []string{"Owner: <@U1>", ""},
		Link:  "https://temporal.example/a|b?c=1&d=2",
		Fields: func(text string) any {
			return map[string]string{"text": text, "event": "failure"}
		},
	}
}

func TestWebhookSends(t *testing.T) {
	t.Parallel()
	var got struct {
		header http.Header
		fields map[string]string
	}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.header, got.fields = r.Header, nil
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got.fields); err != nil || r.Method != http.MethodPost || r.URL.Path != hookPath {
			t.Errorf("%s %s: %v: %s", r.Method, r.URL, err, body)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for settings, want := range map[string]string{
		"":                     "",
		`, bearer: "${TOKEN}"`: "Bearer " + token,
		`, basic: { username: u, password: "${TOKEN}" }`:       "Basic dTpUT0tFTi1hYmMxMjM=",
		`, headers: { Authorization: "${TOKEN}", X-Team: me }`: token,
	} {
		if err := hook(t, server.URL, settings).Send(t.Context(), hostile()); err != nil {
			t.Error(err)
		}
		if got.header.Get("Authorization") != want || got.header.Get("Content-Type") != "application/json" || got.header.Get("Idempotency-Key") != hostile().ID {
			t.Errorf("%s: the request has %v", settings, got.header)
		}
		if got.fields["event"] != "failure" || !strings.Contains(got.fields["text"], "orders 2026-01-15 failed\nHTTPStatus: <!channel> ") {
			t.Errorf("%s: the message is %v", settings, got.fields)
		}
		for _, never := range []string{"\x1b", "\u202e", "\r", "Hidden-secret"} {
			if strings.Contains(got.fields["text"], never) {
				t.Errorf("%q stands in %q", never, got.fields["text"])
			}
		}
	}
}

// Nothing that others have written becomes a link, a mention or markup in Slack.
func TestWebhookSlack(t *testing.T) {
	t.Parallel()
	var body []byte
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })
	if err := hook(t, server.URL, ", shape: slack").Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(body, &got); err != nil || len(got) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	want := "*orders 2026-01-15 failed*\n" +
		"`HTTPStatus: &lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; 'code' @here [31m *bold* https://evil.example/x ***`\n" +
		"Owner: &lt;@U1&gt;\n" +
		"<https://temporal.example/a%7Cb?c=1&amp;d=2|Open in Temporal>"
	if got["text"] != want {
		t.Errorf("the text is\n%s\nwant\n%s", got["text"], want)
	}
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		class  retry.Class
		kind   string
		after  time.Duration
		says   string
	}{
		"404":             {status(http.StatusNotFound), retry.Permanent, TypeHTTPStatus, 0, "answered 404 Not Found: no such hook"},
		"400":             {status(http.StatusBadRequest), retry.Permanent, TypeHTTPStatus, 0, "400"},
		"403":             {status(http.StatusForbidden), retry.Permanent, TypeHTTPStatus, 0, "403"},
		"408":             {status(http.StatusRequestTimeout), retry.Transient, TypeHTTPStatus, 0, "408"},
		"500":             {status(http.StatusInternalServerError), retry.Transient, TypeHTTPStatus, 0, "500"},
		"501":             {status(http.StatusNotImplemented), retry.Transient, TypeHTTPStatus, 0, "501"},
		"599":             {status(599), retry.Transient, TypeHTTPStatus, 0, "599"},
		"302":             {redirect("/elsewhere"), retry.Permanent, TypeRedirect, 0, "302 with a redirect, and none is followed"},
		"307":             {redirect("https://evil.example" + hookPath), retry.Permanent, TypeRedirect, 0, "redirect"},
		"429":             {later("7", http.StatusTooManyRequests), retry.Throttled, TypeRateLimited, 7 * time.Second, "429"},
		"503":             {later("9", http.StatusServiceUnavailable), retry.Throttled, TypeRateLimited, 9 * time.Second, "503"},
		"500, later":      {later("9", http.StatusInternalServerError), retry.Transient, TypeHTTPStatus, 9 * time.Second, "500"},
		"429, for a week": {later("604800", http.StatusTooManyRequests), retry.Throttled, TypeRateLimited, time.Hour, "429"},
		"nothing":         {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, retry.Transient, retry.TypeNetwork, 0, "connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != hookPath {
					t.Errorf("the redirect was followed to %s", r.URL)
				}
				test.answer(w)
				_, _ = io.WriteString(w, "no such hook\x1b: "+r.URL.String()+" "+token+strings.Repeat("x", 100_000))
			})
			err := hook(t, server.URL, `, bearer: "${TOKEN}"`).Send(t.Context(), hostile())
			wantVerdict(t, err, test.class, test.kind)
			if verdict := retry.Classify(err); verdict.After != test.after {
				t.Errorf("it asks for %s, want %s", verdict.After, test.after)
			}
			text := err.Error()
			if !strings.Contains(text, test.says) || !strings.HasPrefix(text, "webhook ops at 127.0.0.1:") || strings.ContainsAny(text, "\x1b\n") || len(text) > 500 {
				t.Errorf("the error is %q", text)
			}
			wantNoHook(t, text)
		})
	}
}

func wantNoHook(t *testing.T, text string) {
	t.Helper()
	for _, never := range []string{"T00000000", "Hidden-secret"} {
		if strings.Contains(text, never) {
			t.Errorf("the URL stands in %s", text)
		}
	}
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func redirect(to string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

func later(after string, code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(code)
	}
}

// A receiver that cannot be reached, does not answer, or whose name nobody knows yet may be there later.
func TestWebhookAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it accepts, and never answers
	for base, kind := range map[string]string{
		"http://127.0.0.1:1":                 retry.TypeNetwork,
		"http://no-such-host.invalid":        retry.TypeNetwork,
		"http://" + listener.Addr().String(): retry.TypeTimeout,
	} {
		err := hook(t, base, ", timeout: 300ms").Send(t.Context(), hostile())
		wantVerdict(t, err, retry.Transient, kind)
		wantNoHook(t, err.Error())
	}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	err = hook(t, strings.Replace(server.URL, "http:", "https:", 1), "").Send(t.Context(), hostile())
	if retry.Classify(err).Class == retry.Canceled || err == nil {
		t.Error(err)
	}
	wantNoHook(t, err.Error())
}

// An answer that never ends holds nobody up.
func TestWebhookTrickles(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if err := hook(t, server.URL, ", timeout: 300ms").Send(t.Context(), hostile()); err != nil {
		t.Errorf("the receiver has answered 200: %v", err)
	}
}

// Of a refusal that never ends only the beginning is read.
func TestWebhookReadsLittle(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		sent := 0
		for chunk := make([]byte, 64<<10); ; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				written <- sent
				return
			}
		}
	})
	wantVerdict(t, hook(t, server.URL, "").Send(t.Context(), hostile()), retry.Permanent, TypeHTTPStatus)
	if sent := <-written; sent > 32<<20 { // what the buffers of both sides hold
		t.Errorf("%d bytes were sent", sent)
	}
}

func TestWebhookLink(t *testing.T) {
	t.Parallel()
	w := hook(t, "https://hooks.example", ", ui_url: https://temporal.example/ui/")
	if got := w.Link("namespaces", "a b", "workflows", "tranche/x", "1"); got != "https://temporal.example/ui/namespaces/a%20b/workflows/tranche%2Fx/1" {
		t.Error(got)
	}
	if got := hook(t, "https://hooks.example", "").Link("namespaces"); got != "" {
		t.Error(got)
	}
}

func TestWebhookProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: CodeMissingField,
		`{ url: "https://hooks.slack.com/services/T/B/X" }`:                                                  CodeSecretInFile,
		`{ url: "https://x.webhook.office.com/webhookb2/1" }`:                                                CodeSecretInFile,
		`{ url: "https://pager.example/hook?token=abcdef" }`:                                                 CodeSecretInFile,
		`{ url: "ftp://pager.example" }`:                                                                     CodeBadURL,
		`{ url: "https://pager.example", shape: teams }`:                                                     CodeBadValue,
		`{ url: "https://pager.example", timeout: 31s }`:                                                     CodeBadValue,
		`{ url: "https://pager.example", ui_url: "https://t.example?a=1" }`:                                  CodeBadURL,
		`{ url: "https://pager.example", bearer: "abc" }`:                                                    CodeSecretInFile,
		`{ url: "https://pager.example", bearer: "${TOKEN}", basic: { username: u, password: "${TOKEN}" } }`: CodeConflict,
		`{ url: "https://pager.example", headers: { idempotency-key: a } }`:                                  CodeConflict,
		`{ url: "https://pager.example", circuit_breaker: off }`:                                             CodeUnknownField,
	} {
		_, err := Parse("connections.yaml", []byte("connections: { ops: { webhook: "+text+" } }"), func(string) (string, bool) { return token, true })
		if err == nil || !strings.Contains(err.Error(), want+":") || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if _, err := mustParse(t, `connections: { ops: { webhook: { url: "http://127.0.0.1:9/hook" } } }`, nil).HTTP("ops"); err == nil ||
		!strings.Contains(err.Error(), `"ops" is not an http connection`) {
		t.Error(err)
	}
}

// The whole of a long message stays small.
func TestMessageIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<&>é", 10_000)
	m := Message{Title: long, Quote: long, Lines: []string{long, long}}
	if text := m.Text(); len(text) > 3_000 || strings.Count(text, "\n") != 3 {
		t.Errorf("%d bytes", len(text))
	}
	if text := m.slack(); len(text) > 20_000 {
		t.Errorf("%d bytes", len(text))
	}
}
