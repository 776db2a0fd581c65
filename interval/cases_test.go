package interval_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// utc reads RFC 3339, the seconds and the zone of which may be left out: "2026-01-15T10:07".
func utc(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	t.Fatalf("test has a bad instant %q", text)
	return time.Time{}
}

func newGrid(t testing.TB, spec interval.Spec) *interval.Grid {
	t.Helper()
	g, err := interval.New(spec)
	if err != nil {
		t.Fatalf("New(%+v): %v", spec, err)
	}
	return g
}

// short writes an instant in UTC without seconds when they are zero.
func short(at time.Time) string {
	return strings.Replace(at.UTC().Format("2006-01-02T15:04:05Z"), ":00Z", "Z", 1)
}

// intervals lists what Between yields as "start/end".
func intervals(g *interval.Grid, from, to time.Time) []string {
	var list []string
	for iv := range g.Between(from, to) {
		list = append(list, short(iv.Start)+"/"+short(iv.End))
	}
	return list
}

// ticks lists the ticks in [from, to), found with Next alone.
func ticks(g *interval.Grid, from, to time.Time) []string {
	var list []string
	for at, ok := g.Next(from.Add(-time.Second)); ok && at.Before(to); at, ok = g.Next(at) {
		list = append(list, short(at))
	}
	return list
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, " "), strings.Join(want, " "))
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, cron, zone, from, to string
		want                       []string
	}{
		{"skipped local time ticks after the gap", "30 2 * * *", "Europe/Rome", "2026-03-28", "2026-03-31",
			[]string{"2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"}},
		{"repeated local time ticks once, first", "30 2 * * *", "Europe/Rome", "2026-10-24", "2026-10-27",
			[]string{"2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"}},
		{"repeated local time west of UTC", "30 1 * * *", "America/New_York", "2026-10-31", "2026-11-03",
			[]string{"2026-10-31T05:30Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"}},
		{"hourly on a day of 25 hours", "0 * * * *", "Europe/Rome", "2026-10-24T22:00", "2026-10-25T04:00",
			[]string{"2026-10-24T22:00Z", "2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z", "2026-10-25T03:00Z"}},
		{"wildcard minutes in a repeated hour", "*/30 2 * * *", "Europe/Rome", "2026-10-25", "2026-10-26",
			[]string{"2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z"}},
		{"wildcard minutes in a skipped hour", "*/30 2 * * *", "Europe/Rome", "2026-03-28T12:00", "2026-03-30T01:00",
			[]string{"2026-03-30T00:00Z", "2026-03-30T00:30Z"}},
		{"several fixed times in one gap are one tick", "0,15,30 2,3 * * *", "Europe/Rome", "2026-03-29", "2026-03-30",
			[]string{"2026-03-29T01:00Z", "2026-03-29T01:15Z", "2026-03-29T01:30Z"}},
		{"half-hour gap", "10 2 * * *", "Australia/Lord_Howe", "2026-10-02T12:00", "2026-10-05",
			[]string{"2026-10-02T15:40Z", "2026-10-03T15:30Z", "2026-10-04T15:10Z"}},
		{"half-hour repeat", "40 1 * * *", "Australia/Lord_Howe", "2026-04-03T12:00", "2026-04-06",
			[]string{"2026-04-03T14:40Z", "2026-04-04T14:40Z", "2026-04-05T15:10Z"}},
		{"hourly over a half-hour repeat", "0 * * * *", "Australia/Lord_Howe", "2026-04-04T13:00", "2026-04-04T17:00",
			[]string{"2026-04-04T13:00Z", "2026-04-04T14:00Z", "2026-04-04T15:30Z", "2026-04-04T16:30Z"}},
		{"no midnight in Sao Paulo", "0 0 * * *", "America/Sao_Paulo", "2017-10-14", "2017-10-17",
			[]string{"2017-10-14T03:00Z", "2017-10-15T03:00Z", "2017-10-16T02:00Z"}},
		{"no midnight in Beirut", "0 0 * * *", "Asia/Beirut", "2026-03-27T12:00", "2026-03-30",
			[]string{"2026-03-27T22:00Z", "2026-03-28T22:00Z", "2026-03-29T21:00Z"}},
		{"no midnight in Cairo", "0 0 * * *", "Africa/Cairo", "2026-04-22T12:00", "2026-04-25",
			[]string{"2026-04-22T22:00Z", "2026-04-23T22:00Z", "2026-04-24T21:00Z"}},
		{"hour before midnight twice in Sao Paulo", "30 23 * * *", "America/Sao_Paulo", "2018-02-17", "2018-02-19T12:00",
			[]string{"2018-02-17T01:30Z", "2018-02-18T01:30Z", "2018-02-19T02:30Z"}},
		{"midnight twice in Havana", "0 0 * * *", "America/Havana", "2026-10-31", "2026-11-03",
			[]string{"2026-10-31T04:00Z", "2026-11-01T04:00Z", "2026-11-02T05:00Z"}},
		{"a whole day skipped in Apia", "0 0 * * *", "Pacific/Apia", "2011-12-28T12:00", "2012-01-02",
			[]string{"2011-12-29T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z", "2012-01-01T10:00Z"}},
		{"a whole day skipped in Kwajalein", "0 9 * * *", "Pacific/Kwajalein", "1993-08-19", "1993-08-24",
			[]string{"1993-08-19T21:00Z", "1993-08-20T21:00Z", "1993-08-21T12:00Z", "1993-08-21T21:00Z", "1993-08-22T21:00Z", "1993-08-23T21:00Z"}},
		{"a whole day repeated in Juneau", "0 9 * * *", "America/Juneau", "1867-10-17", "1867-10-21",
			[]string{"1867-10-17T17:57:41Z", "1867-10-18T17:57:41Z", "1867-10-20T17:57:41Z"}},
		{"local mean time", "0 0 * * *", "Europe/Rome", "1866-12-11", "1866-12-14",
			[]string{"1866-12-11T23:10:04Z", "1866-12-12T23:10:04Z", "1866-12-13T23:10:04Z"}},

		{"either day field", "30 4 1,15 * 5", "", "2026-06-01", "2026-07-01",
			[]string{"2026-06-01T04:30Z", "2026-06-05T04:30Z", "2026-06-12T04:30Z", "2026-06-15T04:30Z", "2026-06-19T04:30Z", "2026-06-26T04:30Z"}},
		{"both day fields after a star", "0 9 */2 * 1", "", "2026-08-01", "2026-09-01",
			[]string{"2026-08-03T09:00Z", "2026-08-17T09:00Z", "2026-08-31T09:00Z"}},
		{"a full range is no star", "0 9 1-31 * 1", "", "2026-08-01", "2026-08-05",
			[]string{"2026-08-01T09:00Z", "2026-08-02T09:00Z", "2026-08-03T09:00Z", "2026-08-04T09:00Z"}},
		{"question mark is a star", "0 9 ? * 1", "", "2026-08-01", "2026-08-12", []string{"2026-08-03T09:00Z", "2026-08-10T09:00Z"}},
		{"impossible date, possible weekday", "0 0 30 2 1", "", "2026-02-01", "2026-03-01",
			[]string{"2026-02-02T00:00Z", "2026-02-09T00:00Z", "2026-02-16T00:00Z", "2026-02-23T00:00Z"}},
		{"EST does not follow summer time", "0 9 * * 1", "EST", "2026-07-06", "2026-07-07", []string{"2026-07-06T14:00Z"}},
		{"New York does", "0 9 * * 1", "America/New_York", "2026-07-06", "2026-07-07", []string{"2026-07-06T13:00Z"}},
		{"Sunday as 7", "20 1 * * 7", "", "2026-01-01", "2026-01-19", []string{"2026-01-04T01:20Z", "2026-01-11T01:20Z", "2026-01-18T01:20Z"}},
		{"Sunday as 0", "20 1 * * 0", "", "2026-01-01", "2026-01-19", []string{"2026-01-04T01:20Z", "2026-01-11T01:20Z", "2026-01-18T01:20Z"}},
		{"Sunday by name", "20 1 * * sun", "", "2026-01-01", "2026-01-19", []string{"2026-01-04T01:20Z", "2026-01-11T01:20Z", "2026-01-18T01:20Z"}},
		{"leap day", "0 0 29 2 *", "", "2095-01-01", "2105-01-01", []string{"2096-02-29T00:00Z", "2104-02-29T00:00Z"}},
		{"leap day on a Sunday", "0 0 29 2 */7", "", "2026-01-01", "2090-01-01", []string{"2032-02-29T00:00Z", "2060-02-29T00:00Z", "2088-02-29T00:00Z"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, interval.Spec{Cron: test.cron, TimeZone: test.zone})
			equal(t, test.cron+" "+test.zone, ticks(g, utc(t, test.from), utc(t, test.to)), test.want)
		})
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		spec     interval.Spec
		start    string // of the spec; "" for none
		from, to string
		want     []string
	}{
		{"uneven steps over a weekend", interval.Spec{Cron: "*/20 6-20 * * mon-fri"}, "", "2026-05-08T20:20", "2026-05-11T06:20",
			[]string{"2026-05-08T20:20Z/2026-05-08T20:40Z", "2026-05-08T20:40Z/2026-05-11T06:00Z", "2026-05-11T06:00Z/2026-05-11T06:20Z"}},
		{"*/45 is 45 and 15 minutes", interval.Spec{Cron: "*/45 * * * *"}, "", "2026-01-15", "2026-01-15T02:00",
			[]string{"2026-01-15T00:00Z/2026-01-15T00:45Z", "2026-01-15T00:45Z/2026-01-15T01:00Z",
				"2026-01-15T01:00Z/2026-01-15T01:45Z", "2026-01-15T01:45Z/2026-01-15T02:00Z"}},
		{"a day of 23 hours", interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"}, "", "2026-03-28T23:00", "2026-03-29T22:00",
			[]string{"2026-03-28T23:00Z/2026-03-29T22:00Z"}},
		{"a day of 25 hours", interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"}, "", "2026-10-24T22:00", "2026-10-25T23:00",
			[]string{"2026-10-24T22:00Z/2026-10-25T23:00Z"}},
		{"a month of 743 hours", interval.Spec{Cron: "0 0 1 * *", TimeZone: "Europe/Rome"}, "", "2026-02-28T23:00", "2026-03-01",
			[]string{"2026-02-28T23:00Z/2026-03-31T22:00Z"}},
		{"a skipped time, intervals tile", interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome"}, "", "2026-03-28", "2026-03-30",
			[]string{"2026-03-28T01:30Z/2026-03-29T01:00Z", "2026-03-29T01:00Z/2026-03-30T00:30Z"}},
		{"a repeated time, 24 and 25 hours", interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome"}, "", "2026-10-24", "2026-10-26",
			[]string{"2026-10-24T00:30Z/2026-10-25T00:30Z", "2026-10-25T00:30Z/2026-10-26T01:30Z"}},
		{"weekly", interval.Spec{Cron: "20 1 * * 7"}, "", "2026-01-04", "2026-01-05", []string{"2026-01-04T01:20Z/2026-01-11T01:20Z"}},
		{"cron, start inside a period: the first is cut", interval.Spec{Cron: "0 0 * * *"}, "2026-05-10T14:37", "2026-05-01", "2026-05-13",
			[]string{"2026-05-10T14:37Z/2026-05-11T00:00Z", "2026-05-11T00:00Z/2026-05-12T00:00Z", "2026-05-12T00:00Z/2026-05-13T00:00Z"}},
		{"cron, start on a tick", interval.Spec{Cron: "0 0 * * *"}, "2026-05-10", "2026-05-01", "2026-05-12",
			[]string{"2026-05-10T00:00Z/2026-05-11T00:00Z", "2026-05-11T00:00Z/2026-05-12T00:00Z"}},
		{"every counts from the start", interval.Spec{Every: 24 * time.Hour}, "2026-05-10T14:37", "2026-05-01", "2026-05-13",
			[]string{"2026-05-10T14:37Z/2026-05-11T14:37Z", "2026-05-11T14:37Z/2026-05-12T14:37Z", "2026-05-12T14:37Z/2026-05-13T14:37Z"}},
		{"every is elapsed time over a clock change", interval.Spec{Every: 24 * time.Hour, TimeZone: "America/New_York"}, "2026-03-07T14:37-05:00",
			"2026-03-07", "2026-03-10",
			[]string{"2026-03-07T19:37Z/2026-03-08T19:37Z", "2026-03-08T19:37Z/2026-03-09T19:37Z", "2026-03-09T19:37Z/2026-03-10T19:37Z"}},
		{"every from a start with an offset", interval.Spec{Every: 24 * time.Hour, TimeZone: "Asia/Tokyo"}, "2026-07-01T01:15:00+09:00",
			"2026-06-01", "2026-07-02",
			[]string{"2026-06-30T16:15Z/2026-07-01T16:15Z", "2026-07-01T16:15Z/2026-07-02T16:15Z"}},
		{"every that divides no day", interval.Spec{Every: 7 * time.Hour}, "2026-05-10T01:30", "2026-05-10T02:00", "2026-05-10T22:31",
			[]string{"2026-05-10T08:30Z/2026-05-10T15:30Z", "2026-05-10T15:30Z/2026-05-10T22:30Z", "2026-05-10T22:30Z/2026-05-11T05:30Z"}},
		{"range ends as local dates", interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"}, "", "2026-03-28T23:00", "2026-03-29T22:00",
			[]string{"2026-03-28T23:00Z/2026-03-29T22:00Z"}},
		{"starts within the range, on the grid only", interval.Spec{Cron: "0 4 * * *"}, "", "2026-04-06", "2026-04-08",
			[]string{"2026-04-06T04:00Z/2026-04-07T04:00Z", "2026-04-07T04:00Z/2026-04-08T04:00Z"}},
		{"an empty range", interval.Spec{Cron: "0 4 * * *"}, "", "2026-04-06T04:00", "2026-04-06T04:00", nil},
		{"a reversed range", interval.Spec{Cron: "0 4 * * *"}, "", "2026-04-08", "2026-04-06", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.start != "" {
				test.spec.Start = utc(t, test.start)
			}
			g := newGrid(t, test.spec)
			equal(t, test.name, intervals(g, utc(t, test.from), utc(t, test.to)), test.want)
		})
	}
}

