package interval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	iv := interval.Interval{Start: utc(t, "2026-01-15"), End: utc(t, "2026-01-16")}
	if got, want := iv.String(), "2026-01-15T00:00:00Z/2026-01-16T00:00:00Z"; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
	for at, want := range map[string]bool{
		"2026-01-14T23:59:59": false, "2026-01-15": true, "2026-01-15T23:59:59": true, "2026-01-16": false,
		"2026-01-15T00:00:00+01:00": false, "2026-01-16T00:59:59+01:00": true,
	} {
		if got := iv.Contains(utc(t, at)); got != want {
			t.Errorf("Contains(%s) = %v", at, got)
		}
	}
	if iv.Contains(iv.Start.Add(-time.Nanosecond)) || !iv.Contains(iv.End.Add(-time.Nanosecond)) {
		t.Error("the bounds are not exact to the nanosecond")
	}
	if iv.IsZero() || !(interval.Interval{}).IsZero() {
		t.Error("IsZero")
	}
}

func TestIntervalJSON(t *testing.T) {
	t.Parallel()
	iv := interval.Interval{Start: utc(t, "2026-01-15"), End: utc(t, "2026-01-16")}
	text, err := json.Marshal(iv)
	if want := `{"start":"2026-01-15T00:00:00Z","end":"2026-01-16T00:00:00Z"}`; err != nil || string(text) != want {
		t.Fatalf("Marshal: %s, %v; want %s", text, err, want)
	}
	accepted := []string{string(text), `{"start":"2026-01-15T07:00:00+07:00","end":"2026-01-15T23:00:00-01:00"}`}
	for _, text := range accepted {
		var got interval.Interval
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != iv {
			t.Errorf("Unmarshal %s: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`{"start":"2026-01-15T00:00:00Z","end":"2026-01-15T00:00:00Z"}`:          "end must be after the start",
		`{"start":"2026-01-15T00:00:00Z"}`:                                       "end must be after the start",
		`{"start":"2026-01-15T00:00:00.5Z","end":"2026-01-16T00:00:00Z"}`:        "whole seconds",
		`{"start":"2026-01-15T00:00:00Z","end":"2026-01-16T00:00:00Z","tick":1}`: "unknown field",
		`{"start":1}`: "interval",
		`[]`:          "interval",
	} {
		var got interval.Interval
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) || !got.IsZero() {
			t.Errorf("Unmarshal %s: %s, %v; want an error with %q", text, got, err, want)
		}
	}
	zero, _ := json.Marshal(interval.Interval{})
	got := iv
	if err := json.Unmarshal(zero, &got); err != nil || !got.IsZero() {
		t.Errorf("the zero interval comes back as %s, %v", got, err)
	}
}

func TestBadSpec(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-01-01")
	tests := []struct {
		spec                 interval.Spec
		code, field, message string
	}{
		{interval.Spec{}, "missing-cron", "cron", "needs cron"},
		{interval.Spec{Cron: "@daily", Every: time.Hour, Start: start}, "cron-and-every", "every", "not both"},
		{interval.Spec{Every: time.Hour}, "bad-every", "every", "start date"},
		{interval.Spec{Every: -time.Hour, Start: start}, "bad-every", "every", "positive"},
		{interval.Spec{Every: 1500 * time.Millisecond, Start: start}, "bad-every", "every", "whole seconds"},
		{interval.Spec{Every: time.Millisecond, Start: start}, "bad-every", "every", "whole seconds"},
		{interval.Spec{Cron: "@daily", TimeZone: "Local"}, "unknown-time-zone", "timezone", "another zone on every host"},
		{interval.Spec{Cron: "@daily", Start: start, End: start}, "bad-end", "end", "not after the start"},
		{interval.Spec{Cron: "@daily", Start: start.Add(1)}, "bad-start", "start", "whole seconds"},
		{interval.Spec{Cron: "@daily", Start: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "bad-start", "start", "years 1 to 9999"},
		{interval.Spec{Cron: "@daily", Start: time.Date(1<<40, 1, 1, 0, 0, 0, 0, time.UTC)}, "bad-start", "start", "years 1 to 9999"},
		{interval.Spec{Cron: "@daily", End: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)}, "bad-end", "end", "years 1 to 9999"},
		{interval.Spec{Cron: "@daily", Start: start, End: start.Add(time.Hour)}, "never-fires", "end", "never fires"},
		{interval.Spec{Every: 200 * 8766 * time.Hour, Start: utc(t, "9900-01-01")}, "never-fires", "start", "after the year 9999"},
		{interval.Spec{Cron: "*/5 2 25-31 3 */7", TimeZone: "Europe/Rome", Start: start}, "never-fires", "cron", "the clocks of Europe/Rome skip all of its times"},
	}
	for _, test := range tests {
		g, err := interval.New(test.spec)
		var errs interval.Errors
		if g != nil || !errors.As(err, &errs) || len(errs) != 1 {
			t.Errorf("%+v: %v, want one error", test.spec, err)
			continue
		}
		if e := errs[0]; e.Code != test.code || e.Field != test.field || !strings.Contains(e.Message, test.message) {
			t.Errorf("%+v: %+v, want %s of %s with %q", test.spec, e, test.code, test.field, test.message)
		}
	}
}

func TestBoundsOfTheGrid(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "@daily", Start: utc(t, "2026-05-10T14:37"), End: utc(t, "2026-05-13")})
	equal(t, "all intervals", intervals(g, time.Time{}, utc(t, "9999-01-01")), []string{
		"2026-05-10T14:37Z/2026-05-11T00:00Z", "2026-05-11T00:00Z/2026-05-12T00:00Z", "2026-05-12T00:00Z/2026-05-13T00:00Z"})
	if at, ok := g.Next(time.Time{}); !ok || at != utc(t, "2026-05-11") {
		t.Errorf("the first tick is %s, %v: the start itself is none", at, ok)
	}
	if _, ok := g.Next(utc(t, "2026-05-13")); ok {
		t.Error("a tick after the end")
	}
	for _, before := range []string{"2026-05-10T14:36:59", "0001-01-01"} {
		if iv, ok := g.Owner(utc(t, before)); ok {
			t.Errorf("%s belongs to %s, before the start", before, iv)
		}
	}
	if iv, ok := g.Owner(utc(t, "2026-05-13")); ok {
		t.Errorf("the end belongs to %s", iv)
	}
	if iv, ok := g.LastCompleted(utc(t, "2026-05-10T23:59:59")); ok {
		t.Errorf("%s is complete before the first tick", iv)
	}
	if iv, ok := g.LastCompleted(utc(t, "2030-01-01")); !ok || iv.End != utc(t, "2026-05-13") {
		t.Errorf("the last interval is %s, %v", iv, ok)
	}
	for _, tick := range []time.Time{utc(t, "2026-05-10T14:37"), utc(t, "2026-05-10"), utc(t, "2026-05-14"), utc(t, "2026-05-11").Add(1)} {
		if iv, ok := g.At(tick); ok {
			t.Errorf("At(%s) = %s", tick, iv)
		}
	}
}

