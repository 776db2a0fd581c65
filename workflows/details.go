package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
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
	text.WriteString("| step | state | attempts | rows | took | note |\n| --- | --- | ---: | ---: | ---: | --- |\n")
	for _, name := range r.order {
		n := r.nodes[name]
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", name, n.report.State,
			count(n.report.State, int64(n.report.Attempts)), count(n.report.State, n.report.Rows), n.took(now), cell(n.note()))
	}
	return text.String()
}

// count leaves out a zero of a step that has not ended.
func count(state State, n int64) string {
	if n == 0 && state != StateDone {
		return ""
	}
	return fmt.Sprint(n)
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

// note says for a load what it changed.
func (n *node) note() string {
	receipt := n.report.Receipt
	if receipt == nil {
		return n.report.Note
	}
	parts := []string{fmt.Sprintf("%s: +%d −%d", receipt.Table, receipt.Inserted, receipt.Deleted)}
	if receipt.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d outside the interval dropped", receipt.Dropped))
	}
	if receipt.Duplicates > 0 {
		parts = append(parts, fmt.Sprintf("%d superseded in the same load", receipt.Duplicates))
	}
	if receipt.Unchanged > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", receipt.Unchanged))
	}
	if receipt.Stale > 0 {
		parts = append(parts, fmt.Sprintf("%d not newer, left alone", receipt.Stale))
	}
	if n.report.Note != "" {
		parts = append(parts, n.report.Note)
	}
	return strings.Join(parts, ", ")
}

// cellLimit keeps a row of the table readable.
const cellLimit = 300

// cell makes text safe inside a table of Temporal's Markdown: data and error bodies must neither
// break the table nor become markup.
func cell(text string) string {
	text = strings.NewReplacer("|", "\\|", "\r", " ", "\n", " ", "<", "&lt;", ">", "&gt;").Replace(text)
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

// RunSummary is the line that a run started by Tranche bears in lists, such as
// `orders 2026-01-15 (backfill)`: the start of the interval in the pipeline's zone, with the time
// where it is not midnight.
func RunSummary(pipelineName string, owned interval.Interval, location *time.Location, kind step.Kind) string {
	start := owned.Start.In(location)
	layout := "2006-01-02 15:04"
	if start.Second() != 0 {
		layout = "2006-01-02 15:04:05"
	} else if start.Hour() == 0 && start.Minute() == 0 {
		layout = "2006-01-02"
	}
	return fmt.Sprintf("%s %s (%s)", pipelineName, start.Format(layout), kind)
}
