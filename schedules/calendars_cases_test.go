package schedules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/schedules"
)

// firingsOf lists when ticks fire, after one instant and up to another, as short text.
func firingsOf(t *testing.T, ticks schedules.Ticks, after, to time.Time) []string {
	t.Helper()
	firings, err := ticks.Firings(after, to)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for at := range firings {
		list = append(list, at.Format("2006-01-02T15:04Z"))
	}
	return list
}

// What others have lost or doubled on the days on which clocks change.
func TestFiringsOnClockChangeDays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		cron, zone string
		after, to  string
		count      int
		some       string // the first firings
	}{
		// A local time that is skipped fires at the first instant after the gap, one that occurs twice the first time.
		{"30 2 * * *", "Europe/Rome", "2026-03-28", "2026-03-31", 3, "2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z"},
		{"30 2 * * *", "Europe/Rome", "2026-10-24", "2026-10-27", 3, "2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z"},
		// Every quarter of an hour of a day of 25 hours, and of one of 23.
		{"*/15 * * * *", "Europe/London", "2026-10-24T22:59", "2026-10-25T23:45", 100, "2026-10-24T23:00Z 2026-10-24T23:15Z"},
		{"*/15 * * * *", "Europe/London", "2026-03-28T23:59", "2026-03-29T22:45", 92, "2026-03-29T00:00Z 2026-03-29T00:15Z"},
		{"*/30 * * * *", "Australia/Lord_Howe", "2026-04-03T12:59", "2026-04-04T13:30", 50, "2026-04-03T13:00Z"},
		// Midnights 23 and 25 hours apart, and months of 743 hours.
		{"0 0 * * *", "Europe/Rome", "2026-03-28T22:00", "2026-03-29T23:00", 2, "2026-03-28T23:00Z 2026-03-29T22:00Z"},
		{"0 0 * * *", "Europe/Rome", "2026-10-24T21:00", "2026-10-26T00:00", 2, "2026-10-24T22:00Z 2026-10-25T23:00Z"},
		{"0 0 1 * *", "Europe/Rome", "2026-02-28T22:00", "2026-04-01", 2, "2026-02-28T23:00Z 2026-03-31T22:00Z"},
		// Midnight itself is skipped.
		{"0 0 * * *", "Africa/Cairo", "2026-04-22", "2026-04-25", 3, "2026-04-22T22:00Z 2026-04-23T22:00Z 2026-04-24T21:00Z"},
		// Either day field, or both when one begins with *.
		{"30 4 1,15 * 5", "UTC", "2026-06-01", "2026-07-01", 6, "2026-06-01T04:30Z 2026-06-05T04:30Z 2026-06-12T04:30Z 2026-06-15T04:30Z 2026-06-19T04:30Z 2026-06-26T04:30Z"},
		{"30 4 1,15 * 5", "Europe/Rome", "2026-06-01", "2026-07-01", 6, "2026-06-01T02:30Z 2026-06-05T02:30Z"},
		{"0 9 */2 * 1", "UTC", "2026-08-01", "2026-09-01", 3, "2026-08-03T09:00Z 2026-08-17T09:00Z 2026-08-31T09:00Z"},
		{"0 9 */2 * 1", "Europe/Rome", "2026-08-01", "2026-09-01", 3, "2026-08-03T07:00Z"},
		{"0 9 1-31 * 1", "UTC", "2026-08-01", "2026-08-05", 4, "2026-08-01T09:00Z 2026-08-02T09:00Z"},
		// Nights and weekends, and minutes that do not divide the hour.
		{"*/20 6-20 * * mon-fri", "UTC", "2026-05-08T20:30", "2026-05-11T06:00", 2, "2026-05-08T20:40Z 2026-05-11T06:00Z"},
		{"*/45 * * * *", "UTC", "2026-01-14T23:59", "2026-01-15T01:00", 3, "2026-01-15T00:00Z 2026-01-15T00:45Z 2026-01-15T01:00Z"},
	}
	for _, test := range tests {
		ticks := compile(t, interval.Spec{Cron: test.cron, TimeZone: test.zone, Start: start})
		got := firingsOf(t, ticks, utc(t, test.after), utc(t, test.to))
		some := strings.Fields(test.some)
		if len(got) != test.count || !slices.Equal(got[:min(len(some), len(got))], some) {
			t.Errorf("%q in %s: %d firings from %s: %q", test.cron, test.zone, len(got), test.after, got)
		}
	}
}

