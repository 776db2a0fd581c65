package connection

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// What is left of a quota, in the dialects of those who send it.
func TestUntilReset(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	type header map[string]string
	spent := func(reset string) header {
		return header{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
	}
	const unknown = time.Duration(-1)
	for name, test := range map[string]struct {
		header header
		want   time.Duration
	}{
		"nothing":              {header{}, unknown},
		"something is left":    {header{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "4"}, unknown},
		"remaining is missing": {header{"X-RateLimit-Reset": "4"}, unknown},
		"remaining nonsense":   {header{"X-RateLimit-Remaining": "none", "X-RateLimit-Reset": "4"}, unknown},
		"remaining empty":      {header{"X-RateLimit-Remaining": "", "X-RateLimit-Reset": "4"}, unknown},
		"remaining negative":   {header{"X-RateLimit-Remaining": "-3", "X-RateLimit-Reset": "4"}, 4 * time.Second},
		"remaining fraction":   {header{"X-RateLimit-Remaining": "0.0", "X-RateLimit-Reset": "4"}, 4 * time.Second},
		"reset is missing":     {header{"X-RateLimit-Remaining": "0"}, unknown},

		"epoch seconds":           {spent("1768471204"), 4 * time.Second},
		"epoch seconds, fraction": {spent("1768471204.5"), 4500 * time.Millisecond},
		"epoch milliseconds":      {spent("1768471204250"), 4250 * time.Millisecond},
		"seconds from now":        {spent("4"), 4 * time.Second},
		"fraction of a second":    {spent("0.5"), 500 * time.Millisecond},
		"blanks around":           {spent(" 4 "), 4 * time.Second},
		"HTTP date":               {spent("Thu, 15 Jan 2026 10:00:04 GMT"), 4 * time.Second},
		"RFC 3339":                {spent("2026-01-15T12:00:04+02:00"), 4 * time.Second},
		"reset-after":             {header{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1768471200", "X-RateLimit-Reset-After": "2.5"}, 2500 * time.Millisecond},
		"Twitter's":               {header{"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": "1768471204"}, 4 * time.Second},
		"the draft's":             {header{"RateLimit-Remaining": "0", "RateLimit-Reset": "4"}, 4 * time.Second},
		"the longest of two":      {header{"RateLimit-Remaining": "0", "RateLimit-Reset": "4", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"}, 7 * time.Second},
		"each with its own":       {header{"RateLimit-Remaining": "9", "RateLimit-Reset": "600", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"}, 7 * time.Second},

		"past epoch":                {spent("1768471190"), 0},
		"past milliseconds":         {spent("1768471190000"), 0},
		"past date":                 {spent("Thu, 15 Jan 2026 09:00:00 GMT"), 0},
		"zero":                      {spent("0"), 0},
		"a week":                    {spent("604800"), time.Hour},
		"above a week":              {spent("604800.5"), unknown},
		"next year":                 {spent("1800000000"), unknown},
		"far date":                  {spent("Fri, 31 Dec 9999 23:59:59 GMT"), unknown},
		"microseconds are nonsense": {spent("1768471204000000"), unknown},
		"too many digits":           {spent(strings.Repeat("9", 400)), unknown},
		"negative":                  {spent("-4"), unknown},
		"exponent":                  {spent("1e3"), unknown},
		"hexadecimal":               {spent("0x10"), unknown},
		"a point":                   {spent("."), unknown},
		"two points":                {spent("1.2.3"), unknown},
		"words":                     {spent("in a while"), unknown},
		"other digits":              {spent("٣"), unknown},
	} {
		sent := http.Header{}
		for name, value := range test.header {
			sent.Set(name, value)
		}
		got, said := untilReset(sent, now, time.Hour)
		if !said {
			got = unknown
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func FuzzReset(f *testing.F) {
	for _, seed := range []string{"4", "0.5", "1768471204", "1768471204250", "-1", "1e3", "99999999999999999999", "Thu, 15 Jan 2026 10:00:05 GMT", "2026-01-15T10:00:05Z", ".", "0x1p4"} {
		f.Add("0", seed, seed)
	}
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, remaining, reset, after string) {
		header := http.Header{"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Reset-After": {after}}
		got, said := untilReset(header, now, time.Minute)
		if got < 0 || got > time.Minute || !said && got != 0 || said && !quotaIsSpent(header) {
			t.Errorf("%q, %q, %q: %v %v", remaining, reset, after, got, said)
		}
		for _, status := range []int{200, 403, 429, 503} {
			if pause, why := (answers{longest: time.Minute}).pause(status, header, now); pause < 0 || pause > time.Minute || (pause > 0) != (why != "") {
				t.Errorf("%d, %q, %q: %v %q", status, remaining, reset, pause, why)
			}
		}
	})
}

// What a connection says about its statuses, beside the table.
func TestAnswersOfAConnection(t *testing.T) {
	t.Parallel()
	a := answers{retryOn: []int{500}, failOn: []int{403, 429, 503}, throttleOn: []int{420, 509}, longest: 10 * time.Second}
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		status     int
		retryAfter string
		class      retry.Class
		after      time.Duration
	}{
		"retried":                         {500, "", retry.Transient, 0},
		"retried, and it says when":       {500, "4", retry.Transient, 4 * time.Second},
		"by the table, and it says when":  {502, "4", retry.Transient, 4 * time.Second},
		"failing although the table":      {503, "", retry.Permanent, 0},
		"failing although it says when":   {503, "4", retry.Permanent, 0},
		"a 403 that is never a limit":     {403, "4", retry.Permanent, 0},
		"a 429 that is final":             {429, "4", retry.Permanent, 0},
		"throttling":                      {420, "", retry.Throttled, 0},
		"throttling, and it says when":    {509, "4", retry.Throttled, 4 * time.Second},
		"throttling for longer than ever": {509, "86400", retry.Throttled, 10 * time.Second},
		"another":                         {404, "4", retry.Permanent, 0},
	} {
		header := http.Header{}
		if test.retryAfter != "" {
			header.Set("Retry-After", test.retryAfter)
		}
		if class, after := a.verdict(test.status, header, now); class != test.class || after != test.after {
			t.Errorf("%s: %v %v, want %v %v", name, class, after, test.class, test.after)
		}
	}
}

// arrivals is an API that remembers when it was asked.
type arrivals struct {
	mutex sync.Mutex
	times []time.Time
}

func (a *arrivals) add() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.times = append(a.times, time.Now())
	return len(a.times)
}

// gap is the time between two requests, counted from 1.
func (a *arrivals) gap(from, to int) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.times[to-1].Sub(a.times[from-1])
}

// An API that says that a quota is used up is not asked before there is more, in whatever dialect it says so; one
// that was in the past is asked at once.
func TestSlowsDownBeforeItIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reset       func() string
		least, most time.Duration
	}{
		"delta":        {func() string { return "1" }, 900 * time.Millisecond, 3 * time.Second},
		"epoch":        {func() string { return strconv.FormatInt(time.Now().Add(2*time.Second).Unix(), 10) }, 900 * time.Millisecond, 4 * time.Second},
		"milliseconds": {func() string { return strconv.FormatInt(time.Now().Add(2*time.Second).UnixMilli(), 10) }, 900 * time.Millisecond, 4 * time.Second},
		"past":         {func() string { return strconv.FormatInt(time.Now().Add(-10*time.Second).Unix(), 10) }, 0, time.Second},
		"nonsense":     {func() string { return "later" }, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked arrivals
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked.add() == 1 {
					w.Header().Set("X-RateLimit-Remaining", "0")
					w.Header().Set("X-RateLimit-Reset", test.reset())
				}
			})
			c := api(t, server.URL, "timeout: 5s")
			for range 2 {
				if _, err := get(t, c, "/x"); err != nil {
					t.Fatal(err)
				}
			}
			if gap := asked.gap(1, 2); gap < test.least || gap > test.most {
				t.Errorf("the second request came after %s, want %s to %s", gap, test.least, test.most)
			}
		})
	}
}

