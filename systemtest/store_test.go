package systemtest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/warehouse"
)

// TestThrottledStore: a bucket that asks for fewer requests is waited for by the step that looks the file up and by the
// load that reads it, durably and without using up the one attempt that they have.
func TestThrottledStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	const text = "id,at,note\n1,2026-01-15T00:00:00Z,a\n2,2026-01-15T01:00:00Z,b\n"
	// The store's own library asks three times before it gives up.
	const refusals = 3
	var mutex sync.Mutex
	left := map[string]int{http.MethodHead: refusals, http.MethodGet: refusals}
	s := newSource(t, func(rw http.ResponseWriter, r *http.Request, _ int) {
		mutex.Lock()
		refused := left[r.Method] > 0
		left[r.Method]--
		mutex.Unlock()
		if refused {
			rw.Header().Set("Content-Type", "application/xml")
			rw.Header().Set("Retry-After", "4")
			rw.WriteHeader(http.StatusServiceUnavailable)
			_, _ = rw.Write([]byte(`<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`))
			return
		}
		sum := md5.Sum([]byte(text))
		rw.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		rw.Header().Set("Last-Modified", "Thu, 15 Jan 2026 10:00:00 GMT")
		rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if r.Method == http.MethodGet {
			_, _ = rw.Write([]byte(text))
		}
	})
	const key, secret = "AKIDEXAMPLE-of-the-worker", "SECRETKEY-of-the-worker"
	w.environment = append(w.environment, "AWS_ACCESS_KEY_ID="+key, "AWS_SECRET_ACCESS_KEY="+secret, "AWS_REGION=eu-west-1", "AWS_EC2_METADATA_DISABLED=true")
	connections := w.connect("http://127.0.0.1:1")
	w.write("connections.yaml", w.read(connections)+fmt.Sprintf("  lake: { files: { url: %q } }\n",
		"s3://bucket?use_path_style=true&region=eu-west-1&endpoint="+url.QueryEscape(s.URL)))
	w.worker(connections)
	file := w.write("pipeline.yaml", strings.ReplaceAll(`pipeline: NAME
warehouse: warehouse
task_queue: NAME
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
defaults: { retry: { maximum_attempts: 1 } }
steps:
  - name: extract
    file:
      connection: lake
      path: "{{ date .Interval.Start }}.csv"
      columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }]
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`, "NAME", w.name))
	r := w.run(file, "2026-01-15", 0)
	if r.Result.Rows != 2 || w.content().rows != 2 {
		t.Fatalf("the run answers %+v", r.Result)
	}
	for _, each := range r.Result.Steps {
		if each.Attempts != 1 || each.Waited == nil || each.Waited.Times != 1 || each.Waited.Total != "4s" {
			t.Errorf("step %s took %d attempts and waited for %+v", each.Name, each.Attempts, each.Waited)
		}
	}
	timers := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if summary := string(event.GetUserMetadata().GetSummary().GetData()); event.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED && strings.Contains(summary, "waits") {
			timers++
			if !strings.Contains(summary, "2026-01-15.csv in the connection lake") || !strings.Contains(summary, "503") || strings.Contains(summary, secret) {
				t.Errorf("the timer says %s", summary)
			}
		}
	}
	var between []time.Duration
	for _, gap := range gaps(s.came()) {
		if gap >= 4*time.Second {
			between = append(between, gap)
		}
	}
	if timers != 2 || len(between) != 2 {
		t.Errorf("%d timers, and %d pauses of 4s or more: want one for each step", timers, len(between))
	}
}
