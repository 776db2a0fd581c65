package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
)

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
	// Pipeline is empty for the reconciler of a task queue.
	Pipeline string `json:"pipeline,omitempty"`
	// Kind is pipeline or reconciler.
	Kind string `json:"kind"`
	// State is active, paused, ended (no further tick) or unreadable.
	State    string `json:"state"`
	Schedule string `json:"schedule"`
	Owner    string `json:"owner,omitempty"`
	// Next is when Temporal starts the next run; missing when it starts none.
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
	rows, err := p.scheduleRows(c.Context, made)
	if err != nil {
		return err
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			printable(row.title()), row.State, printable(row.Schedule), row.nextRun(), row.Catchup, printable(row.TaskQueue), printable(row.Note))
	}
	return table.Flush()
}

// scheduleRows returns the Schedules of the pipelines, sorted by name, and then the reconcilers, by task queue.
func (p *program) scheduleRows(ctx context.Context, made *schedules.Schedules) ([]scheduleRow, error) {
	names, queues, err := made.Listed(ctx)
	if err != nil {
		return nil, err
	}
	rows := []scheduleRow{}
	for _, name := range sortedKeys(names) {
		found, err := made.Get(ctx, names[name])
		if err != nil {
			return nil, err
		}
		if found != nil {
			rows = append(rows, p.scheduleRow(found))
		}
	}
	for _, queue := range queues {
		found, err := made.Get(ctx, launch.ReconcileID(queue))
		if err != nil {
			return nil, err
		}
		if found != nil {
			rows = append(rows, p.reconcilerRow(queue, found))
		}
	}
	return rows, nil
}

// reconcilerRow is the row of what looks after the pipelines of a task queue.
func (p *program) reconcilerRow(queue string, found *schedules.Schedule) scheduleRow {
	row := scheduleRow{Kind: kindReconciler, State: stateActive, TaskQueue: queue, Schedule: "every " + found.Every().String()}
	if found.Every() == 0 {
		row.Schedule, row.Note = "changed elsewhere", planSays
	}
	if found.Paused() {
		row.State, row.Note = statePaused, found.Notes()
	} else if next, ok := found.Next(p.now()); ok {
		row.Next = &next
	}
	return row
}

// planSays follows what a list shows of a Schedule that was changed behind Tranche's back.
const planSays = "the Schedule was changed elsewhere: see `starter schedules plan`"

// title is what a row is of.
func (r scheduleRow) title() string {
	if r.Kind == kindReconciler {
		return "(reconciler)"
	}
	return r.Pipeline
}

// The kinds of rows in a list.
const (
	kindPipeline   = "pipeline"
	kindReconciler = "reconciler"
)

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
	row := scheduleRow{Pipeline: found.Pipeline, Kind: kindPipeline, State: stateActive}
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
	if found.Paused() {
		row.State, row.Note = statePaused, found.Notes()
		return row
	}
	tick, more := grid.Next(p.now())
	next, listed := found.Next(p.now())
	if listed {
		row.Next = &next
	}
	switch {
	case !listed && !more:
		row.State = stateEnded
	case listed != more || listed && !runsAsApplied(grid, next, tick, definition.Schedule.Jitter.Std(), p.now()):
		row.Note = planSays
	}
	return row
}

// clocksApart is by how much the clocks of Temporal and of this machine may differ without a tick seeming to be left out.
const clocksApart = time.Minute

// runsAsApplied reports whether the next run that Temporal lists follows from the schedule that was applied: it follows
// a tick, by the jitter at most, and leaves none out.
func runsAsApplied(grid *interval.Grid, next, tick time.Time, jitter time.Duration, now time.Time) bool {
	last, ok := grid.LastCompleted(next)
	if !ok || next.Sub(last.End) > jitter {
		return false
	}
	return !next.After(tick.Add(jitter)) || tick.Before(now.Add(clocksApart))
}
