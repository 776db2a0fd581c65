package systemtest

import (
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// stand asks for a page in the test's own process.
func (r *reconciling) stand(request step.StandingRequest) step.StandingAnswer {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(r.activities.Standing, activity.RegisterOptions{Name: step.ActivityStanding})
	value, err := env.ExecuteActivity(step.ActivityStanding, request)
	var answer step.StandingAnswer
	if err == nil {
		err = value.Get(&answer)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// Intervals of a schedule that was edited are those of each grid in its time, whatever the size of a page; each comes
// once, by itself and in stretches.
func TestPagesTileOverAnEdit(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		r := newReconciling(w)
		hourly := r.watched.Schedule
		hourly.Cron, hourly.EndDate = "0 * * * *", "2026-03-20"
		edited := day(w.t, "2026-01-11").Add(3 * time.Hour)
		for _, era := range []warehouse.GridRow{
			{Spec: interval.Spec{Cron: "0 0 * * *", TimeZone: "UTC", Start: january(1).Start}, Applied: r.watched.Created},
			{Spec: interval.Spec{Cron: "0 * * * *", TimeZone: "UTC", Start: january(1).Start, End: day(w.t, "2026-03-20"), Since: january(11).Start}, Applied: edited},
		} {
			err := w.database.RecordGrid(w.ctx, w.name, func(known []warehouse.GridRow) (warehouse.GridRow, int, error) {
				return era, len(known), nil
			})
			if err != nil {
				w.t.Fatal(err)
			}
		}
		r.load(1, 2, 3, 10)
		request := step.StandingRequest{
			Pipeline: w.name, Warehouse: "warehouse", Schedule: hourly, Created: r.watched.Created, Updated: edited, Digest: "d",
		}
		const total = 10 + 68*24
		for _, mode := range []struct {
			name           string
			each, detailed bool
		}{{"stretches", false, false}, {"cells", true, false}, {"details", true, true}} {
			request := request
			request.Each, request.Detailed = mode.each, mode.detailed
			var joined []step.Stretch
			cells := 0
			for pages := 1; ; pages++ {
				answer := r.stand(request)
				for _, cell := range answer.Cells {
					cells++
					joined = cell.Join(joined)
				}
				for _, stretch := range answer.Stretches {
					joined = stretch.Join(joined)
				}
				if request.From = answer.Next; answer.Next.IsZero() {
					w.t.Logf("%s: %d pages", mode.name, pages)
					break
				}
			}
			count := int64(0)
			for i, stretch := range joined {
				count += stretch.Count
				if i > 0 && !joined[i-1].To.Equal(stretch.From) {
					w.t.Errorf("%s: %s follows %s", mode.name, stretch.From, joined[i-1].To)
				}
			}
			if count != total || len(joined) != 4 || joined[0].Count != 3 || joined[1].Count != 6 || joined[1].State != step.StateMissing || joined[2].Count != 1 || joined[3].Count != total-10 {
				w.t.Errorf("%s: %d intervals: %+v", mode.name, count, joined)
			}
			if mode.each && cells != total {
				w.t.Errorf("%s: %d cells of %d", mode.name, cells, total)
			}
		}
	})
}

// Runs that no worker takes up wait, however many they are.
func TestManyOpenRunsWait(t *testing.T) {
	t.Parallel()
	r := newReconciling(newWorld(t, warehouse.DriverSQLite))
	schedule := r.watched.Schedule
	schedule.EndDate = "2026-02-01"
	const runs = 30
	for n := 1; n <= runs; n++ {
		r.stall(r.name, n)
	}
	request := step.StandingRequest{Pipeline: r.name, Warehouse: "warehouse", Schedule: schedule, Each: true, Detailed: true}
	r.eventually("all are listed", func() bool {
		waiting := 0
		for _, cell := range r.stand(request).Cells {
			if cell.State == step.StateWaiting && cell.Details != nil && cell.Kind == step.Scheduled && !cell.Since.IsZero() {
				waiting++
			}
		}
		return waiting == runs
	})
}
