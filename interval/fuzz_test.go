package interval_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trancheflow/tranche/interval"
)

func FuzzCron(f *testing.F) {
	for _, text := range []string{
		"*/15 8-18 * * 1-5", "30 4 1,15 * 5", "0 0 30 2 *", "0 0 29 2 */7", "0 22-2 * * fri-mon", "0 0 L * 1#2", "0 0 ? jan sun", "@daily",
		"@every 6h", "CRON_TZ=UTC 0 0 * * *", "0 0 6 * * *", "H H * * *", "5/20 * * * 7/2", "1,,2 - / ? é", "*/99999999999999999999 * * * *",
	} {
		f.Add(text, int64(1_792_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		at %= 200_000_000_000 // the year 8307
		g, err := interval.New(interval.Spec{Cron: text, TimeZone: "Europe/Rome"})
		if err != nil {
			checkErrors(t, text, err)
			return
		}
		from, ok := g.Next(time.Unix(at, 0))
		if !ok || from.Unix() <= at {
			t.Fatalf("%q: the tick after %d is %s, %v", text, at, from, ok)
		}
		to := from
		for range 3 {
			if to, ok = g.Next(to); !ok {
				return
			}
		}
		if n := checkGrid(t, text, g, from, to); n != 3 {
			t.Errorf("%q: %d intervals from %s to %s, want 3", text, n, from, to)
		}
		if now, ok := g.LastCompleted(time.Unix(at, 0)); ok && (now.End.Unix() > at || !from.After(now.End)) {
			t.Errorf("%q: the last completed at %d is %s", text, at, now)
		}
	})
}

// checkErrors checks what every refusal of a cron text must have.
func checkErrors(t *testing.T, text string, err error) {
	t.Helper()
	var errs interval.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("%q: %v is no interval.Errors", text, err)
	}
	for _, e := range errs {
		if e.Code == "" || e.Field != interval.FieldCron || e.Message == "" {
			t.Errorf("%q: %+v is incomplete", text, e)
		}
		if e.Column < 0 || e.Column > utf8.RuneCountInString(text)+1 {
			t.Errorf("%q: column %d is outside of the text", text, e.Column)
		}
		if strings.ContainsAny(e.Message, "\n\r") || strings.Contains(e.Message, "%!") && !strings.Contains(text, "%!") {
			t.Errorf("%q: the message is broken: %s", text, e.Message)
		}
	}
}

func FuzzParseInstant(f *testing.F) {
	for _, text := range []string{
		"2026-01-15", "2026-03-29T02:30", "2026-10-25T02:30:00", "2026-10-25T02:30:00+02:00", "2026-02-30", "2011-12-30", "0001-01-01",
		"9999-12-31T23:59:59Z", "2026-01-15T10:00:00.5Z", "2026-01-15 10:00", "", "1866-12-13", "2010-11-07T00:00:30",
	} {
		f.Add(text, uint16(0))
		f.Add(text, uint16(400))
	}
	zones := interval.Zones()
	f.Fuzz(func(t *testing.T, text string, number uint16) {
		loc := location(t, zones[int(number)%len(zones)])
		at, err := interval.ParseInstant(text, loc)
		if err != nil {
			var e *interval.Error
			if !errors.As(err, &e) || e.Code == "" || e.Message == "" || !at.IsZero() {
				t.Errorf("%q in %s: %s, %#v", text, loc, at, err)
			}
			return
		}
		if again, err := interval.ParseInstant(at.Format(time.RFC3339), nil); err != nil || again != at || at.Nanosecond() != 0 {
			t.Errorf("%q in %s: %s comes back as %s, %v", text, loc, at, again, err)
		}
		local := at.In(loc)
		switch offset := strings.HasSuffix(text, "Z") || len(text) > 16 && strings.ContainsAny(text[16:], "+-"); {
		case offset:
			if std, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1)); err == nil && !std.Equal(at) {
				t.Errorf("%q: %s, the time package says %s", text, at, std)
			}
		case len(text) == len(time.DateOnly):
			if local.Format(time.DateOnly) != text || at.Add(-time.Second).In(loc).Format(time.DateOnly) == text {
				t.Errorf("%q in %s: %s is not the first instant of that day", text, loc, local)
			}
		default:
			if shown := local.Format("2006-01-02T15:04:05"); !strings.HasPrefix(shown, strings.Replace(text, " ", "T", 1)) {
				t.Errorf("%q in %s: the clock shows %s", text, loc, shown)
			}
		}
	})
}

func FuzzZone(f *testing.F) {
	for _, name := range []string{"Europe/Rome", "Europe/Rom", "", "UTC", "Local", "America/New York", "UTC+7", "+0530", "EST", "PST", "../zone", "\xff/\x00", "ROME"} {
		f.Add(name, int64(1_792_000_000))
		f.Add(name, int64(-4_000_000_000))
	}
	f.Fuzz(func(t *testing.T, name string, at int64) {
		at %= 60_000_000_000
		loc, err := interval.LoadLocation(name)
		if err != nil {
			var e *interval.Error
			if loc != nil || !errors.As(err, &e) || e.Code != interval.CodeUnknownTimeZone || e.Field != interval.FieldTimeZone {
				t.Errorf("LoadLocation(%q) = %v, %#v", name, loc, err)
			}
			return
		}
		for _, text := range []string{"*/30 * * * *", "30 0-3 * * *"} {
			g := newGrid(t, interval.Spec{Cron: text, TimeZone: name})
			from := time.Unix(at, 0).UTC()
			checkGrid(t, text+" in "+name, g, from, from.Add(30*time.Hour))
		}
	})
}