// Two compilations in one year give equal bytes. The next year moves only what is not exact for ever.
func TestCompileDependsOnTheYearAlone(t *testing.T) {
	t.Parallel()
	marshal := func(ticks schedules.Ticks) string {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(ticks.Spec())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, zone := range []string{"Europe/Rome", "America/Santiago", "Africa/Casablanca", "Asia/Tokyo"} {
		for _, text := range []string{"30 2 * * *", "30 4 1,15 * 5", "*/15 8-18 * * 1-5"} {
			spec := interval.Spec{Cron: text, TimeZone: zone, Start: utc(t, "2025-06-01")}
			var all []schedules.Ticks
			for _, at := range []string{"2026-01-01", "2026-12-31T23:59:59", "2027-01-01"} {
				ticks, err := schedules.Compile(spec, text, utc(t, at))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, ticks)
			}
			if marshal(all[0]) != marshal(all[1]) || !all[0].Exact.Equal(all[1].Exact) || !all[0].From.Equal(all[1].From) {
				t.Errorf("%q in %s: the first and the last day of 2026 differ", text, zone)
			}
			switch ever := all[0].Exact.IsZero(); {
			case ever && (marshal(all[0]) != marshal(all[2]) || !all[2].Exact.IsZero() || !all[0].From.Equal(all[2].From)):
				t.Errorf("%q in %s: exact for ever in 2026, and different a year later", text, zone)
			case !ever && !all[2].Exact.Equal(all[0].Exact.AddDate(1, 0, 0)):
				t.Errorf("%q in %s: exact until %s in 2026, and until %s a year later", text, zone, all[0].Exact, all[2].Exact)
			}
			if all[0].Exact.IsZero() == (zone == "Africa/Casablanca") {
				t.Errorf("%q in %s: exact until %s", text, zone, all[0].Exact)
			}
		}
	}
}

