package interval

import (
	"iter"
	"sort"
	"time"
)

// Bounds of local clocks. A test holds them against every zone of the pinned database.
const (
	// maxOffset is further from UTC, in seconds, than any local clock has ever been; the widest is
	// Manila's before 1844, 15:56:08 behind.
	maxOffset = 16 * 3600
	// maxShift bounds what any one clock can jump, in seconds.
	maxShift = 2 * maxOffset
	// chunk is a span of time, in seconds (about three days), in which a local clock changes its
	// offset at most once. The closest two changes of any zone are 95 hours apart. A power of two, so
	// that chunks are aligned by masking.
	chunk = 1 << 18
	// lastListedChange is 2100-01-01T00:00:00Z. No zone of the database lists a change after it; beyond
	// its last listed change, a zone follows a rule that applies every year, or changes no more.
	lastListedChange = 4_102_444_800
)

// stretch is a span [start, end) of Unix seconds in which the offset from UTC, in seconds, does not
// change. It need not be the longest such span.
type stretch struct{ start, end, offset int64 }

// clock is the local clock of a zone. It remembers the last stretch it looked at, so that walking
// along time costs next to nothing; it is not safe for concurrent use, but cheap to make.
//
// Local times are seconds too: the Unix seconds at which a clock in UTC shows the same date and time.
type clock struct {
	loc  *time.Location
	last stretch
}

func (c *clock) offset(t int64) int64 {
	_, offset := time.Unix(t, 0).In(c.loc).Zone()
	return int64(offset)
}

// stretch returns a stretch that contains t. Neighbours with the same offset are joined while a
// caller walks along.
func (c *clock) stretch(t int64) stretch {
	if c.last.start <= t && t < c.last.end {
		return c.last
	}
	s := c.measure(t)
	if s.offset == c.last.offset {
		switch {
		case s.start == c.last.end:
			s.start = c.last.start
		case s.end == c.last.start:
			s.end = c.last.end
		}
	}
	c.last = s
	return s
}

// measure finds the stretch within t's chunk by bisection. time.Time.ZoneBounds would be the obvious
// way, but after a zone's last listed change it ends at the end of the year and can lie before the
// instant it is asked for (golang/go#81583).
func (c *clock) measure(t int64) stretch {
	start := t &^ (chunk - 1)
	end := start + chunk
	before, after := c.offset(start), c.offset(end-1)
	if before == after {
		return stretch{start, end, before}
	}
	change := start + int64(sort.Search(chunk-1, func(i int) bool {
		return c.offset(start+int64(i)) != before
	}))
	if t < change {
		return stretch{start, change, before}
	}
	return stretch{change, end, after}
}

// latest returns the latest local time that the clock has shown up to and including t. It is t's own
// local time except after the clock has been set back.
func (c *clock) latest(t int64) int64 {
	for u, high := t-maxShift, t-maxOffset; ; {
		s := c.stretch(u)
		if t < s.end {
			return max(high, t+s.offset)
		}
		high = max(high, s.end-1+s.offset)
		u = s.end
	}
}

// reach returns the first instant at which the clock shows local or a later time: local's first
// occurrence or, when it is skipped, the first instant after the gap.
func (c *clock) reach(local int64) int64 {
	for u := local - maxOffset; ; {
		s := c.stretch(u)
		if t := max(u, local-s.offset); t < s.end {
			return t
		}
		u = s.end
	}
}

// occurrences returns the instants at which the clock shows local, in order: usually one, none when
// it is skipped, two when the clock is set back over it.
func (c *clock) occurrences(local int64) []int64 {
	var found []int64
	for u := local - maxOffset; u <= local+maxOffset; {
		s := c.stretch(u)
		if t := local - s.offset; u <= t && t < s.end {
			found = append(found, t)
		}
		u = s.end
	}
	return found
}

// startOfDay returns the first instant of the local day that t lies in.
func (c *clock) startOfDay(t int64) int64 {
	local := t + c.stretch(t).offset
	return c.reach(floorDiv(local, secondsPerDay) * secondsPerDay)
}

// isFixedFrom reports whether the clock never changes its offset after t.
func (c *clock) isFixedFrom(t int64) bool {
	const twoYears = 2 * 366 * secondsPerDay // enough to see a rule that applies every year
	for range c.changes(t, max(t, lastListedChange)+twoYears) {
		return false
	}
	return true
}

// changes returns the instants in (from, to) from which the clock has another offset than before.
func (c *clock) changes(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		s := c.stretch(from)
		for s.end < to {
			next := c.stretch(s.end)
			if next.offset != s.offset && !yield(s.end) {
				return
			}
			s = next
		}
	}
}

// ClockChanges returns, in order, the instants in [from, to) at which the clocks of a zone change
// their offset from UTC. A change of the zone's abbreviation alone is none. The instants are exact for
// zones from [LoadLocation].
func ClockChanges(loc *time.Location, from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		c := &clock{loc: loc}
		for t := range c.changes(ceil(from)-1, ceil(to)) {
			if !yield(instant(t)) {
				return
			}
		}
	}
}
