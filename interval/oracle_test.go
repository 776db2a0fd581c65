package interval_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// slowCron is a second implementation of cron, written to be obviously right and not to be fast: a
// table of yes and no for each field, and a walk over time that looks at the clock at every step.
type slowCron struct {
	allowed              [5][60]bool
	dayStar, weekdayStar bool
	elapsed              bool
}

// parseSlowCron reads the plain part of the language: *, numbers, lists, ranges and steps.
func parseSlowCron(t testing.TB, text string) *slowCron {
	t.Helper()
	words := strings.Fields(text)
	c := &slowCron{
		elapsed:     words[0][0] == '*' || words[1][0] == '*',
		dayStar:     words[2][0] == '*',
		weekdayStar: words[4][0] == '*',
	}
	first, last := [5]int{0, 0, 1, 1, 0}, [5]int{59, 23, 31, 12, 6}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("the oracle cannot read %q", text)
		}
		return n
	}
	for i, word := range words {
		for _, part := range strings.Split(word, ",") {
			span, step := part, 1
			if at := strings.Index(part, "/"); at >= 0 {
				span, step = part[:at], number(part[at+1:])
			}
			low, high := first[i], last[i]
			if span != "*" {
				ends := strings.Split(span, "-")
				low = number(ends[0])
				high = number(ends[len(ends)-1])
			}
			for n := low; n <= high; n++ {
				if (n-low)%step == 0 {
					c.allowed[i][n] = true
				}
			}
		}
	}
	return c
}

// due reports whether the cron matches the date and time that a clock shows.
func (c *slowCron) due(wall time.Time) bool {
	day, weekday := c.allowed[2][wall.Day()], c.allowed[4][int(wall.Weekday())]
	dayMatches := day || weekday
	if c.dayStar || c.weekdayStar {
		dayMatches = day && weekday
	}
	return c.allowed[0][wall.Minute()] && c.allowed[1][wall.Hour()] && c.allowed[3][int(wall.Month())] && dayMatches && wall.Second() == 0
}

// reading is what the clock of a zone shows at an instant; wall has the same fields in UTC.
type reading struct {
	at   int64
	wall time.Time
}

// watch reads the clock at every step from one instant to another, both included. The step is a
// minute where the offsets are whole minutes, else a second.
func watch(loc *time.Location, from, to int64, step int64) []reading {
	readings := make([]reading, 0, (to-from)/step+1)
	for at := from; at <= to; at += step {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		readings = append(readings, reading{at, time.Unix(at+int64(offset), 0).UTC()})
	}
	return readings
}

// ticks finds the ticks at and after an instant as somebody would who watches the clock: by elapsed
// time whenever it shows a due time; for fixed times whenever it passes one for the first time.
func (c *slowCron) ticks(readings []reading, from int64) []int64 {
	var found []int64
	high := readings[0].wall
	for _, r := range readings {
		tick := false
		if c.elapsed {
			tick = c.due(r.wall)
		} else if r.wall.After(high) {
			for w := high.Truncate(time.Minute).Add(time.Minute); !w.After(r.wall); w = w.Add(time.Minute) {
				tick = tick || c.due(w)
			}
			high = r.wall
		}
		if tick && r.at >= from {
			found = append(found, r.at)
		}
	}
	return found
}

// randomCron makes cron text whose ticks are often near enough to be seen in a few days.
func randomCron(random *rand.Rand) string {
	pick := func(low, high int) int { return low + random.IntN(high-low+1) }
	field := func(low, high, star int) string {
		if random.IntN(100) < star {
			if step := pick(1, 12); step > 1 && step <= high-low && random.IntN(2) == 0 {
				return fmt.Sprintf("*/%d", step)
			}
			return "*"
		}
		var parts []string
		for range pick(1, 3) {
			a := pick(low, high)
			switch random.IntN(3) {
			case 0:
				parts = append(parts, fmt.Sprint(a))
			case 1:
				parts = append(parts, fmt.Sprintf("%d-%d", a, pick(a, high)))
			default:
				parts = append(parts, fmt.Sprintf("%d-%d/%d", a, pick(a, high), pick(1, high-low)))
			}
		}
		return strings.Join(parts, ",")
	}
	return strings.Join([]string{field(0, 59, 15), field(0, 23, 30), field(1, 31, 70), field(1, 12, 90), field(0, 6, 70)}, " ")
}

