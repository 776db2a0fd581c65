package interval

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// Spec says when the ticks of a pipeline are. The zero Spec is not valid: one of Cron and Every must
// be set.
type Spec struct {
	// Cron is the cron text of the ticks; the package comment has its rules. One of Cron, Every.
	Cron string
	// Every is the elapsed time from one tick to the next, counted from Start: whole seconds, at least 1s.
	Every time.Duration
	// TimeZone is the IANA name of the zone in which Cron is read; "" means UTC. It has no influence on
	// the ticks of Every.
	TimeZone string
	// Start is where the first interval starts, in whole seconds. If it lies between two ticks of the
	// cron, the first interval is shorter than the others. The zero time means none: the grid then
	// extends into the past. Every needs it.
	Start time.Time
	// End is the last instant at which there may be a tick. The zero time means none.
	End time.Time
	// Since is where this grid took over from an earlier one: its first interval starts there, cut like
	// one that starts at Start, and ticks of Every keep counting from Start. It is without effect
	// before Start. The zero time means none.
	Since time.Time
}

// Grid is the sequence of the ticks of a Spec, and of the intervals between them. It does not change
// and may be used from many goroutines at once. Instants that its methods return are in UTC and in
// whole seconds; those that they take may have any zone and any fraction. Ticks lie in the years 1 to
// 9999, which is what RFC 3339 can write.
type Grid struct {
	loc      *time.Location
	cron     *cron // nil when the ticks come from every
	every    int64 // seconds
	anchor   int64 // what every is counted from
	hasStart bool
	first    int64 // ticks are later than this: the start, where the grid took over, or the beginning of year 1
	last     int64 // and not later than this
}

// The bounds of every grid, in Unix seconds.
const (
	firstSecond = -62_135_596_800 // 0001-01-01T00:00:00Z
	lastSecond  = 253_402_300_799 // 9999-12-31T23:59:59Z
)

// New checks a Spec and returns its Grid. The error is of type [Errors] and holds everything that is
// wrong with it.
func New(spec Spec) (*Grid, error) {
	g := &Grid{loc: time.UTC, every: int64(spec.Every / time.Second), first: firstSecond, last: lastSecond}
	var errs Errors
	errs = append(errs, g.readCadence(spec)...)
	errs = append(errs, g.readZone(spec)...)
	errs = append(errs, g.readBounds(spec)...)
	if len(errs) > 0 {
		return nil, errs
	}
	// A grid that takes over after its own end has no tick left, and is no mistake.
	if _, ok := g.next(&clock{loc: g.loc}, g.first); !ok && spec.Since.IsZero() {
		return nil, Errors{g.neverFires(spec)}
	}
	return g, nil
}

// neverFires explains a grid without a tick.
func (g *Grid) neverFires(spec Spec) *Error {
	if !spec.End.IsZero() {
		return &Error{Code: CodeNeverFires, Field: FieldEnd, Message: fmt.Sprintf("the schedule never fires between its start and its end %s", rfc3339(g.last))}
	}
	if g.cron != nil && g.cron.elapsed {
		return &Error{Code: CodeNeverFires, Field: FieldCron, Message: fmt.Sprintf(
			"cron %q never fires from the start on: the clocks of %s skip all of its times; write minute and hour without *, and a skipped time ticks after the gap", spec.Cron, g.loc)}
	}
	return &Error{Code: CodeNeverFires, Field: FieldStart, Message: "the schedule never fires: its first tick would be after the year 9999"}
}

func (g *Grid) readCadence(spec Spec) Errors {
	switch {
	case spec.Cron != "" && spec.Every != 0:
		return Errors{{Code: CodeCronAndEvery, Field: FieldEvery, Message: "a schedule has either cron or every, not both; remove one"}}
	case spec.Every != 0 && (spec.Every < 0 || spec.Every%time.Second != 0):
		return Errors{{Code: CodeBadEvery, Field: FieldEvery, Message: fmt.Sprintf("every %s: it must be a positive number of whole seconds, such as 15m", spec.Every)}}
	case spec.Every != 0 && spec.Start.IsZero():
		return Errors{{Code: CodeBadEvery, Field: FieldEvery, Message: fmt.Sprintf("every %s is counted from the start of the schedule, which is missing; give it a start date", spec.Every)}}
	case spec.Every != 0:
		return nil
	case spec.Cron == "":
		return Errors{{Code: CodeMissingCron, Field: FieldCron, Message: `a schedule needs cron, such as "0 6 * * *", or every, such as 15m`}}
	}
	var errs Errors
	g.cron, errs = parseCron(spec.Cron)
	return errs
}

func (g *Grid) readZone(spec Spec) Errors {
	loc, err := LoadLocation(spec.TimeZone)
	if err != nil {
		var known *Error
		if errors.As(err, &known) {
			return Errors{known}
		}
		return Errors{{Code: CodeUnknownTimeZone, Field: FieldTimeZone, Message: err.Error()}}
	}
	g.loc = loc
	return nil
}

