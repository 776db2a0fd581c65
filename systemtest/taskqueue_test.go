package systemtest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trancheflow/tranche/warehouse"
)

// TestATaskQueueOfTheConnections: Temporal hands out the steps of an API at the rate that is declared, over two
// workers; a step that does not come by it is refused, and one whose queue nobody polls is told of.
func TestATaskQueueOfTheConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	var mutex sync.Mutex
	var at []time.Time
	a.intercept(func(http.ResponseWriter, *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		at = append(at, time.Now())
		return false
	})
	queue := w.name + "-api"
	plain := read(t, w.connect(a.URL))
	file := w.limited(100)
	own := w.write("own.yaml", strings.Replace(read(t, file), "      connection: api\n", "      connection: api\n      task_queue: "+queue+"\n", 1))

	first := w.worker(w.write("plain.yaml", plain))
	if got := w.starter("run", own, "--interval", "2026-01-11"); got.code != 0 || !strings.Contains(got.talk, "no worker polls task queue "+queue+": step extract waits for one") {
		t.Errorf("starter run exits %d: %s", got.code, got.talk)
	}
	first.Kill()

	limited := w.write("api-limited.yaml", strings.Replace(plain, `api: { http: {`, fmt.Sprintf(`api: { http: { task_queue: { name: %s, steps_per_second: 4 },`, queue), 1))
	w.worker(limited)
	w.worker(limited)
	if r := w.run(file, "2026-01-12", 5); !strings.Contains(r.Error, "write task_queue: "+queue+" in the http step") {
		t.Errorf("a step on the wrong queue ends as %+v", r)
	}
	const runs = 20
	var terminals sync.WaitGroup
	for i := range runs - 1 {
		terminals.Go(func() { w.start(own, januaryDay(12+i)) })
	}
	terminals.Wait()
	w.eventually("all runs have asked", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(at) >= runs
	})
	most := 0
	for i := range at {
		within := 0
		for _, other := range at[i:] {
			if other.Sub(at[i]) < time.Second {
				within++
			}
		}
		most = max(most, within)
	}
	took := at[len(at)-1].Sub(at[0])
	t.Logf("%d steps in %s, at most %d in a second", len(at), took, most)
	if len(at) != runs || most > 12 || took < (runs-8)*time.Second/4 {
		// The server splits the rate over the partitions of the queue, each of which has a burst of its own.
		t.Errorf("%d steps of %d started in %s, up to %d in a second: 4 are declared", len(at), runs, took, most)
	}
}
