package systemtest

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// TestRateLimitedShop: a shop refuses twice, once with Retry-After and once without; the output says what was waited for
// and why.
func TestRateLimitedShop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		switch n {
		case 1:
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
		case 2:
			rw.WriteHeader(http.StatusTooManyRequests)
		default:
			answerJSON(rw, rowsOf(dayOf(r), 0, 3))
		}
	})
	w.worker(w.connect(s.URL))
	// The second refusal in a row pauses for the second pause of the policy, 0.8 s, times 0.5 to 1.5.
	file := w.orders("defaults: { retry: { initial_interval: 400ms, backoff_coefficient: 2, maximum_attempts: 1 } }\n")
	got := w.starter("run", file, "--interval", "2026-01-15", "--wait")
	w.wantLines(got, "loaded, 3 rows", "extract done 1 3 waited 2 times, ", "1s as its header Retry-After asked", "by backoff, since it did not say for how long",
		"load done 1 3 orders 3 0")
	paused := gaps(s.came())
	if got.code != 0 || len(paused) != 2 || paused[0] < time.Second {
		t.Fatalf("starter run exits %d, the requests came after %v", got.code, paused)
	}
	said := regexp.MustCompile(`asked, (\S+) by backoff`).FindStringSubmatch(got.out)
	if said == nil {
		t.Fatal("the output does not say how long the backoff was")
	}
	backoff, err := time.ParseDuration(said[1])
	if err != nil || backoff < 400*time.Millisecond || backoff > 1200*time.Millisecond || paused[1] < backoff-time.Millisecond {
		t.Errorf("the backoff was %s and took %s, want 0.5 to 1.5 times 800ms", said[1], paused[1])
	}
}

// TestRetryAfterAsADate: a date with 429, seconds with 503; three requests, and no attempt used up.
func TestRetryAfterAsADate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		now := time.Now().UTC()
		rw.Header().Set("Date", now.Format(http.TimeFormat))
		switch n {
		case 1:
			rw.Header().Set("Retry-After", now.Add(5*time.Second).Format(http.TimeFormat))
			rw.WriteHeader(http.StatusTooManyRequests)
		case 2:
			rw.Header().Set("Retry-After", "3")
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			answerJSON(rw, rowsOf(dayOf(r), 0, 3))
		}
	})
	w.worker(w.connect(s.URL))
	r := w.run(w.orders("defaults: { retry: { maximum_attempts: 1 } }\n"), "2026-01-15", 0)
	paused := gaps(s.came())
	if len(paused) != 2 || r.Result.Rows != 3 || r.Result.Steps[0].Attempts != 1 {
		t.Fatalf("the requests came after %v: %+v", paused, r.Result)
	}
	if paused[0] < 5*time.Second || paused[1] < 3*time.Second {
		t.Errorf("the requests came after %v, want 5s and 3s", paused)
	}
	if waited := r.Result.Steps[0].Waited; waited == nil || waited.Times != 2 || waited.Total != "8s" {
		t.Errorf("the result says that it waited for %+v", waited)
	}
}

// TestRefusedForLongerThanAnAttempt: short refusals that go on for longer than start_to_close use up no attempt.
func TestRefusedForLongerThanAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	const refusals = 8
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		if n <= refusals {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerJSON(rw, rowsOf(dayOf(r), 0, 3))
	})
	w.worker(w.connect(s.URL))
	r := w.run(w.orders("defaults: { retry: { maximum_attempts: 1 }, timeout: { start_to_close: 6s, heartbeat: 3s } }\n"), "2026-01-15", 0)
	if came := s.came(); len(came) != refusals+1 || r.Result.Steps[0].Attempts != 1 || r.Result.Steps[0].Waited.Times != refusals || r.Result.Rows != 3 {
		t.Errorf("%d requests: %+v", len(came), r.Result)
	}
}