func (g *Grid) readBounds(spec Spec) Errors {
	var errs Errors
	if !spec.Start.IsZero() {
		g.hasStart = true
		g.first = spec.Start.Unix()
		if err := checkBound(spec.Start, CodeBadStart, FieldStart); err != nil {
			errs = append(errs, err)
		}
	}
	g.anchor = g.first
	if !spec.Since.IsZero() {
		if err := checkBound(spec.Since, CodeBadStart, FieldStart); err != nil {
			errs = append(errs, err)
		}
		g.first, g.hasStart = max(g.first, spec.Since.Unix()), true
	}
	if !spec.End.IsZero() {
		g.last = spec.End.Unix()
		if err := checkBound(spec.End, CodeBadEnd, FieldEnd); err != nil {
			errs = append(errs, err)
		}
	}
	if g.last <= g.anchor && errs == nil {
		errs = append(errs, &Error{Code: CodeBadEnd, Field: FieldEnd,
			Message: fmt.Sprintf("the end %s is not after the start %s", rfc3339(g.last), rfc3339(g.first))})
	}
	return errs
}

func checkBound(t time.Time, code, field string) *Error {
	switch {
	case t.Nanosecond() != 0:
		return &Error{Code: code, Field: field, Message: fmt.Sprintf("the %s %s has a fraction of a second; write whole seconds", field, t.Format(time.RFC3339Nano))}
	case floor(t) < firstSecond || floor(t) > lastSecond:
		return &Error{Code: code, Field: field, Message: fmt.Sprintf("the %s %s is outside of the years 1 to 9999", field, t.Format(time.RFC3339))}
	}
	return nil
}

// Location returns the zone in which the grid's cron is read; UTC when the Spec names none.
func (g *Grid) Location() *time.Location { return g.loc }

// Next returns the first tick strictly after an instant; ok is false when there is none.
func (g *Grid) Next(after time.Time) (tick time.Time, ok bool) {
	t, ok := g.next(&clock{loc: g.loc}, floor(after))
	if !ok {
		return time.Time{}, false
	}
	return instant(t), true
}

// Between returns, in order, the intervals whose Start lies in [from, to). It is lazy: a range
// without an end costs what is taken of it.
func (g *Grid) Between(from, to time.Time) iter.Seq[Interval] {
	return func(yield func(Interval) bool) {
		c := &clock{loc: g.loc}
		start, ok := g.startAtLeast(c, ceil(from))
		for end := ceil(to); ok && start < end; {
			var tick int64
			if tick, ok = g.next(c, start); !ok || !yield(newInterval(start, tick)) {
				return
			}
			start = tick
		}
	}
}

// startAtLeast returns the first instant >= t at which an interval starts.
func (g *Grid) startAtLeast(c *clock, t int64) (int64, bool) {
	if g.hasStart && t <= g.first {
		return g.first, true
	}
	return g.next(c, t-1)
}

// At returns the interval that ends at tick; ok is false when tick is no tick of the grid.
func (g *Grid) At(tick time.Time) (iv Interval, ok bool) {
	if tick.Nanosecond() != 0 {
		return Interval{}, false
	}
	c := &clock{loc: g.loc}
	end, ok := g.prev(c, floor(tick))
	if !ok || end != floor(tick) {
		return Interval{}, false
	}
	return g.endingAt(c, end)
}

// endingAt returns the interval that ends at a tick. Only the first tick of a grid without a start has none.
func (g *Grid) endingAt(c *clock, tick int64) (Interval, bool) {
	start, ok := g.prev(c, tick-1)
	switch {
	case ok:
	case g.hasStart:
		start = g.first
	default:
		return Interval{}, false
	}
	return newInterval(start, tick), true
}

// LastCompleted returns the newest interval with End <= now; ok is false when none has ended by then.
func (g *Grid) LastCompleted(now time.Time) (iv Interval, ok bool) {
	c := &clock{loc: g.loc}
	tick, ok := g.prev(c, floor(now))
	if !ok {
		return Interval{}, false
	}
	return g.endingAt(c, tick)
}

// Owner returns the interval that contains t; ok is false before the start and after the last tick.
func (g *Grid) Owner(t time.Time) (iv Interval, ok bool) {
	c := &clock{loc: g.loc}
	if g.hasStart && floor(t) < g.first {
		return Interval{}, false
	}
	tick, ok := g.next(c, floor(t))
	if !ok {
		return Interval{}, false
	}
	return g.endingAt(c, tick)
}

// StartingAt returns the interval that starts at exactly this instant. When there is none, the error
// is an [*Error] that names the nearest starts around it.
func (g *Grid) StartingAt(start time.Time) (Interval, error) {
	c := &clock{loc: g.loc}
	if t := floor(start); start.Nanosecond() == 0 {
		if found, ok := g.startAtLeast(c, t); ok && found == t {
			if tick, ok := g.next(c, t); ok {
				return newInterval(t, tick), nil
			}
		}
	}
	return Interval{}, g.noInterval(start)
}

