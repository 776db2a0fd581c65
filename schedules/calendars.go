package schedules

import (
	"fmt"
	"time"
	"unicode/utf8"

	schedulepb "go.temporal.io/api/schedule/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/trancheflow/tranche/interval"
)

// Ticks is the part of a Temporal Schedule's spec that says when it fires: calendars, or one interval.
// The bounds, start time and end time, are the caller's to add; see From.
type Ticks struct {
	// Calendars match the ticks of a cron. A tick that several of them match fires once.
	Calendars []*schedulepb.StructuredCalendarSpec
	// Interval holds the ticks of every; nil for a cron.
	Interval *schedulepb.IntervalSpec
	// TimeZone is the IANA name of the zone in which the Calendars are read: "UTC" when they were
	// compiled from instants.
	TimeZone string
	// From is the first instant from which the firings are the ticks of the grid. The Schedule must not
	// fire before it: its start time, which Temporal takes as inclusive, is From. It is one second
	// after the spec's Start, because a tick is later than the start. It is the beginning of a later year
	// when compiled calendars would otherwise reach back to before 2000, or over more than five years of
	// irregular clock changes: older intervals are run by a backfill, not by the Schedule. The zero time
	// means no bound.
	From time.Time
	// Exact is the last instant until which the firings are the ticks: the end of the tenth year after
	// now's. Afterwards ticks may be missing; there is no wrong firing before the end of the 38th year.
	// The zero time, as in all zones whose clocks follow a rule, means that they are exact until the
	// spec's End or, without one, as far as Temporal's calendars go, to the end of the year 2100.
	Exact time.Time
	// Plain says that the spec means what the pipeline file says, in its own zone, and that an operator
	// can read it. Otherwise the Calendars are compiled from the grid's ticks.
	Plain bool
	// Shortened says that the calendars of ten years were too many, so that Exact is the end of the fifth
	// or of the second year after now's.
	Shortened bool
}

// Compile says how a Temporal Schedule fires at the ticks of a spec, in each of three ways:
//
//   - every is an interval with a phase;
//   - a cron in a zone whose clocks do not change after the start is written as calendars in that zone,
//     one, or two when a day of the month or a day of the week will do;
//   - any other cron is compiled into calendars in UTC, because Temporal reads calendars in such zones
//     otherwise than Tranche on the days around a clock change, and loses ticks.
//
// In a zone whose clocks follow a rule, such as "the last Sunday of March", compiled calendars are exact
// for ever and do not depend on now: a change of the time zone database alone changes them. In the few
// others, such as Africa/Casablanca, they are exact for ten years; of now only the year in UTC counts, so
// that two compilations in one year give equal bytes.
//
// The comment stands in the first calendar, cut to the 200 bytes that Temporal takes; it is meant to
// be the text of the cron.
//
// The error is an [interval.Errors] when the spec is not valid. It is another one when Temporal cannot
// express it: no tick from 2000 to 2100, or more than 1,000 calendars even for two years.
func Compile(spec interval.Spec, comment string, now time.Time) (Ticks, error) {
	grid, err := interval.New(spec)
	if err != nil {
		return Ticks{}, err
	}
	if spec.Start.After(lastInstant) || !spec.End.IsZero() && spec.End.Before(firstInstant) {
		return Ticks{}, noTick(spec)
	}
	fields, isCron := grid.Fields()
	switch {
	case !isCron:
		return everyTicks(spec, now)
	case fixedOffset(grid.Location(), spec.Start):
		return plainTicks(spec, fields, comment), nil
	default:
		return compile(spec, grid.Location(), fields, comment, now, defaultLimits)
	}
}

