package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"go.temporal.io/api/common/v1"
)

// printView prints a backfill for people.
func (p *program) printView(v *backfillView) {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if v.ID != "" {
		row("backfill", "%s", v.ID)
	}
	row("pipeline", "%s", v.Pipeline)
	row("state", "%s", v.State)
	row("range", "%s to %s", v.Range.From.UTC().Format(time.RFC3339), v.Range.To.UTC().Format(time.RFC3339))
	mode := "reprocess " + string(v.Reprocess)
	if v.Order != "" {
		mode += fmt.Sprintf(", %s first, %d at a time", v.Order, v.Window)
	}
	if v.FailFast {
		mode += ", fail fast"
	}
	row("mode", "%s", mode)
	if v.Started != nil {
		row("started", "%s", v.Started.UTC().Format(time.RFC3339))
	}
	if v.Closed != nil {
		row("ended", "%s", v.Closed.UTC().Format(time.RFC3339))
	}
	if total := v.Expected.Total(); total > 0 {
		row("expected", "%d: %s", total, describeCounts(v.Expected))
	}
	row("passed", "%d: %d loaded, %d failed, %d cancelled, %d left as they were", v.Counts.Passed(), v.Counts.Loaded, v.Counts.Failed, v.Counts.Cancelled, v.Counts.Left)
	row("started runs", "%d", v.Counts.Started)
	if v.NotRun > 0 {
		row("not run", "%d", v.NotRun)
	}
	if !v.Position.IsZero() {
		row("came to", "%s", v.Position.UTC().Format(time.RFC3339))
	}
	if v.PerHour > 0 {
		row("rate", "%s", rate(v.PerHour))
	}
	if v.ETA != nil {
		row("until about", "%s", v.ETA.Format(time.RFC3339))
	}
	if v.Blocked != nil {
		row("blocked by", "%s, which has failed", v.Blocked)
	}
	const shown = 10
	for i, each := range v.Running {
		if i == shown {
			row("", "and %d more", len(v.Running)-shown)
			break
		}
		row(first(i, "running"), "%s", each.WorkflowID)
	}
	for i, each := range v.Failed {
		if i == shown {
			row("", "and %d more ranges", len(v.Failed)-shown)
			break
		}
		row(first(i, "failed"), "%s to %s", each.From.UTC().Format(time.RFC3339), each.To.UTC().Format(time.RFC3339))
	}
	if v.FailedMore {
		row("", "and others after these")
	}
	if v.Note != "" {
		row("note", "%s", printable(strings.ReplaceAll(v.Note, "\n", " ")))
	}
	table.Flush()
}

// first is the title of the first of several rows.
func first(i int, title string) string {
	if i == 0 {
		return title
	}
	return ""
}

func execution(workflowID, runID string) *common.WorkflowExecution {
	return &common.WorkflowExecution{WorkflowId: workflowID, RunId: runID}
}