// noInterval explains that no interval starts at an instant.
func (g *Grid) noInterval(start time.Time) *Error {
	c := &clock{loc: g.loc}
	around := "it has none around it"
	if owner, ok := g.Owner(start); ok {
		around = "it lies in the one that starts at " + g.show(c, owner.Start.Unix())
		if _, ok := g.next(c, owner.End.Unix()); ok {
			around += "; the next one starts at " + g.show(c, owner.End.Unix())
		}
	} else if g.hasStart && floor(start) < g.first {
		around = "the first one starts at " + g.show(c, g.first)
	} else if last, ok := g.LastCompleted(start); ok {
		around = "the last one starts at " + g.show(c, last.Start.Unix())
	}
	return &Error{Code: CodeNoInterval, Message: fmt.Sprintf("no interval of the schedule starts at %s: %s",
		start.UTC().Format(time.RFC3339Nano), around)}
}

// show writes an instant in UTC and, if that differs, in the grid's zone.
func (g *Grid) show(c *clock, t int64) string {
	utc, local := rfc3339(t), c.show(t)
	if utc == local {
		return utc
	}
	return utc + " (" + local + ")"
}

// MidnightOnly reports whether every interval consists of whole local days: the start and every tick
// are the first instant of a day in the grid's zone. Only then can an interval be written as dates.
//
// It is false for a cron whose minute or hour field begins with *, even if it allows 0 alone: such a
// cron ticks twice when midnight occurs twice.
func (g *Grid) MidnightOnly() bool {
	c := &clock{loc: g.loc}
	switch {
	case g.hasStart && g.first != c.startOfDay(g.first):
		return false
	case g.cron == nil:
		return g.every%secondsPerDay == 0 && c.isFixedFrom(g.first)
	}
	const zeroOnly = 1
	return !g.cron.elapsed && g.cron.minute == zeroOnly && g.cron.hour == zeroOnly
}

// next returns the first tick after an instant.
func (g *Grid) next(c *clock, after int64) (tick int64, ok bool) {
	after = max(after, g.first)
	if after >= g.last {
		return 0, false
	}
	switch {
	case g.cron == nil:
		tick = g.anchor + (floorDiv(after-g.anchor, g.every)+1)*g.every
	case g.cron.elapsed:
		tick, ok = g.nextShown(c, after+1)
		return tick, ok && tick <= g.last
	default:
		tick = c.reach(g.cron.next(c.latest(after) + 1))
	}
	return tick, tick <= g.last
}

// prev returns the last tick at or before an instant.
func (g *Grid) prev(c *clock, t int64) (tick int64, ok bool) {
	t = min(t, g.last)
	if t <= g.first {
		return 0, false
	}
	switch {
	case g.cron == nil:
		tick = g.anchor + floorDiv(t-g.anchor, g.every)*g.every
	case g.cron.elapsed:
		tick, ok = g.prevShown(c, t)
		return tick, ok && tick > g.first
	default:
		tick = c.reach(g.cron.prev(c.latest(t)))
	}
	return tick, tick > g.first
}

// nextShown returns the first instant >= t whose local time the cron matches; ok is false when there
// is none. That can be: in a zone that sets its clocks forward on the last Sunday of March at 2:00,
// "*/5 2 25-31 3 */7" names only times that are skipped.
func (g *Grid) nextShown(c *clock, t int64) (tick int64, ok bool) {
	// Clock changes follow a rule of the calendar from lastListedChange on, and the calendar repeats.
	horizon := min(g.last, max(t, lastListedChange)+gregorianCycle*secondsPerDay)
	for t <= horizon {
		s := c.stretch(t)
		local := g.cron.next(t + s.offset)
		if tick = local - s.offset; tick < s.end {
			return tick, true
		}
		if s.end-t < maxShift {
			t = s.end
			continue
		}
		// A clock that is set back after this stretch shows matching times before t again only until
		// maxShift after t, and it shows local itself no earlier than maxShift before it would here.
		t = max(s.end, local-s.offset-maxShift)
	}
	return 0, false
}

// prevShown returns the last instant <= t whose local time the cron matches; ok is false when there is
// none after the grid's beginning.
func (g *Grid) prevShown(c *clock, t int64) (tick int64, ok bool) {
	for t > g.first {
		s := c.stretch(t)
		local := g.cron.prev(t + s.offset)
		if tick = local - s.offset; tick >= s.start {
			return tick, true
		}
		if t-s.start < maxShift {
			t = s.start - 1
			continue
		}
		t = min(s.start-1, local-s.offset+maxShift)
	}
	return 0, false
}

func newInterval(start, end int64) Interval {
	return Interval{Start: instant(start), End: instant(end)}
}

func instant(t int64) time.Time { return time.Unix(t, 0).UTC() }

func rfc3339(t int64) string { return instant(t).Format(time.RFC3339) }

// floor and ceil turn an instant into whole Unix seconds. An instant beyond what a grid can hold
// becomes one just beyond it, because its Unix seconds might overflow.
func floor(t time.Time) int64 {
	switch year := t.UTC().Year(); {
	case year < 1:
		return firstSecond - 1
	case year > 9999:
		return lastSecond + 1
	}
	return t.Unix()
}

func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return floor(t) + 1
	}
	return floor(t)
}
