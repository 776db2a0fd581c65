package connection

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trancheflow/tranche/retry"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		status int
		header map[string]string
		class  retry.Class
		after  time.Duration
	}{
		"400":                     {400, nil, retry.Permanent, 0},
		"401":                     {401, nil, retry.Permanent, 0},
		"403":                     {403, nil, retry.Permanent, 0},
		"404":                     {404, nil, retry.Permanent, 0},
		"404 with Retry-After":    {404, map[string]string{"Retry-After": "5"}, retry.Permanent, 0},
		"408":                     {408, nil, retry.Transient, 0},
		"422":                     {422, nil, retry.Permanent, 0},
		"425":                     {425, nil, retry.Transient, 0},
		"500":                     {500, nil, retry.Permanent, 0},
		"501":                     {501, nil, retry.Permanent, 0},
		"502":                     {502, nil, retry.Transient, 0},
		"503":                     {503, nil, retry.Transient, 0},
		"504":                     {504, nil, retry.Transient, 0},
		"520, listed":             {520, nil, retry.Transient, 0},
		"304":                     {304, nil, retry.Permanent, 0},
		"429 bare":                {429, nil, retry.Throttled, 0},
		"429 seconds":             {429, map[string]string{"Retry-After": "7"}, retry.Throttled, 7 * time.Second},
		"429 zero":                {429, map[string]string{"Retry-After": "0"}, retry.Throttled, 0},
		"429 date":                {429, map[string]string{"Retry-After": at(5 * time.Second)}, retry.Throttled, 5 * time.Second},
		"429 date in the past":    {429, map[string]string{"Retry-After": at(-time.Hour)}, retry.Throttled, 0},
		"429 by the server's own": {429, map[string]string{"Retry-After": at(time.Hour + 5*time.Second), "Date": at(time.Hour)}, retry.Throttled, 5 * time.Second},
		"429 nonsense":            {429, map[string]string{"Retry-After": "soon"}, retry.Throttled, 0},
		"429 negative":            {429, map[string]string{"Retry-After": "-5"}, retry.Throttled, 0},
		"429 fraction":            {429, map[string]string{"Retry-After": "1.5"}, retry.Throttled, 1500 * time.Millisecond},
		"429 a week":              {429, map[string]string{"Retry-After": "604800"}, retry.Throttled, time.Hour},
		"429 overflow":            {429, map[string]string{"Retry-After": "99999999999999999999"}, retry.Throttled, 0},
		"429 far date":            {429, map[string]string{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, retry.Throttled, 0},
		"429 above a week":        {429, map[string]string{"Retry-After": "604801"}, retry.Throttled, 0},
		"429 milliseconds":        {429, map[string]string{"Retry-After": "1000000000"}, retry.Throttled, 0},
		"429 two points":          {429, map[string]string{"Retry-After": "1.5.2"}, retry.Throttled, 0},
		"503 nonsense number":     {503, map[string]string{"Retry-After": "1000000000"}, retry.Transient, 0},
		"429 quota far away":      {429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "604801"}, retry.Throttled, 0},
		"429 nonsense and quota":  {429, map[string]string{"Retry-After": "1000000000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9"}, retry.Throttled, 9 * time.Second},
		"503 seconds":             {503, map[string]string{"Retry-After": "3"}, retry.Throttled, 3 * time.Second},
		"503 nonsense":            {503, map[string]string{"Retry-After": "x"}, retry.Transient, 0},
		"403 seconds":             {403, map[string]string{"Retry-After": "2"}, retry.Throttled, 2 * time.Second},
		"403 left":                {403, map[string]string{"X-RateLimit-Remaining": "3"}, retry.Permanent, 0},
		"403 spent":               {403, map[string]string{"X-RateLimit-Remaining": "0"}, retry.Throttled, 0},
		"403 reset epoch":         {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1768471203"}, retry.Throttled, 3 * time.Second},
		"403 reset epoch ms":      {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1768471203500"}, retry.Throttled, 3500 * time.Millisecond},
		"403 reset delta":         {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4"}, retry.Throttled, 4 * time.Second},
		"403 reset past":          {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1768471190"}, retry.Throttled, 0},
		"403 reset nonsense":      {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "later"}, retry.Throttled, 0},
		"429 draft headers":       {429, map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "9"}, retry.Throttled, 9 * time.Second},
	} {
		header := http.Header{}
		for name, value := range test.header {
			header.Set(name, value)
		}
		class, after := answers{retryOn: []int{520}, longest: time.Hour}.verdict(test.status, header, now)
		if class != test.class || after != test.after {
			t.Errorf("%s: %v %v, want %v %v", name, class, after, test.class, test.after)
		}
	}
}

// Of several headers the longest that makes sense counts, wherever it stands.
func TestSeveralRetryAfters(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	for _, values := range [][]string{
		{"7", "3"}, {"3", "7"}, {"7", "soon", "1000000000"}, {"soon", "7"}, {"1", now.Add(7 * time.Second).Format(http.TimeFormat), "2.5"},
	} {
		header := http.Header{"Retry-After": values}
		if after, said := retryAfter(header, now, time.Hour); after != 7*time.Second || !said || asker(header, now) != "Retry-After" {
			t.Errorf("%q: %v %v, by %q", values, after, said, asker(header, now))
		}
	}
	if after, said := retryAfter(http.Header{"Retry-After": {"soon", "1000000000"}}, now, time.Hour); said {
		t.Errorf("nonsense twice is %v", after)
	}
}

func TestListedStatusIsTransient(t *testing.T) {
	t.Parallel()
	if class, _ := (answers{retryOn: []int{500}}).verdict(500, http.Header{}, time.Now()); class != retry.Transient {
		t.Error(class)
	}
	if class, _ := (answers{retryOn: []int{429}}).verdict(429, http.Header{}, time.Now()); class != retry.Throttled {
		t.Error("a throttled status stays throttled when it is listed")
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"5", "-1", "1e3", "Thu, 15 Jan 2026 10:00:05 GMT", "Thursday, 15-Jan-26 10:00:05 GMT", "99999999999999999999", "0x10", "٣"} {
		f.Add(seed, seed)
	}
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, after, reset string) {
		header := http.Header{"Retry-After": {after}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {reset}}
		got, said := retryAfter(header, now, time.Hour)
		if got < 0 || got > time.Hour || got > 0 && !said {
			t.Errorf("%q, %q: %v %v", after, reset, got, said)
		}
	})
}

func FuzzSnippet(f *testing.F) {
	f.Add("plain")
	f.Add(strings.Repeat("é\n\t", 300))
	f.Add("\x00\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := Snippet(text)
		if len(got) > snippetLength || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b") {
			t.Errorf("%q", got)
		}
	})
}
