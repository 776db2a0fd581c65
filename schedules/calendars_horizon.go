package schedules

import (
	"fmt"
	"slices"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// The years that Temporal's calendars know: server v1.32.1, service/worker/scheduler/calendar.go,
// minCalendarYear and maxCalendarYear.
const (
	firstYear = 2000
	lastYear  = 2100
)

var (
	firstInstant = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(lastYear, 12, 31, 23, 59, 59, 0, time.UTC)
)

const (
	// yearsBack is how far compiled calendars are exact before now's year, or before the year from which
	// the clocks follow a rule. It bounds what irregular clock changes of the past may cost; the only use
	// of the past is the backfill of Temporal's UI.
	yearsBack = 5
	// quietYears is for how many years after the exact ones there is no wrong firing. After 28 years
	// every date has fallen on every day of the week, in leap years too.
	quietYears = 28
)

// exactYears are the numbers of years after now's for which compiled calendars are exact: the first
// whose calendars are few enough.
var exactYears = []int{10, 5, 2}

const secondsPerDay = 24 * 60 * 60

// A date is a number of days since 1970-01-01.
type date int64

func dateOf(t time.Time) date {
	seconds := t.Unix()
	if seconds < 0 {
		seconds -= secondsPerDay - 1
	}
	return date(seconds / secondsPerDay)
}

func newDate(year int, month time.Month, day int) date {
	return dateOf(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// unix is the date's first second, in UTC.
func (d date) unix() int64 { return int64(d) * secondsPerDay }

func (d date) time() time.Time { return time.Unix(d.unix(), 0).UTC() }

// weekday is 0 for Sunday. 1970-01-01 was a Thursday.
func (d date) weekday() int { return int((d%7 + 7 + date(time.Thursday)) % 7) }

// horizon says for which dates, in UTC and inclusive, calendars are compiled.
type horizon struct {
	year  int  // from which the years are counted
	first date // from here on firings must be ticks
	need  date // until here every tick must fire
	last  date // until here nothing else may fire
	final date // the last date on which anything can fire
	// ruled says that the clocks follow a rule from year on. Calendars that are exact for 28 years of a
	// rule are exact for ever, and are no more than those for ten.
	ruled bool
}

// newHorizon counts from the year from which the clocks follow a rule, so that the calendars do not depend
// on now. Where they follow none, it counts from now's year, from that of the start if it comes later, or
// from that of the end if it comes earlier.
func newHorizon(spec interval.Spec, clocks clocks, now time.Time) horizon {
	h := horizon{year: max(now.UTC().Year(), startYear(spec)), final: dateOf(lastInstant)}
	if !spec.End.IsZero() {
		h.year = min(h.year, spec.End.UTC().Year())
		h.final = min(h.final, dateOf(spec.End))
	}
	h.year = min(h.year, lastYear)
	if ruled := clocks.ruledFrom(startYear(spec)); ruled <= h.year+yearsBack {
		h.year, h.ruled = ruled, true
	}
	h.first = newDate(max(h.year-yearsBack, firstYear), 1, 1)
	if !spec.Start.IsZero() {
		h.first = max(h.first, dateOf(spec.Start))
	}
	return h
}

// startYear is the first year in which a spec can have ticks that Temporal fires at.
func startYear(spec interval.Spec) int {
	if spec.Start.IsZero() {
		return firstYear
	}
	return max(spec.Start.UTC().Year(), firstYear)
}

func noTick(spec interval.Spec) error {
	return fmt.Errorf("the schedule from %s has no tick in the years %d to %d, which are those that Temporal's Schedules know; change its start or its end",
		spec.Start.UTC().Format(time.DateOnly), firstYear, lastYear)
}

// exactFor sets how many years after now's must be exact.
func (h horizon) exactFor(years int) horizon {
	h.last = min(newDate(h.year+exactYears[0]+quietYears, 12, 31), h.final)
	h.need = min(newDate(h.year+years, 12, 31), h.last)
	if h.ruled && years == exactYears[0] {
		h.need = h.last
	}
	return h
}

// years are those of the horizon's first and last date.
func (h horizon) years() (first, last int) { return h.first.time().Year(), h.last.time().Year() }

// yearKind is what the calendar of a year follows from.
type yearKind struct {
	begins time.Weekday
	days   date
}

func kindOf(year int) yearKind {
	start := newDate(year, 1, 1)
	return yearKind{start.time().Weekday(), newDate(year+1, 1, 1) - start}
}

// clocks are the offsets from UTC that the clocks of a zone show over a span of time.
type clocks struct {
	changes []int64 // Unix seconds
	offsets []int   // in seconds east of UTC: before the first change, and after each
}

func newClocks(loc *time.Location, first, last date) clocks {
	_, offset := first.time().In(loc).Zone()
	c := clocks{offsets: []int{offset}}
	for at := range interval.ClockChanges(loc, (first + 1).time(), last.time()) {
		_, offset := at.In(loc).Zone()
		c.changes, c.offsets = append(c.changes, at.Unix()), append(c.offsets, offset)
	}
	return c
}

// between returns the positions of the changes from one second to before another: low to before high.
// The offset before is that of low.
func (c clocks) between(from, to int64) (low, high int) {
	low, _ = slices.BinarySearch(c.changes, from)
	high, _ = slices.BinarySearch(c.changes, to)
	return low, high
}

// ruledFrom returns the first year, not before another, from which the clocks change by a rule of the
// calendar: at the same instants, and by as much, in all years of a kind.
func (c clocks) ruledFrom(first int) int {
	known := map[yearKind]string{}
	year := lastYear
	for ; year >= first; year-- {
		start := newDate(year, 1, 1).unix()
		low, high := c.between(start, newDate(year+1, 1, 1).unix())
		changes := fmt.Sprint(c.offsets[low])
		for i := low; i < high; i++ {
			changes += fmt.Sprintf(", %d at %d", c.offsets[i+1], c.changes[i]-start)
		}
		kind := kindOf(year)
		if later, ok := known[kind]; ok && later != changes {
			break
		}
		known[kind] = changes
	}
	return year + 1
}
