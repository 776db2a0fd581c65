package step

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func TestStretchesJoin(t *testing.T) {
	t.Parallel()
	hour := func(n int) interval.Interval {
		start := time.Date(2026, 5, 4, n, 0, 0, 0, time.UTC)
		return interval.Interval{Start: start, End: start.Add(time.Hour)}
	}
	var joined []Stretch
	for _, cell := range []Cell{
		{Mark: Mark{State: StateLoaded}, Interval: hour(0)}, {Mark: Mark{State: StateLoaded}, Interval: hour(1)},
		{Mark: Mark{State: StateLoaded, Outdated: true}, Interval: hour(2)},
		{Mark: Mark{State: StateMissing}, Interval: hour(3)}, {Mark: Mark{State: StateMissing}, Interval: hour(5)},
	} {
		joined = cell.Join(joined)
	}
	got := ""
	for _, s := range joined {
		got += fmt.Sprintf("%d-%d-%d %d %s %t\n", s.From.Hour(), s.Last.Hour(), s.To.Hour(), s.Count, s.State, s.Outdated)
	}
	if want := "0-1-2 2 loaded false\n2-2-3 1 loaded true\n3-3-4 1 missing false\n5-5-6 1 missing false\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	if all := (Stretch{Mark: Mark{State: StateMissing}, From: hour(6).Start, Last: hour(8).Start, To: hour(8).End, Count: 3}).Join(joined); len(all) != len(joined) || all[3].Count != 4 {
		t.Errorf("%+v", all)
	}
}

// A page stays below 256 KiB, at its fullest.
func TestPagesAreSmall(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	text, err := json.Marshal(Stretch{Mark: Mark{StateUnexpected, true, true}, From: at, Last: at, To: at, Count: 1e9})
	if err != nil || len(text)*PageStretches > 256<<10 {
		t.Errorf("%d stretches of %d bytes: %v", PageStretches, len(text), err)
	}
	if text, err = json.Marshal(Cell{Mark: Mark{StateUnexpected, true, true}, Interval: interval.Interval{Start: at, End: at}}); err != nil || len(text)*PageCells > 256<<10 {
		t.Errorf("%d cells of %d bytes: %v", PageCells, len(text), err)
	}
	rows := int64(1e18)
	note := ""
	for len(note) < DetailNote {
		note += "\x01" // which takes six bytes in JSON
	}
	details := &Details{Rows: &rows, Kind: Scheduled, Attempts: 1e6, Took: 1e15 + 1, Since: at.Add(1234567), Digest: fmt.Sprintf("%064d", 0), Note: note}
	if text, err = json.Marshal(Cell{Mark: Mark{StateUnexpected, true, true}, Interval: interval.Interval{Start: at, End: at}, Details: details}); err != nil || len(text)*PageDetailed > 256<<10 {
		t.Errorf("%d detailed cells of %d bytes: %v", PageDetailed, len(text), err)
	}
}
