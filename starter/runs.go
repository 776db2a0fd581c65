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
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "Start the run of one interval, or join the one that is open",
		ArgsUsage: "FILE",
		Description: `Starts the run of the interval that begins at --interval. An interval that was
loaded before is loaded again: its rows are replaced, never doubled. If a run of the interval is
open already, nothing is started; the command says whose it is and, with --wait, waits for it.

Example: starter run pipelines/orders/pipeline.yaml --interval 2026-01-15 --wait`,
		Flags: append(dial.Flags(), intervalFlag(),
			&cli.BoolFlag{Name: "wait", Usage: "wait for the run, print what it did, exit 5 if it failed"}, jsonFlag()),
		Action: p.run,
	}
}

// started is the JSON of `run`.
type started struct {
	WorkflowID string            `json:"workflow_id"`
	RunID      string            `json:"run_id"`
	Pipeline   string            `json:"pipeline"`
	Interval   interval.Interval `json:"interval"`
	// Joined is true if the run was open already; Kind and Digest are then the open run's.
	Joined bool   `json:"joined"`
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// The next are set by rerun. Definition is where the definition came from: "current", or "run" for that of
	// the newest run before.
	Definition string `json:"definition,omitempty"`
	// FromStep is the step at which the run begins; Kept are the steps that are not run again.
	FromStep string   `json:"from_step,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	// Replaced is the run id of the open run that was cancelled first.
	Replaced string `json:"replaced,omitempty"`
	// Outcome, Error and Result are set with --wait.
	Outcome string               `json:"outcome,omitempty"`
	Error   string               `json:"error,omitempty"`
	Result  *workflows.RunResult `json:"result,omitempty"`
}

func (p *program) run(c *cli.Context) error {
	file, err := oneArgument(c, "FILE")
	if err != nil {
		return err
	}
	parsed, err := parseFile(file)
	if err != nil {
		return err
	}
	at, err := instantOf(parsed, c.String("interval"))
	if err != nil {
		return err
	}
	definition := parsed.Effective()
	_, refusal := p.completed(definition, at)
	o, err := p.connect(c)
	if err != nil && refusal != nil {
		return refusal // which the Schedule could have changed only if it took over from another one
	}
	if err != nil {
		return err
	}
	defer o.Close()
	if err := p.takeOver(c.Context, o, definition); err != nil {
		return err
	}
	owned, err := p.completed(definition, at)
	if err != nil {
		return err
	}
	return p.startAndReport(c, o, definition, owned)
}

// completed returns the interval that starts at an instant, and refuses one that is not over.
func (p *program) completed(definition *pipeline.Pipeline, at time.Time) (interval.Interval, error) {
	owned, err := intervalAt(definition, at)
	if err == nil && owned.End.After(p.now()) {
		err = usagef("the interval %s is not over yet: its run becomes due at %s", owned, owned.End.Format(time.RFC3339))
	}
	return owned, err
}

// takeOver lets a definition begin where the pipeline's Schedule says that its grid took over from an earlier
// one, so that a run owns the same interval whoever starts it.
func (p *program) takeOver(ctx context.Context, o *online, definition *pipeline.Pipeline) error {
	found, err := schedules.New(o.Temporal).Get(ctx, launch.ScheduleID(definition.Name))
	var unknown *serviceerror.NamespaceNotFound
	if errors.As(err, &unknown) {
		return o.noNamespace(fmt.Sprintf("look for the Schedule of %s", definition.Name))
	}
	if err != nil || found == nil || found.Pipeline != definition.Name || found.Definition() == nil {
		return err
	}
	was, err := found.Definition().Grid()
	if err != nil {
		return err
	}
	is, err := definition.Grid()
	if err != nil {
		return err
	}
	if interval.SameCadence(was, is) {
		definition.Schedule.Since = found.Definition().Schedule.Since
		return nil
	}
	fmt.Fprintf(p.talk, "the Schedule of %s ticks by %s, this file by %s: the run's interval is the file's; `starter schedules apply` makes them equal\n",
		definition.Name, schedules.Cadence(found.Definition().Schedule), schedules.Cadence(definition.Schedule))
	return nil
}

func (p *program) startAndReport(c *cli.Context, o *online, definition *pipeline.Pipeline, owned interval.Interval) error {
	handle, report, err := p.start(c.Context, o, definition, owned)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		fmt.Fprintln(p.talk, describeStart(report, definition.Digest))
	}
	return p.afterStart(c, o, definition, handle, report)
}

// afterStart tells of workers that are missing, and waits for a run if it is to.
func (p *program) afterStart(c *cli.Context, o *online, definition *pipeline.Pipeline, handle client.WorkflowRun, report started) error {
	ctx, asJSON := c.Context, c.Bool("json")
	served, err := o.hasWorkers(ctx, definition.TaskQueue)
	if err != nil {
		fmt.Fprintf(p.talk, "starter: %v\n", err)
	} else if !served {
		if asJSON {
			err = p.printJSON(report)
		}
		if c.Bool("wait") {
			return errors.Join(noWorkers(definition.TaskQueue, o.settings.Namespace()), err)
		}
		fmt.Fprintf(p.talk, "starter: %v; the run waits for it\n", noWorkers(definition.TaskQueue, o.settings.Namespace()))
		return err
	}
	if err := p.noteUnserved(ctx, o, definition); err != nil {
		fmt.Fprintf(p.talk, "starter: %v\n", err)
	}
	if !c.Bool("wait") {
		if asJSON {
			return p.printJSON(report)
		}
		_, err := fmt.Fprintln(p.out, report.WorkflowID)
		return err
	}
	return p.await(ctx, o, handle, report, asJSON)
}

// noteUnserved tells of the steps whose task queue, one of their own, nobody polls: they wait for a worker.
func (p *program) noteUnserved(ctx context.Context, o *online, definition *pipeline.Pipeline) error {
	known := map[string]bool{"": true, definition.TaskQueue: true}
	for i := range definition.Steps {
		queue := definition.Steps[i].TaskQueue()
		if known[queue] {
			continue
		}
		known[queue] = true
		polled, err := o.PolledForSteps(ctx, queue)
		if err != nil {
			return err
		}
		if !polled {
			fmt.Fprintf(p.talk, "no worker polls task queue %s: step %s waits for one\n", queue, definition.Steps[i].Name)
		}
	}
	return nil
}

func describeStart(report started, digest string) string {
	if !report.Joined {
		return fmt.Sprintf("started %s, run %s", report.WorkflowID, report.RunID)
	}
	text := fmt.Sprintf("joined %s, run %s: a run of this interval is open already, of kind %s", report.WorkflowID, report.RunID, report.Kind)
	switch {
	case report.Digest == "":
	case report.Digest == digest:
		text += ", with the same definition"
	default:
		text += fmt.Sprintf(", with another definition (digest %.12s, the file's is %.12s)", report.Digest, digest)
	}
	return text
}

// start starts a run, or joins the open one.
func (p *program) start(ctx context.Context, o *online, definition *pipeline.Pipeline, owned interval.Interval) (client.WorkflowRun, started, error) {
	report := started{
		WorkflowID: step.WorkflowID(definition.Name, owned.End), Pipeline: definition.Name, Interval: owned,
		Kind: string(step.Manual), Digest: definition.Digest,
	}
	came, err := o.Start(ctx, launch.Request{Definition: definition, Interval: owned, Kind: step.Manual})
	var unknown *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &unknown):
		return nil, report, o.noNamespace("start " + report.WorkflowID)
	case err != nil:
		return nil, report, err
	case came.Taken:
		return p.join(ctx, o, report)
	}
	report.RunID = came.RunID
	p.noteAttributes(ctx, o)
	return o.GetWorkflow(ctx, report.WorkflowID, report.RunID), report, nil
}

// noteAttributes tells of search attributes that the namespace lacks.
func (p *program) noteAttributes(ctx context.Context, o *online) {
	if _, missing, err := o.Usable(ctx); err == nil && len(missing) > 0 {
		fmt.Fprintf(p.talk, "namespace %s lacks the search attributes %s: `starter setup` adds them; until then runs are listed without\n",
			o.Namespace, strings.Join(missing, ", "))
	}
}

// join finds out whose the open run is.
func (p *program) join(ctx context.Context, o *online, report started) (client.WorkflowRun, started, error) {
	described, err := o.DescribeWorkflow(ctx, report.WorkflowID, "")
	if err != nil {
		return nil, report, fmt.Errorf("look at the open run %s: %w", report.WorkflowID, err)
	}
	info := described.RawResponse.GetWorkflowExecutionInfo()
	report.Joined = true
	report.RunID = info.GetExecution().GetRunId()
	report.Kind = launch.MemoText(info.GetMemo(), launch.MemoKind)
	report.Digest = launch.MemoText(info.GetMemo(), launch.MemoDigest)
	if report.Kind == "" {
		report.Kind = string(step.Scheduled)
	}
	return o.GetWorkflow(ctx, report.WorkflowID, report.RunID), report, nil
}

// await waits for a run and prints what it did.
func (p *program) await(ctx context.Context, o *online, handle client.WorkflowRun, report started, asJSON bool) error {
	var result workflows.RunResult
	err := handle.Get(ctx, &result)
	if ctx.Err() != nil {
		goesOn := fmt.Errorf("the run %s goes on", report.WorkflowID)
		if asJSON {
			return errors.Join(goesOn, p.printJSON(report))
		}
		return goesOn
	}
	report.Outcome = result.Outcome
	if err == nil {
		report.Result = &result
	} else {
		report.Outcome, report.Error = outcomeOf(err)
		report.Result = stepsOf(err)
	}
	if asJSON {
		if printErr := p.printJSON(report); printErr != nil {
			return printErr
		}
	} else if report.Result != nil {
		p.printResult(report.Result)
	}
	switch {
	case err == nil:
		return nil
	case report.Outcome == "":
		return fmt.Errorf("wait for %s: %w", report.WorkflowID, err)
	default:
		return coded(exitRunFailed, fmt.Errorf("%s %s: %s", report.WorkflowID, report.Outcome, printable(report.Error)))
	}
}

// outcomeOf tells how a run ended from the error of waiting for it; empty when the waiting failed.
func outcomeOf(err error) (outcome, message string) {
	var application *temporal.ApplicationError
	var execution *temporal.WorkflowExecutionError
	switch {
	case !errors.As(err, &execution):
		return "", err.Error()
	case temporal.IsCanceledError(err):
		return step.OutcomeCancelled, "it was cancelled"
	case errors.As(err, &application):
		return step.OutcomeFailed, application.Message()
	default:
		return step.OutcomeFailed, errors.Unwrap(execution).Error()
	}
}

// stepsOf returns what a run that failed tells of its steps; nil when it tells nothing.
func stepsOf(err error) *workflows.RunResult {
	var application *temporal.ApplicationError
	var result workflows.RunResult
	if !errors.As(err, &application) || !application.HasDetails() || application.Details(&result) != nil || len(result.Steps) == 0 {
		return nil
	}
	return &result
}

func (p *program) printResult(result *workflows.RunResult) {
	fmt.Fprintf(p.out, "%s %s %s, %s\n", result.Pipeline, result.Interval, result.Outcome, plural(int(result.Rows), "row"))
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tSTATE\tATTEMPTS\tROWS\tTABLE\tINSERTED\tDELETED\tNOTE")
	for _, each := range result.Steps {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s", each.Name, each.State, each.AttemptCount(), each.RowCount())
		if receipt := each.Receipt; receipt != nil {
			fmt.Fprintf(table, "\t%s\t%d\t%d", receipt.Table, receipt.Inserted, receipt.Deleted)
		} else {
			fmt.Fprint(table, "\t\t\t")
		}
		fmt.Fprintf(table, "\t%s\n", printable(each.Remarks()))
	}
	table.Flush()
}

func (p *program) runsCommand() *cli.Command {
	return &cli.Command{
		Name:      "runs",
		Usage:     "List runs, newest first",
		ArgsUsage: "[PIPELINE]",
		Description: `Lists the runs that Temporal remembers: open ones, and closed ones for as long as
the namespace keeps them.

Example: starter runs orders --limit 20`,
		Flags: append(dial.Flags(),
			&cli.IntFlag{Name: "limit", Value: 50, Usage: "print at most this many"},
			&cli.BoolFlag{Name: "open", Usage: "only runs that are open"}, jsonFlag()),
		Action: p.runs,
	}
}

// runRow is the JSON of a run in a list.
type runRow struct {
	WorkflowID string     `json:"workflow_id"`
	RunID      string     `json:"run_id"`
	Pipeline   string     `json:"pipeline"`
	Start      string     `json:"start,omitempty"`
	End        string     `json:"end"`
	Kind       string     `json:"kind"`
	Status     string     `json:"status"`
	Started    time.Time  `json:"started"`
	Closed     *time.Time `json:"closed,omitempty"`
}

func (p *program) runs(c *cli.Context) error {
	if c.NArg() > 1 {
		return usagef("runs takes at most one PIPELINE")
	}
	if c.Int("limit") < 1 {
		return usagef("--limit must be at least 1")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	rows, err := o.listRuns(c.Context, c.Args().First(), c.Bool("open"), c.Int("limit"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.printJSON(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(p.talk, "no runs")
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PIPELINE\tINTERVAL START\tKIND\tSTATUS\tSTARTED\tTOOK\tWORKFLOW ID")
	for _, row := range rows {
		took := ""
		if row.Closed != nil {
			took = row.Closed.Sub(row.Started).Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Pipeline, row.Start, row.Kind, row.Status,
			row.Started.UTC().Format(time.RFC3339), took, row.WorkflowID)
	}
	return table.Flush()
}

// listRuns works on every cluster: the query names Temporal's own attributes only, and the id says
// to which pipeline a run belongs.
func (o *online) listRuns(ctx context.Context, name string, open bool, limit int) ([]runRow, error) {
	query := fmt.Sprintf("WorkflowType = %q", launch.RunType)
	if name != "" {
		if strings.ContainsAny(name, `"'\`) {
			return nil, usagef("%q is not the name of a pipeline", name)
		}
		query += fmt.Sprintf(" AND WorkflowId STARTS_WITH %q", name+"-")
	}
	if open {
		query += ` AND ExecutionStatus = "Running"`
	}
	rows := []runRow{}
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: int32(min(limit, 1000))}
	for len(rows) < limit {
		page, err := o.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for _, info := range page.GetExecutions() {
			row, of := runRowOf(info)
			if name == "" || of == name {
				rows = append(rows, row)
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	return rows[:min(limit, len(rows))], nil
}

func runRowOf(info *workflow.WorkflowExecutionInfo) (runRow, string) {
	id := info.GetExecution().GetWorkflowId()
	row := runRow{
		WorkflowID: id, RunID: info.GetExecution().GetRunId(),
		Status:  strings.ToLower(info.GetStatus().String()),
		Kind:    launch.MemoText(info.GetMemo(), launch.MemoKind),
		Started: info.GetStartTime().AsTime(),
	}
	if row.Kind == "" {
		row.Kind = string(step.Scheduled)
	}
	if close := info.GetCloseTime(); close != nil {
		at := close.AsTime()
		row.Closed = &at
	}
	name, tick, err := step.ParseWorkflowID(id)
	if err == nil {
		row.Pipeline, row.End = name, tick.Format(time.RFC3339)
	}
	if bounds := launch.MemoText(info.GetMemo(), launch.MemoInterval); bounds != "" {
		row.Start, _, _ = strings.Cut(bounds, "/")
	} else if at, ok := launch.IntervalOf(info.GetSearchAttributes()); ok {
		row.Start = at.Format(time.RFC3339) // a scheduled run finds its interval out for itself
	}
	return row, name
}
