package systemtest

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// TestManyLoadsIntoOneFile: a backfill of sixteen intervals, eight at a time, into one SQLite file of which somebody holds a
// cursor open: all of them load at their first attempt, and nobody hears that the database is locked.
func TestManyLoadsIntoOneFile(t *testing.T) {
	t.Parallel()
	const intervals, width, rows = 16, 8, 1000
	w := newWorld(t, warehouse.DriverSQLite)
	var mutex sync.Mutex
	asked := map[string]bool{}
	together := make(chan struct{}) // closed when as many intervals as the window is wide are being read
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		mutex.Lock()
		asked[dayOf(r)] = true
		if len(asked) == 1+width {
			select {
			case <-together:
			default:
				close(together)
			}
		}
		first := len(asked) == 1
		mutex.Unlock()
		if !first {
			select {
			case <-together:
			case <-r.Context().Done():
				return
			}
		}
		answerJSON(rw, rowsOf(dayOf(r), 0, rows))
	})
	p := w.worker(w.connect(s.URL))
	file := w.write("pipeline.yaml", strings.Replace(w.read(w.orders()), "      "+countedPages+"\n", "", 1))
	w.run(file, "2026-01-01", 0)
	reader, err := sqlite3.OpenFlags(w.config.DSN, sqlite3.OPEN_READONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cursor, _, err := reader.Prepare("select id from orders")
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	if !cursor.Step() {
		t.Fatal(cursor.Err())
	}
	result := w.patiently(w.backfill("tranche/backfill/"+w.name+"/wide", file, "2026-01-02", "2026-01-18", func(in *workflows.BackfillInput) {
		in.Window, in.Reprocess = width, step.ReprocessAll
	}))
	from := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	outcomes := w.outcomes(from, from.AddDate(0, 0, intervals))
	for _, o := range outcomes {
		if o.Status != warehouse.OutcomeLoaded {
			t.Errorf("%s was %s: %s", o.Interval, o.Status, o.Note)
		}
	}
	if len(outcomes) != intervals || w.content().rows != (1+intervals)*rows {
		t.Errorf("%d outcomes and %d rows: %+v", len(outcomes), w.content().rows, result)
	}
	for id := range w.runsOf() {
		for _, event := range w.events(id, "") {
			if started := event.GetActivityTaskStartedEventAttributes(); started.GetAttempt() > 1 {
				t.Errorf("%s took %d attempts: %s", id, started.GetAttempt(), started.GetLastFailure().GetMessage())
			}
		}
	}
	if log := w.read(p.Log); strings.Contains(log, "locked") {
		t.Errorf("the worker's log says that the database is locked:\n%s", p.Tail())
	}
	for seen := 1; ; seen++ {
		if !cursor.Step() {
			if seen != rows {
				t.Errorf("the reader saw %d rows, want the %d that were there when it began", seen, rows)
			}
			break
		}
	}
}