// TestForbiddenForNow tells a 403 that is a limit from one that is a refusal.
func TestForbiddenForNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	var asked sync.Map
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		mode := strings.TrimPrefix(r.URL.Path, "/")
		_, again := asked.LoadOrStore(mode, true)
		switch {
		case mode == "plain":
		case again:
			answerJSON(rw, rowsOf(dayOf(r), 0, 3))
			return
		case mode == "retry-after":
			rw.Header().Set("Retry-After", "2")
		case mode == "quota":
			rw.Header().Set("X-RateLimit-Remaining", "0")
			rw.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+3, 10))
		}
		http.Error(rw, `{"message":"no, `+r.Header.Get("Authorization")+`"}`, http.StatusForbidden)
	})
	connections := w.connect(s.URL)
	w.write("connections.yaml", w.read(connections)+strings.Repeat(" ", 2)+fmt.Sprintf("quota: { http: { base_url: %[1]q } }\n  plain: { http: { base_url: %[1]q, bearer: \"${API_TOKEN}\" } }\n", s.URL))
	w.worker(connections)
	for mode, least := range map[string]time.Duration{"retry-after": 2 * time.Second, "quota": 3 * time.Second, "plain": 0} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			connection := map[string]string{"retry-after": "api"}[mode]
			if connection == "" {
				connection = mode
			}
			file := w.also(mode, "path: /rows", "path: /"+mode, "connection: api", "connection: "+connection, "steps:", "defaults: { retry: { maximum_attempts: 1 } }\nsteps:")
			if mode == "plain" {
				r := w.run(file, "2026-01-15", 5)
				if len(s.came("/plain")) != 1 || !strings.Contains(r.Error, "403") || !strings.Contains(r.Error, s.URL+"/plain") || strings.Contains(r.Error, apiToken) {
					t.Errorf("%d requests: %s", len(s.came("/plain")), r.Error)
				}
				return
			}
			r := w.run(file, "2026-01-15", 0)
			came := s.came("/" + mode)
			if len(came) != 2 || gaps(came)[0] < least-time.Second || r.Result.Rows != 3 {
				t.Errorf("%d requests after %v: %+v", len(came), gaps(came), r.Result)
			}
			if mode == "retry-after" && gaps(came)[0] < least {
				t.Errorf("the second request came after %s", gaps(came)[0])
			}
		})
	}
}

// TestQuotaDialects: an API that has granted the last request of its quota is asked for the next page when there is
// more, however it writes when that is.
func TestQuotaDialects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	resets := map[string]func(now time.Time) string{
		"epoch":  func(now time.Time) string { return strconv.FormatInt(now.Unix()+4, 10) },
		"delta":  func(time.Time) string { return "4" },
		"millis": func(now time.Time) string { return strconv.FormatInt(now.UnixMilli()+4000, 10) },
		"past":   func(now time.Time) string { return strconv.FormatInt(now.Unix()-10, 10) },
	}
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Query().Get("page") == "1" {
			now := time.Now()
			rw.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			rw.Header().Set("X-RateLimit-Remaining", "0")
			rw.Header().Set("X-RateLimit-Reset", resets[strings.TrimPrefix(r.URL.Path, "/")](now))
			answerJSON(rw, rowsOf(dayOf(r), 0, 100))
			return
		}
		answerJSON(rw, rowsOf(dayOf(r), 100, 5))
	})
	connections := w.connect(s.URL)
	text := w.read(connections)
	for dialect := range resets {
		text += fmt.Sprintf("  %s: { http: { base_url: %q } }\n", dialect, s.URL)
	}
	w.worker(w.write("connections.yaml", text))
	for dialect := range resets {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			r := w.run(w.also(dialect, "path: /rows", "path: /"+dialect, "connection: api", "connection: "+dialect), "2026-01-15", 0)
			came := s.came("/" + dialect)
			if len(came) != 2 || r.Result.Rows != 105 || r.Result.Steps[0].Attempts != 1 {
				t.Fatalf("%d requests: %+v", len(came), r.Result)
			}
			pause, waited := gaps(came)[0], r.Result.Steps[0].Waited
			if dialect == "past" {
				if waited != nil {
					t.Errorf("waited for a quota that was back already: %+v", waited)
				}
				return
			}
			// The seconds of the server's Date are whole: of what is counted from it a part has passed.
			if pause < 3*time.Second || waited == nil || !strings.Contains(fmt.Sprint(waited.Shown), "the API's quota of requests is used up") {
				t.Errorf("the next page was asked for after %s: waited for %+v", pause, waited)
			}
			if total, err := time.ParseDuration(waited.Total); err != nil || total > 10*time.Second {
				t.Errorf("waited for %s", waited.Total)
			}
		})
	}
}

// stalls knows for how long at most the machine has let a goroutine wait.
type stalls struct{ longest atomic.Int64 }

func newStalls(t *testing.T) *stalls {
	s := &stalls{}
	quit, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(quit); <-done })
	go func() {
		defer close(done)
		const beat = 10 * time.Millisecond
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-quit:
				return
			case <-ticker.C:
				s.longest.Store(max(s.longest.Load(), int64(time.Since(last)-beat)))
			}
		}
	}()
	return s
}

