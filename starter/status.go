package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "Show how each interval of a pipeline stands, and what runs next",
		ArgsUsage: "PIPELINE|FILE",
		Description: `Draws the intervals as letters, some dozens of the newest ones if no range is given. A range of
more than a thousand is summarised. With --table: a line for each interval, with its rows, attempts and how long its
run took; with --json, too.

Examples:
  starter status orders
  starter status orders --table --from 2026-01-01 --to 2026-02-01
  starter status pipelines/orders/pipeline.yaml --json`,
		Flags: append(append(dial.Flags(), rangeFlags()...),
			&cli.BoolFlag{Name: "table", Usage: "print a line for each interval"}, jsonFlag()),
		Action: p.status,
	}
}

// statusHead is the JSON of `status` before its ranges or intervals.
type statusHead struct {
	Pipeline string `json:"pipeline"`
	Schedule string `json:"schedule"`
	Timezone string `json:"timezone"`
	Digest   string `json:"digest"`
	Catchup  string `json:"catchup"`
	// State is active, paused, ended (no further tick) or none (there is no Schedule).
	State string `json:"state"`
	// Next is when Temporal starts the next run; missing when it starts none.
	Next *time.Time `json:"next,omitempty"`
	// Note is the reason of a pause, or what is odd about the Schedule.
	Note string `json:"note,omitempty"`
	// CatchingUp is the workflow that runs what is missing; missing when none does.
	CatchingUp string `json:"catching_up,omitempty"`
	// Backfills are the open ones.
	Backfills []string `json:"backfills,omitempty"`
	// Reconciled is what the reconciler found last; missing when Temporal remembers none.
	Reconciled *reconciledNote `json:"reconciled,omitempty"`

	location *time.Location
}

type reconciledNote struct {
	At   time.Time `json:"at"`
	Note string    `json:"note"`
}

// statusTail is the JSON of `status` after its ranges or intervals.
type statusTail struct {
	Intervals   int64                `json:"total"`
	Counts      map[step.State]int64 `json:"counts"`
	Outdated    int64                `json:"outdated"`
	ActiveSince *time.Time           `json:"active_since,omitempty"`
}

// backfillsShown is how many open backfills are named.
const backfillsShown = 10

// stateNone is the state of a pipeline without a Schedule.
const stateNone = "none"

func (p *program) status(c *cli.Context) error {
	s, err := p.subjectOf(c)
	if err != nil {
		return err
	}
	defer s.Close()
	request := s.request()
	request.All = c.Bool("all")
	if err := s.within(c, &request); err != nil {
		return err
	}
	if !c.IsSet("from") {
		request.Newest = newestShown(s.schedule().Grid())
	}
	if err := s.needWorkers(c.Context, s.schedule().TaskQueue); err != nil {
		return err
	}
	head, err := p.statusHead(c.Context, s)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.statusJSON(c.Context, s, head, request, c.Bool("table"))
	}
	// The intervals first: a header without them would say half.
	body, err := p.statusBody(c.Context, s, request, c.Bool("table"))
	if err != nil {
		return err
	}
	p.printHead(head)
	_, err = p.out.Write(body)
	return err
}

// newestShown is how many intervals are shown where no range is given: about ten lines of a grid.
func newestShown(grid *interval.Grid, err error) int {
	const least, most = 60, 240
	if err != nil {
		return least
	}
	// A schedule whose ticks are far apart at night and close by day is better judged by many of them.
	var cells []step.Cell
	for iv := range grid.Between(time.Time{}, farAway) {
		if cells = append(cells, step.Cell{Interval: iv}); len(cells) == least {
			break
		}
	}
	if len(cells) == 0 {
		return least
	}
	length := typical(cells)
	lines := periodOf(length)
	begun := lines.begin(cells[0].Interval.Start)
	perLine := int(lines.next(begun).Sub(begun) / length)
	return min(max(10*perLine, least), most)
}

