package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/trancheflow/tranche/step"
)

// printHead says what runs next, and what was found last.
func (p *program) printHead(head *statusHead) {
	cadence := printable(head.Schedule)
	if !strings.Contains(cadence, head.Timezone) {
		cadence += " in " + head.Timezone
	}
	fmt.Fprintf(p.out, "%s: %s, catchup %s\n", head.Pipeline, cadence, head.Catchup)
	fmt.Fprintf(p.out, "%s\n", p.nextRun(head))
	if head.CatchingUp != "" {
		fmt.Fprintf(p.out, "catching up: %s\n", head.CatchingUp)
	}
	for _, id := range head.Backfills {
		fmt.Fprintf(p.out, "backfill: %s is open\n", id)
	}
	if head.Reconciled != nil {
		fmt.Fprintf(p.out, "reconciled %s ago: %s\n", age(p.now().Sub(head.Reconciled.At)), printable(head.Reconciled.Note))
	}
}

func (p *program) nextRun(head *statusHead) string {
	note := ""
	if head.Note != "" {
		note = ": " + printable(head.Note)
	}
	switch {
	case head.State == stateNone:
		return "no Schedule: nothing is started by itself"
	case head.State == statePaused:
		return "paused" + note
	case head.State == stateEnded:
		return "no further runs" + note
	case head.Next == nil:
		return "next run not known" + note
	default:
		return fmt.Sprintf("next run at %s, in %s%s", head.Next.In(head.location).Format("2006-01-02 15:04:05 -07:00"), age(head.Next.Sub(p.now())), note)
	}
}

// age says roughly how long something is.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// statusBody asks for the intervals and draws them: as a grid, as a table or, where they are too many, as a summary.
func (p *program) statusBody(ctx context.Context, s *subject, request step.StandingRequest, table bool) ([]byte, error) {
	var body bytes.Buffer
	cells, more, err := s.cells(ctx, request, table)
	if err != nil {
		return nil, err
	}
	counted := newTally()
	for _, cell := range cells {
		counted.add(cell.Mark, 1)
	}
	switch {
	case more:
		err = p.summarise(ctx, &body, s, request, table)
	case len(cells) == 0:
		body.WriteString("\nno interval is over yet\n")
		if !request.From.IsZero() || !request.To.IsZero() {
			body.Reset()
			body.WriteString("\nno interval of this range is over\n")
		}
	case table:
		body.WriteString("\n" + s.extent(cells) + "\n")
		err = p.printCells(&body, s, cells)
		body.WriteString("\n" + legendOf(counted))
	default:
		colour := p.wantsColour()
		body.WriteString("\n" + s.extent(cells) + "\n" + grid(cells, s.location, colour) + "\n" + legend(counted, colour))
	}
	return body.Bytes(), err
}

// extent says how many intervals are shown, and from when to when, by their starts.
func (s *subject) extent(cells []step.Cell) string {
	text := plural(len(cells), "interval") + ", " + s.name(cells[0].Interval.Start)
	if len(cells) > 1 {
		text += " to " + s.name(cells[len(cells)-1].Interval.Start)
	}
	return text + "\n"
}

// mostCells is how many intervals are shown one by one.
const mostCells = 1000

// cells returns the intervals one by one; more says that they are too many for that.
func (s *subject) cells(ctx context.Context, request step.StandingRequest, detailed bool) (cells []step.Cell, more bool, err error) {
	request.Each, request.Detailed = true, detailed
	for answer, err := range s.pages(ctx, request) {
		if err != nil {
			return nil, false, err
		}
		if cells = append(cells, answer.Cells...); len(cells) > mostCells || len(cells) == mostCells && !answer.Next.IsZero() {
			return nil, true, nil
		}
		if answer.Note != "" {
			fmt.Fprintln(s.talk, printable(answer.Note))
		}
	}
	return cells, false, nil
}

// noteIndent stands before a note below its interval.
const noteIndent = "            "

// printCells writes a line for each interval. A note that has no room there stands below it, cut where a terminal ends:
// --json has it in full.
func (p *program) printCells(out *bytes.Buffer, s *subject, cells []step.Cell) error {
	var wide bytes.Buffer
	table := tabwriter.NewWriter(&wide, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "INTERVAL\tSTATE\tROWS\tATTEMPTS\tTOOK\tAGE\tKIND")
	notes := []string{""}
	for _, cell := range cells {
		d := cell.Details
		if d == nil {
			d = &step.Details{}
		}
		rows, attempts, took, since, note := "", "", "", "", printable(d.Note)
		if d.Rows != nil {
			rows = strconv.FormatInt(*d.Rows, 10)
		}
		if d.Attempts > 0 {
			attempts = strconv.Itoa(d.Attempts)
		}
		if d.Took > 0 {
			took = d.Took.Std().Round(tookPrecision(d.Took.Std())).String()
		}
		if !d.Since.IsZero() {
			since = age(p.now().Sub(d.Since))
		}
		if cell.Outdated && note == "" {
			note = "by another definition"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.name(cell.Interval.Start), cell.State, rows, attempts, took, since, d.Kind)
		notes = append(notes, note)
	}
	err := table.Flush()
	for line := range strings.Lines(wide.String()) {
		line = strings.TrimRight(line, "\n")
		note := notes[0]
		switch notes = notes[1:]; {
		case note == "":
			line = strings.TrimRight(line, " ")
		case columns(line)+columns(note)+2 <= terminalWidth:
			line += "  " + note
		default:
			line = strings.TrimRight(line, " ") + "\n" + noteIndent + cut(note, terminalWidth-len(noteIndent))
		}
		out.WriteString(line + "\n")
	}
	return err
}

func tookPrecision(d time.Duration) time.Duration {
	if d < time.Minute {
		return 10 * time.Millisecond
	}
	return time.Second
}

// rangesShown is how many of the newest ranges a summary shows.
const rangesShown = 40

// summarise counts the intervals and shows the newest ranges of them.
func (p *program) summarise(ctx context.Context, out *bytes.Buffer, s *subject, request step.StandingRequest, table bool) error {
	if table {
		fmt.Fprintf(p.talk, "more than %d intervals are summarised: narrow them down with --from and --to, or let --json list them\n", mostCells)
	}
	counted := newTally()
	var newest []step.Stretch
	dropped := 0
	for answer, err := range s.pages(ctx, request) {
		if err != nil {
			return err
		}
		for _, stretch := range answer.Stretches {
			counted.add(stretch.Mark, stretch.Count)
			newest = stretch.Join(newest)
			if len(newest) > 2*rangesShown {
				dropped += rangesShown
				newest = append(newest[:0], newest[rangesShown:]...)
			}
		}
	}
	if more := len(newest) - rangesShown; more > 0 {
		dropped += more
		newest = newest[more:]
	}
	fmt.Fprintf(out, "\n%d intervals\n\n", counted.total)
	if dropped > 0 {
		fmt.Fprintf(out, "%s before, and:\n", plural(dropped, "range"))
	}
	for _, stretch := range newest {
		fmt.Fprintln(out, s.sentence(stretch))
	}
	out.WriteString("\n" + legend(counted, p.wantsColour()))
	return nil
}

// legendOf says in words how many intervals stand how.
func legendOf(counted *tally) string {
	text := ""
	for _, state := range sortedStates(counted) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", counted.states[state], state)
	}
	return text + "\n"
}
