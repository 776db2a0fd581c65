package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
)

// show sets what an operator sees in the UI under the run's current details. It lives in the
// worker's memory and writes no event.
func (r *run) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, r.details(workflow.Now(ctx)))
}

func (r *run) details(now time.Time) string {
	var text strings.Builder
	fmt.Fprintf(&text, "**%s** %s → %s · %s\n\n", r.owner.Pipeline,
		r.owner.Interval.Start.UTC().Format(time.RFC3339), r.owner.Interval.End.UTC().Format(time.RFC3339), r.input.Kind)
	if local := localBounds(r.owner.Interval, r.owner.Timezone); local != "" {
		fmt.Fprintf(&text, "In %s: %s\n\n", r.owner.Timezone, local)
	}
	if r.note != "" {
		fmt.Fprintf(&text, "%s\n\n", cell(r.note))
	}
	tableRow(&text, "step", "state", "attempts", "rows", "took", "note")
	text.WriteString("| --- | --- | --- | --- | --- | --- |\n")
	for _, name := range r.order {
		n := r.nodes[name]
		tableRow(&text, name, string(n.report.State), n.report.AttemptCount(), n.report.RowCount(), n.took(now), cell(n.note()))
	}
	return text.String()
}

func tableRow(text *strings.Builder, cells ...string) {
	text.WriteString("| " + strings.Join(cells, gap+" | ") + " |\n")
}

// gap keeps the columns apart: Temporal's UI (2.54.1) gives the cells of a table no padding, and trims
// spaces, even those that do not break, at the end of a cell; a word joiner is not a space.
const gap = "\u00a0\u00a0\u00a0\u2060"

// count leaves out a zero of a step that has not ended.
func (s StepReport) count(n int64) string {
	if n == 0 && s.State != StateDone {
		return ""
	}
	return fmt.Sprint(n)
}

// AttemptCount returns the number of attempts for people; empty where it is not known.
func (s StepReport) AttemptCount() string {
	if s.Attempts == 0 {
		return ""
	}
	return fmt.Sprint(s.Attempts)
}

// RowCount returns the number of rows for people; empty where nobody has counted yet, as for a file
// that is only looked up, and read by its load.
func (s StepReport) RowCount() string {
	if s.Pages == 0 && s.Receipt == nil {
		return ""
	}
	return s.count(s.Rows)
}

func (n *node) took(now time.Time) string {
	switch {
	case n.started.IsZero():
		return ""
	case n.ended.IsZero():
		return now.Sub(n.started).Round(time.Second).String()
	default:
		return n.ended.Sub(n.started).Round(10 * time.Millisecond).String()
	}
}

// Remarks says in a line what is not in the columns: what a load did with rows that it did not
// insert, the error of a step that failed, what a waiting one waits for.
func (s StepReport) Remarks() string {
	var parts []string
	if receipt := s.Receipt; receipt != nil {
		for _, each := range []struct {
			rows int64
			what string
		}{
			{receipt.Unchanged, "unchanged"},
			{receipt.Stale, "older than the table's, left alone"},
			{receipt.Duplicates, "superseded in the same load"},
			{receipt.Dropped, "outside the interval, dropped"},
		} {
			if each.rows > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", each.rows, each.what))
			}
		}
	}
	if s.Note != "" {
		parts = append(parts, s.Note)
	}
	if s.Waited != nil && s.State != StateWaiting {
		parts = append(parts, s.Waited.String())
	}
	return strings.Join(parts, "; ")
}

// note says for a load what it changed, too.
func (n *node) note() string {
	remarks := n.report.Remarks()
	receipt := n.report.Receipt
	if receipt == nil {
		return remarks
	}
	change := fmt.Sprintf("%s: %d inserted, %d deleted", receipt.Table, receipt.Inserted, receipt.Deleted)
	if remarks == "" {
		return change
	}
	return change + "; " + remarks
}

// cellLimit keeps a row of the table readable.
const cellLimit = 300

// cell makes text safe inside a table of Temporal's Markdown: data and error bodies must neither
// break the table nor become markup, such as a link or an image that somebody else's text leads to.
func cell(text string) string {
	text = strings.NewReplacer("\\", "\\\\", "|", "\\|", "[", "\\[", "]", "\\]", "`", "\\`", "\r", " ", "\n", " ", "<", "&lt;", ">", "&gt;").Replace(text)
	if runes := []rune(text); len(runes) > cellLimit {
		text = string(runes[:cellLimit]) + "…"
	}
	return text
}

// localBounds returns the interval in the pipeline's zone; empty where that is UTC.
func localBounds(owned interval.Interval, zone string) string {
	if zone == "" || zone == "UTC" {
		return ""
	}
	location, err := interval.LoadLocation(zone)
	if err != nil {
		return ""
	}
	const layout = "2006-01-02 15:04:05 -07:00"
	return owned.Start.In(location).Format(layout) + " → " + owned.End.In(location).Format(layout)
}
