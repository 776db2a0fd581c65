package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/workflows"
)

// backfillControls are the commands that look after backfills.
func (p *program) backfillControls() []*cli.Command {
	const id = "ID"
	flags := func(more ...cli.Flag) []cli.Flag { return append(append(dial.Flags(), more...), jsonFlag()) }
	return []*cli.Command{
		{
			Name: "list", Usage: "List backfills, newest first", ArgsUsage: "[PIPELINE]",
			Description: "Example: starter backfill list orders",
			Flags: flags(&cli.IntFlag{Name: "limit", Value: 20, Usage: "print at most this many"},
				&cli.BoolFlag{Name: "open", Usage: "only those that have not ended"}),
			Action: p.listBackfills,
		},
		{
			Name: "show", Usage: "Show how far a backfill is, or how it ended", ArgsUsage: id,
			Description: "ID is that of a list, such as orders/jan15-kxmpt, the last part of it, or the name of a pipeline that has one\nopen backfill. With --wait it is followed until it ends.\n\nExample: starter backfill show orders",
			Flags:       flags(&cli.BoolFlag{Name: "wait", Usage: "follow it until it has ended, exit 5 if an interval failed"}),
			Action:      p.showBackfill,
		},
		{
			Name: "pause", Usage: "Let a backfill start nothing more until it is resumed", ArgsUsage: id,
			Description: "Its open runs go on. When the command returns nothing more is started.\n\nExample: starter backfill pause orders",
			Flags:       flags(), Action: p.order(workflows.UpdatePause),
		},
		{
			Name: "resume", Usage: "Let a paused backfill go on", ArgsUsage: id,
			Description: "Example: starter backfill resume orders",
			Flags:       flags(), Action: p.order(workflows.UpdateResume),
		},
		{
			Name: "resize", Usage: "Change how many runs of a backfill may be open at a time", ArgsUsage: id,
			Description: "It takes effect at once; when there are to be fewer, those that are open go on.\n\nExample: starter backfill resize orders --max-active-runs 10",
			Flags:       flags(&cli.IntFlag{Name: flagWindow, Usage: fmt.Sprintf("1 to %d (required)", workflows.MaximumBackfillWindow)}),
			Action:      p.resizeBackfill,
		},
		{
			Name: "cancel", Usage: "End a backfill: it starts nothing more", ArgsUsage: id,
			Description: "Its open runs go on, and it ends with the last of them; --runs cancels them, too. When the command returns\nnothing more is started. Cancelling the workflow in Temporal's UI does the same.\n\nExample: starter backfill cancel orders --runs",
			Flags:       flags(&cli.BoolFlag{Name: "runs", Usage: "cancel the open runs that it has started, too"}),
			Action:      p.cancelBackfill,
		},
		{
			Name: "retry", Usage: "Run the failed intervals of a backfill again", ArgsUsage: id,
			Description: "One that is open takes them in at once. For one that has ended a new one is started, with the same definition, of exactly\nthose intervals; where a failed one kept others from being run, these follow. After a change of the file use\n`starter backfill FILE --reprocess failed` instead.\n\nExample: starter backfill retry orders/jan15-kxmpt",
			Flags:       flags(), Action: p.retryBackfill,
		},
	}
}

// lookAt connects, finds the backfill that the one argument means, and looks at it.
func (p *program) lookAt(c *cli.Context) (*online, *backfillView, error) {
	text, err := oneArgument(c, "ID")
	if err != nil {
		return nil, nil, err
	}
	o, err := p.connect(c)
	if err != nil {
		return nil, nil, err
	}
	view, err := o.lookAt(c.Context, text)
	if err != nil {
		o.Close()
		return nil, nil, err
	}
	return o, view, nil
}

func (o *online) lookAt(ctx context.Context, text string) (*backfillView, error) {
	id, err := o.find(ctx, text)
	if err != nil {
		return nil, err
	}
	described, err := o.DescribeWorkflow(ctx, id, "")
	var unknown *serviceerror.NotFound
	if errors.As(err, &unknown) {
		return nil, usagef("there is no backfill %s; `starter backfill list` shows which there are", text)
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", id, err)
	}
	return o.viewOf(described.RawResponse.GetWorkflowExecutionInfo()), nil
}