func TestQuarterHoursOnClockChangeDays(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "*/15 * * * *", TimeZone: "Europe/London"})
	for _, day := range []struct {
		from, to, last string
		count          int
	}{
		{"2026-10-24T23:00", "2026-10-26", "2026-10-25T23:45Z", 100},
		{"2026-03-29", "2026-03-29T23:00", "2026-03-29T22:45Z", 92},
	} {
		list := ticks(g, utc(t, day.from), utc(t, day.to))
		if len(list) != day.count || list[0] != short(utc(t, day.from)) || list[len(list)-1] != day.last {
			t.Errorf("from %s: %d ticks from %s to %s, want %d to %s", day.from, len(list), list[0], list[len(list)-1], day.count, day.last)
		}
		for iv := range g.Between(utc(t, day.from), utc(t, day.to)) {
			if iv.Duration() != 15*time.Minute {
				t.Errorf("%s lasts %s", iv, iv.Duration())
			}
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	tests := []struct{ cron, zone, after, want string }{
		{"*/15 * * * *", "", "2026-01-15T10:07:30", "2026-01-15T10:15"},
		{"30 14 * * *", "", "2026-01-15T10:07:30", "2026-01-15T14:30"},
		{"0 6 * * *", "", "2026-01-15T10:07:30", "2026-01-16T06:00"},
		{"30 2 * * *", "Europe/Rome", "2026-10-25T00:45", "2026-10-26T01:30"},
		{"30 2 * * *", "Europe/Rome", "2026-10-25T00:30", "2026-10-26T01:30"},
		{"30 2 * * *", "Europe/Rome", "2026-10-25T00:29:59", "2026-10-25T00:30"},
		{"30 2 * * *", "Europe/Rome", "2026-03-29T00:59:59", "2026-03-29T01:00"},
		{"30 2 * * *", "Europe/Rome", "2026-03-29T01:00", "2026-03-30T00:30"},
		{"@hourly", "", "2026-01-15T10:00", "2026-01-15T11:00"},
		{"@daily", "", "2026-01-15T10:00", "2026-01-16"},
		{"@midnight", "", "2026-01-15T10:00", "2026-01-16"},
		{"@weekly", "", "2026-01-15T10:00", "2026-01-18"},
		{"@monthly", "", "2026-01-15T10:00", "2026-02-01"},
		{"@yearly", "", "2026-01-15T10:00", "2027-01-01"},
		{" @Annually ", "", "2026-01-15T10:00", "2027-01-01"},
	}
	for _, test := range tests {
		g := newGrid(t, interval.Spec{Cron: test.cron, TimeZone: test.zone})
		got, ok := g.Next(utc(t, test.after))
		if !ok || got != utc(t, test.want) {
			t.Errorf("%q %s: Next(%s) = %s, %v; want %s", test.cron, test.zone, test.after, short(got), ok, test.want)
		}
	}
}

func TestDailyRunOwnsTheDayBefore(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "@daily"})
	want := interval.Interval{Start: utc(t, "2026-01-15"), End: utc(t, "2026-01-16")}
	if iv, err := g.StartingAt(want.Start); err != nil || iv != want {
		t.Errorf("StartingAt: %s, %v", iv, err)
	}
	if iv, ok := g.At(want.End); !ok || iv != want {
		t.Errorf("At: %s, %v", iv, ok)
	}
	if iv, ok := g.LastCompleted(want.End); !ok || iv != want {
		t.Errorf("LastCompleted at its end: %s, %v", iv, ok)
	}
	if iv, ok := g.LastCompleted(want.End.Add(-time.Nanosecond)); !ok || iv.End != want.Start {
		t.Errorf("LastCompleted just before its end: %s, %v", iv, ok)
	}
}

