package interval

import (
	"math/bits"
	"time"
)

const (
	secondsPerDay  = 24 * 60 * 60
	minutesPerDay  = 24 * 60
	minutesPerHour = 60
	daysPerWeek    = 7
	// gregorianCycle is the number of days after which the calendar, weekdays included, repeats: 400
	// years. What does not match within one cycle never does.
	gregorianCycle = 146097
)

// set holds the values of one cron field: bit v is set when the field allows v.
type set uint64

func (s set) has(v int) bool { return s>>v&1 == 1 }

// atLeast returns the smallest value >= v, and atMost the largest value <= v; ok is false when there
// is none.
func (s set) atLeast(v int) (least int, ok bool) {
	rest := s >> v << v
	return bits.TrailingZeros64(uint64(rest)), rest != 0
}

func (s set) atMost(v int) (most int, ok bool) {
	rest := s & (1<<(v+1) - 1)
	return 63 - bits.LeadingZeros64(uint64(rest)), rest != 0
}

// cron is parsed cron text. Its methods reckon in local time and know nothing of zones.
type cron struct {
	minute, hour, day, month, weekday set
	// bothDays is set when one of the day fields begins with *: a date must then match both of them,
	// otherwise either.
	bothDays bool
	// elapsed is set when the minute or the hour field begins with *.
	elapsed bool
}

// next returns the first matching local time >= local.
func (c *cron) next(local int64) int64 {
	minute := floorDiv(local+59, 60)
	date, ofDay := floorDiv(minute, minutesPerDay), int(floorMod(minute, minutesPerDay))
	if c.matches(date) {
		if at, ok := c.timeAtLeast(ofDay); ok {
			return date*secondsPerDay + int64(at)*60
		}
	}
	date, _ = c.nextDate(date + 1)
	at, _ := c.timeAtLeast(0)
	return date*secondsPerDay + int64(at)*60
}

// prev returns the last matching local time <= local.
func (c *cron) prev(local int64) int64 {
	minute := floorDiv(local, 60)
	date, ofDay := floorDiv(minute, minutesPerDay), int(floorMod(minute, minutesPerDay))
	if c.matches(date) {
		if at, ok := c.timeAtMost(ofDay); ok {
			return date*secondsPerDay + int64(at)*60
		}
	}
	date = c.prevDate(date - 1)
	at, _ := c.timeAtMost(minutesPerDay - 1)
	return date*secondsPerDay + int64(at)*60
}

// timeAtLeast returns the first matching minute of the day >= ofDay.
func (c *cron) timeAtLeast(ofDay int) (int, bool) {
	hour := ofDay / minutesPerHour
	if c.hour.has(hour) {
		if minute, ok := c.minute.atLeast(ofDay % minutesPerHour); ok {
			return hour*minutesPerHour + minute, true
		}
	}
	hour, ok := c.hour.atLeast(hour + 1)
	minute, _ := c.minute.atLeast(0)
	return hour*minutesPerHour + minute, ok
}

// timeAtMost returns the last matching minute of the day <= ofDay.
func (c *cron) timeAtMost(ofDay int) (int, bool) {
	hour := ofDay / minutesPerHour
	if c.hour.has(hour) {
		if minute, ok := c.minute.atMost(ofDay % minutesPerHour); ok {
			return hour*minutesPerHour + minute, true
		}
	}
	if hour == 0 {
		return 0, false
	}
	hour, ok := c.hour.atMost(hour - 1)
	minute, _ := c.minute.atMost(minutesPerHour - 1)
	return hour*minutesPerHour + minute, ok
}

// matches reports whether the cron is due on a date, given in days since 1970-01-01.
func (c *cron) matches(date int64) bool {
	_, month, day := civil(date)
	return c.month.has(int(month)) && c.matchesDay(day, weekdayOf(date))
}

func (c *cron) matchesDay(day, weekday int) bool {
	if c.bothDays {
		return c.day.has(day) && c.weekday.has(weekday)
	}
	return c.day.has(day) || c.weekday.has(weekday)
}

// nextDate returns the first date >= from on which the cron is due; ok is false when there never is one.
func (c *cron) nextDate(from int64) (date int64, ok bool) {
	for date = from; date < from+gregorianCycle; {
		year, month, day := civil(date)
		if !c.month.has(int(month)) {
			date = daysSinceEpoch(year, month+1, 1)
			continue
		}
		if c.matchesDay(day, weekdayOf(date)) {
			return date, true
		}
		date++
	}
	return 0, false
}

// prevDate returns the last date <= from on which the cron is due. There is one: New has checked it.
func (c *cron) prevDate(from int64) int64 {
	date := from
	for date > from-gregorianCycle {
		year, month, day := civil(date)
		if !c.month.has(int(month)) {
			date = daysSinceEpoch(year, month, 0)
			continue
		}
		if c.matchesDay(day, weekdayOf(date)) {
			break
		}
		date--
	}
	return date
}

// civil returns the calendar date of a number of days since 1970-01-01.
func civil(date int64) (year int, month time.Month, day int) {
	return time.Unix(date*secondsPerDay, 0).UTC().Date()
}

func daysSinceEpoch(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

// weekdayOf returns 0 for Sunday. 1970-01-01 was a Thursday.
func weekdayOf(date int64) int { return int(floorMod(date+int64(time.Thursday), daysPerWeek)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
