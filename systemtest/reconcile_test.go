package systemtest

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// reconciling reconciles in the test's own process, so that a test decides when.
type reconciling struct {
	*world
	activities *activities.Activities
	temporal   *launch.Temporal
	watched    step.Watched
	log        bytes.Buffer
}

func newReconciling(w *world) *reconciling {
	w.t.Helper()
	file := w.connect("http://127.0.0.1:1")
	set, err := connection.Parse(file, []byte(w.read(file)), func(name string) (string, bool) {
		return map[string]string{"WAREHOUSE": w.config.DSN, "API_TOKEN": apiToken}[name], true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = set.Close() })
	r := &reconciling{world: w, temporal: launch.New(w.temporal, client.DefaultNamespace, nil)}
	r.activities = activities.New(activities.Options{Connections: set, Temporal: r.temporal})
	w.t.Cleanup(r.activities.Close)
	// Daily since the first of January, with a Schedule since the fifth.
	r.watched = step.Watched{
		Pipeline: w.name, Warehouse: "warehouse", Created: day(w.t, "2026-01-05").Add(9 * time.Hour),
		Schedule: pipeline.Schedule{
			Cron: "0 0 * * *", Timezone: "UTC", StartDate: "2026-01-01", EndDate: "2026-01-11", Catchup: pipeline.CatchupAll, CatchupWindow: pipeline.Duration(time.Hour),
		},
	}
	return r
}

func (r *reconciling) reconcile() step.Reconciled {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(&r.log, nil))))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(r.activities.Reconcile, activity.RegisterOptions{Name: step.ActivityReconcile})
	value, err := env.ExecuteActivity(step.ActivityReconcile, r.watched)
	var found step.Reconciled
	if err == nil {
		err = value.Get(&found)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if sum := found.Loaded + found.Accepted + found.Failed + found.Open + found.Missing + found.Recent; sum != found.Expected {
		r.t.Errorf("%d are expected, but they count %d: %+v", found.Expected, sum, found)
	}
	return found
}

// january is the interval of a day of January 2026.
func january(n int) interval.Interval {
	start := time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
	return interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}
}

// stall starts a run that no worker takes up.
func (r *reconciling) stall(name string, n int) launch.Started {
	r.t.Helper()
	definition := r.definition(r.orders())
	definition.Name, definition.TaskQueue = name, r.name+"-nobody"
	started, err := r.temporal.Start(r.ctx, launch.Request{Definition: definition, Interval: january(n), Kind: step.Scheduled})
	if err != nil || started.Taken {
		r.t.Fatal(started, err)
	}
	return started
}

func (r *reconciling) load(days ...int) {
	r.t.Helper()
	for _, n := range days {
		_, err := r.database.RecordOutcome(r.ctx, warehouse.Outcome{Pipeline: r.name, Interval: january(n), Status: warehouse.OutcomeLoaded, RunID: "r", Fence: 1})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *reconciling) terminate(id string) {
	r.t.Helper()
	if err := r.temporal.TerminateWorkflow(r.ctx, id, "", "by the test"); err != nil {
		r.t.Fatal(err)
	}
}

// Days of every kind: what is open, taken by others, terminated or loaded is not started; the rest is.
func TestReconcile(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		r := newReconciling(w)
		r.load(1, 6)
		open, terminated := r.stall(w.name, 2), r.stall(w.name, 3)
		r.terminate(terminated.WorkflowID)
		r.stall(w.name+"-eu", 4) // of another pipeline, whose ids begin in the same way
		foreign := step.WorkflowID(w.name, january(5).End)
		if _, err := w.temporal.ExecuteWorkflow(w.ctx, client.StartWorkflowOptions{ID: foreign, TaskQueue: w.name + "-nobody"}, "foreign"); err != nil {
			w.t.Fatal(err)
		}

		found := r.reconcile()
		want := step.Reconciled{Expected: 10, Loaded: 2, Failed: 1, Open: 2, Missing: 5}
		if got := counts(found); got != counts(want) || show(found.Catchup) != "2026-01-04 2026-01-10" {
			w.t.Errorf("%s %s: %s", got, show(found.Catchup), found.Note)
		}
		if !strings.Contains(found.Note, "terminated: by the test") || !strings.Contains(found.Note, "oldest first") {
			w.t.Errorf("it says %q", found.Note)
		}
		outcomes := w.outcomes(january(3).Start, january(4).Start)
		if len(outcomes) != 1 || outcomes[0].Status != warehouse.OutcomeFailed || outcomes[0].RunID != terminated.RunID || outcomes[0].Kind != "scheduled" ||
			outcomes[0].Note != "terminated: by the test" || outcomes[0].Fence < time.Now().Add(-patience).UnixMicro() || outcomes[0].Digest == "" {
			w.t.Errorf("the books say %+v", outcomes)
		}
		if again := r.reconcile(); counts(again) != counts(found) || show(again.Catchup) != show(found.Catchup) || strings.Contains(again.Note, "terminated") {
			w.t.Errorf("again: %+v", again)
		}

		r.watched.Paused, r.watched.Note = true, "the source moves"
		if paused := r.reconcile(); paused.Catchup != nil || paused.Missing != 5 || !strings.Contains(paused.Note, "paused (the source moves)") {
			w.t.Errorf("while paused: %+v", paused)
		}
		r.watched.Paused = false
		r.terminate(foreign)
		r.terminate(open.WorkflowID)
		// Temporal's list of open runs lags behind: until it has heard, a round may take them for open.
		now := r.reconcile()
		for now.Open > 0 && w.ctx.Err() == nil {
			now = r.reconcile()
		}
		if counts(now) != counts(step.Reconciled{Expected: 10, Loaded: 2, Failed: 2, Missing: 6}) || show(now.Catchup) != "2026-01-04 2026-01-10" {
			w.t.Errorf("when nothing is open: %s %s: %s", counts(now), show(now.Catchup), now.Note)
		}
	})
}