func TestBoundsOfTime(t *testing.T) {
	t.Parallel()
	beyond := time.Date(1<<35, 1, 1, 0, 0, 0, 0, time.UTC)
	before := time.Date(-1<<35, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, zone := range []string{"UTC", "Europe/Rome", "Asia/Manila", "Pacific/Kiritimati"} {
		for _, cron := range []string{"0 0 * * *", "* * * * *", "0 0 29 2 *", "*/5 0 29 2 *"} {
			g := newGrid(t, interval.Spec{Cron: cron, TimeZone: zone})
			if at, ok := g.Next(beyond); ok {
				t.Errorf("%s %s: a tick %s after the end of time", cron, zone, at)
			}
			if iv, ok := g.LastCompleted(before); ok {
				t.Errorf("%s %s: %s ended before the beginning of time", cron, zone, iv)
			}
			first, ok := g.Next(before)
			if !ok || first.Year() < 1 {
				t.Errorf("%s %s: the first tick is %s, %v", cron, zone, first, ok)
			}
			if iv, ok := g.At(first); ok {
				t.Errorf("%s %s: the first tick ends %s, which nothing starts", cron, zone, iv)
			}
			last, ok := g.LastCompleted(beyond)
			if !ok || last.End.Year() > 9999 || last.End.Year() < 9990 {
				t.Errorf("%s %s: the last interval is %s, %v", cron, zone, last, ok)
			}
			if n := len(intervals(g, last.Start, beyond)); n != 1 {
				t.Errorf("%s %s: %d intervals from the start of the last", cron, zone, n)
			}
		}
	}
}

// The times of this cron are skipped every year since Italy has changed its clocks at 2:00. The grid
// has ticks in the past only, and says so without spinning.
func TestTimesThatAreAlwaysSkipped(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "*/5 2 25-31 3 */7", TimeZone: "Europe/Rome"})
	if at, ok := g.Next(utc(t, "2026-01-01")); ok {
		t.Errorf("a tick at %s", at)
	}
	if iv, ok := g.Owner(utc(t, "2026-01-01")); ok {
		t.Errorf("%s goes on for ever", iv)
	}
	if iv, ok := g.LastCompleted(utc(t, "2026-01-01")); !ok || iv.End.Year() < 1970 || iv.End.Year() > 2000 {
		t.Errorf("the last interval is %s, %v", iv, ok)
	}
}

