package schedules

import (
	"math/bits"
	"slices"
	"time"
)

// product is a set of dates: those whose year, month, day of the month and day of the week are all in
// its masks. It is what the date fields of one calendar can say.
type product [4]uint64

// The axes of a product. Years count from the almanac's first year, months from 0 for January.
const (
	byYear = iota
	byMonth
	byDay
	byWeekday
)

// dateSet holds dates of an almanac: for each month a word, of which bit d stands for day d.
type dateSet []uint32

func (s dateSet) addAll(other dateSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

func (s dateSet) removeAll(other dateSet) {
	for i := range s {
		s[i] &^= other[i]
	}
}

func (s dateSet) contains(other dateSet) bool {
	for i := range s {
		if other[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

func (s dateSet) count() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount32(word)
	}
	return n
}

// almanac is the calendar of a span of at most 64 years.
type almanac struct {
	firstYear, years int
	begins           []uint8 // the day of the week on which each month begins
	lengths          []uint8 // in days
	full             product // all dates
	// onWeekdays are, for a month that begins on a day of the week, the days that fall on the days of a
	// mask.
	onWeekdays [7][1 << 7]uint32
}

func newAlmanac(firstYear, lastYear int) *almanac {
	a := &almanac{firstYear: firstYear, years: lastYear - firstYear + 1}
	a.full = product{1<<a.years - 1, everyMonth >> 1, everyDay, everyWeekday}
	for year := firstYear; year <= lastYear; year++ {
		for month := time.January; month <= time.December; month++ {
			begin := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			a.begins = append(a.begins, uint8(begin.Weekday()))
			a.lengths = append(a.lengths, uint8(begin.AddDate(0, 1, -1).Day()))
		}
	}
	for begin := range 7 {
		for mask := range 1 << 7 {
			for day := 1; day <= 31; day++ {
				if mask>>((begin+day-1)%7)&1 == 1 {
					a.onWeekdays[begin][mask] |= 1 << day
				}
			}
		}
	}
	return a
}

func (a *almanac) newSet() dateSet { return make(dateSet, len(a.begins)) }

func (a *almanac) position(d date) (month, day int) {
	year, m, day := d.time().Date()
	return (year-a.firstYear)*12 + int(m) - 1, day
}

func (a *almanac) add(s dateSet, d date) {
	month, day := a.position(d)
	s[month] |= 1 << day
}

func (a *almanac) has(s dateSet, d date) bool {
	month, day := a.position(d)
	return s[month]>>day&1 == 1
}

// single is the product of one date alone.
func (a *almanac) single(month, day int) product {
	weekday := (int(a.begins[month]) + day - 1) % 7
	return product{1 << (month / 12), 1 << (month % 12), 1 << day, 1 << weekday}
}

// days returns the days of a month, among those of a word, that a product holds.
func (a *almanac) days(p product, month int, word uint32) uint32 {
	return word & uint32(p[byDay]) & a.onWeekdays[a.begins[month]][p[byWeekday]]
}

// common returns the dates of s that p holds.
func (a *almanac) common(p product, s dateSet) dateSet {
	common := a.newSet()
	a.each(p, s, func(month int, days uint32) { common[month] = days })
	return common
}

// each calls f for the months in which p holds dates of s.
func (a *almanac) each(p product, s dateSet, f func(month int, days uint32)) {
	for years := p[byYear]; years != 0; years &= years - 1 {
		start := bits.TrailingZeros64(years) * 12
		for months := p[byMonth]; months != 0; months &= months - 1 {
			month := start + bits.TrailingZeros64(months)
			if s[month] == 0 {
				continue
			}
			if days := a.days(p, month, s[month]); days != 0 {
				f(month, days)
			}
		}
	}
}

func (a *almanac) countCommon(p product, s dateSet) int {
	n := 0
	a.each(p, s, func(_ int, days uint32) { n += bits.OnesCount32(days) })
	return n
}

// grow makes a product as wide along one axis as it can be without holding a forbidden date.
func (a *almanac) grow(p product, axis int, forbidden dateSet) product {
	p[axis] = a.full[axis]
	var blocked uint64
	a.each(p, forbidden, func(month int, days uint32) {
		switch axis {
		case byYear:
			blocked |= 1 << (month / 12)
		case byMonth:
			blocked |= 1 << (month % 12)
		case byDay:
			blocked |= uint64(days)
		case byWeekday:
			for weekday := range 7 {
				if days&a.onWeekdays[a.begins[month]][1<<weekday] != 0 {
					blocked |= 1 << weekday
				}
			}
		}
	})
	p[axis] &^= blocked
	return p
}

// cover finds products that hold all needed dates and no forbidden one, as few as a greedy search
// finds. Needed and forbidden have no date in common. The result depends on nothing but the arguments.
func (a *almanac) cover(needed, forbidden dateSet) []product {
	rest := slices.Clone(needed)
	var chosen []product
	for left := rest.count(); left > 0; left = rest.count() {
		best := a.widest(rest, forbidden, left)
		chosen = append(chosen, best)
		rest.removeAll(a.common(best, rest))
	}
	return a.dropRedundant(chosen, needed)
}

// widest finds the product that holds most dates of rest, grown from some of them in each order of the
// axes. Left is the number of dates in rest.
func (a *almanac) widest(rest, forbidden dateSet, left int) product {
	var best product
	most := 0
	var try func(p product, used uint)
	try = func(p product, used uint) {
		if most == left {
			return
		}
		if used == 1<<len(p)-1 {
			if n := a.countCommon(p, rest); n > most {
				best, most = p, n
			}
			return
		}
		for axis := range p {
			if used>>axis&1 == 0 {
				try(a.grow(p, axis, forbidden), used|1<<axis)
			}
		}
	}
	for _, seed := range a.seeds(rest, left) {
		// What can be said of every year is, so that it holds in the years to come too.
		if everyYear := a.grow(seed, byYear, forbidden); everyYear[byYear] == a.full[byYear] {
			try(everyYear, 1<<byYear)
			continue
		}
		try(seed, 0)
	}
	return best
}

// seeds picks dates of a set, evenly spread, as products to grow.
func (a *almanac) seeds(s dateSet, count int) []product {
	const most = 8
	var list []product
	n, next := 0, 0
	for month, word := range s {
		for ; word != 0; word &= word - 1 {
			if n == next {
				list = append(list, a.single(month, bits.TrailingZeros32(word)))
				next = len(list) * max(count-1, 1) / (most - 1)
				next = max(next, n+1)
			}
			n++
		}
	}
	return list
}

func (a *almanac) setOf(p product) dateSet {
	s := a.newSet()
	for years := p[byYear]; years != 0; years &= years - 1 {
		start := bits.TrailingZeros64(years) * 12
		for months := p[byMonth]; months != 0; months &= months - 1 {
			month := start + bits.TrailingZeros64(months)
			s[month] = a.days(p, month, 1<<(a.lengths[month]+1)-2)
		}
	}
	return s
}

// dropRedundant leaves out products whose needed dates the others hold too, the smallest first.
func (a *almanac) dropRedundant(products []product, needed dateSet) []product {
	if len(products) < 2 {
		return products
	}
	type sized struct{ number, size int }
	sizes := make([]sized, len(products))
	holders := make([]uint16, len(needed)*32)
	for i, p := range products {
		sizes[i] = sized{i, a.countCommon(p, needed)}
		a.eachDate(p, needed, func(at int) { holders[at]++ })
	}
	slices.SortStableFunc(sizes, func(x, y sized) int { return x.size - y.size })
	drop := make([]bool, len(products))
	for _, s := range sizes {
		alone := false
		a.eachDate(products[s.number], needed, func(at int) { alone = alone || holders[at] == 1 })
		if !alone {
			drop[s.number] = true
			a.eachDate(products[s.number], needed, func(at int) { holders[at]-- })
		}
	}
	var kept []product
	for i, p := range products {
		if !drop[i] {
			kept = append(kept, p)
		}
	}
	return kept
}

func (a *almanac) eachDate(p product, s dateSet, f func(at int)) {
	a.each(p, s, func(month int, days uint32) {
		for ; days != 0; days &= days - 1 {
			f(month*32 + bits.TrailingZeros32(days))
		}
	})
}
