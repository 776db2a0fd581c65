package schedules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"

	"github.com/trancheflow/tranche/interval"
)

// limits bound how large compiled calendars may be.
type limits struct {
	// calendars and bytes are what ten years may take; beyond, fewer years are compiled.
	calendars, bytes int
	// refused is the number of calendars beyond which there is no Schedule.
	refused int
}

// Measured on server 1.32.1: with 300 calendars a page of 1,000 firings takes 51 ms to list, with 1,000
// it takes 0.5 s.
var defaultLimits = limits{calendars: 300, bytes: 16 << 10, refused: 1000}

// compile turns the ticks of a cron into calendars in UTC, for as many years as the limits allow.
func compile(spec interval.Spec, loc *time.Location, fields interval.Fields, comment string, now time.Time, limits limits) (Ticks, error) {
	clocks := newClocks(loc, newDate(startYear(spec), 1, 1)-daysBefore, dateOf(lastInstant)+1)
	h := newHorizon(spec, clocks, now)
	table, err := newTimetable(spec, fields, clocks, h.first, h.final)
	if err != nil {
		return Ticks{}, err
	}
	if table.empty() {
		return Ticks{}, noTick(spec)
	}
	var ticks Ticks
	for i, years := range exactYears {
		if ticks, err = newCompiler(table, h.exactFor(years)).ticks(comment); err != nil {
			return Ticks{}, fmt.Errorf("cron %q in %s: %w", spec.Cron, spec.TimeZone, err)
		}
		ticks.From = laterOf(afterStart(spec), h.first.time())
		ticks.Shortened = i > 0
		if len(ticks.Calendars) <= limits.calendars && ticks.Size() <= limits.bytes {
			return ticks, nil
		}
	}
	if count := len(ticks.Calendars); count > limits.refused {
		return Ticks{}, fmt.Errorf("cron %q in %s takes %d of Temporal's calendars even for %d years, more than the limit of %d: write fewer times or days, or divide the pipeline",
			spec.Cron, spec.TimeZone, count, exactYears[len(exactYears)-1], limits.refused)
	}
	return ticks, nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// compiler covers the dates of a timetable with calendars. A calendar is a product of times of day (hour
// x minute x second) and of dates (year x month x day x weekday).
type compiler struct {
	table   *timetable
	horizon horizon
	almanac *almanac
	dates   []dateSet // of each class, in the whole horizon
	needed  []dateSet // of each class, where every tick must fire
	done    []block
}

// block is a set of times that fires on some dates: one rectangle of times, and the calendars it takes.
type block struct {
	rectangle rectangle
	times     timeSet
	products  []product
	years     [][]int // of each product; nil for all
	dates     dateSet // on which the products fire
}

func newCompiler(table *timetable, h horizon) *compiler {
	firstYear, lastYear := h.years()
	c := &compiler{table: table, horizon: h, almanac: newAlmanac(firstYear, lastYear)}
	for range table.sets {
		c.dates = append(c.dates, c.almanac.newSet())
		c.needed = append(c.needed, c.almanac.newSet())
	}
	for d := h.first; d <= h.last; d++ {
		class := table.class(d)
		c.almanac.add(c.dates[class], d)
		if d <= h.need {
			c.almanac.add(c.needed[class], d)
		}
	}
	return c
}

// run covers one class after another, those with most dates first.
func (c *compiler) run() {
	order := make([]int, len(c.needed))
	counts := make([]int, len(c.needed))
	for class := range order {
		order[class], counts[class] = class, c.needed[class].count()
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(counts[y], counts[x]) })
	for _, class := range order {
		if counts[class] > 0 {
			c.coverClass(class)
		}
	}
}