func TestCompileBounds(t *testing.T) {
	t.Parallel()
	day := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		return utc(t, text)
	}
	tests := []struct {
		cron, zone, start, end string
		from                   string
		exact                  string // "" is for ever
		err                    string
	}{
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "2026-05-10T14:37", from: "2026-05-10T14:37:01"},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "1999-05-10", from: "2000-01-01"},
		{cron: "30 2 * * *", zone: "Europe/Rome", from: "2000-01-01"},
		{cron: "30 2 * * *", zone: "America/New_York", start: "1999-05-10", from: "2002-01-01"},
		{cron: "30 2 * * *", zone: "America/Sao_Paulo", start: "2001-05-10", from: "2015-01-01"},
		{cron: "30 2 * * *", zone: "America/Sao_Paulo", start: "2018-05-10", from: "2018-05-10T00:00:01"},
		{cron: "30 2 * * *", zone: "Africa/Casablanca", start: "1999-05-10", from: "2021-01-01", exact: "2036-12-31T23:59:59"},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "2040-05-10", from: "2040-05-10T00:00:01"},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "2100-12-30", from: "2100-12-30T00:00:01"},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "2010-05-10", end: "2015-06-01", from: "2010-05-10T00:00:01"},
		{cron: "30 2 * * *", zone: "Africa/Casablanca", start: "2026-05-10", from: "2026-05-10T00:00:01", exact: "2036-12-31T23:59:59"},
		{cron: "30 2 * * *", zone: "Africa/Casablanca", start: "2026-05-10", end: "2030-01-01", from: "2026-05-10T00:00:01"},
		{cron: "30 2 * * *", zone: "Africa/Casablanca", start: "2026-05-10", end: "2050-01-01", from: "2026-05-10T00:00:01", exact: "2036-12-31T23:59:59"},
		{cron: "30 2 * * *", zone: "Asia/Tokyo", start: "1999-05-10", from: "1999-05-10T00:00:01"},
		{cron: "30 2 * * *", from: ""},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "1980-01-01", end: "1999-05-10", err: "has no tick"},
		{cron: "30 2 * * *", zone: "Europe/Rome", start: "2101-01-01", err: "has no tick"},
		{cron: "0 0 29 2 *", zone: "Europe/Rome", start: "2096-03-01", err: "has no tick"},
		{cron: "61 2 * * *", zone: "Europe/Rome", err: "minute"},
	}
	for _, test := range tests {
		spec := interval.Spec{Cron: test.cron, TimeZone: test.zone, Start: day(test.start), End: day(test.end)}
		ticks, err := schedules.Compile(spec, test.cron, now)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: %v, want an error with %q", test, err, test.err)
			}
			continue
		case err != nil:
			t.Errorf("%+v: %v", test, err)
			continue
		case !ticks.From.Equal(day(test.from)) || !ticks.Exact.Equal(day(test.exact)):
			t.Errorf("%+v: from %s, exact until %s", test, ticks.From, ticks.Exact)
		}
		from := spec.Start
		if from.IsZero() {
			from = utc(t, "2000-01-01")
		}
		if err := ticks.Check(spec, from, utc(t, "2101-01-01")); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestCommentFits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ comment, want string }{
		{"", ""},
		{"30 2 * * *", "30 2 * * *"},
		{strings.Repeat("x", 200), strings.Repeat("x", 200)},
		{strings.Repeat("x", 201), strings.Repeat("x", 197) + "..."},
		{strings.Repeat("é", 101), strings.Repeat("é", 98) + "..."},
	} {
		for _, zone := range []string{"UTC", "Europe/Rome"} {
			ticks, err := schedules.Compile(interval.Spec{Cron: "30 2 * * *", TimeZone: zone, Start: start}, test.comment, now)
			if err != nil || ticks.Calendars[0].GetComment() != test.want {
				t.Errorf("%q becomes %q, %v", test.comment, ticks.Calendars[0].GetComment(), err)
			}
			for _, other := range ticks.Calendars[1:] {
				if other.GetComment() != "" {
					t.Errorf("%q stands in another calendar than the first", other.GetComment())
				}
			}
		}
	}
}

// Check notices a tick that is missing, one that is too many, and one at the very end.
func TestCheckNamesTheFirstDifference(t *testing.T) {
	t.Parallel()
	spec := interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome", Start: start}
	ticks := compile(t, spec)
	from, to := utc(t, "2026-10-01"), utc(t, "2026-10-27")
	for text, want := range map[string]string{
		"30 2 * * 1-6":   "would not fire at the tick 2026-10-04T00:30:00Z",
		"30 2,3 * * *":   "would fire at 2026-10-01T01:30:00Z, which is no tick",
		"30 2 1-24 * *":  "would not fire at the tick 2026-10-25T00:30:00Z",
		"30 2 1-25 * *":  "would not fire at the tick 2026-10-26T01:30:00Z",
		"30 2 29 2 *":    "would not fire at the tick 2026-10-01T00:30:00Z",
		"*/15 2 1-1 * *": "would fire at 2026-10-01T00:15:00Z, which is no tick",
	} {
		wrong := compile(t, interval.Spec{Cron: text, TimeZone: "Europe/Rome", Start: start})
		if err := wrong.Check(spec, from, to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := ticks.Check(spec, from, to); err != nil {
		t.Error(err)
	}
	other := spec
	other.Cron = "30 2 1-25 10 *"
	if err := ticks.Check(other, from, to); err == nil || !strings.Contains(err.Error(), "would fire at 2026-10-26T01:30:00Z, which is no tick") {
		t.Errorf("a firing after the last tick: %v", err)
	}
	later := spec
	later.Since = utc(t, "2026-10-20T12:00")
	if err := ticks.Check(later, from, to); err != nil {
		t.Errorf("where the grid takes over later: %v", err)
	}
	if err := ticks.Check(interval.Spec{Cron: "x"}, from, to); err == nil {
		t.Error("an invalid spec is checked")
	}
	if _, err := (schedules.Ticks{TimeZone: "Europe/Rom"}).Firings(from, to); err == nil {
		t.Error("calendars in an unknown zone fire")
	}
}
