package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cellsOf are the first intervals of a schedule, loaded but for every ninth, which stand in turn in the other ways.
func cellsOf(t *testing.T, spec interval.Spec, from string, count int) []step.Cell {
	t.Helper()
	grid, err := interval.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	var cells []step.Cell
	others := step.States()[1:]
	for iv := range grid.Between(begin, farAway) {
		cell := step.Cell{Interval: iv, Mark: step.Mark{State: step.StateLoaded, Outdated: len(cells)%5 == 0}}
		if n := len(cells); n%9 == 8 {
			cell.Mark = step.Mark{State: others[n/9%len(others)]}
		}
		if cells = append(cells, cell); len(cells) == count {
			break
		}
	}
	return cells
}

// escapes are what a terminal reads as colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestGridsLookLikeThis(t *testing.T) {
	t.Parallel()
	var drawn strings.Builder
	for _, one := range []struct {
		name  string
		spec  interval.Spec
		from  string
		count int
	}{
		{"every minute", interval.Spec{Cron: "* * * * *"}, "2026-01-15T10:20:00Z", 130},
		{"every minute, on the hour that occurs twice", interval.Spec{Cron: "* * * * *", TimeZone: "Europe/Rome"}, "2026-10-25T00:30:00Z", 100},
		{"every second", interval.Spec{Every: time.Second, Start: time.Unix(1768471200, 0)}, "2026-01-15T10:20:55Z", 70},
		{"every 5 minutes", interval.Spec{Cron: "*/5 * * * *"}, "2026-01-15T10:20:00Z", 30},
		{"every 15 minutes", interval.Spec{Cron: "*/15 * * * *", TimeZone: "Asia/Kolkata"}, "2026-01-15T10:20:00Z", 60},
		{"every hour", interval.Spec{Cron: "0 * * * *", TimeZone: "America/New_York"}, "2026-03-07T08:00:00Z", 64},
		{"every day", interval.Spec{Cron: "0 0 * * *", TimeZone: "Asia/Jakarta"}, "2026-01-15T10:00:00Z", 40},
		{"every working day", interval.Spec{Cron: "30 7 * * mon-fri"}, "2026-01-14T00:00:00Z", 25},
		{"twice a day, unevenly", interval.Spec{Cron: "0 9,17 * * *"}, "2026-01-14T00:00:00Z", 30},
		{"every week", interval.Spec{Cron: "0 0 * * mon"}, "2026-01-14T00:00:00Z", 20},
		{"every month", interval.Spec{Cron: "0 0 1 * *"}, "2025-05-01T00:00:00Z", 30},
		{"one", interval.Spec{Cron: "0 0 * * *"}, "2026-01-14T00:00:00Z", 1},
	} {
		cells := cellsOf(t, one.spec, one.from, one.count)
		location := time.UTC
		if one.spec.TimeZone != "" {
			var err error
			if location, err = interval.LoadLocation(one.spec.TimeZone); err != nil {
				t.Fatal(err)
			}
		}
		counted := newTally()
		for _, cell := range cells {
			counted.add(cell.Mark, 1)
		}
		plain := grid(cells, location, false) + "\n" + legend(counted, false)
		fmt.Fprintf(&drawn, "== %s\n\n%s\n", one.name, plain)
		for line := range strings.Lines(plain) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 {
				t.Errorf("%s: a line is %d wide: %s", one.name, width, line)
			}
		}
		if coloured := grid(cells, location, true) + "\n" + legend(counted, true); coloured == plain || escapes.ReplaceAllString(coloured, "") != plain {
			t.Errorf("%s: with colours other letters stand there:\n%s", one.name, coloured)
		}
		if letters := strings.Count(grid(cells, location, false), "L"); int64(letters) != counted.states[step.StateLoaded] {
			t.Errorf("%s: %d letters for %d loaded intervals", one.name, letters, counted.states[step.StateLoaded])
		}
	}
	file := filepath.Join("testdata", "grids.golden")
	if *update {
		if err := os.WriteFile(file, []byte(drawn.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if drawn.String() != string(want) {
		t.Errorf("the grids are\n%s\nthose of %s are other ones; if they are better, -update writes them", drawn.String(), file)
	}
}