// requests is how many requests, sent at a steady rate, a stall may have made arrive together: those of the stall, and one
// at each end of a second.
func (s *stalls) requests(perSecond int) int {
	const ends = 2
	return ends + int(time.Duration(s.longest.Load()).Seconds()*float64(perSecond))
}

// TestRateOverManyRuns: eight runs at once on one worker share its rate, use it, and stop together when one of them is
// refused.
func TestRateOverManyRuns(t *testing.T) {
	t.Parallel()
	const (
		perSecond, burst = 10, 1
		runs, pages      = 8, 50
		refused, pause   = 150, 2 * time.Second
	)
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		if n == refused {
			rw.Header().Set("Retry-After", "2")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		rows := 2
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if page == pages {
			rows = 1
		}
		answerJSON(rw, rowsOf(dayOf(r), 2*page, rows))
	})
	w.worker(w.settings(w.connect(s.URL), fmt.Sprintf("requests_per_second: %d, burst: %d", perSecond, burst)))
	file := w.also("pages", "size: 100", "size: 2", "start_date: 2026-01-01", fmt.Sprintf("start_date: 2026-01-01, max_active_runs: %d", runs))
	stalls := newStalls(t)
	started := w.startDays(file, 11, 10+runs)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, started...)
	if peak := w.peak(started); peak != runs {
		t.Errorf("%d runs worked at once, want %d", peak, runs)
	}
	came := s.came()
	if len(came) != runs*pages+1 || w.rowsIn("pages") != runs*(2*pages-1) {
		t.Fatalf("%d requests and %d rows, want %d and %d", len(came), w.rowsIn("pages"), runs*pages+1, runs*(2*pages-1))
	}
	took := came[len(came)-1].at.Sub(came[0].at)
	most := busiest(came, time.Second)
	used := float64(len(came)-1) / (took - pause).Seconds() / perSecond
	noise := stalls.requests(perSecond)
	t.Logf("%d requests in %s, of which %s are a pause: at most %d in a second, with %d for stalls of the machine; %.1f%% of the limit",
		len(came), took, pause, most, noise, 100*used)
	if most > perSecond+burst+noise {
		t.Errorf("%d requests in a second, want at most %d and a burst of %d", most, perSecond, burst)
	}
	if least := time.Duration(runs*pages-burst) * time.Second / perSecond; took < least {
		t.Errorf("%d requests took %s, want at least %s", len(came), took, least)
	}
	if used < 0.8 {
		t.Errorf("%.0f%% of the limit were used, want 80%%", 100*used)
	}
	quiet := came[refused].at.Sub(came[refused-1].at)
	// One request may have been on its way when the refusal was.
	if next := came[refused+1].at.Sub(came[refused-1].at); quiet < pause && next < pause {
		t.Errorf("after the refusal requests came after %s and %s, want none for %s", quiet, next, pause)
	}
}

// TestRateOfTwoWorkers: the rate is each worker process's own.
func TestRateOfTwoWorkers(t *testing.T) {
	t.Parallel()
	const (
		perSecond, burst = 10, 1
		runs, pages      = 8, 15
	)
	w := newWorld(t, warehouse.DriverSQLite)
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		rows := 2
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if page == pages {
			rows = 1
		}
		answerJSON(rw, rowsOf(dayOf(r), 2*page, rows))
	})
	connections := w.settings(w.connect(s.URL), fmt.Sprintf("requests_per_second: %d, burst: %d", perSecond, burst))
	// Each has places for half of the runs, so that both work.
	w.worker(connections, "--max-activities", strconv.Itoa(runs/2))
	w.worker(connections, "--max-activities", strconv.Itoa(runs/2))
	file := w.also("pages", "size: 100", "size: 2", "start_date: 2026-01-01", fmt.Sprintf("start_date: 2026-01-01, max_active_runs: %d", runs))
	stalls := newStalls(t)
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, w.startDays(file, 11, 10+runs)...)
	came := s.came()
	most := busiest(came, time.Second)
	took := came[len(came)-1].at.Sub(came[0].at)
	t.Logf("%d requests in %s, at most %d in a second", len(came), took, most)
	if len(came) != runs*pages || most > 2*(perSecond+burst+stalls.requests(perSecond)) || w.rowsIn("pages") != runs*(2*pages-1) {
		t.Errorf("%d requests, up to %d in a second, %d rows", len(came), most, w.rowsIn("pages"))
	}
}
