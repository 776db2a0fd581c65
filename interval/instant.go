package interval

import (
	"fmt"
	"strings"
	"time"
)

// ParseInstant reads the dates and times of pipeline files and command line flags:
//
//	2026-01-15                  the first instant of that day in loc; midnight unless the clock skips it
//	2026-01-15T10:00            a local time in loc; also 2026-01-15T10:00:00, and a blank for the T
//	2026-01-15T10:00:00+07:00   an instant; also with Z for UTC, and without the seconds
//
// A nil loc means UTC. The result is in UTC. It depends on nothing but the arguments: not on the
// host's zone, and on the pinned database when loc comes from it.
//
// The error is an [*Error]: with [CodeBadTime] for text of another form, fractions of a second and
// dates that no calendar has; with [CodeNonexistentTime] for a local time, or a whole day, that the
// clock of loc skips; with [CodeAmbiguousTime] for a local time that it shows twice. In the last two
// cases the message says what to write instead.
func ParseInstant(text string, loc *time.Location) (time.Time, error) {
	if loc == nil {
		loc = time.UTC
	}
	p := &instantParser{text: text, rest: text}
	w := p.wallTime()
	if p.err != nil {
		return time.Time{}, p.err
	}
	c := &clock{loc: loc}
	t, err := w.resolve(c, text)
	if err != nil {
		return time.Time{}, err
	}
	if t <= firstSecond || t > lastSecond {
		return time.Time{}, &Error{Code: CodeBadTime, Message: fmt.Sprintf("time %q is outside of the years 1 to 9999 in UTC", text)}
	}
	return instant(t), nil
}

// wallTime is what a text says, before it is looked up in a zone.
type wallTime struct {
	local     int64 // as a local time of package clock
	dateOnly  bool
	hasOffset bool
	offset    int64 // seconds east of UTC
}

// resolve finds the instant of a wall time.
func (w wallTime) resolve(c *clock, text string) (int64, error) {
	if w.hasOffset {
		return w.local - w.offset, nil
	}
	if w.dateOnly {
		t := c.reach(w.local)
		if local := t + c.stretch(t).offset; floorDiv(local, secondsPerDay) != floorDiv(w.local, secondsPerDay) {
			return 0, &Error{Code: CodeNonexistentTime, Message: fmt.Sprintf(
				"date %q does not exist in %s: its clocks skip that day; the first instant after it is %s", text, c.loc, c.show(t))}
		}
		return t, nil
	}
	switch found := c.occurrences(w.local); len(found) {
	case 0:
		return 0, &Error{Code: CodeNonexistentTime, Message: fmt.Sprintf(
			"time %q does not exist in %s: its clocks skip it; the first instant after it is %s", text, c.loc, c.show(c.reach(w.local)))}
	case 1:
		return found[0], nil
	default:
		return 0, &Error{Code: CodeAmbiguousTime, Message: fmt.Sprintf(
			"time %q occurs twice in %s: write %s or %s", text, c.loc, c.show(found[0]), c.show(found[1]))}
	}
}

// show writes an instant in local time with its offset, or in UTC when the offset is no whole minute
// and therefore cannot be written.
func (c *clock) show(t int64) string {
	if c.offset(t)%60 != 0 {
		return rfc3339(t)
	}
	return time.Unix(t, 0).In(c.loc).Format(time.RFC3339)
}

// instantParser reads a text from left to right and stops at the first error.
type instantParser struct {
	text, rest string
	err        error
}

func (p *instantParser) fail(format string, args ...any) {
	if p.err != nil {
		return
	}
	p.err = &Error{Code: CodeBadTime, Column: len(p.text) - len(p.rest) + 1,
		Message: fmt.Sprintf("time %s: %s", excerpt(p.text), fmt.Sprintf(format, args...))}
}

func (p *instantParser) failForm() {
	p.fail("this is neither a date (2026-01-15) nor a date and a time (2026-01-15T10:00, 2026-01-15T10:00:00+07:00)")
}

// number reads exactly so many digits.
func (p *instantParser) number(digits int) int {
	if len(p.rest) < digits || !allDigits(p.rest[:digits]) {
		p.failForm()
		return 0
	}
	n := 0
	for _, digit := range []byte(p.rest[:digits]) {
		n = n*10 + int(digit-'0')
	}
	p.rest = p.rest[digits:]
	return n
}

// upTo reads two digits that stand for a number up to limit.
func (p *instantParser) upTo(limit int, noun string) int64 {
	before := p.rest
	n := p.number(2)
	if n > limit {
		p.rest = before
		p.fail("%s go from 00 to %d", noun, limit)
	}
	return int64(n)
}

// accept reads one of the characters if it comes next.
func (p *instantParser) accept(characters string) bool {
	if p.err != nil || p.rest == "" || !strings.Contains(characters, p.rest[:1]) {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *instantParser) expect(character string) {
	if !p.accept(character) {
		p.failForm()
	}
}

func (p *instantParser) wallTime() wallTime {
	w := wallTime{local: p.date() * secondsPerDay}
	if p.err == nil && p.rest == "" {
		w.dateOnly = true
		return w
	}
	p.expect("T ")
	w.local += p.timeOfDay()
	w.offset, w.hasOffset = p.zone()
	if p.rest != "" {
		p.failForm()
	}
	return w
}

// date reads a date that the Gregorian calendar has, and returns its days since 1970-01-01.
func (p *instantParser) date() int64 {
	year := p.number(4)
	p.expect("-")
	month := p.number(2)
	p.expect("-")
	day := p.number(2)
	if p.err != nil {
		return 0
	}
	p.rest = p.text
	switch length := daysIn(year, month); {
	case year < 1:
		p.fail("years go from 0001 to 9999")
	case month < 1 || month > 12:
		p.fail("months go from 01 to 12")
	case day < 1 || day > length:
		p.fail("%s %d has the days 1 to %d", time.Month(month), year, length)
	}
	p.rest = p.text[len(time.DateOnly):]
	return daysSinceEpoch(year, time.Month(month), day)
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// timeOfDay reads hh:mm or hh:mm:ss and returns seconds.
func (p *instantParser) timeOfDay() int64 {
	seconds := p.upTo(23, "hours") * 3600
	p.expect(":")
	seconds += p.upTo(59, "minutes") * 60
	if p.accept(":") {
		seconds += p.upTo(59, "seconds")
		if strings.HasPrefix(p.rest, ".") || strings.HasPrefix(p.rest, ",") {
			p.fail("fractions of a second are not supported; write whole seconds")
		}
	}
	return seconds
}

// zone reads Z or an offset and returns seconds east of UTC, if there is one.
func (p *instantParser) zone() (offset int64, ok bool) {
	if p.accept("Z") {
		return 0, true
	}
	sign := int64(1)
	switch {
	case p.accept("-"):
		sign = -1
	case p.accept("+"):
	default:
		return 0, false
	}
	offset = p.upTo(23, "hours of an offset") * 3600
	p.expect(":")
	offset += p.upTo(59, "minutes of an offset") * 60
	return sign * offset, true
}
