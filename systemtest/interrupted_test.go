package systemtest

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// TestPausedAndResetSteps: somebody pauses or resets a step in Temporal's UI while it works. Its run is not taken for
// cancelled, and the step goes on at the page that was next. After a reset the server gives no attempt beyond
// maximum_attempts (v1.32.1); then the run fails, and says why.
func TestPausedAndResetSteps(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]string{"its only attempt": "1", "one of several": "3"} {
		t.Run("pause "+name, func(t *testing.T) {
			t.Parallel()
			w, a, r := interruptible(t, attempts)
			_, err := w.temporal.WorkflowService().PauseActivity(w.ctx, &workflowservice.PauseActivityRequest{
				Namespace: "default", Execution: &common.WorkflowExecution{WorkflowId: r.WorkflowID, RunId: r.RunID},
				Activity: &workflowservice.PauseActivityRequest_Type{Type: step.ActivityHTTP}, Reason: "by the test",
			})
			if err != nil {
				t.Fatal(err)
			}
			w.eventually("the attempt was interrupted", func() bool {
				described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
				if err != nil {
					t.Fatal(err)
				}
				pending := described.RawResponse.GetPendingActivities()
				if len(pending) != 1 {
					t.Fatalf("the run has %d steps at work", len(pending))
				}
				failure := pending[0].GetLastFailure()
				if failure != nil && failure.GetApplicationFailureInfo().GetType() != activities.TypeInterrupted {
					t.Fatalf("the attempt ends with %v", failure)
				}
				return failure != nil
			})
			if requests := len(a.seen()); requests != 2 {
				t.Errorf("the API was asked %d times when the step was paused", requests)
			}
			_, err = w.temporal.WorkflowService().UnpauseActivity(w.ctx, &workflowservice.UnpauseActivityRequest{
				Namespace: "default", Execution: &common.WorkflowExecution{WorkflowId: r.WorkflowID, RunId: r.RunID},
				Activity: &workflowservice.UnpauseActivityRequest_Type{Type: step.ActivityHTTP},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.goesOn(a, r)
		})
		t.Run("reset "+name, func(t *testing.T) {
			t.Parallel()
			w, a, r := interruptible(t, attempts)
			_, err := w.temporal.WorkflowService().ResetActivity(w.ctx, &workflowservice.ResetActivityRequest{
				Namespace: "default", Execution: &common.WorkflowExecution{WorkflowId: r.WorkflowID, RunId: r.RunID},
				Activity: &workflowservice.ResetActivityRequest_Type{Type: step.ActivityHTTP},
			})
			if err != nil {
				t.Fatal(err)
			}
			if attempts != "1" {
				w.goesOn(a, r)
				return
			}
			var failed *temporal.ApplicationError
			err = w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil)
			if !errors.As(err, &failed) || failed.Type() != activities.TypeInterrupted {
				t.Errorf("the run ends with %v", err)
			}
			outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name})
			if err != nil || len(outcomes) != 1 || outcomes[0].Status != warehouse.OutcomeFailed {
				t.Errorf("the ledger holds %+v, %v", outcomes, err)
			}
		})
	}
}

// interruptible is a run whose step waits for its second page, which never comes the first time.
func interruptible(t *testing.T, attempts string) (*world, *api, report) {
	t.Helper()
	w, a := newWorld(t, warehouse.DriverSQLite), newAPI(t)
	a.set("2026-01-15", 300)
	var requests atomic.Int64
	a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if requests.Add(1) != 2 {
			return false
		}
		<-r.Context().Done()
		return true
	})
	w.worker(w.connect(a.URL))
	r := w.start(w.orders("defaults: { retry: { maximum_attempts: "+attempts+" } }\n"), "2026-01-15")
	w.eventually("the second page is asked for", func() bool { return requests.Load() == 2 })
	return w, a, r
}

// goesOn wants the run to end as if nothing had happened, and the first page not to be asked for again.
func (w *world) goesOn(a *api, r report) {
	w.t.Helper()
	if err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil); err != nil {
		w.t.Error(err)
	}
	if got := w.slice("2026-01-15"); got != 300 {
		w.t.Errorf("the table holds %d rows, want 300", got)
	}
	if requests := len(a.seen()); requests != 5 {
		w.t.Errorf("the API was asked %d times, want 5: %v", requests, a.seen())
	}
}
