package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
)

func (p *program) deleteCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "Delete the Schedule of a pipeline",
		ArgsUsage: "PIPELINE",
		Description: `Open runs go on. The load ledger keeps when the pipeline became active, so that an apply of it
later finds what was missed in between; with --forget it does not, and the next apply begins
afresh. Tables, receipts and outcomes stay in any case. When no pipeline is left on its task
queue, the reconciler of that queue is deleted, too.

Example: starter schedules delete orders`,
		Flags: append(dial.Flags(),
			&cli.BoolFlag{Name: "forget", Usage: "forget when the pipeline became active, too (needs a worker)"},
			&cli.StringFlag{Name: "task-queue", Usage: "with --forget, where the Schedule is gone already: whose workers know the warehouse"},
			&cli.StringFlag{Name: "warehouse", Usage: "with --forget, where the Schedule is gone already: the connection of the ledger"}),
		Action: p.delete,
	}
}

// ledgerOf says where a pipeline's ledger is: which workers know the warehouse, and which connection that is.
type ledgerOf struct{ queue, warehouse string }

func (p *program) delete(c *cli.Context) error {
	name, err := oneArgument(c, "PIPELINE")
	if err != nil {
		return err
	}
	said := ledgerOf{c.String("task-queue"), c.String("warehouse")}
	if !c.Bool("forget") && said != (ledgerOf{}) {
		return usagef("--task-queue and --warehouse say where --forget forgets: give that, too, or neither")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	made := schedules.New(o.Temporal)
	found, err := made.Get(c.Context, launch.ScheduleID(name))
	if err != nil {
		return err
	}
	if found == nil && c.Bool("forget") {
		return p.forgetOnly(c.Context, o, name, said)
	}
	if err := o.pipelines(found, name); err != nil {
		return err
	}
	return p.deleteFound(c.Context, o, made, found, c.Bool("forget"), said)
}

// forgetOnly has the ledger forget a pipeline whose Schedule is gone already.
func (p *program) forgetOnly(ctx context.Context, o *online, name string, said ledgerOf) error {
	if said.queue == "" || said.warehouse == "" {
		return usagef("pipeline %s has no Schedule in namespace %s that says where its ledger is: say it with --task-queue and --warehouse", name, o.Namespace)
	}
	if err := o.forget(ctx, name, said); err != nil {
		return err
	}
	fmt.Fprintf(p.talk, "%s has no Schedule, and the ledger of warehouse %s has forgotten since when it was active\n", name, said.warehouse)
	return nil
}

func (p *program) deleteFound(ctx context.Context, o *online, made *schedules.Schedules, found *schedules.Schedule, forget bool, said ledgerOf) error {
	if definition := found.Definition(); definition != nil {
		known := ledgerOf{definition.TaskQueue, definition.Warehouse}
		if said != (ledgerOf{}) && said != known {
			return usagef("the Schedule of %s says task queue %s and warehouse %s: leave --task-queue and --warehouse out", found.Pipeline, known.queue, known.warehouse)
		}
		said = known
	}
	if forget {
		if said.queue == "" || said.warehouse == "" {
			return fmt.Errorf("the Schedule of %s cannot be read, so nobody knows its ledger: %w; say it with --task-queue and --warehouse, or delete without --forget", found.Pipeline, found.Unreadable)
		}
		if err := o.forget(ctx, found.Pipeline, said); err != nil {
			return err
		}
	}
	if err := made.Delete(ctx, found); err != nil {
		return err
	}
	fmt.Fprintf(p.talk, "%s has no Schedule any more\n", found.Pipeline)
	if forget {
		// The reconciler may have written it down again in between.
		if err := o.forget(ctx, found.Pipeline, said); err != nil {
			return err
		}
	}
	return p.releaseReconciler(ctx, made, found.TaskQueue())
}

// forget has the ledger forget since when a pipeline is active, and which schedules it has had.
func (o *online) forget(ctx context.Context, name string, where ledgerOf) error {
	if err := o.needWorkers(ctx, where.queue); err != nil {
		return err
	}
	if _, err := o.ledger(where.queue)(ctx, step.GridRequest{Pipeline: name, Warehouse: where.warehouse, Forget: true}); err != nil {
		return fmt.Errorf("have the ledger of warehouse %s forget %s: %w", where.warehouse, name, err)
	}
	return nil
}

// releaseReconciler deletes the reconciler of a task queue if no pipeline is left there, and says so.
func (p *program) releaseReconciler(ctx context.Context, made *schedules.Schedules, queue string) error {
	released, err := made.ReleaseReconciler(ctx, queue)
	if released {
		fmt.Fprintf(p.talk, "the reconciler of task queue %s is deleted: no pipeline is left there\n", queue)
	}
	return err
}
