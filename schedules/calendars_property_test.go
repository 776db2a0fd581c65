package schedules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/schedules"
)

// In every zone whose clocks change, what the calendars match are the ticks of the grid: for ten years at
// least, and nothing else for 28 years more.
func TestCalendarsAreTheGrid(t *testing.T) {
	t.Parallel()
	for number, zone := range changingZones() {
		t.Run(strings.ReplaceAll(zone.name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			for i, text := range corpus {
				if inShare(i, number, 4) {
					checkZone(t, zone, text)
				}
			}
		})
	}
}

func checkZone(t *testing.T, zone zone, text string) {
	t.Helper()
	spec := interval.Spec{Cron: text, TimeZone: zone.name, Start: start}
	ticks := compile(t, spec)
	what := fmt.Sprintf("%q in %s", text, zone.name)
	checkShape(t, what, ticks)
	if ticks.Shortened || len(ticks.Calendars) > 130 || ticks.Size() > 7<<10 {
		t.Errorf("%s: %d calendars in %d bytes", what, len(ticks.Calendars), ticks.Size())
	}
	// The only zones that follow no rule, because their clocks change with Ramadan.
	ramadan := zone.name == "Africa/Casablanca" || zone.name == "Asia/Gaza"
	if !ticks.Exact.IsZero() && (!ramadan || !ticks.Exact.Equal(exact)) {
		t.Errorf("%s: exact until %s", what, ticks.Exact)
	}
	for _, w := range zone.windowsFor(text) {
		if err := ticks.Check(spec, w.from, w.to); err != nil {
			t.Errorf("%s: %v", what, err)
			break
		}
	}
	checkQuiet(t, what, ticks, spec, windowsAround(zone.changes, quiet))
	if nightly {
		for _, alias := range zone.aliases {
			spec.TimeZone = alias
			if other := compile(t, spec); !proto.Equal(other.Spec(), ticks.Spec()) {
				t.Errorf("%s: other calendars in %s, whose clocks show the same", what, alias)
			}
		}
	}
}

// checkShape checks what must hold of all compiled calendars.
func checkShape(t *testing.T, what string, ticks schedules.Ticks) {
	t.Helper()
	const calendars, bytes = 300, 16 << 10
	if ticks.Plain || ticks.TimeZone != "UTC" || ticks.Interval != nil {
		t.Errorf("%s: %+v", what, ticks)
	}
	if n := len(ticks.Calendars); n == 0 || n > calendars || ticks.Size() > bytes {
		t.Errorf("%s: %d calendars in %d bytes", what, n, ticks.Size())
	}
}

// checkQuiet checks that no calendar fires at an instant that is no tick after the calendars have ceased
// to be exact.
func checkQuiet(t *testing.T, what string, ticks schedules.Ticks, spec interval.Spec, windows []window) {
	t.Helper()
	if ticks.Exact.IsZero() {
		return
	}
	grid, err := interval.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range windows {
		if w.to.Before(ticks.Exact) {
			continue
		}
		firings, err := ticks.Firings(w.from, w.to)
		if err != nil {
			t.Fatal(err)
		}
		for at := range firings {
			if _, ok := grid.At(at); !ok {
				t.Errorf("%s fires at %s, which is no tick", what, at)
				return
			}
		}
	}
}

// Random crons, with starts up to twelve years back, in random zones.
func TestRandomCalendarsAreTheGrid(t *testing.T) {
	t.Parallel()
	count := 60
	if nightly {
		count = 20_000
	}
	zones := interval.Zones()
	random := rand.New(rand.NewPCG(8, 15))
	for range count {
		spec := interval.Spec{
			Cron: randomCron(random), TimeZone: zones[random.IntN(len(zones))],
			Start: now.Add(-time.Duration(random.IntN(12*365*24*3600)) * time.Second).Truncate(time.Second),
		}
		if random.IntN(4) == 0 {
			spec.End = now.AddDate(random.IntN(20), 0, random.IntN(365)).Truncate(time.Second)
		}
		checkRandom(t, spec, random)
	}
}

func checkRandom(t *testing.T, spec interval.Spec, random *rand.Rand) {
	t.Helper()
	what := fmt.Sprintf("%q in %s from %s to %s", spec.Cron, spec.TimeZone, spec.Start, spec.End)
	if _, err := interval.New(spec); err != nil {
		if !strings.Contains(err.Error(), "never fires") {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	ticks, err := schedules.Compile(spec, spec.Cron, now)
	if err != nil {
		if !strings.Contains(err.Error(), "no tick") {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if !ticks.Plain {
		checkShape(t, what, ticks)
	}
	if ticks.Shortened {
		t.Errorf("%s: exact until %s only", what, ticks.Exact)
	}
	if again, err := schedules.Compile(spec, spec.Cron, utc(t, "2026-02-03")); err != nil || !proto.Equal(again.Spec(), ticks.Spec()) {
		t.Errorf("%s: another compilation in the same year differs, %v", what, err)
	}
	_, changes := clockChanges(spec.TimeZone, spec.Start, exact)
	windows := append(windowsAround(changes, exact), window{spec.Start, spec.Start.AddDate(0, 0, 3)})
	for range 3 {
		from := now.Add(time.Duration(random.IntN(10*365*24)) * time.Hour)
		windows = append(windows, window{from, from.AddDate(0, 1, 0)})
	}
	for _, w := range windows {
		if err := ticks.Check(spec, w.from, w.to); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
	}
}