// A wait that is longer than a request sits out is given back, with its length and its cause, and the API is
// not asked.
func TestLongPauseIsHandedBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer   func(w http.ResponseWriter)
		settings string
		after    time.Duration
		says     string
	}{
		"quota": {func(w http.ResponseWriter) {
			w.Header().Set("RateLimit-Remaining", "0")
			w.Header().Set("RateLimit-Reset", "60")
		}, "timeout: 5s", time.Minute, "quota of requests is used up"},
		"quota above the cap": {func(w http.ResponseWriter) {
			w.Header().Set("RateLimit-Remaining", "0")
			w.Header().Set("RateLimit-Reset", "60")
		}, "maximum_retry_after: 10s", 10 * time.Second, "quota of requests is used up"},
		"refusal":     {func(w http.ResponseWriter) { w.Header().Set("Retry-After", "60"); w.WriteHeader(429) }, "timeout: 5s", time.Minute, "answered 429 and asked to stay away"},
		"refusal 503": {func(w http.ResponseWriter) { w.Header().Set("Retry-After", "60"); w.WriteHeader(503) }, "timeout: 5s", time.Minute, "answered 503 and asked to stay away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked arrivals
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				asked.add()
				test.answer(w)
			})
			c := api(t, server.URL, test.settings)
			_, _ = get(t, c, "/x")
			for range 3 {
				_, err := get(t, c, "/x")
				wantVerdict(t, err, retry.Throttled, TypeRateLimited)
				if after := retry.Classify(err).After; after > test.after || after < test.after-2*time.Second || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v", after, err)
				}
			}
			if n := len(asked.times); n != 1 {
				t.Errorf("the API was asked %d times", n)
			}
		})
	}
}

