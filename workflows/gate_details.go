package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/step"
)

// shownPlaces bounds the table of a gate: whoever reads it wants to know who is in whose way.
const shownPlaces = 50

// show sets what an operator sees in the UI under the gate's current details.
func (g *gate) show(ctx workflow.Context) { workflow.SetCurrentDetails(ctx, g.details()) }

func (g *gate) details() string {
	var text strings.Builder
	fmt.Fprintf(&text, "**%s** %s\n\n", g.pipeline, g.summary())
	if g.empty() {
		return text.String()
	}
	tableRow(&text, "place", "run", "kind", "interval", "since")
	text.WriteString("| --- | --- | --- | --- | --- |\n")
	left := shownPlaces
	for _, each := range []struct {
		word   string
		places []step.Place
	}{{"slot", g.state.Holders}, {"waits", g.state.Waiters}} {
		for i, place := range each.places {
			if left == 0 {
				break
			}
			left--
			tableRow(&text, fmt.Sprintf("%s %d", each.word, i+1), cell(place.WorkflowID), className(place.Class),
				place.Start.UTC().Format(time.RFC3339), place.Since.UTC().Format(time.RFC3339))
		}
	}
	if more := len(g.state.Holders) + len(g.state.Waiters) - shownPlaces; more > 0 {
		fmt.Fprintf(&text, "\nand %d more\n", more)
	}
	return text.String()
}

// summary says in a line how the gate stands.
func (g *gate) summary() string {
	text := fmt.Sprintf("%d of %d %s taken, %d waiting", len(g.state.Holders), g.state.Limit, plural(g.state.Limit, "slot"), len(g.state.Waiters))
	if g.state.InOrder {
		text += ", oldest interval first"
	}
	return text
}

func className(class int) string {
	switch class {
	case step.ClassFirst:
		return "scheduled or manual"
	case step.ClassLookback:
		return string(step.Lookback)
	case step.ClassCatchup:
		return string(step.Catchup)
	default:
		return ""
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
