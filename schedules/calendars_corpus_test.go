package schedules_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// nightly asks for the whole product of zones, crons and years, which takes the better part of an hour
// ("make nightly"). Without it the tests take the same crons in fewer zones and around clock changes.
var nightly = os.Getenv("TRANCHE_NIGHTLY") != ""

// corpus are the crons that are tried in every zone.
var corpus = []string{
	// Daily, and some fixed times a day.
	"0 0 * * *", "30 2 * * *", "15 1 * * *", "59 23 * * *", "30 0,12,23 * * *", "0,30 0,1,2,3 * * *",
	// Hourly, more often, and odd intervals.
	"0 * * * *", "30 * * * *", "*/15 * * * *", "5/20 * * * *", "* * * * *", "*/45 * * * *", "0 */7 * * *", "*/7 1-3 * * *",
	// Working hours.
	"*/15 8-18 * * 1-5", "*/20 6-20 * * mon-fri",
	// Weekly and monthly.
	"30 0 * * 1", "0 3 * * sun", "10 0 1 * *", "0 2 31 * *", "0 0 29 2 *", "30 23 28-31 * *",
	// Both day fields.
	"30 4 1,15 * 5", "0 9 */2 * 1", "0 1 1-31 * 1", "30 2 25-31 3,10 0",
	// Lists.
	"1,7,13,29,44 1,5,9,20 1,15,20 3,10,11 *", "3 */5 */3 * *",
}

// inShare picks one of so many parts of the corpus for a zone, and another for the next one. Nightly
// every zone gets all of it.
func inShare(cron, zone, parts int) bool { return nightly || (cron+zone)%parts == 0 }

// subDaily reports whether a cron ticks several times a day, so that ten years of it are too much for
// every test.
func subDaily(text string) bool {
	minute, rest, _ := strings.Cut(text, " ")
	hour, _, _ := strings.Cut(rest, " ")
	return strings.ContainsAny(minute+hour, "*/-,")
}

// The years in which calendars must be exact, and in which they must not fire at other instants.
var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	exact = time.Date(2036, 12, 31, 23, 59, 59, 0, time.UTC)
	quiet = time.Date(2064, 12, 31, 23, 59, 59, 0, time.UTC)
)

// zone is a zone whose clocks change from start to quiet.
type zone struct {
	name    string
	aliases []string // other zones whose clocks show the same in that time
	changes []time.Time
}

// changingZones are the zones whose clocks change, each once.
var changingZones = sync.OnceValue(func() []zone {
	var zones []zone
	known := map[string]int{}
	for _, name := range interval.Zones() {
		offsets, changes := clockChanges(name, start, quiet)
		if i, ok := known[offsets]; ok {
			zones[i].aliases = append(zones[i].aliases, name)
		} else if changes != nil {
			known[offsets] = len(zones)
			zones = append(zones, zone{name: name, changes: changes})
		}
	}
	return zones
})

// clockChanges returns the changes of a zone's clocks, and its offsets as a text to compare.
func clockChanges(name string, from, to time.Time) (offsets string, changes []time.Time) {
	loc, err := interval.LoadLocation(name)
	if err != nil {
		return err.Error(), nil
	}
	_, offset := from.In(loc).Zone()
	offsets = fmt.Sprint(offset)
	for at := range interval.ClockChanges(loc, from, to) {
		_, offset := at.In(loc).Zone()
		offsets += fmt.Sprintf(" %d=%d", at.Unix(), offset)
		changes = append(changes, at)
	}
	return offsets, changes
}

// window is a range of time: from is not in it, to is.
type window struct{ from, to time.Time }

// windowsAround are the three days before and after that of each clock change up to an instant. They are
// whole days in UTC, so that many zones share them.
func windowsAround(changes []time.Time, to time.Time) []window {
	const day = 24 * time.Hour
	var list []window
	for _, change := range changes {
		if change.Before(to) {
			list = append(list, window{change.Truncate(day).Add(-3*day - time.Second), change.Truncate(day).Add(4*day - time.Second)})
		}
	}
	return list
}

// windowsFor are the windows in which a cron is looked at: all of the exact years if it ticks seldom, or
// nightly; else the days around the clock changes, for every minute those of two years.
func (z zone) windowsFor(text string) []window {
	switch {
	case nightly || !subDaily(text):
		return []window{{start, exact}}
	case text == "* * * * *":
		return windowsAround(z.changes, start.AddDate(2, 0, 0))
	default:
		return windowsAround(z.changes, exact)
	}
}

// randomCron writes five random fields, mostly sensible ones.
func randomCron(random *rand.Rand) string {
	field := func(low, high int) string {
		value := func() int { return low + random.IntN(high-low+1) }
		switch random.IntN(8) {
		case 0:
			return fmt.Sprint(value())
		case 1:
			return fmt.Sprintf("%d,%d", value(), value())
		case 2:
			a, b := value(), value()
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 3:
			a, b := value(), value()
			return fmt.Sprintf("%d-%d/%d", min(a, b), max(a, b), 1+random.IntN(high-low))
		case 4:
			return fmt.Sprintf("*/%d", 1+random.IntN(high-low))
		case 5:
			return fmt.Sprintf("%d,%d,%d,%d", value(), value(), value(), value())
		default:
			return "*"
		}
	}
	minute := field(0, 59)
	if minute == "*" && random.IntN(4) > 0 {
		minute = "*/10"
	}
	return strings.Join([]string{minute, field(0, 23), field(1, 31), field(1, 12), field(0, 7)}, " ")
}
