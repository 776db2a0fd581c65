package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/workflows"
)

// maxHeartbeatThrottle bounds how late a cancel arrives.
const maxHeartbeatThrottle = 3 * time.Second

// controlHeartbeatThrottle does the same for those that look after runs: somebody waits for a backfill to pause.
const controlHeartbeatThrottle = time.Second

// controlActivities bounds the activities that move no data. They wait most of the time, and a backfill
// holds one for as long as it lasts.
const controlActivities = 500

// pollers are the workers of a process: one runs workflows and steps, another looks after runs, so that a backfill
// does not take the place of a step that it waits for. Each task queue of a connection has one more.
type pollers struct {
	all []poller
}

type poller struct {
	worker.Worker
	queue string
}

// pollersOf makes the workers; failed is called with what stops one of them for good.
func pollersOf(c *cli.Context, temporal *launch.Temporal, steps *activities.Activities, limited []connection.TaskQueue, failed func(error)) *pollers {
	p, queue := &pollers{}, c.String("task-queue")
	options := worker.Options{
		MaxConcurrentActivityExecutionSize: c.Int("max-activities"),
		WorkerStopTimeout:                  c.Duration("stop-timeout") + handBackMargin,
		// Cancels arrive with the answers to heartbeats; the SDK would hold those back for 0.8 of
		// the heartbeat timeout.
		MaxHeartbeatThrottleInterval: maxHeartbeatThrottle,
		OnFatalError:                 failed,
	}
	work := p.add(temporal, queue, options)
	work.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: launch.RunType})
	work.RegisterWorkflowWithOptions(workflows.Gate, workflow.RegisterOptions{Name: launch.GateType})
	work.RegisterWorkflowWithOptions(workflows.Ledger, workflow.RegisterOptions{Name: workflows.LedgerType})
	work.RegisterWorkflowWithOptions(workflows.Standing, workflow.RegisterOptions{Name: workflows.StandingType})
	work.RegisterWorkflowWithOptions(workflows.Reconcile, workflow.RegisterOptions{Name: workflows.ReconcileType})
	work.RegisterWorkflowWithOptions(workflows.Backfill, workflow.RegisterOptions{Name: workflows.BackfillType})
	work.RegisterWorkflowWithOptions(workflows.Notify, workflow.RegisterOptions{Name: launch.NotifyType})
	work.RegisterWorkflowWithOptions(workflows.Plan, workflow.RegisterOptions{Name: workflows.PlanType})
	steps.Register(work)

	options.DisableWorkflowWorker = true
	for _, own := range limited {
		options.TaskQueueActivitiesPerSecond = own.StepsPerSecond
		steps.RegisterHTTP(p.add(temporal, own.Name, options))
	}
	options.TaskQueueActivitiesPerSecond = 0
	options.MaxConcurrentActivityExecutionSize = controlActivities
	options.MaxHeartbeatThrottleInterval = controlHeartbeatThrottle
	control := p.add(temporal, launch.ControlQueue(queue), options)
	steps.RegisterControl(control)
	schedules.New(temporal).Register(control)
	return p
}

// apart checks that no connection has a task queue that the worker needs for itself.
func apart(queue string, limited []connection.TaskQueue) error {
	for _, own := range limited {
		if own.Name == queue || own.Name == launch.ControlQueue(queue) {
			return fmt.Errorf("%w: the task queue %s of a connection is the worker's own (--task-queue), and everything on it would be held to the rate of one API: give the connection's queue another name",
				errInvalid, own.Name)
		}
	}
	return nil
}

func (p *pollers) add(temporal *launch.Temporal, queue string, options worker.Options) worker.Worker {
	made := worker.New(temporal.Client, queue, options)
	p.all = append(p.all, poller{made, queue})
	return made
}

func (p *pollers) start() error {
	for i, one := range p.all {
		if err := one.Start(); err != nil {
			for _, started := range p.all[:i] {
				started.Stop()
			}
			return fmt.Errorf("start polling task queue %s: %w", one.queue, err)
		}
	}
	return nil
}

// stop waits for the running activities of all.
func (p *pollers) stop() {
	var stopping sync.WaitGroup
	for _, one := range p.all {
		stopping.Go(one.Stop)
	}
	stopping.Wait()
}