// completed counts the intervals that have ended by now, as a backfill of a range does.
func completed(g *interval.Grid, from, to, now time.Time) (count int) {
	for iv := range g.Between(from, to) {
		if !iv.End.After(now) {
			count++
		}
	}
	return count
}

func TestCompletedIntervals(t *testing.T) {
	t.Parallel()
	start := utc(t, "2025-12-01")
	now := utc(t, "2025-12-10")
	for _, spec := range []interval.Spec{{Cron: "0 0 * * *", Start: start}, {Every: 24 * time.Hour, Start: start}} {
		g := newGrid(t, spec)
		if n := completed(g, start, now, now); n != 9 {
			t.Errorf("%+v: %d completed intervals, want 9", spec, n)
		}
		if next, ok := g.Next(now.Add(9 * time.Hour)); !ok || next != utc(t, "2025-12-11") {
			t.Errorf("%+v: next tick %s, want 2025-12-11", spec, next)
		}
	}
	daily := newGrid(t, interval.Spec{Cron: "0 0 * * *"})
	if n := completed(daily, utc(t, "2026-05-08"), utc(t, "2026-05-20"), utc(t, "2026-05-10T12:00")); n != 2 {
		t.Errorf("a range into the future has %d completed intervals, want 2", n)
	}
}

func TestRowsOfTheWeekendHaveOneOwner(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "*/20 6-20 * * mon-fri"})
	iv, ok := g.Owner(utc(t, "2026-05-09T12:00"))
	if want := "2026-05-08T20:40:00Z/2026-05-11T06:00:00Z"; !ok || iv.String() != want {
		t.Errorf("Owner of Saturday noon: %s, %v; want %s", iv, ok, want)
	}
}