func counts(found step.Reconciled) string {
	return fmt.Sprintf("expected %d: loaded %d, accepted %d, failed %d, open %d, missing %d, recent %d",
		found.Expected, found.Loaded, found.Accepted, found.Failed, found.Open, found.Missing, found.Recent)
}

// show writes a range as its first and last day.
func show(r *step.Range) string {
	if r == nil {
		return ""
	}
	return r.From.Format(time.DateOnly) + " " + r.To.Add(-time.Second).Format(time.DateOnly)
}

// latest starts one, also when it is asked again before that has begun, and after it has ended; none starts none.
func TestReconcileLatestAndNone(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		r := newReconciling(w)
		r.watched.Schedule.Catchup = pipeline.CatchupNone
		if found := r.reconcile(); found.Expected != 6 || found.Missing != 6 || found.Catchup != nil || !strings.Contains(found.Note, "none") {
			w.t.Errorf("none: %+v", found)
		}
		r.watched.Schedule.Catchup = pipeline.CatchupLatest
		for range 2 {
			if found := r.reconcile(); found.Expected != 7 || show(found.Catchup) != "2026-01-10 2026-01-10" {
				w.t.Errorf("latest: %+v", found)
			}
		}
		r.load(10)
		if found := r.reconcile(); found.Missing != 6 || found.Catchup != nil {
			w.t.Errorf("after it was loaded: %+v", found)
		}
	})
}

// The ledger learns of a Schedule that was applied while nobody could tell it, and of its edits; from a look at the
// Schedule before an edit it learns nothing.
func TestReconcileLearnsTheGrid(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		r := newReconciling(w)
		r.reconcile()
		before := r.watched
		r.watched.Updated = day(w.t, "2026-01-08").Add(90 * time.Minute)
		r.watched.Schedule.Cron, r.watched.Schedule.Since = "0 * * * *", "2026-01-08T00:00:00Z"
		r.watched.Schedule.Catchup = pipeline.CatchupNone
		found := r.reconcile()
		grids, err := w.database.Grids(w.ctx, w.name)
		if err != nil || len(grids) != 2 || !grids[0].Applied.Equal(before.Created) || !grids[1].Applied.Equal(r.watched.Updated) ||
			!grids[1].Spec.Since.Equal(day(w.t, "2026-01-08")) || grids[1].Spec.Cron != "0 * * * *" {
			w.t.Errorf("%v %+v", err, grids)
		}
		// What the edit made due before it, the hour to 01:00, is started although catchup is none.
		if found.Expected != 3+3*24 || show(found.Catchup) != "2026-01-08 2026-01-08" || found.Catchup.To != found.Catchup.From.Add(time.Second) {
			w.t.Errorf("%+v", found)
		}
		edited := r.watched
		r.watched = before
		if stale := r.reconcile(); !strings.Contains(stale.Note, "newer schedule") {
			w.t.Errorf("of an old look: %+v", stale)
		}
		r.watched = edited
		r.reconcile()
		if grids, err := w.database.Grids(w.ctx, w.name); err != nil || len(grids) != 2 {
			w.t.Errorf("%v %+v", err, grids)
		}
	})
}

// A missed deadline is told of once: recorded, logged and counted, whether a run was started or not.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		r := newReconciling(w)
		r.watched.Deadline = pipeline.Duration(3 * time.Hour)
		r.load(1, 2, 6, 7, 8, 9)
		r.stall(w.name, 10)
		found := r.reconcile()
		if fmt.Sprint(found.Late) != fmt.Sprint([]interval.Interval{january(5), january(10)}) || !strings.Contains(found.Note, "2 newly missed the deadline of 3h") {
			w.t.Errorf("%+v", found)
		}
		for _, n := range []int{5, 10} {
			if strings.Count(r.log.String(), "interval="+january(n).String()) != 1 || !strings.Contains(r.log.String(), "WARN") {
				w.t.Errorf("the log says %s", r.log.String())
			}
		}
		if again := r.reconcile(); len(again.Late) != 0 || strings.Contains(again.Note, "deadline") {
			w.t.Errorf("again: %+v", again)
		}
	})
}
