package activities

import (
	"fmt"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// title says in a line what has happened to which interval, as people name it.
func title(m step.Message) string {
	name := m.Pipeline + " " + named(m.Interval, m.Timezone)
	switch m.Event {
	case pipeline.EventFailure:
		return name + " failed" + by(m.Kind)
	case pipeline.EventRecovery:
		return name + " has recovered: it is loaded" + by(m.Kind)
	}
	if m.LastInterval != nil {
		return fmt.Sprintf("%s: %d intervals missed the deadline of %s and are not loaded, from %s to %s",
			m.Pipeline, m.Count, m.Deadline, named(m.Interval, m.Timezone), named(*m.LastInterval, m.Timezone))
	}
	return fmt.Sprintf("%s missed the deadline of %s: it is not loaded", name, m.Deadline)
}

func by(kind step.Kind) string {
	if kind == "" {
		return ""
	}
	return " (" + string(kind) + ")"
}

// quote is what went wrong, in the words of whoever noticed.
func quote(m step.Message) string {
	if m.ErrorType == "" || m.Reason == "" {
		return m.ErrorType + m.Reason
	}
	return m.ErrorType + ": " + m.Reason
}

// lines say the rest.
func lines(m step.Message) []string {
	var all []string
	if m.Step != "" {
		text := "Step " + m.Step
		if m.Attempts > 0 {
			text += ", " + amount(int64(m.Attempts), "attempt")
		}
		all = append(all, text)
	}
	if m.Rows != nil {
		all = append(all, amount(*m.Rows, "row")+" written")
	}
	last := m.Interval.End
	what := "Interval"
	if m.LastInterval != nil {
		last, what = m.LastInterval.End, "Intervals"
	}
	all = append(all, fmt.Sprintf("%s %s to %s", what, m.Interval.Start.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339)))
	if m.WorkflowID != "" {
		all = append(all, "Workflow "+m.WorkflowID+", run "+m.RunID)
	}
	var about []string
	if m.Owner != "" {
		about = append(about, "Owner: "+m.Owner)
	}
	if m.Description != "" {
		about = append(about, m.Description)
	}
	return append(all, strings.Join(about, ". "))
}

func amount(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// named is an interval as people name it: by its start, in the pipeline's zone.
func named(of interval.Interval, zone string) string {
	location, err := interval.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	return launch.IntervalName(of, location)
}
