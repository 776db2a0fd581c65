package schedules

import (
	"fmt"
	"iter"
	"slices"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"

	"github.com/trancheflow/tranche/interval"
)

// Firings lists, in order, when a Schedule with these ticks fires after one instant and up to and
// including another, in UTC. It reads the calendars field by field, as Temporal does, and knows nothing
// of the pipeline. From and Exact do not bound it.
//
// It is right in zones whose clocks do not change within the range, and Compile writes calendars in no
// others.
//
// The error is that of a zone that does not exist.
func (t Ticks) Firings(after, to time.Time) (iter.Seq[time.Time], error) {
	if t.Interval != nil {
		return intervalFirings(t.Interval, after, to), nil
	}
	loc, err := interval.LoadLocation(t.TimeZone)
	if err != nil {
		return nil, err
	}
	days := calendarDays{loc: loc, known: map[string][]int{}}
	for _, calendar := range t.Calendars {
		days.calendars = append(days.calendars, readCalendar(calendar))
	}
	return days.firings(after, to), nil
}

// intervalFirings counts from 1970.
func intervalFirings(spec *schedulepb.IntervalSpec, after, to time.Time) iter.Seq[time.Time] {
	length, phase := int64(spec.GetInterval().AsDuration()/time.Second), int64(spec.GetPhase().AsDuration()/time.Second)
	return func(yield func(time.Time) bool) {
		elapsed := after.Unix() - phase
		periods := elapsed / length
		if elapsed%length < 0 {
			periods--
		}
		for at := time.Unix((periods+1)*length+phase, 0).UTC(); !at.After(to); at = at.Add(time.Duration(length) * time.Second) {
			if !yield(at) {
				return
			}
		}
	}
}

// matcher is one calendar, read.
type matcher struct {
	years                   []int // none are all
	months, days, weekdays  uint64
	hours, minutes, seconds uint64
}

func readCalendar(c *schedulepb.StructuredCalendarSpec) matcher {
	return matcher{
		years:  numbers(c.GetYear()),
		months: maskOf(numbers(c.GetMonth())), days: maskOf(numbers(c.GetDayOfMonth())), weekdays: maskOf(numbers(c.GetDayOfWeek())),
		hours: maskOf(numbers(c.GetHour())), minutes: maskOf(numbers(c.GetMinute())), seconds: maskOf(numbers(c.GetSecond())),
	}
}

func (m matcher) matches(day time.Time) bool {
	return (len(m.years) == 0 || slices.Contains(m.years, day.Year())) &&
		m.months>>day.Month()&1 == 1 && m.days>>day.Day()&1 == 1 && m.weekdays>>day.Weekday()&1 == 1
}

// times are the matching times of a day, in seconds.
func (m matcher) times() []int {
	var list []int
	for _, hour := range values(m.hours) {
		for _, minute := range values(m.minutes) {
			for _, second := range values(m.seconds) {
				list = append(list, hour*3600+minute*60+second)
			}
		}
	}
	return list
}

// calendarDays goes through the calendars day by day, in local time.
type calendarDays struct {
	loc       *time.Location
	calendars []matcher
	known     map[string][]int // times of a day, by which calendars match it
}

func (c *calendarDays) firings(after, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		year, month, day := after.In(c.loc).Date()
		for ; ; day++ {
			// Noon is on the right side of every clock change, and of days that have none.
			noon := time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
			midnight := time.Date(year, month, day, 0, 0, 0, 0, c.loc)
			if midnight.After(to) || noon.Year() > lastYear {
				return
			}
			for _, second := range c.times(noon) {
				at := midnight.Add(time.Duration(second) * time.Second).UTC()
				if at.After(to) {
					return
				}
				if at.After(after) && !yield(at) {
					return
				}
			}
		}
	}
}

func (c *calendarDays) times(day time.Time) []int {
	matching := make([]byte, len(c.calendars))
	for i, m := range c.calendars {
		if m.matches(day) {
			matching[i] = 1
		}
	}
	list, ok := c.known[string(matching)]
	if !ok {
		for i, m := range c.calendars {
			if matching[i] == 1 {
				list = append(list, m.times()...)
			}
		}
		slices.Sort(list)
		list = slices.Compact(list)
		c.known[string(matching)] = list
	}
	return list
}

// numbers lists what ranges hold, as Temporal reads them.
func numbers(ranges []*schedulepb.Range) []int {
	var list []int
	for _, r := range ranges {
		step := max(int(r.GetStep()), 1)
		for v := int(r.GetStart()); v <= max(int(r.GetEnd()), int(r.GetStart())); v += step {
			list = append(list, v)
		}
	}
	return list
}

// Check compares the firings after one instant and up to another with the ticks of a spec. It looks no
// further than From and Exact, the Since and End of the spec, and the last day of the year 2100, on which
// calendars in local time end earlier or later. The error names the first difference.
func (t Ticks) Check(spec interval.Spec, after, to time.Time) error {
	grid, err := interval.New(spec)
	if err != nil {
		return err
	}
	if !t.From.IsZero() && after.Before(t.From) {
		after = t.From.Add(-time.Second)
	}
	if after.Before(spec.Since) {
		after = spec.Since
	}
	const day = 24 * time.Hour
	for _, end := range []time.Time{t.Exact, spec.End, lastInstant.Add(-day)} {
		if !end.IsZero() && to.After(end) {
			to = end
		}
	}
	firings, err := t.Firings(after, to)
	if err != nil {
		return err
	}
	next, stop := iter.Pull(firings)
	defer stop()
	fires, ok := next()
	for tick := range ticksOf(grid, after, to) {
		switch {
		case !ok || fires.After(tick):
			return fmt.Errorf("the Schedule would not fire at the tick %s", tick.Format(time.RFC3339))
		case fires.Before(tick):
			return firesWrongly(fires)
		}
		fires, ok = next()
	}
	if ok {
		return firesWrongly(fires)
	}
	return nil
}

func firesWrongly(fires time.Time) error {
	return fmt.Errorf("the Schedule would fire at %s, which is no tick of the pipeline", fires.Format(time.RFC3339))
}

// ticksOf lists the ticks after one instant and up to and including another.
func ticksOf(grid *interval.Grid, after, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		from := after
		if owner, ok := grid.Owner(after); ok {
			from = owner.Start
		}
		for iv := range grid.Between(from, to) {
			if iv.End.After(to) || !yield(iv.End) {
				return
			}
		}
	}
}