func TestStartingAt(t *testing.T) {
	t.Parallel()
	daily := interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome", Start: utc(t, "2026-03-01T12:00"), End: utc(t, "2026-06-01T00:00")}
	once := interval.Spec{Every: time.Hour, Start: utc(t, "2026-03-01"), End: utc(t, "2026-03-01T01:30")}
	tests := []struct {
		spec        interval.Spec
		start, want string // want is an interval or an error
	}{
		{daily, "2026-03-01T12:00", "2026-03-01T12:00:00Z/2026-03-01T23:00:00Z"},
		{daily, "2026-03-28T23:00", "2026-03-28T23:00:00Z/2026-03-29T22:00:00Z"},
		{daily, "2026-05-30T22:00", "2026-05-30T22:00:00Z/2026-05-31T22:00:00Z"},
		{daily, "2026-03-29T00:00", "no interval of the schedule starts at 2026-03-29T00:00:00Z: it lies in the one that starts at 2026-03-28T23:00:00Z (2026-03-29T00:00:00+01:00); the next one starts at 2026-03-29T22:00:00Z (2026-03-30T00:00:00+02:00)"},
		{daily, "2026-03-01T11:59:59", "no interval of the schedule starts at 2026-03-01T11:59:59Z: the first one starts at 2026-03-01T12:00:00Z (2026-03-01T13:00:00+01:00)"},
		{daily, "2026-05-31T22:00", "no interval of the schedule starts at 2026-05-31T22:00:00Z: the last one starts at 2026-05-30T22:00:00Z (2026-05-31T00:00:00+02:00)"},
		{daily, "2026-05-31T21:00", "no interval of the schedule starts at 2026-05-31T21:00:00Z: it lies in the one that starts at 2026-05-30T22:00:00Z (2026-05-31T00:00:00+02:00)"},
		{once, "2026-03-01", "2026-03-01T00:00:00Z/2026-03-01T01:00:00Z"},
		{once, "2026-03-01T01:00", "no interval of the schedule starts at 2026-03-01T01:00:00Z: the last one starts at 2026-03-01T00:00:00Z"},
		{interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome"}, "2026-10-25T01:30", "no interval of the schedule starts at 2026-10-25T01:30:00Z: it lies in the one that starts at 2026-10-25T00:30:00Z (2026-10-25T02:30:00+02:00); the next one starts at 2026-10-26T01:30:00Z (2026-10-26T02:30:00+01:00)"},
	}
	for _, test := range tests {
		iv, err := newGrid(t, test.spec).StartingAt(utc(t, test.start))
		got := iv.String()
		if err != nil {
			got = err.Error()
			var e *interval.Error
			if !errors.As(err, &e) || e.Code != interval.CodeNoInterval || !iv.IsZero() {
				t.Errorf("StartingAt(%s): %s, %#v", test.start, iv, err)
			}
		}
		if got != test.want {
			t.Errorf("StartingAt(%s):\n got %s\nwant %s", test.start, got, test.want)
		}
	}
	g := newGrid(t, daily)
	if iv, err := g.StartingAt(utc(t, "2026-03-28T23:00").Add(time.Nanosecond)); err == nil {
		t.Errorf("a nanosecond after its start, %s is taken", iv)
	}
}

func TestMidnightOnly(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	tests := []struct {
		spec  interval.Spec
		start string
		want  bool
	}{
		{interval.Spec{Cron: "0 0 * * *"}, "", true},
		{interval.Spec{Cron: "@monthly", TimeZone: "Europe/Rome"}, "", true},
		{interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"}, "2025-12-31T23:00", true},
		{interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"}, "2026-01-01", false},
		{interval.Spec{Cron: "0 0 * * *", TimeZone: "America/Sao_Paulo"}, "2017-10-15T03:00", true}, // 01:00, the day's first instant
		{interval.Spec{Cron: "0 1 * * *"}, "", false},
		{interval.Spec{Cron: "1 0 * * *"}, "", false},
		{interval.Spec{Cron: "0 0,12 * * *"}, "", false},
		{interval.Spec{Cron: "@hourly"}, "", false},
		{interval.Spec{Cron: "*/60 0 * * *", TimeZone: "America/Havana"}, "", false}, // midnight occurs twice there
		{interval.Spec{Every: day}, "2026-01-01", true},
		{interval.Spec{Every: 7 * day}, "2026-01-01", true},
		{interval.Spec{Every: day}, "2026-01-01T01:00", false},
		{interval.Spec{Every: 12 * time.Hour}, "2026-01-01", false},
		{interval.Spec{Every: day, TimeZone: "Asia/Jakarta"}, "2025-12-31T17:00", true},
		{interval.Spec{Every: day, TimeZone: "Asia/Jakarta"}, "2026-01-01", false},
		{interval.Spec{Every: day, TimeZone: "Asia/Jakarta"}, "1940-12-31T17:00", false},
		{interval.Spec{Every: day, TimeZone: "Europe/Rome"}, "2025-12-31T23:00", false},
		{interval.Spec{Every: day, TimeZone: "Europe/Rome"}, "2500-12-31T23:00", false},
		{interval.Spec{Every: day, TimeZone: "Africa/Casablanca"}, "2026-06-01T23:00", false},
		{interval.Spec{Every: day, TimeZone: "Africa/Casablanca"}, "2087-12-31T23:00", true}, // the database ends with a fixed offset
	}
	for _, test := range tests {
		if test.start != "" {
			test.spec.Start = utc(t, test.start)
		}
		if got := newGrid(t, test.spec).MidnightOnly(); got != test.want {
			t.Errorf("%+v: MidnightOnly() = %v", test.spec, got)
		}
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{"": "UTC", "UTC": "UTC", "Asia/Jakarta": "Asia/Jakarta"} {
		if got := newGrid(t, interval.Spec{Cron: "@daily", TimeZone: zone}).Location().String(); got != want {
			t.Errorf("Location of %q is %s", zone, got)
		}
	}
}

func TestGridIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	g := newGrid(t, interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome"})
	from, to := utc(t, "2026-01-01"), utc(t, "2030-01-01")
	want := intervals(g, from, to)
	results := make(chan []string)
	const readers = 4
	for range readers {
		go func() { results <- intervals(g, from, to) }()
	}
	for range readers {
		if got := <-results; !slices.Equal(got, want) {
			t.Errorf("%d intervals, want %d", len(got), len(want))
		}
	}
}

// Ten years of minutes, in zones with and without clock changes, by elapsed time and by fixed times.
// The bound is relative, so that it holds on a busy machine and with the race detector: a few times of
// what it takes to read a local clock once for every minute. That is about half a second when idle.
func TestTenYearsOfMinutesAreFast(t *testing.T) {
	t.Parallel()
	from, to := utc(t, "2026-01-01"), utc(t, "2036-01-01")
	rome := location(t, "Europe/Rome")
	begin, minutes, sum := time.Now(), 0, 0
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		minutes++
		sum += at.In(rome).Minute()
	}
	const times = 10
	bound := times * time.Since(begin)
	if sum == 0 {
		t.Fatal("the clock was not read")
	}
	for _, test := range []struct {
		cron, zone string
		count      int
	}{
		{"* * * * *", "UTC", minutes},
		{"* * * * *", "Europe/Rome", minutes},
		{"0-59 0-23 * * *", "Europe/Rome", minutes - 10*60}, // ten hours occur twice
	} {
		begin := time.Now()
		count := 0
		for range newGrid(t, interval.Spec{Cron: test.cron, TimeZone: test.zone}).Between(from, to) {
			count++
		}
		if count != test.count {
			t.Errorf("%s %s: %d intervals, want %d", test.cron, test.zone, count, test.count)
		}
		if took := time.Since(begin); took > bound {
			t.Errorf("%s %s: took %s, more than %s", test.cron, test.zone, took, bound)
		} else {
			t.Logf("%s %s: %d intervals in %s", test.cron, test.zone, count, took)
		}
	}
}

func ExampleGrid_Between() {
	rome, _ := interval.LoadLocation("Europe/Rome")
	from, _ := interval.ParseInstant("2026-03-28", rome)
	to, _ := interval.ParseInstant("2026-03-31", rome)
	grid, _ := interval.New(interval.Spec{Cron: "0 0 * * *", TimeZone: "Europe/Rome"})
	for iv := range grid.Between(from, to) {
		fmt.Println(iv, iv.Duration())
	}
	// Output:
	// 2026-03-27T23:00:00Z/2026-03-28T23:00:00Z 24h0m0s
	// 2026-03-28T23:00:00Z/2026-03-29T22:00:00Z 23h0m0s
	// 2026-03-29T22:00:00Z/2026-03-30T22:00:00Z 24h0m0s
}

func BenchmarkBetween(b *testing.B) {
	from, to := utc(b, "2026-01-01"), utc(b, "2027-01-01")
	for _, cron := range []string{"* * * * *", "0-59 0-23 * * *", "30 2 * * *"} {
		b.Run(cron, func(b *testing.B) {
			g := newGrid(b, interval.Spec{Cron: cron, TimeZone: "Europe/Rome"})
			for b.Loop() {
				for range g.Between(from, to) {
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := interval.New(interval.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Rome"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLastCompleted(b *testing.B) {
	now := utc(b, "2026-06-01")
	for _, cron := range []string{"0 0 29 2 *", "* * 29 2 *", "30 2 * * *", "* * * * *"} {
		b.Run(cron, func(b *testing.B) {
			g := newGrid(b, interval.Spec{Cron: cron, TimeZone: "Europe/Rome"})
			for b.Loop() {
				if _, ok := g.LastCompleted(now); !ok {
					b.Fatal("none")
				}
			}
		})
	}
}
