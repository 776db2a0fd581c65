package systemtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
)

// TestLargeAnswers: what an API sends does not pass through Temporal, however much it is: a page of 60,000 rows, a row of
// 3 MB, an error of 5 MB.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	const (
		rows     = 60_000
		noteSize = 190
		rowSize  = 3 << 20
		bodySize = 5 << 20
		// historyLimit is far above what a run of two steps takes, and far below what was sent.
		historyLimit = 64 << 10
	)
	databases(t, func(w *world) {
		s := newSource(w.t, func(rw http.ResponseWriter, r *http.Request, _ int) {
			day := dayOf(r)
			switch r.URL.Path {
			case "/page":
				note := strings.Repeat("x", noteSize)
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, `{"rows":[`)
				for i := range rows {
					separator := ","
					if i == 0 {
						separator = ""
					}
					fmt.Fprintf(rw, `%s{"id":%d,"at":"%sT00:00:00Z","note":%q}`, separator, i, day, note)
				}
				_, _ = io.WriteString(rw, `]}`)
			case "/row":
				answerJSON(rw, fmt.Sprintf(`{"rows":[{"id":1,"at":"%sT00:00:00Z","note":%q}]}`, day, strings.Repeat("y", rowSize)))
			default:
				rw.WriteHeader(http.StatusBadGateway)
				_, _ = io.WriteString(rw, strings.Repeat("the API is not well. ", bodySize/21))
			}
		})
		w.worker(w.settings(w.connect(s.URL), "circuit_breaker: off"))
		history := func(r report) int64 {
			described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
			if err != nil {
				w.t.Fatal(err)
			}
			if described.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				w.t.Errorf("%s is still open", r.WorkflowID)
			}
			return described.RawResponse.GetWorkflowExecutionInfo().GetHistorySizeBytes()
		}
		whole := func(name string, more ...string) string {
			return w.also(name, append([]string{"path: /rows", "path: /" + name, "      " + countedPages + "\n", ""}, more...)...)
		}
		page := w.run(whole("page"), "2026-01-15", 0)
		row := w.run(whole("row"), "2026-01-15", 0)
		refused := w.run(whole("error", "steps:", "defaults: { retry: { maximum_attempts: 2, initial_interval: 20ms } }\nsteps:"), "2026-01-15", 5)
		if w.rowsIn("page") != rows || page.Result.Steps[0].Attempts != 1 || w.rowsIn("row") != 1 || row.Result.Steps[0].Attempts != 1 {
			w.t.Errorf("%d and %d rows: %+v, %+v", w.rowsIn("page"), w.rowsIn("row"), page.Result, row.Result)
		}
		if got := len(s.came("/error")); got != 2 || refused.Result.Steps[0].Attempts != 2 || len(refused.Error) > 1000 || !strings.Contains(refused.Error, "the API is not well.") {
			w.t.Errorf("%d requests, an error of %d bytes: %.300s", got, len(refused.Error), refused.Error)
		}
		for _, r := range []report{page, row, refused} {
			size := history(r)
			w.t.Logf("%s: a history of %d bytes", r.WorkflowID, size)
			if size > historyLimit {
				w.t.Errorf("the history of %s has %d bytes", r.WorkflowID, size)
			}
		}
	})
}
