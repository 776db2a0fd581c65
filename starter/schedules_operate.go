package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

func (p *program) pauseCommand() *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "Let a Schedule start nothing until it is unpaused",
		ArgsUsage: "PIPELINE",
		Description: `Runs that have started go on. What becomes due meanwhile is not lost: after unpause it is
started as the pipeline's catchup says, and listed as missing if that is none.

Example: starter schedules pause orders --reason "the shop moves house"`,
		Flags:  append(dial.Flags(), &cli.StringFlag{Name: "reason", Usage: "why, for whoever finds it paused (required)"}),
		Action: func(c *cli.Context) error { return p.setPaused(c, true) },
	}
}

func (p *program) unpauseCommand() *cli.Command {
	return &cli.Command{
		Name:        "unpause",
		Usage:       "Let a Schedule go on, and look at once for what became due meanwhile",
		ArgsUsage:   "PIPELINE",
		Description: `Example: starter schedules unpause orders`,
		Flags:       append(dial.Flags(), &cli.StringFlag{Name: "reason", Value: "unpaused", Usage: "a note for others"}),
		Action:      func(c *cli.Context) error { return p.setPaused(c, false) },
	}
}

func (p *program) setPaused(c *cli.Context, paused bool) error {
	reason := c.String("reason")
	switch {
	case reason == "":
		return usagef("--reason is missing: say why, for whoever finds the Schedule paused")
	case unprintable(reason):
		return usagef("--reason %q has control characters or line ends in it: write one line of plain text", reason)
	}
	o, made, found, err := p.pipelineSchedule(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if !paused && !found.Paused() {
		fmt.Fprintf(p.talk, "%s is not paused\n", found.Pipeline)
		return p.reconcileNow(c.Context, o, found)
	}
	if err := made.SetPaused(c.Context, found, paused, reason); err != nil {
		return err
	}
	if !paused {
		fmt.Fprintf(p.talk, "%s is active\n", found.Pipeline)
		return p.reconcileNow(c.Context, o, found)
	}
	text := reason
	if found.Paused() {
		text += fmt.Sprintf(" (it was paused before: %s)", printable(found.Notes()))
	}
	fmt.Fprintf(p.talk, "%s is paused: %s\n", found.Pipeline, text)
	return nil
}

// reconcileNow looks at once for what a pipeline lacks. Without a worker it is done when one comes.
func (p *program) reconcileNow(ctx context.Context, o *online, found *schedules.Schedule) error {
	definition := found.Definition()
	if definition == nil {
		return fmt.Errorf("the Schedule of %s cannot be read: %w; use a newer starter", found.Pipeline, found.Unreadable)
	}
	if err := o.needWorkers(ctx, definition.TaskQueue); err != nil {
		return err
	}
	done, err := o.reconcile(ctx, definition.TaskQueue, []string{found.Pipeline})
	p.talkReconciled(done)
	return err
}

func (p *program) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name:      "reconcile",
		Usage:     "Look now for what a pipeline lacks, and start what its catchup says",
		ArgsUsage: "PIPELINE",
		Description: `Does at once what happens every few minutes anyway: compares the intervals that are expected
with the load ledger and the open runs.

Example: starter schedules reconcile orders`,
		Flags:  append(dial.Flags(), jsonFlag()),
		Action: p.reconcile,
	}
}

func (p *program) reconcile(c *cli.Context) error {
	o, _, found, err := p.pipelineSchedule(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if !c.Bool("json") {
		return p.reconcileNow(c.Context, o, found)
	}
	if found.Definition() == nil {
		return fmt.Errorf("the Schedule of %s cannot be read: %w; use a newer starter", found.Pipeline, found.Unreadable)
	}
	queue := found.Definition().TaskQueue
	if err := o.needWorkers(c.Context, queue); err != nil {
		return err
	}
	done, err := o.reconcile(c.Context, queue, []string{found.Pipeline})
	if err != nil {
		return err
	}
	return p.printJSON(done)
}

// reconciled is how a pipeline's intervals stand, for JSON and for people.
type reconciled = step.Reconciled

// reconcile has a worker look for what pipelines lack.
func (o *online) reconcile(ctx context.Context, queue string, pipelines []string) ([]reconciled, error) {
	handle, err := o.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: launch.ReconcileID(queue) + "/now/" + uuid.NewString(), TaskQueue: queue, WorkflowExecutionTimeout: answerWithin,
		Priority:      temporal.Priority{PriorityKey: launch.PriorityGate}, // somebody waits at a terminal
		StaticSummary: "reconcile " + queue + " now",
	}, workflows.ReconcileType, workflows.ReconcileInput{TaskQueue: queue, Pipelines: pipelines})
	if err != nil {
		return nil, fmt.Errorf("reconcile %s: %w", strings.Join(pipelines, ", "), err)
	}
	var result workflows.ReconcileResult
	if err := o.answer(ctx, queue, handle, &result); err != nil {
		return nil, fmt.Errorf("reconcile %s: %w", strings.Join(pipelines, ", "), err)
	}
	return result.Pipelines, result.Failure()
}

func (p *program) talkReconciled(found []reconciled) {
	for _, each := range found {
		fmt.Fprintf(p.talk, "%s: %s\n", each.Pipeline, printable(each.Note))
	}
}

// ledger has a worker look into the load ledger.
func (o *online) ledger(queue string) schedules.Ledger {
	return func(ctx context.Context, request step.GridRequest) (step.GridAnswer, error) {
		var answer step.GridAnswer
		handle, err := o.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: launch.LedgerID(request.Pipeline) + "/" + uuid.NewString(), TaskQueue: queue, WorkflowExecutionTimeout: answerWithin,
			Priority:      temporal.Priority{PriorityKey: launch.PriorityGate}, // somebody waits at a terminal
			StaticSummary: "schedules of " + request.Pipeline,
		}, workflows.LedgerType, request)
		if err != nil {
			return answer, err
		}
		err = o.answer(ctx, queue, handle, &answer)
		return answer, err
	}
}

func (p *program) triggerCommand() *cli.Command {
	return &cli.Command{
		Name:      "trigger",
		Usage:     "Run the last completed interval of a pipeline now, with the definition that was applied",
		ArgsUsage: "PIPELINE",
		Description: `The same as the button in the Temporal UI, and also while the Schedule is paused: the interval
that ended last is run, again if it was loaded before. An open run is joined.

Example: starter schedules trigger orders --wait`,
		Flags: append(dial.Flags(),
			&cli.BoolFlag{Name: "wait", Usage: "wait for the run, print what it did, exit 5 if it failed"}, jsonFlag()),
		Action: p.trigger,
	}
}

func (p *program) trigger(c *cli.Context) error {
	o, _, found, err := p.pipelineSchedule(c)
	if err != nil {
		return err
	}
	defer o.Close()
	definition := found.Definition()
	if definition == nil {
		return fmt.Errorf("the Schedule of %s cannot be read: %w; use a newer starter", found.Pipeline, found.Unreadable)
	}
	grid, err := definition.Grid()
	if err != nil {
		return err
	}
	last, ok := grid.LastCompleted(p.now())
	if !ok {
		return usagef("no interval of %s is over yet", found.Pipeline)
	}
	return p.startAndReport(c, o, definition, last)
}

func sortedKeys[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }
