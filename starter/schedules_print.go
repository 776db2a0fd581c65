package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/schedules"
)

// printPlan prints a plan as a reviewer reads it.
func (p *program) printPlan(plan *schedules.Plan) error {
	count := map[schedules.Verb]int{}
	for _, change := range plan.Changes {
		count[change.Verb]++
		if change.Verb == schedules.Unchanged && len(change.Notes) == 0 {
			continue
		}
		fmt.Fprintf(p.out, "%s (%s): %s\n", change.Pipeline, change.File, change.Verb)
		table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		for _, d := range change.Differences {
			fmt.Fprintf(table, "  %s\t%s\t→ %s\n", d.Path, orNone(d.Was), orNone(d.Becomes))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, note := range change.Notes {
			fmt.Fprintf(p.out, "  - %s\n", note)
		}
	}
	if len(plan.Orphans) > 0 {
		fmt.Fprintf(p.out, "Schedules without a file here, left alone: %s\n", strings.Join(plan.Orphans, ", "))
	}
	if !plan.HasChanges() {
		_, err := fmt.Fprintf(p.out, "No changes: %s as the files say.\n", isOrAre(count[schedules.Unchanged], "Schedule"))
		return err
	}
	_, err := fmt.Fprintf(p.out, "%d to create, %d to update, %d unchanged, %d blocked.\n",
		count[schedules.Create], count[schedules.Update], count[schedules.Unchanged], count[schedules.Blocked])
	return err
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

func isOrAre(n int, noun string) string {
	if n == 1 {
		return plural(n, noun) + " is"
	}
	return plural(n, noun) + " are"
}

func (p *program) listCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "List the Schedules of pipelines, with when they run next",
		Description: `Example: starter schedules list`,
		Flags:       append(dial.Flags(), jsonFlag()),
		Action:      p.list,
	}
}

// scheduleRow is the JSON of a Schedule in a list.
type scheduleRow struct {
	Pipeline string `json:"pipeline"`
	// State is active, paused, ended (no further tick) or unreadable.
	State    string `json:"state"`
	Schedule string `json:"schedule"`
	Owner    string `json:"owner,omitempty"`
	// Next is the next tick; missing when there is none.
	Next      *time.Time `json:"next,omitempty"`
	Catchup   string     `json:"catchup,omitempty"`
	TaskQueue string     `json:"task_queue,omitempty"`
	Digest    string     `json:"digest,omitempty"`
	Since     string     `json:"since,omitempty"`
	Note      string     `json:"note,omitempty"`
}

func (p *program) list(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("schedules list takes no arguments")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	made := schedules.New(o.Temporal)
	names, err := made.Names(c.Context)
	if err != nil {
		return err
	}
	rows := []scheduleRow{}
	for _, name := range sortedKeys(names) {
		found, err := made.Get(c.Context, names[name])
		if err != nil {
			return err
		}
		if found != nil {
			rows = append(rows, p.scheduleRow(found))
		}
	}
	if c.Bool("json") {
		return p.printJSON(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(p.talk, "no Schedules of pipelines: `starter schedules apply` makes them")
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PIPELINE\tSTATE\tSCHEDULE\tNEXT RUN\tCATCHUP\tTASK QUEUE\tNOTE")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Pipeline, row.State, row.Schedule, row.nextRun(), row.Catchup, row.TaskQueue, row.Note)
	}
	return table.Flush()
}

func (r scheduleRow) nextRun() string {
	switch {
	case r.Next != nil:
		return r.Next.Format(time.RFC3339)
	case r.State == stateEnded:
		return "no further runs"
	default:
		return ""
	}
}

// The states of a Schedule in a list.
const (
	stateActive     = "active"
	statePaused     = "paused"
	stateEnded      = "ended"
	stateUnreadable = "unreadable"
)

func (p *program) scheduleRow(found *schedules.Schedule) scheduleRow {
	row := scheduleRow{Pipeline: found.Pipeline, State: stateActive}
	definition := found.Definition()
	if definition == nil {
		row.State, row.Note = stateUnreadable, fmt.Sprint(found.Unreadable)
		return row
	}
	row.Schedule, row.Owner, row.Catchup = schedules.Cadence(definition.Schedule), definition.Owner, string(definition.Schedule.Catchup)
	row.TaskQueue, row.Digest, row.Since = definition.TaskQueue, definition.Digest, definition.Schedule.Since
	grid, err := definition.Grid()
	if err != nil {
		row.State, row.Note = stateUnreadable, err.Error()
		return row
	}
	next, more := grid.Next(p.now())
	switch {
	case found.Paused():
		row.State, row.Note = statePaused, found.Notes()
	case !more:
		row.State = stateEnded
	default:
		row.Next = &next
	}
	return row
}
