package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

func (p *program) backfillCommand() *cli.Command {
	return &cli.Command{
		Name:      "backfill",
		Usage:     "Run the intervals of a range, some at a time, and steer what runs",
		ArgsUsage: "FILE|DIR|PIPELINE...",
		Description: `Runs the intervals that lie whole in [--from, --to), of pipeline files, or of pipelines that have a
Schedule by their names. --from and --to are dates or times in the pipeline's zone, or instants with
an offset; --to itself is not in the range. An interval that lies only partly in it, or is not over
yet, is left out, and the command says so; a range without any interval is an error. Intervals whose
runs are open are waited for, and never run twice at a time.

The backfill goes on when the command has ended: list, show, pause, resume, resize, retry and cancel
look after it. --wait follows it.

Examples:
  starter backfill pipelines/orders/pipeline.yaml --from 2023-01-01 --to 2026-01-01 --dry-run
  starter backfill orders --from 2026-01-01 --to 2026-02-01 --reprocess failed --wait`,
		Flags: append(dial.Flags(),
			&cli.StringFlag{Name: "from", Usage: "`START` of the range (required)"},
			&cli.StringFlag{Name: "to", Usage: "`END` of the range, which is not in it (required)"},
			&cli.IntFlag{Name: flagWindow, Value: workflows.DefaultBackfillWindow, Usage: fmt.Sprintf("how many runs may be open at a time, 1 to %d", workflows.MaximumBackfillWindow)},
			&cli.StringFlag{Name: flagOrder, Value: orderOldest, Usage: "run the oldest or the newest interval first"},
			&cli.StringFlag{Name: flagReprocess, Value: string(step.ReprocessMissing),
				Usage: "missing: intervals without an outcome; failed: also those that failed or were cancelled; all: loaded ones, too"},
			&cli.BoolFlag{Name: flagFailFast, Usage: "start nothing more once an interval has failed"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be run, and what left and why, and start nothing"},
			&cli.BoolFlag{Name: "wait", Usage: "show how far it comes until it has ended, exit 5 if an interval failed; Ctrl-C leaves it running"},
			&cli.BoolFlag{Name: "detach", Usage: "return when it has started (the default)"},
			&cli.BoolFlag{Name: flagVia, Usage: "hand the range to the Schedule's own backfill instead, in one call"},
			jsonFlag()),
		Subcommands: p.backfillControls(),
		Action:      p.backfill,
	}
}

// Flags of backfill, and the values of --order.
const (
	flagWindow    = "max-active-runs"
	flagOrder     = "order"
	flagReprocess = "reprocess"
	flagFailFast  = "fail-fast"
	flagVia       = "via-schedule"

	orderOldest = "oldest"
	orderNewest = "newest"
)

// backfillOptions are what the flags say.
type backfillOptions struct {
	from, to  string
	window    int
	newest    bool
	reprocess step.Reprocess
	failFast  bool
}

func backfillOptionsOf(c *cli.Context) (backfillOptions, error) {
	o := backfillOptions{
		from: c.String("from"), to: c.String("to"), window: c.Int(flagWindow), failFast: c.Bool(flagFailFast),
		reprocess: step.Reprocess(c.String(flagReprocess)),
	}
	for flag, text := range map[string]string{"from": o.from, "to": o.to} {
		if text == "" {
			return o, usagef("--%s is missing: say which range, such as --from 2026-01-01 --to 2026-02-01", flag)
		}
	}
	if o.window < 1 || o.window > workflows.MaximumBackfillWindow {
		return o, usagef("--%s %d is not possible: it is 1 to %d", flagWindow, o.window, workflows.MaximumBackfillWindow)
	}
	switch order := c.String(flagOrder); order {
	case orderOldest:
	case orderNewest:
		o.newest = true
	default:
		return o, usagef("--%s %q is neither %s nor %s", flagOrder, order, orderOldest, orderNewest)
	}
	switch o.reprocess {
	case step.ReprocessMissing, step.ReprocessFailed, step.ReprocessAll:
	default:
		return o, usagef("--%s %q is none of %s, %s and %s", flagReprocess, o.reprocess, step.ReprocessMissing, step.ReprocessFailed, step.ReprocessAll)
	}
	if c.Bool("wait") && c.Bool("detach") {
		return o, usagef("give --wait or --detach, not both")
	}
	return o, nil
}

// backfillTarget is one pipeline with its part of the command.
type backfillTarget struct {
	definition *pipeline.Pipeline
	within     step.Range
	plan       step.PlanAnswer
}

func (p *program) backfill(c *cli.Context) error {
	if c.NArg() == 0 {
		return usagef("backfill takes at least one FILE or PIPELINE; `starter backfill --help` shows how")
	}
	if c.Bool(flagVia) {
		return p.backfillViaSchedule(c)
	}
	options, err := backfillOptionsOf(c)
	if err != nil {
		return err
	}
	definitions, names, err := backfillFiles(c.Args().Slice())
	if err != nil {
		return err
	}
	// What is wrong with the files' ranges is said without asking Temporal.
	var targets []*backfillTarget
	add := func(definition *pipeline.Pipeline) error {
		t, err := options.target(definition)
		targets = append(targets, t)
		return err
	}
	for _, definition := range definitions {
		if err := add(definition); err != nil {
			return err
		}
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	for _, name := range names {
		found, err := o.scheduled(c.Context, name)
		if err != nil {
			return err
		}
		if err := add(found.Definition()); err != nil {
			return err
		}
	}
	for _, definition := range definitions {
		if err := p.takeOver(c.Context, o, definition); err != nil {
			return err
		}
	}
	for _, t := range targets {
		if err := o.needWorkers(c.Context, t.definition.TaskQueue); err != nil {
			return err
		}
	}
	if c.Bool("dry-run") {
		return p.dryRun(c.Context, o, targets, options, c.Bool("json"))
	}
	for _, t := range targets {
		if err := o.plan(c.Context, t, options); err != nil {
			return err
		}
	}
	return p.startBackfills(c, o, targets, options)
}

// target reads the range in the pipeline's zone.
func (o backfillOptions) target(definition *pipeline.Pipeline) (*backfillTarget, error) {
	within, err := rangeOf(definition, o.from, o.to)
	if err != nil {
		return nil, err
	}
	if o.newest && definition.Schedule.DependsOnPast {
		return nil, usagef("%s depends on the past: each interval waits for the one before, so that --%s %s is not possible", definition.Name, flagOrder, orderNewest)
	}
	return &backfillTarget{definition: definition, within: within}, nil
}

func (p *program) startBackfills(c *cli.Context, o *online, targets []*backfillTarget, options backfillOptions) error {
	var views []*backfillView
	blocked := false
	for _, t := range targets {
		p.talkPlan(t, options)
		if t.plan.Counts.Run+t.plan.Counts.Wait == 0 {
			fmt.Fprintf(p.talk, "%s: nothing to run\n", t.definition.Name)
			blocked = blocked || t.plan.Blocked != nil
			views = append(views, &backfillView{
				Pipeline: t.definition.Name, State: stateNothing, Range: t.plan.Range, Reprocess: options.reprocess, Expected: t.plan.Counts,
				Blocked: t.plan.Blocked, NotRun: t.plan.Counts.Blocked,
			})
			continue
		}
		input := workflows.BackfillInput{
			Version: workflows.BackfillVersion, Definition: t.definition, Kind: step.Backfill, Range: t.plan.Range,
			Window: options.windowOf(t.definition), Newest: options.newest, Reprocess: options.reprocess, FailFast: options.failFast, Expected: t.plan.Counts,
		}
		view, err := o.startBackfill(c.Context, input)
		if err != nil {
			return errors.Join(err, p.printViews(c, views))
		}
		fmt.Fprintf(p.talk, "started %s; look at it with `starter backfill show %s`\n", view.WorkflowID, view.ID)
		views = append(views, view)
	}
	if c.Bool("wait") {
		return p.follow(c, o, views)
	}
	if err := p.printViews(c, views); err != nil {
		return err
	}
	if blocked {
		return coded(exitRunFailed, errors.New("an interval that has failed keeps those after it from being run: run it again with --reprocess failed"))
	}
	return nil
}

func (o backfillOptions) windowOf(definition *pipeline.Pipeline) int {
	if definition.Schedule.DependsOnPast {
		return 1
	}
	return o.window
}

// printViews prints what was started: the ids, or JSON.
func (p *program) printViews(c *cli.Context, views []*backfillView) error {
	if c.Bool("json") {
		if views == nil {
			views = []*backfillView{}
		}
		return p.printJSON(views)
	}
	for _, view := range views {
		if view.ID != "" {
			fmt.Fprintln(p.out, view.ID)
		}
	}
	return nil
}

// Memo keys of a backfill, for lists.
const (
	memoRange     = "tranche.range"
	memoReprocess = "tranche.reprocess"
)

// startBackfill starts a backfill under a new id.
func (o *online) startBackfill(ctx context.Context, input workflows.BackfillInput) (*backfillView, error) {
	name := input.Definition.Name
	for tries := 0; ; tries++ {
		short := shortID(time.Now())
		id := launch.BackfillID(name, short)
		run, err := o.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: id, TaskQueue: input.Definition.TaskQueue,
			WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
			// Its few tasks come before those of its runs: whoever wants to pause it must not wait behind them.
			Priority:      temporal.Priority{PriorityKey: launch.PriorityGate},
			StaticSummary: fmt.Sprintf("backfill %s %s to %s", name, input.Range.From.UTC().Format(time.RFC3339), input.Range.To.UTC().Format(time.RFC3339)),
			Memo:          map[string]any{memoRange: input.Range, memoReprocess: input.Reprocess},
		}, workflows.BackfillType, input)
		var taken *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &taken) && tries < 10 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("start the backfill of %s: %w", name, err)
		}
		return &backfillView{
			ID: name + "/" + short, WorkflowID: id, RunID: run.GetRunID(), Pipeline: name, State: workflows.PhaseRunning,
			Range: input.Range, Reprocess: input.Reprocess, Order: orderOf(input.Newest), Window: input.Window, FailFast: input.FailFast,
			Expected: input.Expected, queue: input.Definition.TaskQueue,
		}, nil
	}
}

func orderOf(newest bool) string {
	if newest {
		return orderNewest
	}
	return orderOldest
}

// idLetters are those of short ids: none that looks like another, and no vowels, so that they make no words.
const idLetters = "bcdfghjkmnpqrstvwxz"

// shortID returns an id that is short and can be said: the day, and five letters.
func shortID(now time.Time) string {
	random := make([]byte, 5)
	_, _ = rand.Read(random) // which never fails
	for i, b := range random {
		random[i] = idLetters[int(b)%len(idLetters)]
	}
	return strings.ToLower(now.UTC().Format("Jan02")) + "-" + string(random)
}
