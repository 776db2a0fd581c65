package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// The values of --definition.
const (
	definitionCurrent = "current"
	definitionOfRun   = "run"
)

// replaceWithin is how long the open run may take to end that --replace has cancelled: steps notice within ten
// seconds, and then the outcome is written.
const replaceWithin = 2 * time.Minute

func (p *program) rerunCommand() *cli.Command {
	return &cli.Command{
		Name:      "rerun",
		Usage:     "Run one interval again, as a whole or from one step on",
		ArgsUsage: "PIPELINE|FILE",
		Description: `Runs the interval that begins at --interval again, what Airflow calls to clear. Its rows are
replaced, never doubled. PIPELINE is the name of a pipeline that has a Schedule, unless there is a FILE of
that name.

The run carries the current definition: that of the Schedule, or of the FILE. With --definition run it
carries that of the newest run of the interval, for as long as Temporal keeps it.

With --from-step only that step runs, and all that need it, and every source that feeds a load among them.
The other steps are kept as they are: a load needs a receipt in the load ledger, into the table that the
definition names, and any other step must have been done by the newest run, as far as Temporal remembers
it. Otherwise nothing is run: the command, or the run itself, ends with an error, and the interval's
outcome stays what it was.

If a run of the interval is open, nothing is started: the command says whose it is and exits with 1. With
--replace that run is cancelled and awaited first.

It is for one interval. A range is run again by starter backfill with --reprocess all.

Example: starter rerun orders --interval 2026-01-15 --from-step load --wait`,
		Flags: append(dial.Flags(),
			&cli.GenericFlag{Name: "interval", Value: &oneInterval{},
				Usage: "`START` of the interval: a date or time in the pipeline's zone, or an instant with an offset"},
			&cli.StringFlag{Name: "from-step", Usage: "run only the step `NAME` and what follows from it, and keep the others"},
			&cli.StringFlag{Name: "definition", Value: definitionCurrent, Usage: "`WHICH` definition the run carries: current or run"},
			&cli.BoolFlag{Name: "replace", Usage: "cancel the run of the interval that is open, and wait until it has ended"},
			&cli.DurationFlag{Name: "replace-within", Value: replaceWithin, Usage: "`DURATION` for which --replace waits for that"},
			&cli.BoolFlag{Name: "wait", Usage: "wait for the run, print what it did, exit 5 if it failed"}, jsonFlag()),
		Action: p.rerun,
	}
}

// oneInterval is the value of --interval, which is neither a range nor a list.
type oneInterval struct{ start string }

func (v *oneInterval) String() string { return v.start }

func (v *oneInterval) Set(text string) error {
	if v.start != "" || strings.Contains(text, "/") || strings.Contains(text, "..") || strings.Contains(text, ",") {
		return errors.New("a rerun is of one interval, which is named by its start; a range is run again by `starter backfill` with --reprocess all")
	}
	v.start = text
	return nil
}

// again is what a rerun is to do.
type again struct {
	definition *pipeline.Pipeline
	// from says where the definition came from, for people.
	from  string
	owned interval.Interval
	// kept are the steps that do not run.
	kept []string
}

func (p *program) rerun(c *cli.Context) error {
	name, at, err := rerunArguments(c)
	if err != nil {
		return err
	}
	current, err := p.currentDefinition(c, name, at)
	if p.connected != nil {
		defer p.connected.Close()
	}
	if err != nil {
		return err
	}
	o := p.connected
	what, err := p.whatAgain(c, o, current, at)
	if err != nil {
		return err
	}
	if what.kept, err = keptSteps(what.definition, c.String("from-step")); err != nil {
		return err
	}
	id := step.WorkflowID(what.definition.Name, what.owned.End)
	if err := p.checkKept(c.Context, o, id, what); err != nil {
		return err
	}
	request := launch.Request{Definition: what.definition, Interval: what.owned, Kind: step.Manual, FromStep: c.String("from-step")}
	report, err := p.startAgain(c, o, request)
	if err != nil {
		return err
	}
	report.Definition, report.FromStep, report.Kept = c.String("definition"), request.FromStep, what.kept
	if !c.Bool("json") {
		fmt.Fprintf(p.talk, "started %s, run %s, with %s (digest %.12s)%s\n", report.WorkflowID, report.RunID, what.from, report.Digest, describeKept(report))
	}
	return p.afterStart(c, o, what.definition, o.GetWorkflow(c.Context, report.WorkflowID, report.RunID), report)
}

