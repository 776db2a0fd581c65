package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
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

// ownID is an id that stands for one backfill.
func ownID(text string) (string, bool) {
	if _, _, ok := launch.ParseBackfillID(text); ok {
		return text, true
	}
	name, short, ok := strings.Cut(text, "/")
	if !ok || name == "" || short == "" || strings.Contains(short, "/") {
		return "", false
	}
	return launch.BackfillID(name, short), true
}

// find returns the workflow id of the backfill that a text means.
func (o *online) find(ctx context.Context, text string) (string, error) {
	if id, ok := ownID(text); ok {
		return id, nil
	}
	if !isName(text) {
		return "", usagef("%q is no id of a backfill: it looks like orders/jan15-kxmpt; `starter backfill list` shows them", text)
	}
	all, err := o.listed(ctx, "", false, 1000)
	if err != nil {
		return "", err
	}
	var open, last []string
	for _, view := range all {
		name, short, _ := launch.ParseBackfillID(view.WorkflowID)
		switch {
		case short == text:
			return view.WorkflowID, nil
		case name == text && view.open:
			open = append(open, view.ID)
		case name == text:
			last = append(last, view.ID)
		}
	}
	switch {
	case len(open) == 1:
		return launch.BackfillID(text, strings.TrimPrefix(open[0], text+"/")), nil
	case len(open) > 1:
		return "", usagef("%s has %d open backfills: say which of %s", text, len(open), strings.Join(open[:min(len(open), 10)], ", "))
	case len(last) > 0:
		return "", usagef("%s has no open backfill; the last one was %s", text, last[0])
	default:
		return "", usagef("there is no backfill %s; `starter backfill list` shows which there are", text)
	}
}

// listed returns backfills, newest first.
func (o *online) listed(ctx context.Context, pipelineName string, open bool, limit int) ([]*backfillView, error) {
	prefix := strings.TrimSuffix(launch.BackfillID("", ""), "/")
	if pipelineName != "" {
		if !isName(pipelineName) {
			return nil, usagef("%q is not the name of a pipeline", pipelineName)
		}
		prefix = launch.BackfillID(pipelineName, "")
	}
	// An execution that continued as new is listed beside the next one.
	query := fmt.Sprintf("WorkflowType = %q AND WorkflowId STARTS_WITH %q AND ExecutionStatus != \"ContinuedAsNew\"", workflows.BackfillType, prefix)
	if open {
		query += ` AND ExecutionStatus = "Running"`
	}
	var found []*backfillView
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: int32(min(limit, 1000))}
	for len(found) < limit {
		page, err := o.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list backfills: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if _, _, ok := launch.ParseBackfillID(info.GetExecution().GetWorkflowId()); ok {
				found = append(found, o.viewOf(info))
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	return found[:min(limit, len(found))], nil
}

func (p *program) listBackfills(c *cli.Context) error {
	if c.NArg() > 1 {
		return usagef("list takes at most one PIPELINE")
	}
	if c.Int("limit") < 1 {
		return usagef("--limit must be at least 1")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	found, err := o.listed(c.Context, c.Args().First(), c.Bool("open"), c.Int("limit"))
	if err != nil {
		return err
	}
	for i, view := range found {
		// What does not answer is listed all the same.
		if latest, err := o.view(c.Context, view.WorkflowID); err == nil {
			found[i] = latest
		}
	}
	if c.Bool("json") {
		if found == nil {
			found = []*backfillView{}
		}
		return p.printJSON(found)
	}
	if len(found) == 0 {
		fmt.Fprintln(p.talk, "no backfills")
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tFROM\tTO\tREPROCESS\tPASSED\tOF\tFAILED\tSTARTED")
	for _, view := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", view.ID, view.State, view.Range.From.UTC().Format(time.RFC3339), view.Range.To.UTC().Format(time.RFC3339),
			view.Reprocess, view.Counts.Passed(), view.Expected.Total(), view.Counts.Failed+view.Counts.Cancelled, view.Started.UTC().Format(time.RFC3339))
	}
	return table.Flush()
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
	if view.open {
		if err := o.needWorkers(c.Context, view.queue); err != nil {
			return err
		}
		if c.Bool("wait") {
			return p.follow(c, o, []*backfillView{view})
		}
	}
	latest, err := o.view(c.Context, view.WorkflowID)
	if err != nil {
		return err
	}
	if c.Bool("wait") {
		return p.reportViews(c, []*backfillView{latest})
	}
	if c.Bool("json") {
		return p.printJSON(latest)
	}
	p.printView(latest)
	return nil
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
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return progress, fmt.Errorf("no answer within %s from the workers of task queue %s: look at workflow %s in the Temporal UI", answerWithin, view.queue, view.WorkflowID)
	}
	return progress, err
}