// statusHead says what Temporal knows of the pipeline as a whole.
func (p *program) statusHead(ctx context.Context, s *subject) (*statusHead, error) {
	of := s.schedule()
	head := &statusHead{
		Pipeline: of.Name, Schedule: schedules.Cadence(of.Schedule), Timezone: of.Schedule.Timezone, Digest: s.definition.Digest,
		Catchup: string(of.Schedule.Catchup), State: stateNone,
		location: s.location,
	}
	backfills, err := s.listed(ctx, of.Name, true, backfillsShown)
	if err != nil {
		return nil, err
	}
	for _, view := range backfills {
		head.Backfills = append(head.Backfills, view.ID)
	}
	if s.found == nil {
		return head, nil
	}
	row := p.scheduleRow(s.found)
	head.State, head.Next, head.Note = row.State, row.Next, row.Note
	described, err := s.DescribeWorkflow(ctx, launch.CatchupID(of.Name), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
	case err != nil:
		return nil, fmt.Errorf("look for a catchup of %s: %w", of.Name, err)
	case described.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		head.CatchingUp = launch.CatchupID(of.Name)
	}
	head.Reconciled, err = s.lastReconciled(ctx)
	return head, err
}

// reconcilesRead is in how many of the newest results of reconcilers a pipeline is looked for: those that look now are
// about one pipeline only.
const reconcilesRead = 5

// lastReconciled returns what was found when it was last looked for what the pipeline lacks.
func (s *subject) lastReconciled(ctx context.Context) (*reconciledNote, error) {
	page, err := s.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: reconcilesRead,
		Query:    fmt.Sprintf("WorkflowId STARTS_WITH %q AND WorkflowType = %q AND ExecutionStatus = 'Completed'", launch.ReconcileID(s.schedule().TaskQueue), workflows.ReconcileType),
	})
	if err != nil {
		return nil, fmt.Errorf("look for the last reconciling of %s: %w", s.schedule().Name, err)
	}
	for _, execution := range page.GetExecutions() {
		var result workflows.ReconcileResult
		id := execution.GetExecution()
		if err := s.GetWorkflow(ctx, id.GetWorkflowId(), id.GetRunId()).Get(ctx, &result); err != nil {
			continue // it is gone by now
		}
		for _, each := range result.Pipelines {
			if each.Pipeline != s.schedule().Name {
				continue
			}
			note := each.Note
			if each.Error != "" {
				note = "error: " + each.Error
			}
			return &reconciledNote{execution.GetCloseTime().AsTime(), note}, nil
		}
	}
	return nil, nil
}

// statusJSON streams the ranges or, for a table, every interval with its details.
func (p *program) statusJSON(ctx context.Context, s *subject, head *statusHead, request step.StandingRequest, table bool) error {
	list := "ranges"
	if request.Each, request.Detailed = table, table; table {
		list = "intervals"
	}
	counted := newTally()
	tail := &statusTail{Counts: counted.states}
	return p.streamJSON(head, list, func(yield func(any, error) bool) {
		var held []step.Stretch // the last one: the next page may go on with it
		for answer, err := range s.pages(ctx, request) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !answer.ActiveSince.IsZero() {
				tail.ActiveSince = &answer.ActiveSince
			}
			for _, cell := range answer.Cells {
				counted.add(cell.Mark, 1)
				if !yield(cell, nil) {
					return
				}
			}
			for _, stretch := range answer.Stretches {
				counted.add(stretch.Mark, stretch.Count)
				if held = stretch.Join(held); len(held) > 1 {
					if !yield(standRangeOf(held[0], held[0].State.IsGap()), nil) {
						return
					}
					held = held[1:]
				}
			}
		}
		if len(held) > 0 {
			yield(standRangeOf(held[0], held[0].State.IsGap()), nil)
		}
	}, func() (any, error) {
		tail.Intervals, tail.Outdated = counted.total, counted.outdated
		return tail, nil
	})
}

// wantsColour reports whether colours are to be written to the output: it is a terminal, and nobody says otherwise.
func (p *program) wantsColour() bool {
	if no, is := p.environment.LookupEnv("NO_COLOR"); is && no != "" {
		return false
	}
	if term, is := p.environment.LookupEnv("TERM"); !is || term == "" || term == "dumb" {
		return false
	}
	file, is := p.out.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