// coverClass adds what is missing on the dates of a class.
func (c *compiler) coverClass(class int) {
	rest := slices.Clone(c.table.sets[class])
	for _, b := range c.done {
		if c.table.sets[class].contains(b.times) && b.dates.contains(c.needed[class]) {
			rest.removeAll(b.times)
		}
	}
	for _, r := range c.table.rectangles(rest) {
		times := c.table.setOf(r)
		needed := slices.Clone(c.needed[class])
		for _, b := range c.done {
			if b.times.contains(times) {
				needed.removeAll(b.dates)
			}
		}
		forbidden := c.almanac.newSet()
		for other, dates := range c.dates {
			if !c.table.sets[other].contains(times) {
				forbidden.addAll(dates)
			}
		}
		b := block{rectangle: r, times: times, products: c.almanac.cover(needed, forbidden), dates: c.almanac.newSet()}
		for _, p := range b.products {
			b.years = append(b.years, c.years(p))
			b.dates.addAll(c.almanac.setOf(p))
		}
		c.done = append(c.done, b)
	}
}

// ticks writes what was found as calendars, and holds it against the timetable.
func (c *compiler) ticks(comment string) (Ticks, error) {
	c.run()
	ticks := Ticks{TimeZone: "UTC"}
	if wrong, ok := c.firstWrong(); ok {
		if wrong <= c.horizon.need {
			return Ticks{}, fmt.Errorf("the calendars compiled for Temporal are wrong on %s; this is a mistake of Tranche", wrong.time().Format(time.DateOnly))
		}
		ticks.Exact = (c.horizon.need + 1).time().Add(-time.Second)
	}
	for _, b := range c.done {
		for i, p := range b.products {
			ticks.Calendars = append(ticks.Calendars, calendar(b.rectangle, p, b.years[i]))
		}
	}
	ticks.Calendars = withComment(ticks.Calendars, comment)
	return ticks, nil
}

func calendar(r rectangle, p product, years []int) *schedulepb.StructuredCalendarSpec {
	return &schedulepb.StructuredCalendarSpec{
		Second:     rangesOf(values(r.seconds)),
		Minute:     rangesOf(values(r.minutes)),
		Hour:       rangesOf(values(r.hours)),
		DayOfMonth: rangesOf(values(p[byDay])),
		Month:      rangesOf(values(p[byMonth] << 1)),
		DayOfWeek:  rangesOf(values(p[byWeekday])),
		Year:       rangesOf(years), // none are all
	}
}

// years lists the years of a product; nil is all. Where clocks follow a rule, a year after the horizon is
// treated like the one of its kind within.
func (c *compiler) years(p product) []int {
	if p[byYear] == c.almanac.full[byYear] {
		return nil
	}
	years := values(p[byYear])
	for i := range years {
		years[i] += c.almanac.firstYear
	}
	_, last := c.horizon.years()
	if !c.horizon.ruled || last < c.horizon.year+quietYears {
		return years
	}
	for year := last + 1; year <= lastYear; year++ {
		like := c.horizon.year + 1
		for kindOf(like) != kindOf(year) {
			like++
		}
		if p[byYear]>>(like-c.almanac.firstYear)&1 == 1 {
			years = append(years, year)
		}
	}
	return years
}

// firstWrong finds the first date on which something else fires than the timetable says.
func (c *compiler) firstWrong() (d date, ok bool) {
	fires := c.table.newSet()
	for d := c.horizon.first; d <= c.horizon.final; d++ {
		clear(fires)
		for _, b := range c.done {
			if c.firesOn(b, d) {
				fires.addAll(b.times)
			}
		}
		if !slices.Equal(fires, c.table.sets[c.table.class(d)]) {
			return d, true
		}
	}
	return 0, false
}

func (c *compiler) firesOn(b block, d date) bool {
	if d <= c.horizon.last {
		return c.almanac.has(b.dates, d)
	}
	year, month, day := d.time().Date()
	for i, p := range b.products {
		if p[byMonth]>>(month-1)&1 == 0 || p[byDay]>>day&1 == 0 || p[byWeekday]>>d.weekday()&1 == 0 {
			continue
		}
		if b.years[i] == nil || slices.Contains(b.years[i], year) {
			return true
		}
	}
	return false
}
