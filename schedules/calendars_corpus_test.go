package schedules_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
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

// subDaily reports whether a cron ticks so often that ten years of it are too much for every test.
func subDaily(text string) bool {
	minute, rest, _ := strings.Cut(text, " ")
	hour, _, _ := strings.Cut(rest, " ")
	return strings.ContainsAny(minute+hour, "*/-")
}

// zoneGroup are zones whose clocks show the same from one instant to another, and change between them.
type zoneGroup struct {
	names   []string
	changes []time.Time
}

// zoneGroups groups the zones whose clocks change.
func zoneGroups(t testing.TB, from, to time.Time) []zoneGroup {
	t.Helper()
	var groups []zoneGroup
	known := map[string]int{}
	for _, name := range interval.Zones() {
		loc, err := interval.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		_, offset := from.In(loc).Zone()
		key := fmt.Sprint(offset)
		var changes []time.Time
		for at := range interval.ClockChanges(loc, from, to) {
			_, offset := at.In(loc).Zone()
			key += fmt.Sprintf(" %d=%d", at.Unix(), offset)
			changes = append(changes, at)
		}
		if changes == nil {
			continue
		}
		i, ok := known[key]
		if !ok {
			i = len(groups)
			known[key] = i
			groups = append(groups, zoneGroup{changes: changes})
		}
		groups[i].names = append(groups[i].names, name)
	}
	return groups
}

// window is a range of time: from is not in it, to is.
type window struct{ from, to time.Time }

// windows are the three days before and after each change up to an instant.
func (g zoneGroup) windows(to time.Time) []window {
	const around = 3 * 24 * time.Hour
	var list []window
	for _, change := range g.changes {
		if change.Before(to) {
			list = append(list, window{change.Add(-around), change.Add(around)})
		}
	}
	return list
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