func (p *program) showBackfill(c *cli.Context) error {
	o, view, err := p.lookAt(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if view.open && c.Bool("wait") {
		if err := o.needWorkers(c.Context, view.queue); err != nil {
			return err
		}
		return p.follow(c, o, []*backfillView{view})
	}
	latest, err := o.view(c.Context, view.WorkflowID)
	switch {
	case latest == nil:
		return err
	case c.Bool("wait"):
		return p.reportViews(c, []*backfillView{latest})
	case c.Bool("json"):
		return errors.Join(err, p.printJSON(latest))
	}
	p.printView(latest)
	return err
}

// order returns the action of a command that orders a backfill something without more words.
func (p *program) order(update string) cli.ActionFunc {
	return func(c *cli.Context) error { return p.update(c, update) }
}

func (p *program) resizeBackfill(c *cli.Context) error {
	to := c.Int(flagWindow)
	if to < 1 || to > workflows.MaximumBackfillWindow {
		return usagef("--%s: say how many runs may be open at a time, 1 to %d", flagWindow, workflows.MaximumBackfillWindow)
	}
	return p.update(c, workflows.UpdateResize, workflows.ResizeOrder{Window: to})
}

func (p *program) cancelBackfill(c *cli.Context) error {
	return p.update(c, workflows.UpdateCancel, workflows.CancelOrder{Runs: c.Bool("runs")})
}

// update gives a backfill an order, and says how it stands when that has taken effect.
func (p *program) update(c *cli.Context, update string, args ...any) error {
	o, view, err := p.lookAt(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if !view.open {
		return fmt.Errorf("%s the backfill %s: it has ended already, as %s", update, view.ID, view.State)
	}
	return p.tell(c, o, view, update, args...)
}

func (p *program) tell(c *cli.Context, o *online, view *backfillView, update string, args ...any) error {
	if err := o.needWorkers(c.Context, view.queue); err != nil {
		return err
	}
	progress, err := o.updated(c.Context, view, update, args...)
	if err != nil {
		return fmt.Errorf("%s the backfill %s: %w", update, view.ID, plainly(err))
	}
	view.add(progress, time.Now())
	if c.Bool("json") {
		return p.printJSON(view)
	}
	open := plural(len(view.Running), "run")
	switch update {
	case workflows.UpdatePause:
		fmt.Fprintf(p.talk, "%s is paused: it starts nothing more; %s open\n", view.ID, open)
	case workflows.UpdateResume:
		fmt.Fprintf(p.talk, "%s goes on, %d at a time\n", view.ID, view.Window)
	case workflows.UpdateResize:
		fmt.Fprintf(p.talk, "%s runs %d at a time from now on; %s open\n", view.ID, view.Window, open)
	case workflows.UpdateRetry:
		fmt.Fprintf(p.talk, "%s runs %s again\n", view.ID, plural(int(progress.Retried), "interval"))
	case workflows.UpdateCancel:
		fmt.Fprintf(p.talk, "%s starts nothing more; %s open: it ends with the last of them\n", view.ID, open)
	}
	return nil
}

// updated sends an update, and waits until it has taken effect.
func (o *online) updated(ctx context.Context, view *backfillView, update string, args ...any) (workflows.BackfillProgress, error) {
	var progress workflows.BackfillProgress
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	told := time.AfterFunc(answerSoon, func() { fmt.Fprintf(o.talk, "waiting for a worker on task queue %s\n", view.queue) })
	defer told.Stop()
	handle, err := o.UpdateWorkflow(within, client.UpdateWorkflowOptions{
		WorkflowID: view.WorkflowID, UpdateName: update, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(within, &progress)
	}
	switch {
	case err == nil || within.Err() == nil:
		return progress, err
	case ctx.Err() != nil:
		return progress, errors.New("nobody waits for an answer any more, and it may still take effect")
	default:
		return progress, coded(exitUnreachable, fmt.Errorf("no answer within %s from the workers of task queue %s; this may take effect when one comes: look at workflow %s in the Temporal UI",
			answerWithin, view.queue, view.WorkflowID))
	}
}
