package systemtest

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

var measure = flag.Bool("measure", false, "measure what the gate costs a run")

// TestCostOfTheGate compares runs that ask for a slot with those of a backfill, which do not, by turns on the
// same server. It does so only with -measure, since it measures nothing beside other tests.
func TestCostOfTheGate(t *testing.T) {
	if !*measure {
		t.Skip("skipped: measures only with -measure")
	}
	w := newWorld(t, warehouse.DriverSQLite)
	w.ctx = t.Context()
	w.write("files/rows.csv", "id,at,note\n")
	w.worker(w.connect("http://127.0.0.1:1"))
	const runs, rounds = 100, 5
	for _, width := range []int{1, 16} {
		definition := w.parse(fmt.Sprintf(`pipeline: %[1]s-%[2]d
warehouse: warehouse
task_queue: %[1]s
schedule: { cron: "0 0 * * *", start_date: 2000-01-01, max_active_runs: %[2]d }
steps:
  - name: extract
    file: { connection: files, path: rows.csv, columns: [{ name: id, type: bigint }, { name: at, type: timestamptz }, { name: note, type: text }] }
  - name: load
    load: { from: extract, table: "rows_%[2]d", disposition: delete+insert, time_column: at }
`, w.name, width))
		var ratios, with, without []float64
		for range rounds {
			// Those that ask are all started at once, so that they wait in the gate and not outside.
			a := w.rate(definition, step.Backfill, runs, width)
			b := w.rate(definition, step.Manual, runs, max(width, 16))
			without, with, ratios = append(without, a), append(with, b), append(ratios, b/a)
		}
		slices.Sort(ratios)
		slices.Sort(with)
		slices.Sort(without)
		tasks, signals := w.gateWork(definition.Name)
		t.Logf("%d slots: the gate took %.2f signals and %.2f workflow tasks for a run", width,
			float64(signals)/(runs*rounds), float64(tasks)/(runs*rounds))
		t.Logf("%d slots: %.1f runs/s with the gate, %.1f without, ratio %.2f (%.2f to %.2f)",
			width, with[rounds/2], without[rounds/2], ratios[rounds/2], ratios[0], ratios[rounds-1])
	}
}

func (w *world) parse(text string) *pipeline.Pipeline {
	w.t.Helper()
	parsed, problems := pipeline.Parse(pipeline.Source{File: "pipeline.yaml", Data: []byte(text)})
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	return parsed.Effective()
}

// gateWork counts what the gate of a pipeline has had to do, over all its executions.
func (w *world) gateWork(pipelineName string) (tasks, signals int) {
	w.t.Helper()
	for run, more := "", true; more; {
		more = false
		for _, event := range w.events(launch.GateID(pipelineName), run) {
			switch event.GetEventType() {
			case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
				run = event.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
				more = run != ""
			case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
				tasks++
			case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
				signals++
			}
		}
	}
	return tasks, signals
}

// rate runs some intervals, so many at a time, and returns how many there were in a second.
func (w *world) rate(definition *pipeline.Pipeline, kind step.Kind, runs, width int) float64 {
	w.t.Helper()
	grid, err := definition.Grid()
	if err != nil {
		w.t.Fatal(err)
	}
	temporal := launch.New(w.temporal, "default", nil)
	intervals := make(chan interval.Interval, runs)
	for iv := range grid.Between(time.Time{}, time.Now()) {
		if len(intervals) == runs {
			break
		}
		intervals <- iv
	}
	close(intervals)
	began := time.Now()
	var clients sync.WaitGroup
	for range width {
		clients.Go(func() {
			for iv := range intervals {
				started, err := temporal.Start(w.ctx, launch.Request{Definition: definition, Interval: iv, Kind: kind})
				if err == nil {
					err = temporal.GetWorkflow(w.ctx, started.WorkflowID, started.RunID).Get(w.ctx, nil)
				}
				if err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	return float64(runs) / time.Since(began).Seconds()
}
