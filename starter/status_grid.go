package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/step"
)

// appearance is how a state is shown in a grid: a letter, and on a terminal that wants it a colour.
type appearance struct {
	letter byte
	colour string // of ANSI's select graphic rendition
}

var looks = map[step.State]appearance{
	step.StateLoaded:     {'L', "32"},
	step.StateAccepted:   {'A', "36"},
	step.StateRunning:    {'R', "1;34"},
	step.StateWaiting:    {'W', "33"},
	step.StateDue:        {'D', "2"},
	step.StateFailed:     {'F', "1;31"},
	step.StateCancelled:  {'C', "35"},
	step.StateMissing:    {'M', "7;31"},
	step.StateUnexpected: {'-', "2"},
}

// lookOf shows also a state that a newer worker knows.
func lookOf(state step.State) appearance {
	if known, is := looks[state]; is {
		return known
	}
	return appearance{letter: '?'}
}

func coloured(text, colour string, want bool) string {
	if !want || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// period is what a line of a grid is about.
type period struct {
	// begin is where the line of a local time begins.
	begin func(local time.Time) time.Time
	label string
	// group is how many letters stand together; zero: all.
	group int
}

func date(at time.Time, year int, month time.Month, day, hour int) time.Time {
	return time.Date(year, month, day, hour, 0, 0, 0, at.Location())
}

// periodOf chooses lines of at most sixty letters, most of them, for intervals of a length.
func periodOf(length time.Duration) period {
	switch {
	case length < 10*time.Minute:
		// Not by the clock: the hour that occurs twice is two lines.
		return period{func(at time.Time) time.Time {
			return at.Add(-time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second)
		}, "01-02 15:04", 15}
	case length < time.Hour:
		return period{func(at time.Time) time.Time { return date(at, at.Year(), at.Month(), at.Day(), at.Hour()/6*6) }, "01-02 15:04", int(time.Hour / length)}
	case length < 12*time.Hour:
		return period{func(at time.Time) time.Time { return date(at, at.Year(), at.Month(), at.Day(), 0) }, "2006-01-02 Mon", 6}
	case length < 4*24*time.Hour:
		return period{func(at time.Time) time.Time {
			return date(at, at.Year(), at.Month(), at.Day()-(int(at.Weekday())+6)%7, 0)
		}, "2006-01-02 Mon", 0}
	case length < 28*24*time.Hour:
		return period{func(at time.Time) time.Time { return date(at, at.Year(), at.Month(), 1, 0) }, "2006-01", 0}
	default:
		return period{func(at time.Time) time.Time { return date(at, at.Year(), 1, 1, 0) }, "2006", 0}
	}
}

// next is where the line after one begins.
func (p period) next(begun time.Time) time.Time {
	for at := begun; ; at = at.Add(30 * time.Minute) {
		if next := p.begin(at); next.After(begun) {
			return next
		}
	}
}

// lettersPerLine is where a line is broken.
const lettersPerLine = 60

// grid draws intervals, which are in order, a letter for each.
func grid(cells []step.Cell, location *time.Location, colour bool) string {
	if len(cells) == 0 {
		return ""
	}
	length := typical(cells)
	lines := periodOf(length)
	var text strings.Builder
	var line []step.State
	begun := lines.begin(cells[0].Interval.Start.In(location))
	// Where the first line begins before the first interval, its letters stand where those of the others do.
	blanks := int((cells[0].Interval.Start.Sub(begun) + length/2) / length)
	if blanks >= lettersPerLine {
		blanks = 0
	}
	flush := func() {
		label := begun.Format(lines.label)
		for len(line) > 0 {
			n := min(len(line), lettersPerLine-blanks)
			fmt.Fprintf(&text, "%-*s  %s\n", len(lines.label), label, letters(line[:n], blanks, lines.group, colour))
			line, label, blanks = line[n:], "", 0
		}
	}
	for _, cell := range cells {
		if at := lines.begin(cell.Interval.Start.In(location)); !at.Equal(begun) {
			flush()
			begun = at
		}
		line = append(line, cell.State)
	}
	flush()
	return text.String()
}

// typical is the length that is in the middle of all.
func typical(cells []step.Cell) time.Duration {
	lengths := make([]time.Duration, len(cells))
	for i, cell := range cells {
		lengths[i] = cell.Interval.Duration()
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// letters writes the letters of a line behind some blanks.
func letters(line []step.State, blanks, group int, colour bool) string {
	apart := func(at int) bool { return at > 0 && group > 0 && at%group == 0 }
	var text strings.Builder
	for at := range blanks {
		if apart(at) {
			text.WriteByte(' ')
		}
		text.WriteByte(' ')
	}
	for at := 0; at < len(line); {
		if apart(blanks + at) {
			text.WriteByte(' ')
		}
		alike := 1
		for at+alike < len(line) && line[at+alike] == line[at] && !apart(blanks+at+alike) {
			alike++
		}
		shown := lookOf(line[at])
		text.WriteString(coloured(strings.Repeat(string(shown.letter), alike), shown.colour, colour))
		at += alike
	}
	return text.String()
}

// legendWidth is how wide a legend gets.
const legendWidth = 78

// legend says what the letters mean, and how many intervals stand so.
func legend(counted *tally, colour bool) string {
	var text strings.Builder
	width := 0
	for _, state := range sortedStates(counted) {
		shown := lookOf(state)
		word := fmt.Sprintf("%s %d", state, counted.states[state])
		if state == step.StateLoaded && counted.outdated > 0 {
			word += fmt.Sprintf(" (%d by another definition)", counted.outdated)
		}
		switch needed := len(word) + 2; {
		case width == 0:
			width = needed
		case width+3+needed > legendWidth:
			text.WriteByte('\n')
			width = needed
		default:
			text.WriteString("   ")
			width += 3 + needed
		}
		text.WriteString(coloured(string(shown.letter), shown.colour, colour) + " " + word)
	}
	if width > 0 {
		text.WriteByte('\n')
	}
	return text.String()
}

// sortedStates returns the states that occur, in the order in which people are told of them, and then those that only
// a newer worker knows.
func sortedStates(counted *tally) []step.State {
	var states []step.State
	for _, state := range step.States() {
		if counted.states[state] > 0 {
			states = append(states, state)
		}
	}
	for _, state := range sortedKeys(counted.states) {
		if !slices.Contains(states, state) && counted.states[state] > 0 {
			states = append(states, state)
		}
	}
	return states
}
