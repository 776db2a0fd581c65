package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/workflows"
)

// maxHeartbeatThrottle bounds how late a cancel arrives.
const maxHeartbeatThrottle = 3 * time.Second

// controlActivities bounds the activities that move no data. They wait most of the time, and a backfill
// holds one for as long as it lasts.
const controlActivities = 500

// pollers are the two workers of a process: one runs workflows and steps, the other looks after runs. They are
// apart, so that a backfill does not take the place of a step that it waits for.
type pollers struct {
	queue         string
	work, control worker.Worker
}

// pollersOf makes the workers; failed is called with what stops one of them for good.
func pollersOf(c *cli.Context, temporal *launch.Temporal, steps *activities.Activities, failed func(error)) *pollers {
	p := &pollers{queue: c.String("task-queue")}
	options := worker.Options{
		MaxConcurrentActivityExecutionSize: c.Int("max-activities"),
		WorkerStopTimeout:                  c.Duration("stop-timeout") + handBackMargin,
		// Cancels arrive with the answers to heartbeats; the SDK would hold those back for 0.8 of
		// the heartbeat timeout.
		MaxHeartbeatThrottleInterval: maxHeartbeatThrottle,
		OnFatalError:                 failed,
	}
	p.work = worker.New(temporal.Client, p.queue, options)
	p.work.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: launch.RunType})
	p.work.RegisterWorkflowWithOptions(workflows.Gate, workflow.RegisterOptions{Name: launch.GateType})
	p.work.RegisterWorkflowWithOptions(workflows.Ledger, workflow.RegisterOptions{Name: workflows.LedgerType})
	p.work.RegisterWorkflowWithOptions(workflows.Reconcile, workflow.RegisterOptions{Name: workflows.ReconcileType})
	p.work.RegisterWorkflowWithOptions(workflows.Backfill, workflow.RegisterOptions{Name: workflows.BackfillType})
	steps.Register(p.work)

	options.MaxConcurrentActivityExecutionSize = controlActivities
	options.DisableWorkflowWorker = true
	p.control = worker.New(temporal.Client, launch.ControlQueue(p.queue), options)
	steps.RegisterControl(p.control)
	schedules.New(temporal).Register(p.control)
	return p
}

func (p *pollers) start() error {
	if err := p.work.Start(); err != nil {
		return fmt.Errorf("start polling task queue %s: %w", p.queue, err)
	}
	if err := p.control.Start(); err != nil {
		p.work.Stop()
		return fmt.Errorf("start polling task queue %s: %w", launch.ControlQueue(p.queue), err)
	}
	return nil
}

// stop waits for the running activities of both.
func (p *pollers) stop() {
	var stopping sync.WaitGroup
	stopping.Go(p.control.Stop)
	p.work.Stop()
	stopping.Wait()
}