// retryBackfill puts the failed intervals of an open backfill in again, or starts a new one for those of one that
// has ended.
func (p *program) retryBackfill(c *cli.Context) error {
	o, view, err := p.lookAt(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if view.open {
		return p.tell(c, o, view, workflows.UpdateRetry)
	}
	if err := o.addResult(c.Context, view); err != nil {
		return err
	}
	if view.Counts.Failed+view.Counts.Cancelled == 0 && view.Blocked == nil {
		return usagef("no interval of %s has failed: there is nothing to run again", view.ID)
	}
	input, err := o.inputOf(c.Context, view)
	if err != nil {
		return err
	}
	if err := o.needWorkers(c.Context, view.queue); err != nil {
		return err
	}
	again, err := o.startBackfill(c.Context, retryOf(input, view))
	if err != nil {
		return err
	}
	fmt.Fprintf(p.talk, "started %s for what failed in %s\n", again.WorkflowID, view.ID)
	return p.printViews(c, []*backfillView{again})
}

// retryOf is the input of a backfill that runs again what another one left failed.
func retryOf(input workflows.BackfillInput, view *backfillView) workflows.BackfillInput {
	newest := input.Newest && !input.Definition.Schedule.DependsOnPast
	state := step.WindowState{Counts: view.Counts, Failed: view.Failed, FailedMore: view.FailedMore, Position: view.Position}
	passed := input.Range
	switch {
	case view.Position.IsZero():
	case newest:
		passed.From = view.Position
	default:
		passed.To = view.Position
	}
	count := state.Retry(passed)
	state.Counts = step.WindowCounts{}
	expected := step.PlanCounts{Run: count}
	if view.Blocked != nil {
		// What the failed interval kept from being run follows it.
		expected.Run += view.NotRun
		if count == 0 {
			// It had failed before that backfill.
			state.Again, state.Round = []step.Range{{From: view.Blocked.Start, To: view.Blocked.End}}, 1
			expected.Run++
		}
	} else if state.Position = input.Range.To; newest {
		state.Position = input.Range.From
	}
	return workflows.BackfillInput{
		Version: workflows.BackfillVersion, Definition: input.Definition, Kind: step.Backfill, Range: input.Range,
		Window: input.Window, Newest: input.Newest, Reprocess: input.Reprocess, FailFast: input.FailFast, Expected: expected, State: state,
	}
}

// inputOf returns what a backfill was started with.
func (o *online) inputOf(ctx context.Context, view *backfillView) (workflows.BackfillInput, error) {
	var input workflows.BackfillInput
	page, err := o.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: o.Namespace, Execution: execution(view.WorkflowID, view.RunID), MaximumPageSize: 1,
	})
	if err != nil {
		return input, fmt.Errorf("read what %s was started with: %w", view.WorkflowID, err)
	}
	events := page.GetHistory().GetEvents()
	if len(events) == 0 {
		return input, fmt.Errorf("read what %s was started with: Temporal has no history of it", view.WorkflowID)
	}
	if err := o.Converter.FromPayloads(events[0].GetWorkflowExecutionStartedEventAttributes().GetInput(), &input); err != nil {
		return input, fmt.Errorf("read what %s was started with: %w", view.WorkflowID, err)
	}
	if err := input.Unreadable(); err != nil {
		return input, fmt.Errorf("read what %s was started with: %w; use a newer starter", view.WorkflowID, err)
	}
	return input, nil
}