// moments picks changes of a zone's clock that are worth watching: up to so many of those that are not
// one hour, the latest two, and two others.
func moments(zone zoneData, random *rand.Rand, odd int) []zoneChange {
	var chosen []zoneChange
	for i, change := range zone.changes {
		if shift := change.offset - change.before; shift != 3600 && shift != -3600 && odd > 0 {
			chosen = append(chosen, change)
			odd--
		} else if i >= len(zone.changes)-2 {
			chosen = append(chosen, change)
		}
	}
	for range min(2, len(zone.changes)) {
		chosen = append(chosen, zone.changes[random.IntN(len(zone.changes))])
	}
	return chosen
}

// The grid and the watcher agree around clock changes of every zone.
func TestAgreesWithWatchingTheClock(t *testing.T) {
	t.Parallel()
	fixed := []string{"* * * * *", "0 0 * * *", "30 2 * * *", "*/20 * * * *", "0-59 0-23 * * *", "15,45 0-3,23 * * *", "0 */2 1-7 * 1"}
	const day, hour = 24 * 60 * 60, 60 * 60
	for number, zone := range distinctZones(t) {
		t.Run(zone.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(number)))
			loc := location(t, zone.name)
			for i, change := range moments(zone, random, 2) {
				// No other change is near enough to matter, so the watch needs no lead-in.
				from, to, step := (change.at-day)/60*60, (change.at+day)/60*60, int64(60)
				if change.before%60 != 0 || change.offset%60 != 0 {
					shift := int64(max(change.offset-change.before, change.before-change.offset))
					from, to, step = change.at-shift-hour, change.at+shift+hour, 1
				}
				readings := watch(loc, from-step, to, step)
				for _, text := range []string{fixed[(number+i)%len(fixed)], randomCron(random)} {
					compareWithWatch(t, text, zone.name, readings, from, to)
				}
			}
		})
	}
}

func compareWithWatch(t *testing.T, text, zone string, readings []reading, from, to int64) {
	t.Helper()
	g, err := interval.New(interval.Spec{Cron: text, TimeZone: zone})
	if err != nil {
		if strings.Contains(err.Error(), "never fires") {
			return
		}
		t.Errorf("%q: %v", text, err)
		return
	}
	var got []int64
	for at, ok := g.Next(time.Unix(from-1, 0)); ok && at.Unix() <= to; at, ok = g.Next(at) {
		got = append(got, at.Unix())
	}
	if want := parseSlowCron(t, text).ticks(readings, from); !slices.Equal(got, want) {
		t.Errorf("%q in %s from %s to %s: %d ticks, want %d; first difference: %s", text, zone,
			short(time.Unix(from, 0)), short(time.Unix(to, 0)), len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(got, want []int64) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + short(time.Unix(want[i], 0))
		case i >= len(want):
			return "unwanted " + short(time.Unix(got[i], 0))
		case got[i] != want[i]:
			return "got " + short(time.Unix(got[i], 0)) + ", want " + short(time.Unix(want[i], 0))
		}
	}
	return "none"
}

// Over a whole year without a zone, days of the month, months and weekdays in all combinations.
func TestAgreesWithWatchingACalendar(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	from, to := utc(t, "2027-06-01").Unix(), utc(t, "2028-06-01").Unix()
	readings := watch(time.UTC, from-60, to, 60)
	for range 20 {
		compareWithWatch(t, randomCron(random), "UTC", readings, from, to)
	}
}