// rerunArguments reads what can be read without Temporal.
func rerunArguments(c *cli.Context) (name, at string, err error) {
	if name, err = oneArgument(c, "PIPELINE or FILE"); err != nil {
		return "", "", err
	}
	at = c.Generic("interval").(*oneInterval).start
	if which := c.String("definition"); which != definitionCurrent && which != definitionOfRun {
		return "", "", usagef("--definition %q is neither %s nor %s", which, definitionCurrent, definitionOfRun)
	}
	if c.IsSet("from-step") && c.String("from-step") == "" {
		return "", "", usagef("--from-step is empty: name a step, or leave it out to run all of them")
	}
	if c.IsSet("replace-within") && !c.Bool("replace") {
		return "", "", usagef("--replace-within says how long --replace waits, which is not given")
	}
	if c.Duration("replace-within") <= 0 {
		return "", "", usagef("--replace-within must be more than 0")
	}
	return name, at, nil
}

// currentDefinition returns the definition of a file, or that which was applied under a name, and connects.
func (p *program) currentDefinition(c *cli.Context, name, start string) (*pipeline.Pipeline, error) {
	if named(name) {
		o, err := p.connect(c)
		if err != nil {
			return nil, err
		}
		found, err := o.scheduled(c.Context, name)
		if err != nil {
			return nil, err
		}
		return found.Definition(), nil
	}
	parsed, err := parseFile(name)
	if err != nil {
		return nil, err
	}
	if _, err := instantOf(parsed, start); err != nil {
		return nil, err
	}
	definition := parsed.Effective()
	o, err := p.connect(c)
	if err != nil {
		return nil, err
	}
	return definition, p.takeOver(c.Context, o, definition)
}

// whatAgain finds the interval and the definition that is asked for.
func (p *program) whatAgain(c *cli.Context, o *online, current *pipeline.Pipeline, start string) (again, error) {
	at, err := instantOf(current, start)
	if err != nil {
		return again{}, err
	}
	if c.String("definition") == definitionCurrent {
		owned, err := p.completed(current, at)
		return again{definition: current, from: "the current definition", owned: owned}, err
	}
	definition, owned, run, err := o.definitionOf(c.Context, current, at)
	if err != nil {
		return again{}, err
	}
	return again{definition: definition, from: "the definition of run " + run, owned: owned}, nil
}

// keptSteps returns the steps that do not run when a run begins at a step, in order.
func keptSteps(definition *pipeline.Pipeline, from string) ([]string, error) {
	if from == "" {
		return nil, nil
	}
	runs, err := definition.StepsFrom(from)
	if err != nil {
		return nil, usagef("--from-step: %w", err)
	}
	order, err := definition.TopologicalOrder()
	return slices.DeleteFunc(order, func(name string) bool { return slices.Contains(runs, name) }), err
}

func describeKept(report started) string {
	switch {
	case report.FromStep == "":
		return ""
	case len(report.Kept) == 0:
		return fmt.Sprintf(": from step %s on, which are all of them", report.FromStep)
	default:
		return fmt.Sprintf(": from step %s on; kept as they are: %s", report.FromStep, strings.Join(report.Kept, ", "))
	}
}

// errOpen says that a run of the interval is open, and what to do.
var errOpen = errors.New("nothing was started: wait for it, as `starter run --wait` does, or have it cancelled first with --replace")
