package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

const (
	countedPages = "pagination: { kind: page, size_parameter: per_page, size: 100 }"
	cursorPages  = "pagination: { kind: cursor, parameter: cursor, next: next }"
	linkedPages  = "pagination: { kind: next_link, next: next }"
)

// pageOf is the number in a cursor; 0 for none.
func pageOf(cursor string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(cursor, "c"))
	return n
}

// TestListingsThatNeverEnd: whatever an API does instead of ending its list, the run ends, after at most two requests
// too many, with all of the rows or with an error that says what it was.
func TestListingsThatNeverEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	threePages := map[string]string{"": `"c1"`, "c1": `"c2"`, "c2": `"c3"`, "c3": `"c3"`}
	answers := map[string]func(r *http.Request, cursor string) string{
		"empty-for-ever": func(r *http.Request, cursor string) string {
			rows := 10
			if cursor == "c3" {
				rows = 0
			}
			return rowsOf(dayOf(r), 10*pageOf(cursor), rows, `,"next":`+threePages[cursor])
		},
		"boundary-for-ever": func(r *http.Request, cursor string) string {
			if cursor == "c3" {
				return rowsOf(dayOf(r), 1000, 2, `,"next":"c3"`)
			}
			return rowsOf(dayOf(r), 10*pageOf(cursor), 10, `,"next":`+threePages[cursor])
		},
		"null-list": func(r *http.Request, cursor string) string {
			switch cursor {
			case "":
				return rowsOf(dayOf(r), 0, 10, `,"next":"c1"`)
			case "c1":
				return rowsOf(dayOf(r), 10, 4, `,"next":"c2"`)
			default:
				return `{"rows":null,"next":null}`
			}
		},
		"more-without-cursor": func(r *http.Request, _ string) string {
			return rowsOf(dayOf(r), 0, 10, `,"has_more":true`)
		},
		"ignores-the-page": func(r *http.Request, _ string) string { return rowsOf(dayOf(r), 0, 100) },
	}
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		answerJSON(rw, answers[strings.TrimPrefix(r.URL.Path, "/")](r, r.URL.Query().Get("cursor")))
	})
	w.worker(w.connect(s.URL))
	for _, test := range []struct {
		shape, pagination string
		requests          int
		rows              int64
		says              string
	}{
		{"empty-for-ever", cursorPages, 4, 30, ""},
		{"boundary-for-ever", cursorPages, 4, 0, "cursor repeated"},
		{"null-list", cursorPages, 3, 14, ""},
		{"more-without-cursor", strings.Replace(cursorPages, " }", ", more: has_more }", 1), 1, 0, "there are more pages"},
		{"ignores-the-page", countedPages, 2, 0, "page repeated"},
	} {
		t.Run(test.shape, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			file := w.also(test.shape, "path: /rows", "path: /"+test.shape, countedPages, test.pagination)
			code := 0
			if test.says != "" {
				code = 5
			}
			r := w.run(file, "2026-01-15", code)
			if requests := len(s.came("/" + test.shape)); requests != test.requests {
				t.Errorf("%d requests, want %d", requests, test.requests)
			}
			if rows := w.rowsIn(strings.ReplaceAll(test.shape, "-", "_")); rows != test.rows || !strings.Contains(r.Error, test.says) || r.Result.Steps[0].Attempts != 1 {
				t.Errorf("%d rows, want %d; the run says %q: %+v", rows, test.rows, r.Error, r.Result)
			}
		})
	}
}

// TestCursorsThatExpire: a listing whose cursor the API forgets begins again, a bounded number of times, also when that is
// found out by a worker that took over.
func TestCursorsThatExpire(t *testing.T) {
	t.Parallel()
	page := func(r *http.Request, n int) string {
		next := fmt.Sprintf(`,"next":"c%d"`, n+1)
		if n == 5 {
			next = ""
		}
		return rowsOf(dayOf(r), 10*n, 10, next)
	}
	number := func(r *http.Request) int { return max(pageOf(r.URL.Query().Get("cursor")), 1) }
	reject := func(rw http.ResponseWriter) { http.Error(rw, `{"error":"invalid cursor"}`, http.StatusBadRequest) }
	cursors := func(s *source) (asked []string) {
		for _, each := range s.came() {
			asked = append(asked, each.url.Query().Get("cursor"))
		}
		return asked
	}
	fifty := func(w *world, r report, s *source, most int) {
		w.t.Helper()
		note := ""
		if r.Result != nil {
			note = r.Result.Steps[0].Note
		}
		if asked := cursors(s); len(asked) > most || w.content().rows != 50 || r.Result.Rows != 50 || !strings.Contains(note, "began again 1 times") {
			w.t.Errorf("asked for %v, %d rows: %+v", asked, w.content().rows, r.Result)
		}
	}

	t.Run("once", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, warehouse.DriverSQLite)
		var once sync.Once
		s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
			n, rejected := number(r), false
			if n == 3 {
				once.Do(func() { rejected = true; reject(rw) })
			}
			if !rejected {
				answerJSON(rw, page(r, n))
			}
		})
		w.worker(w.connect(s.URL))
		fifty(w, w.run(w.cursors(), "2026-01-15", 0), s, 3+5)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, warehouse.DriverSQLite)
		entered := make(chan struct{})
		var once sync.Once
		var mutex sync.Mutex
		dead := false // the cursor of page 3, since the worker was killed
		s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
			n, hangs := number(r), false
			mutex.Lock()
			rejected := n == 3 && dead
			if n == 3 {
				once.Do(func() { hangs, dead = true, true })
			}
			if rejected {
				dead = false
			}
			mutex.Unlock()
			switch {
			case hangs:
				close(entered)
				<-r.Context().Done()
			case rejected:
				reject(rw)
			default:
				answerJSON(rw, page(r, n))
			}
		})
		connections := w.connect(s.URL)
		first := w.worker(connections)
		file := w.cursors("defaults: { timeout: { heartbeat: 3s } }\n")
		w.start(file, "2026-01-15")
		w.await("page 3 is never asked for", entered)
		first.Kill()
		w.worker(connections)
		// Pages 1 and 2, page 3 hanging and rejected, and all five again.
		fifty(w, w.run(file, "2026-01-15", 0), s, 4+5)
	})
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, warehouse.DriverSQLite)
		s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
			if n := number(r); n < 3 {
				answerJSON(rw, page(r, n))
				return
			}
			reject(rw)
		})
		w.worker(w.connect(s.URL))
		r := w.run(w.cursors(), "2026-01-15", 5)
		// Once, and three times again.
		if asked := cursors(s); len(asked) != 4*3 || !strings.Contains(r.Error, "CursorRejected") || !strings.Contains(r.Error, "began again 3 times") {
			t.Errorf("asked for %v: %s", asked, r.Error)
		}
	})
}