// After one refusal all steps of the process stay away, not only the one that was refused.
func TestRefusalHoldsEverybodyBack(t *testing.T) {
	t.Parallel()
	var asked arrivals
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.add() == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	c := api(t, server.URL, "requests_per_second: 1000, burst: 1000")
	_, err := get(t, c, "/x")
	wantVerdict(t, err, retry.Throttled, TypeRateLimited)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			if _, err := get(t, c, "/x"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := 2; i <= 6; i++ {
		if gap := asked.gap(1, i); gap < 990*time.Millisecond {
			t.Errorf("request %d came %s after the refusal", i, gap)
		}
	}
}

// Eight runs with 400 pages between them: never more than the limit and its burst in any second, and nearly all of
// the limit used, also when an API is left alone for a while in between.
func TestRateIsKeptAndUsed(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const perSecond, burst, pages, runs = 10, 3, 400, 8
			p := newPermits(perSecond, burst, 0)
			var asked arrivals
			began := time.Now()
			var group sync.WaitGroup
			for range runs {
				group.Go(func() {
					for range pages / runs {
						release, err := p.acquire(t.Context(), newTurn())
						if err != nil {
							t.Error(err)
							return
						}
						if asked.add() == pages/2 && pause > 0 {
							p.hold(pause, "test")
						}
						release()
					}
				})
			}
			group.Wait()
			most, at := 0, 0
			for i, end := range asked.times {
				for end.Sub(asked.times[at]) >= time.Second {
					at++
				}
				most = max(most, i-at+1)
			}
			if most > perSecond+burst {
				t.Errorf("%d requests within a second", most)
			}
			if took := time.Since(began) - pause; took > pages*time.Second/perSecond*5/4 {
				t.Errorf("%d requests took %s besides the pause, which is less than 80%% of the limit", pages, took)
			}
		})
	}
}

// A wait for a place among those in flight has an end, too, and is told to whoever wants to know.
func TestWaitForAPlaceInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(0, 0, 1)
		release, err := p.acquire(t.Context(), newTurn())
		if err != nil {
			t.Fatal(err)
		}
		var waits []string
		ended := 0
		ctx := WithWaits(t.Context(), func(why string) func() {
			waits = append(waits, why)
			return func() { ended++ }
		})
		began := time.Now()
		_, err = p.acquire(ctx, newTurn())
		wantVerdict(t, err, retry.Throttled, TypeRateLimited)
		if took := time.Since(began); took != maximumSatOut || len(waits) != 1 || ended != 1 || !strings.Contains(waits[0], "1 requests in flight") {
			t.Errorf("after %s: %q, %d ended", took, waits, ended)
		}
		time.AfterFunc(time.Second, release)
		turn := newTurn()
		if release, err = p.acquire(ctx, turn); err != nil || turn.left != maximumSatOut-time.Second {
			t.Errorf("%s left, %v", turn.left, err)
		}
		release()
	})
}
