package schedules

import (
	"cmp"
	"slices"
)

// rectangle is a set of times of day: those whose hour, minute and second are all in its masks. It is
// what the time fields of one calendar can say.
type rectangle struct{ hours, minutes, seconds uint64 }

// rectangles divides a set of times: minutes with the same hours go together, and seconds with the same
// minutes and hours. The result is sorted.
func (t *timetable) rectangles(set timeSet) []rectangle {
	type minute struct{ minute, second int }
	hours := map[minute]uint64{}
	for _, position := range set.positions() {
		at := t.times[position]
		hours[minute{at / 60 % 60, at % 60}] |= 1 << (at / 3600)
	}
	type row struct {
		hours  uint64
		second int
	}
	minutes := map[row]uint64{}
	for m, h := range hours {
		minutes[row{h, m.second}] |= 1 << m.minute
	}
	type column struct{ hours, minutes uint64 }
	seconds := map[column]uint64{}
	for r, m := range minutes {
		seconds[column{r.hours, m}] |= 1 << r.second
	}
	var list []rectangle
	for c, s := range seconds {
		list = append(list, rectangle{c.hours, c.minutes, s})
	}
	slices.SortFunc(list, func(x, y rectangle) int {
		return cmp.Or(cmp.Compare(x.hours, y.hours), cmp.Compare(x.minutes, y.minutes), cmp.Compare(x.seconds, y.seconds))
	})
	return list
}

// setOf lists a rectangle's times, all of which the timetable has.
func (t *timetable) setOf(r rectangle) timeSet {
	set := t.newSet()
	for position, at := range t.times {
		if r.hours>>(at/3600)&1 == 1 && r.minutes>>(at/60%60)&1 == 1 && r.seconds>>(at%60)&1 == 1 {
			set.add(position)
		}
	}
	return set
}
