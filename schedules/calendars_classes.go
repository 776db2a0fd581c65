package schedules

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/trancheflow/tranche/interval"
)

// timetable says at which times of day, in UTC, a cron ticks on each date of a span. Dates with the same
// times share a class; class 0 has none.
type timetable struct {
	first   date
	classes []int // by date - first
	// times are all times of day that occur, in seconds, sorted. They are called by their position.
	times []int
	sets  []timeSet // of each class
}

// timeSet holds times of day by their position in a timetable.
type timeSet []uint64

func (s timeSet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s timeSet) addAll(other timeSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

func (s timeSet) removeAll(other timeSet) {
	for i := range s {
		s[i] &^= other[i]
	}
}

func (s timeSet) contains(other timeSet) bool {
	for i := range s {
		if other[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

func (s timeSet) empty() bool { return !slices.ContainsFunc(s, func(w uint64) bool { return w != 0 }) }

// positions lists what the set holds, in order.
func (s timeSet) positions() []int {
	var list []int
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			list = append(list, i*64+bits.TrailingZeros64(word))
		}
	}
	return list
}

func (t *timetable) newSet() timeSet { return make(timeSet, (len(t.times)+63)/64) }

func (t *timetable) class(d date) int { return t.classes[d-t.first] }

// newTimetable takes the times from the grid. It asks once for each combination of what they follow from.
func newTimetable(spec interval.Spec, fields interval.Fields, c clocks, first, last date) (*timetable, error) {
	// Without bounds, so that the first and the last date are like the others. The Schedule's own
	// bounds cut them.
	grid, err := interval.New(interval.Spec{Cron: spec.Cron, TimeZone: spec.TimeZone})
	if err != nil {
		return nil, fmt.Errorf("cron %q without start and end: %w", spec.Cron, err)
	}
	b := timetableBuilder{grid: grid, clocks: c, dates: newDueDates(fields), known: map[string]int{}, like: map[dayKind]int{}}
	b.class(nil)
	for d := first - daysBefore; d < first+daysAfter; d++ {
		b.lookAt(d)
	}
	t := &timetable{first: first, classes: make([]int, 0, last-first+1)}
	for d := first; d <= last; d++ {
		b.lookAt(d + daysAfter)
		t.classes = append(t.classes, b.classOf(d))
	}
	t.number(b.lists)
	return t, nil
}

func (t *timetable) empty() bool { return len(t.times) == 0 }

// number gives the times their positions.
func (t *timetable) number(lists [][]int) {
	for _, list := range lists {
		t.times = append(t.times, list...)
	}
	slices.Sort(t.times)
	t.times = slices.Compact(t.times)
	for _, list := range lists {
		set := t.newSet()
		for _, at := range list {
			position, _ := slices.BinarySearch(t.times, at)
			set.add(position)
		}
		t.sets = append(t.sets, set)
	}
}

// timetableBuilder goes from date to date.
type timetableBuilder struct {
	grid   *interval.Grid
	clocks clocks
	dates  dueDates
	due    uint8           // which of the dates from daysBefore before to daysAfter after are due
	lists  [][]int         // the times of each class
	known  map[string]int  // classes by their times
	like   map[dayKind]int // classes by what the times follow from
}

// dayKind is what the times of a UTC day follow from: the clock, and which of the local dates around it
// are due.
type dayKind struct {
	offset  int   // seconds east of UTC on the day, or before the change
	changes bool  // whether the clock changes near the day
	at      int64 // when, in seconds from the beginning of the day
	changed int   // the offset after the change
	due     uint8 // of timetableBuilder
}

// The local dates that can have to do with the times of a UTC day. After a clock is set back by a day,
// the most there is, fixed times wait for a day, and local time is up to a day from UTC.
const daysBefore, daysAfter = 3, 2

// lookAt takes the next date into view.
func (b *timetableBuilder) lookAt(d date) {
	b.due >>= 1
	if b.dates.has(d) {
		b.due |= 1 << (daysBefore + daysAfter)
	}
}

func (b *timetableBuilder) classOf(d date) int {
	kind, ok := b.kindOf(d)
	if !ok {
		return b.class(b.ask(d))
	}
	class, ok := b.like[kind]
	if !ok {
		class = b.class(b.ask(d))
		b.like[kind] = class
	}
	return class
}

// kindOf looks for a clock change near a date; ok is false when there are several.
func (b *timetableBuilder) kindOf(d date) (kind dayKind, ok bool) {
	low, high := b.clocks.between((d - daysBefore + 1).unix(), (d + 1).unix())
	if high-low > 1 {
		return dayKind{}, false
	}
	kind = dayKind{offset: b.clocks.offsets[low], due: b.due}
	if high > low {
		kind.changes, kind.at, kind.changed = true, b.clocks.changes[low]-d.unix(), b.clocks.offsets[high]
	}
	return kind, true
}

// ask returns the ticks of a date as seconds of the day.
func (b *timetableBuilder) ask(d date) []int {
	var times []int
	for iv := range b.grid.Between(d.time(), (d + 1).time()) {
		times = append(times, int(iv.Start.Unix()-d.unix()))
	}
	return times
}

// class returns the class of dates with these times.
func (b *timetableBuilder) class(times []int) int {
	var key strings.Builder
	for _, at := range times {
		fmt.Fprintf(&key, "%x ", at)
	}
	class, ok := b.known[key.String()]
	if !ok {
		class = len(b.lists)
		b.known[key.String()] = class
		b.lists = append(b.lists, times)
	}
	return class
}

// dueDates says on which local dates a cron is due.
type dueDates struct {
	months uint64
	days   []dayMasks // one of them must match
}

func newDueDates(fields interval.Fields) dueDates {
	return dueDates{maskOf(fields.Months), dayFields(fields)}
}

func (m dueDates) has(d date) bool {
	_, month, day := d.time().Date()
	for _, masks := range m.days {
		if m.months>>month&1 == 1 && masks.days>>day&1 == 1 && masks.weekdays>>d.weekday()&1 == 1 {
			return true
		}
	}
	return false
}