// cursors is the pipeline of the API, by cursor.
func (w *world) cursors(more ...string) string {
	w.t.Helper()
	return w.write("pipeline.yaml", strings.Replace(w.read(w.orders(more...)), countedPages, cursorPages, 1))
}

// TestOffsetsOfSeveralIntervals: listings by offset of three days, one after the other and at once, each begin at 0.
func TestOffsetsOfSeveralIntervals(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 3} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
				offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
				day, _ := strconv.Atoi(dayOf(r)[len("2026-01-"):])
				answerJSON(rw, rowsOf(dayOf(r), 1000*day+offset, max(0, min(100, 150-offset))))
			})
			w.worker(w.connect(s.URL))
			file := w.also("offsets", countedPages, "pagination: { kind: offset, size: 100 }",
				"start_date: 2026-01-01", fmt.Sprintf("start_date: 2026-01-01, max_active_runs: %d", width))
			w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, w.startDays(file, 11, 13)...)
			asked := map[string][]string{}
			for _, each := range s.came() {
				day := each.url.Query().Get("from")
				asked[day] = append(asked[day], each.url.Query().Get("offset"))
			}
			for day, offsets := range asked {
				if !slices.Equal(offsets, []string{"0", "100"}) {
					t.Errorf("of %s the offsets %v were asked for", day, offsets)
				}
			}
			if len(asked) != 3 || w.rowsIn("offsets") != 3*150 {
				t.Errorf("%d days and %d rows", len(asked), w.rowsIn("offsets"))
			}
		})
	}
}

// TestNextLinks: a link to another host, to an address of the inside or to a file ends the run, and nobody there hears
// of it; one to the own host gets the credentials; a page that is refused fails the run.
func TestNextLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	thief := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) { answerJSON(rw, rowsOf("2026-01-15", 0, 1)) })
	var s *source
	s = newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		mode, second := strings.CutSuffix(r.URL.Path, "/2")
		mode = strings.TrimPrefix(mode, "/")
		if r.Header.Get("Authorization") != "Bearer "+apiToken || second && mode == "refused" {
			http.Error(rw, `{"error":"who are you?"}`, http.StatusUnauthorized)
			return
		}
		if second {
			answerJSON(rw, rowsOf("2026-01-15", 10, 10))
			return
		}
		next := map[string]string{
			"foreign": strings.Replace(thief.URL, "127.0.0.1", "localhost", 1) + "/steal", "metadata": "http://169.254.169.254/latest/",
			"file": "file:///etc/passwd", "own": s.URL + "/own/2", "refused": "/refused/2",
		}[mode]
		answerJSON(rw, rowsOf(dayOf(r), 0, 10, fmt.Sprintf(`,"next":%q`, next)))
	})
	w.worker(w.connect(s.URL))
	for mode, says := range map[string]string{"foreign": "localhost", "metadata": "169.254.169.254", "file": "file:", "own": "", "refused": "401"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			file := w.also(mode, "path: /rows", "path: /"+mode, countedPages, linkedPages)
			if mode == "own" {
				if r := w.run(file, "2026-01-15", 0); r.Result.Rows != 20 || w.rowsIn("own") != 20 {
					t.Errorf("the run answers %+v", r.Result)
				}
				return
			}
			r := w.run(file, "2026-01-15", 5)
			pages := len(s.came("/"+mode)) + len(s.came("/"+mode+"/2"))
			if want := map[string]int{"refused": 2}[mode]; pages != max(want, 1) || !strings.Contains(r.Error, says) || w.rowsIn(mode) != 0 {
				t.Errorf("%d requests: %s", pages, r.Error)
			}
		})
	}
	t.Cleanup(func() {
		if came := thief.came(); len(came) != 0 {
			t.Errorf("%d requests reached a foreign host, the first with %v", len(came), came[0].header)
		}
	})
}
