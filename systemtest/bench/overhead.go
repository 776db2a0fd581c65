package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/workflows"
)

const (
	overheadQueue = "bench"
	// overheadWidth is how many runs are open at a time, on both sides.
	overheadWidth = 16
	// overheadAim is the least ratio of a backfill's runs per second to the floor's.
	overheadAim = 0.85
	// bareType and nothingType are the workflow of the floor and what its activities do, and those of the runs.
	bareType    = "bare"
	nothingType = "nothing"
)

// overheadPipeline has as many activities as the floor, which do as little.
const overheadPipeline = `pipeline: bench
warehouse: warehouse
task_queue: bench
schedule: { every: 1m, start_date: 2020-01-01 }
steps:
  - { name: one, activity: { type: nothing } }
  - { name: two, needs: [one], activity: { type: nothing } }
  - { name: three, needs: [two], activity: { type: nothing } }
`

// overheadStart is where the intervals of the first round start.
var overheadStart = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// overhead has a backfill run intervals, beside clients that start a workflow with the same number of
// activities and wait for it, each in a loop: the floor. Both are on one server and in one worker.
type overhead struct {
	client     client.Client
	definition *pipeline.Pipeline
	runs       int
	done       int // rounds of the backfill so far: each has a range of its own
}

// measureOverhead times the backfill between two rounds of the floor.
func measureOverhead(ctx context.Context, out io.Writer, folder string, runs, rounds int) (err error) {
	binaries, err := stack.FindBinaries(".")
	if err != nil {
		return err
	}
	server, err := binaries.Server(ctx, folder, "--port", "0", "--headless")
	if err != nil {
		return err
	}
	defer server.Kill()
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelError})))
	temporal, err := client.DialContext(ctx, client.Options{HostPort: server.Ready.Address, Logger: quiet})
	if err != nil {
		return err
	}
	defer temporal.Close()
	stop, err := overheadWorkers(temporal, folder)
	if err != nil {
		return err
	}
	defer stop()
	definition, problems := pipeline.Parse(pipeline.Source{File: "pipeline.yaml", Data: []byte(overheadPipeline)})
	if len(problems) > 0 {
		return problems
	}
	o := &overhead{client: temporal, definition: definition.Effective(), runs: runs}
	var floors, backfills, ratios []float64
	// The first of each finds caches empty.
	if _, err := o.floor(ctx); err != nil {
		return err
	}
	if _, err := o.backfill(ctx); err != nil {
		return err
	}
	before, err := o.floor(ctx)
	if err != nil {
		return err
	}
	floors = append(floors, before)
	for range rounds {
		rate, err := o.backfill(ctx)
		if err != nil {
			return err
		}
		after, err := o.floor(ctx)
		if err != nil {
			return err
		}
		floors, backfills = append(floors, after), append(backfills, rate)
		ratios = append(ratios, rate/((before+after)/2))
		before = after
	}
	ratio := median(ratios)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nRUNS PER SECOND\tRATIO\tMIN-MAX\tAIM\t\tFLOOR\tBACKFILL")
	fmt.Fprintf(table, "backfill of %d intervals of three activities, %d at a time / bare workflows\t%.2f\t%.2f-%.2f\t%.2f\t%s\t%.1f/s\t%.1f/s\n", runs, overheadWidth,
		ratio, slices.Min(ratios), slices.Max(ratios), overheadAim, met(ratio >= overheadAim), median(floors), median(backfills))
	return table.Flush()
}

// overheadWorkers serves both sides from one process, as the program worker does.
func overheadWorkers(temporal client.Client, folder string) (stop func(), err error) {
	file := fmt.Sprintf("connections: { warehouse: { sqlite: { path: %q } } }\n", filepath.Join(folder, "overhead.db"))
	connections, err := connection.Parse("connections.yaml", []byte(file), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	steps := activities.New(activities.Options{Connections: connections, Temporal: launch.New(temporal, client.DefaultNamespace, nil)})
	work := worker.New(temporal, overheadQueue, worker.Options{})
	work.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: launch.RunType})
	work.RegisterWorkflowWithOptions(workflows.Backfill, workflow.RegisterOptions{Name: workflows.BackfillType})
	work.RegisterWorkflowWithOptions(bare, workflow.RegisterOptions{Name: bareType})
	work.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: nothingType})
	steps.Register(work)
	control := worker.New(temporal, launch.ControlQueue(overheadQueue), worker.Options{DisableWorkflowWorker: true})
	steps.RegisterControl(control)
	if err := work.Start(); err != nil {
		return nil, err
	}
	if err := control.Start(); err != nil {
		work.Stop()
		return nil, err
	}
	return func() { control.Stop(); work.Stop(); steps.Close() }, nil
}

// bare is the floor: three activities, one after the other, and nothing else.
func bare(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range 3 {
		if err := workflow.ExecuteActivity(ctx, nothingType, nil).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context, any) error { return nil }

// floor returns how many bare workflows end in a second.
func (o *overhead) floor(ctx context.Context) (float64, error) {
	turns := make(chan struct{}, o.runs)
	for range o.runs {
		turns <- struct{}{}
	}
	close(turns)
	failures := make([]error, overheadWidth)
	began := time.Now()
	var clients sync.WaitGroup
	for i := range failures {
		clients.Go(func() {
			for range turns {
				run, err := o.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: overheadQueue}, bareType)
				if err == nil {
					err = run.Get(ctx, nil)
				}
				if err != nil {
					failures[i] = err
					return
				}
			}
		})
	}
	clients.Wait()
	return float64(o.runs) / time.Since(began).Seconds(), errors.Join(failures...)
}

// backfill returns how many runs of a backfill end in a second, from its start to its end.
func (o *overhead) backfill(ctx context.Context) (float64, error) {
	length := time.Duration(o.runs) * time.Minute
	from := overheadStart.Add(time.Duration(o.done) * length)
	o.done++
	input := workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: o.definition, Kind: step.Backfill,
		Range: step.Range{From: from, To: from.Add(length)}, Window: overheadWidth,
	}
	began := time.Now()
	run, err := o.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: fmt.Sprintf("tranche/backfill/bench/%d", o.done), TaskQueue: overheadQueue,
	}, workflows.BackfillType, input)
	if err != nil {
		return 0, err
	}
	var result workflows.BackfillResult
	if err := run.Get(ctx, &result); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if result.Loaded != int64(o.runs) || result.Started != int64(o.runs) {
		return 0, fmt.Errorf("the backfill of %d intervals answers %+v", o.runs, result)
	}
	return float64(o.runs) / took.Seconds(), nil
}
