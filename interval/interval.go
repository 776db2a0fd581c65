// Package interval says which stretch of data time a pipeline run owns.
//
// A [Spec] (cron text or an elapsed duration, a time zone, a start) becomes a [Grid]: an endless
// sequence of instants, the ticks. The interval of a tick is [previous tick, tick); it is complete,
// and its run becomes due, at the tick. Intervals of one grid tile time: no gap and no overlap, in
// every time zone, whatever its clocks do.
//
// The package is pure. It reads no clock, no file and no environment, and takes its time zones from
// a database that it carries itself, so every process of one release computes the same instants on
// every host. It may be called from workflow code.
//
// # Cron text
//
// Five fields, separated by blanks: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or
// jan-dec), day of week (0-7 or sun-sat; 0 and 7 are both Sunday). A field is a list, separated by
// commas, of *, a, a-b, each with an optional /step. Names may be written with three letters or in
// full, in any case. Where the crons in use differ, the rules here are:
//
//   - When both day fields are restricted, a day that matches either is taken; when one of them
//     begins with * (also */2), a day must match both. This is the rule of Vixie cron.
//   - a/n means from a to the end of the field in steps of n: 5/20 is 5-59/20.
//   - A range of week days may end with sun: fri-sun is Friday to Sunday.
//   - ? is read as *, in the two day fields only.
//   - A step may not exceed the number of values of its field: */90 in the minute field is an error,
//     because only minute 0 would be left.
//   - @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for the five fields
//     they stand for everywhere.
//
// Seconds, years, L, W, #, H, @every, @reboot, ranges that wrap around (22-2) and CRON_TZ= are not
// supported; the error says what to write instead.
//
// # Clock changes
//
// A cron whose minute and hour fields both do not begin with * names fixed times of day. A fixed time
// ticks once for each date it is due on: at the first instant at which the local clock has reached
// it. So a time that occurs twice ticks the first time, and a time that is skipped ticks at the first
// instant after the gap. Fixed times that are skipped together share that one tick.
//
// A cron whose minute or hour field begins with * follows elapsed time: it ticks at every instant
// whose local time matches. On a day of 25 hours an hourly cron ticks 25 times.
//
// Every is elapsed time from Start, in any zone: 24h is not a calendar day.
package interval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Interval is a half-open stretch of data time [Start, End): Start belongs to it, End does not.
// Both are in UTC and whole seconds in every interval that a [Grid] returns, and can then be compared
// with ==.
type Interval struct {
	Start time.Time `json:"start"` // RFC 3339, UTC
	End   time.Time `json:"end"`   // RFC 3339, UTC; the tick at which the interval's run becomes due
}

// Contains reports whether Start <= t < End.
func (iv Interval) Contains(t time.Time) bool {
	return !t.Before(iv.Start) && t.Before(iv.End)
}

// Duration is the elapsed time from Start to End. A local day of 23 hours is 23h.
func (iv Interval) Duration() time.Duration { return iv.End.Sub(iv.Start) }

// IsZero reports whether iv is the zero Interval, which owns nothing.
func (iv Interval) IsZero() bool { return iv.Start.IsZero() && iv.End.IsZero() }

// String gives the interval in the notation of ISO 8601, start and end in UTC:
// "2026-01-15T00:00:00Z/2026-01-16T00:00:00Z".
func (iv Interval) String() string {
	return iv.Start.UTC().Format(time.RFC3339) + "/" + iv.End.UTC().Format(time.RFC3339)
}

// UnmarshalJSON accepts only what a Grid can have produced: two instants in whole seconds, the end
// after the start, and no other key; or the zero Interval. Offsets are converted to UTC. A decoder's
// DisallowUnknownFields does not reach into this method, which is why it is strict by itself.
func (iv *Interval) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	type plain Interval
	var p plain
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("interval %s: %w", data, err)
	}
	got := Interval{Start: p.Start.UTC(), End: p.End.UTC()}
	switch {
	case got.Start.Nanosecond() != 0 || got.End.Nanosecond() != 0:
		return fmt.Errorf("interval %s: start and end must be whole seconds", data)
	case !got.IsZero() && !got.End.After(got.Start):
		return fmt.Errorf("interval %s: the end must be after the start", data)
	}
	*iv = got
	return nil
}
