package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

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
		title := fmt.Sprintf("%s (%s): %s", change.Pipeline, change.File, change.Verb)
		if err := p.printChange(title, change.Differences, change.Notes); err != nil {
			return err
		}
	}
	for _, change := range plan.Reconcilers {
		if change.Verb == schedules.Unchanged && len(change.Notes) == 0 {
			continue
		}
		title := fmt.Sprintf("reconciler of task queue %s, every %s: %s", change.TaskQueue, change.Every, change.Verb)
		if err := p.printChange(title, change.Differences, change.Notes); err != nil {
			return err
		}
	}
	if len(plan.Orphans) > 0 {
		fmt.Fprintf(p.out, "Schedules without a file here, which go on running and are left alone: %s\n", strings.Join(plan.Orphans, ", "))
	}
	if !plan.HasChanges() && plan.Blocked() == 0 {
		_, err := fmt.Fprintf(p.out, "No changes: %s as the files say.\n", isOrAre(count[schedules.Unchanged], "Schedule"))
		return err
	}
	text := fmt.Sprintf("%d to create, %d to update, %d unchanged, %d blocked",
		count[schedules.Create], count[schedules.Update], count[schedules.Unchanged], count[schedules.Blocked])
	changed := 0
	for _, change := range plan.Reconcilers {
		if change.Verb != schedules.Unchanged {
			changed++
		}
	}
	if changed > 0 {
		text += "; " + plural(changed, "reconciler") + " to create or update"
	}
	_, err := fmt.Fprintln(p.out, text+".")
	return err
}

// printChange prints one change with what differs and what it means.
func (p *program) printChange(title string, differences []schedules.Difference, notes []string) error {
	fmt.Fprintln(p.out, printable(title))
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, d := range differences {
		fmt.Fprintf(table, "  %s\t%s\t→ %s\n", printable(d.Path), printable(orNone(d.Was)), printable(orNone(d.Becomes)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(p.out, "  - %s\n", printable(note))
	}
	return nil
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
