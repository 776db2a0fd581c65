package schedules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/schedules"
)

// now is an arbitrary instant of the year from which the tests count.
var now = time.Date(2026, 11, 30, 17, 45, 12, 345, time.UTC)

func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := interval.ParseInstant(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func compile(t testing.TB, spec interval.Spec) schedules.Ticks {
	t.Helper()
	ticks, err := schedules.Compile(spec, spec.Cron, now)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return ticks
}

// brief prints calendars as "hours:minutes:seconds days/months/years weekdays".
func brief(ticks schedules.Ticks) string {
	var lines []string
	for _, c := range ticks.Calendars {
		text := fmt.Sprint(c.GetHour(), c.GetMinute(), c.GetSecond(), c.GetDayOfMonth(), c.GetMonth(), c.GetYear(), c.GetDayOfWeek())
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func TestPlainCalendars(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec      interval.Spec
		calendars int
	}{
		{interval.Spec{Cron: "30 2 * * *"}, 1},
		{interval.Spec{Cron: "*/20 6-20 * * mon-fri"}, 1},
		{interval.Spec{Cron: "*/45 * * * *"}, 1},
		{interval.Spec{Cron: "30 4 1,15 * 5"}, 2},
		{interval.Spec{Cron: "0 9 */2 * 1"}, 1},
		{interval.Spec{Cron: "0 9 1-31 * 1"}, 1},
		{interval.Spec{Cron: "0 9 31 * 0-6"}, 1},
		{interval.Spec{Cron: "0 0 1 * *", TimeZone: "Asia/Jakarta"}, 1},
		{interval.Spec{Cron: "0 0 29 2 *", TimeZone: "Asia/Kolkata"}, 1},
		{interval.Spec{Cron: "0 3 * * *", TimeZone: "Europe/Istanbul", Start: utc(t, "2017-01-01")}, 1},
	}
	for _, test := range tests {
		ticks := compile(t, test.spec)
		if !ticks.Plain || !ticks.Exact.IsZero() || len(ticks.Calendars) != test.calendars {
			t.Errorf("%+v: plain %v, exact until %s:\n%s", test.spec, ticks.Plain, ticks.Exact, brief(ticks))
		}
		if zone := test.spec.TimeZone; zone != "" && ticks.TimeZone != zone || zone == "" && ticks.TimeZone != "UTC" {
			t.Errorf("%+v: zone %q", test.spec, ticks.TimeZone)
		}
		if err := ticks.Check(test.spec, utc(t, "2026-01-01"), utc(t, "2037-01-01")); err != nil {
			t.Errorf("%+v: %v\n%s", test.spec, err, brief(ticks))
		}
	}
}

// A zone that has stopped changing its clocks is plain only when the start comes after the last change.
func TestPlainFollowsFromTheDefinition(t *testing.T) {
	t.Parallel()
	for start, plain := range map[string]bool{"2015-01-01": false, "2016-03-28": false, "2016-03-30": true, "2026-01-01": true} {
		for _, now := range []time.Time{now, utc(t, "2050-01-01")} {
			spec := interval.Spec{Cron: "0 3 * * *", TimeZone: "Europe/Istanbul", Start: utc(t, start)}
			ticks, err := schedules.Compile(spec, "", now)
			if err != nil || ticks.Plain != plain {
				t.Errorf("from %s: plain %v, %v", start, ticks.Plain, err)
			}
		}
	}
}

func TestEveryTicks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		every time.Duration
		start string
		first string
	}{
		{24 * time.Hour, "2026-03-07T19:37:00", "2026-03-08T19:37:00"},
		{24 * time.Hour, "2026-07-01T01:15:00+09:00", "2026-07-01T16:15:00"},
		{7 * time.Hour, "2026-05-10T01:30:07", "2026-05-10T08:30:07"},
		{time.Second, "2026-05-10", "2026-05-10T00:00:01"},
		{1000 * time.Hour, "1969-05-10", "1969-06-20T16:00"},
	} {
		spec := interval.Spec{Every: test.every, Start: utc(t, test.start), TimeZone: "America/New_York"}
		ticks := compile(t, spec)
		firings, err := ticks.Firings(spec.Start, now)
		if err != nil {
			t.Fatal(err)
		}
		for at := range firings {
			if !at.Equal(utc(t, test.first)) {
				t.Errorf("every %s from %s fires first at %s, want %s", test.every, test.start, at, test.first)
			}
			break
		}
		if err := ticks.Check(spec, spec.Start, spec.Start.Add(500*test.every)); err != nil {
			t.Errorf("every %s from %s: %v", test.every, test.start, err)
		}
		if !ticks.Plain || !ticks.Exact.IsZero() || len(ticks.Calendars) > 0 || !ticks.From.Equal(spec.Start.Add(time.Second)) {
			t.Errorf("every %s from %s: %+v", test.every, test.start, ticks)
		}
	}
	if ticks, err := schedules.Compile(interval.Spec{Every: 100 * 365 * 24 * time.Hour, Start: utc(t, "1960-01-01")}, "", now); err == nil {
		t.Errorf("an interval that begins after now is accepted: %+v", ticks)
	}
}
