package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// plan has a worker look what a backfill would do, all of it, and refuses a range without an interval.
func (o *online) plan(ctx context.Context, t *backfillTarget, options backfillOptions) error {
	answer, err := o.page(ctx, t, options, step.PlanRequest{})
	if err != nil {
		return err
	}
	t.plan = answer
	if answer.Range == (step.Range{}) {
		return noInterval(t)
	}
	return nil
}

// page has a worker make a page of a plan.
func (o *online) page(ctx context.Context, t *backfillTarget, options backfillOptions, request step.PlanRequest) (step.PlanAnswer, error) {
	definition := t.definition
	request.Pipeline, request.Warehouse, request.Schedule = definition.Name, definition.Warehouse, *definition.Schedule
	request.Range, request.Reprocess, request.Newest = t.within, options.reprocess, options.newest
	var answer step.PlanAnswer
	handle, err := o.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: launch.PlanID(definition.Name) + "/" + uuid.NewString(), TaskQueue: definition.TaskQueue, WorkflowExecutionTimeout: answerWithin,
		Priority:      temporal.Priority{PriorityKey: launch.PriorityGate}, // somebody waits at a terminal
		StaticSummary: "plan a backfill of " + definition.Name,
	}, workflows.PlanType, request)
	if err != nil {
		return answer, fmt.Errorf("plan the backfill of %s: %w", definition.Name, err)
	}
	err = o.answer(ctx, definition.TaskQueue, handle, &answer)
	return answer, err
}

func noInterval(t *backfillTarget) error {
	text := fmt.Sprintf("no interval of %s in %s to %s is there to be run: only those count that lie whole in the range and are over",
		t.definition.Name, t.within.From.Format(time.RFC3339), t.within.To.Format(time.RFC3339))
	for _, iv := range t.plan.Cut {
		text += fmt.Sprintf("; %s lies only partly in it", iv)
	}
	if spec, err := t.definition.GridSpec(); err == nil && !t.within.To.After(spec.Start) {
		text += fmt.Sprintf("; its start_date is %s", spec.Start.UTC().Format(time.RFC3339))
	}
	if t.plan.Future != nil {
		text += fmt.Sprintf("; %s is not over", t.plan.Future)
	}
	return usagef("%s", text)
}

// talkPlan says what is going to happen.
func (p *program) talkPlan(t *backfillTarget, options backfillOptions) {
	counts, name := t.plan.Counts, t.definition.Name
	fmt.Fprintf(p.talk, "%s: %s from %s to %s: %s\n", name, plural(int(counts.Total()), "interval"),
		t.plan.Range.From.Format(time.RFC3339), t.plan.Range.To.Format(time.RFC3339), describeCounts(counts))
	one := ""
	if t.definition.Schedule.DependsOnPast && options.window > 1 {
		one = ", since it depends on the past"
	}
	fmt.Fprintf(p.talk, "%s: reprocess %s, %s first, %d at a time%s\n", name, options.reprocess, orderOf(options.newest), options.windowOf(t.definition), one)
	p.talkLeftOut(t)
	if t.plan.Blocked != nil {
		fmt.Fprintf(p.talk, "%s: nothing is run after %s: it has failed, the pipeline depends on the past, and --reprocess %s leaves it\n", name, t.plan.Blocked, options.reprocess)
	}
}

func (p *program) talkLeftOut(t *backfillTarget) {
	for _, iv := range t.plan.Cut {
		fmt.Fprintf(p.talk, "%s: %s lies only partly in the range, and is left out\n", t.definition.Name, iv)
	}
	if t.plan.Future != nil {
		fmt.Fprintf(p.talk, "%s: %s is not over yet: it and what comes after are left out\n", t.definition.Name, t.plan.Future)
	}
}

// describeCounts says in a few words what a plan does.
func describeCounts(c step.PlanCounts) string {
	var left []string
	for _, each := range []struct {
		count int64
		what  string
	}{{c.Loaded, "loaded"}, {c.Failed, "failed"}, {c.Cancelled, "cancelled"}, {c.Accepted, "accepted"}} {
		if each.count > 0 {
			left = append(left, fmt.Sprintf("%d %s", each.count, each.what))
		}
	}
	text := fmt.Sprintf("%d to run", c.Run)
	if c.Wait > 0 {
		text += fmt.Sprintf(", %d open already and waited for", c.Wait)
	}
	if c.Left() > 0 {
		text += fmt.Sprintf(", %d left as they are (%s)", c.Left(), strings.Join(left, ", "))
	}
	if c.Blocked > 0 {
		text += fmt.Sprintf(", %d blocked", c.Blocked)
	}
	return text
}

// plannedRow is the JSON of an interval in a dry run.
type plannedRow struct {
	Pipeline string `json:"pipeline"`
	step.Planned
	Why string `json:"why,omitempty"`
}

// dryRun prints the plan, page by page: years of minutes are millions of lines.
func (p *program) dryRun(ctx context.Context, o *online, targets []*backfillTarget, options backfillOptions, asJSON bool) error {
	out := bufio.NewWriterSize(p.out, 64<<10)
	defer out.Flush()
	printed := 0
	for _, t := range targets {
		location, err := t.definition.Location()
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		var counts step.PlanCounts
		request := step.PlanRequest{List: true}
		for {
			answer, err := o.page(ctx, t, options, request)
			if err != nil {
				return err
			}
			if t.plan = answer; answer.Range == (step.Range{}) {
				return noInterval(t)
			}
			if !asJSON && request.Now.IsZero() {
				fmt.Fprintln(table, "PIPELINE\tSTART\tEND\tLOCAL START\tWHAT\tWHY")
			}
			counts.Sum(answer.Counts)
			for _, planned := range answer.Intervals {
				row := plannedRow{Pipeline: t.definition.Name, Planned: planned, Why: why(planned, answer.Blocked)}
				if asJSON {
					if err := writeRow(out, row, printed); err != nil {
						return err
					}
				} else {
					writePlanned(table, row, location)
				}
				printed++
			}
			table.Flush()
			if answer.Next == nil {
				break
			}
			request.Now, request.After = answer.Now, *answer.Next
		}
		t.plan.Counts = counts
	}
	if asJSON { // every range has an interval
		fmt.Fprint(out, "\n]\n")
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, t := range targets {
		p.talkPlan(t, options)
	}
	fmt.Fprintln(p.talk, "dry run: nothing was started")
	return nil
}

func writeRow(out *bufio.Writer, row plannedRow, printed int) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	separator := ",\n  "
	if printed == 0 {
		separator = "[\n  " // not before: a range without intervals prints nothing
	}
	_, err = fmt.Fprintf(out, "%s%s", separator, text)
	return err
}

func writePlanned(table *tabwriter.Writer, row plannedRow, location *time.Location) {
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", row.Pipeline, row.Interval.Start.UTC().Format(time.RFC3339), row.Interval.End.UTC().Format(time.RFC3339),
		row.Interval.Start.In(location).Format(time.RFC3339), row.Verdict, row.Why)
}

// why says why an interval is treated as it is.
func why(planned step.Planned, blocked *interval.Interval) string {
	switch {
	case planned.Verdict == step.VerdictBlocked && blocked != nil:
		return "after " + blocked.String() + ", which has failed"
	case planned.Verdict == step.VerdictWait:
		return "its run is open"
	case planned.Status == "":
		return "it has no outcome"
	default:
		return "it is " + planned.Status
	}
}