// everyTicks writes elapsed time as an interval counted from 1970.
//
// server v1.32.1, service/worker/scheduler/spec.go nextIntervalTime: the division rounds towards zero,
// so nothing fires at or before the phase.
func everyTicks(spec interval.Spec, now time.Time) (Ticks, error) {
	length := int64(spec.Every / time.Second)
	phase := (spec.Start.Unix()%length + length) % length
	if phase > max(now.Unix(), spec.Start.Unix()) {
		return Ticks{}, fmt.Errorf("every %s from %s: Temporal counts intervals from 1970 and would miss the first tick; use a start after 1970",
			spec.Every, spec.Start.UTC().Format(time.RFC3339))
	}
	return Ticks{
		Interval: &schedulepb.IntervalSpec{
			Interval: durationpb.New(spec.Every),
			Phase:    durationpb.New(time.Duration(phase) * time.Second),
		},
		TimeZone: "UTC",
		From:     afterStart(spec),
		Plain:    true,
	}, nil
}

// afterStart is the first whole second at which a spec may have a tick.
func afterStart(spec interval.Spec) time.Time {
	if spec.Start.IsZero() {
		return time.Time{}
	}
	return spec.Start.UTC().Add(time.Second)
}

// fixedOffset reports whether the clocks of a zone never change after start, or shortly before it,
// where Temporal's reading of the first hours may still go wrong. A zero start is all of the time that
// Temporal's calendars know.
func fixedOffset(loc *time.Location, start time.Time) bool {
	const margin = 48 * time.Hour
	if start.IsZero() {
		start = firstInstant
	}
	for range interval.ClockChanges(loc, start.Add(-margin), lastInstant.Add(margin)) {
		return false
	}
	return true
}

// plainTicks writes the fields of a cron as calendars.
func plainTicks(spec interval.Spec, fields interval.Fields, comment string) Ticks {
	var calendars []*schedulepb.StructuredCalendarSpec
	for _, days := range dayFields(fields) {
		calendars = append(calendars, &schedulepb.StructuredCalendarSpec{
			Second:     rangesOf([]int{0}),
			Minute:     rangesOf(fields.Minutes),
			Hour:       rangesOf(fields.Hours),
			DayOfMonth: rangesOf(values(days.days)),
			Month:      rangesOf(fields.Months),
			DayOfWeek:  rangesOf(values(days.weekdays)),
		})
	}
	zone := spec.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return Ticks{Calendars: withComment(calendars, comment), TimeZone: zone, From: afterStart(spec), Plain: true}
}

// dayMasks are the days that a calendar matches. Temporal wants both to match.
type dayMasks struct{ days, weekdays uint64 }

// dayFields turns the day fields of a cron into masks of which one must match.
func dayFields(fields interval.Fields) []dayMasks {
	days, weekdays := maskOf(fields.DaysOfMonth), maskOf(fields.Weekdays)
	switch {
	case !fields.EitherDay:
		return []dayMasks{{days, weekdays}}
	case days == everyDay || weekdays == everyWeekday:
		return []dayMasks{{everyDay, everyWeekday}}
	default:
		return []dayMasks{{days, everyWeekday}, {everyDay, weekdays}}
	}
}

// withComment puts the comment into the first calendar.
func withComment(calendars []*schedulepb.StructuredCalendarSpec, comment string) []*schedulepb.StructuredCalendarSpec {
	const longest = 200 // server v1.32.1, service/worker/scheduler/calendar.go maxCommentLen, in bytes
	if len(comment) > longest {
		const dots = "..."
		end := longest - len(dots)
		for !utf8.RuneStart(comment[end]) {
			end--
		}
		comment = comment[:end] + dots
	}
	if len(calendars) > 0 {
		calendars[0].Comment = comment
	}
	return calendars
}

// Spec returns the ticks as a Schedule's spec without bounds. It shares the calendars with t.
func (t Ticks) Spec() *schedulepb.ScheduleSpec {
	spec := &schedulepb.ScheduleSpec{StructuredCalendar: t.Calendars, TimezoneName: t.TimeZone}
	if t.Interval != nil {
		spec.Interval = []*schedulepb.IntervalSpec{t.Interval}
	}
	return spec
}

// Size is how many bytes the ticks take in a Schedule's spec.
func (t Ticks) Size() int { return proto.Size(t.Spec()) }
