package systemtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trancheflow/tranche/warehouse"
)

// TestKilledAtEachPage: of ten workers that read ten pages from the same API, each is killed at another page. The
// workers that take over ask for no page again that was committed, every row is in the table once, and the rows of the
// run before stay until they are.
func TestKilledAtEachPage(t *testing.T) {
	t.Parallel()
	const pages, size = 10, 100
	type victim struct {
		once    sync.Once
		entered chan struct{}
		before  func() int64 // rows that a reader sees
		seen    []int64
	}
	var mutex sync.Mutex
	victims := map[string]*victim{}
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		mutex.Lock()
		v := victims[r.URL.Path]
		mutex.Unlock()
		switch {
		case v == nil && page == 1: // the run before
			answerJSON(rw, rowsOf(dayOf(r), 5000, 7))
			return
		case v == nil:
			answerJSON(rw, rowsOf(dayOf(r), 0, 0))
			return
		case strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%d", page)):
			hangs := false
			v.once.Do(func() { hangs = true; close(v.entered) })
			if hangs {
				<-r.Context().Done()
				return
			}
		}
		seen := v.before()
		mutex.Lock()
		v.seen = append(v.seen, seen)
		mutex.Unlock()
		answerJSON(rw, rowsOf(dayOf(r), size*(page-1), map[bool]int{true: size, false: 0}[page <= pages]))
	})
	for driver, at := range map[string][]int{warehouse.DriverSQLite: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, warehouse.DriverPostgres: {1, 6, 10}} {
		for _, at := range at {
			t.Run(fmt.Sprintf("%s/%d", driver, at), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, driver)
				path := fmt.Sprintf("/%s/%d", driver, at)
				connections := w.connect(s.URL)
				file := w.write("pipeline.yaml", strings.Replace(w.read(w.orders("defaults: { timeout: { heartbeat: 3s } }\n")), "path: /rows", "path: "+path, 1))
				first := w.worker(connections)
				w.run(file, "2026-01-15", 0)
				before := len(s.came(path))
				v := &victim{entered: make(chan struct{}), before: func() int64 { return w.rowsIn("orders") }}
				mutex.Lock()
				victims[path] = v
				mutex.Unlock()
				w.start(file, "2026-01-15")
				w.await("the page is never asked for", v.entered)
				first.Kill()
				w.worker(connections)
				if r := w.run(file, "2026-01-15", 0); r.Result.Rows != pages*size || r.Result.Steps[0].Attempts != 2 {
					t.Errorf("the run answers %+v", r.Result)
				}
				var asked, want []string
				for _, each := range s.came(path)[before:] {
					asked = append(asked, each.url.Query().Get("page"))
				}
				for page := 1; page <= pages+1; page++ {
					want = append(want, strconv.Itoa(page))
					if page == at {
						want = append(want, strconv.Itoa(page))
					}
				}
				if fmt.Sprint(asked) != fmt.Sprint(want) {
					t.Errorf("the pages %v were asked for, want %v", asked, want)
				}
				mutex.Lock()
				for _, rows := range v.seen {
					if rows != 7 {
						t.Errorf("a reader saw %d rows before the load, want the 7 of the run before", rows)
					}
				}
				mutex.Unlock()
				got := w.content()
				if w.run(file, "2026-01-15", 0); got.rows != pages*size || got != w.content() {
					t.Errorf("the table holds %+v, and after an undisturbed run %+v", got, w.content())
				}
			})
		}
	}
}
