package interval_test

import (
	"errors"
	"testing"

	"github.com/trancheflow/tranche/interval"
)

func TestParseInstant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, zone, want string }{
		{"2026-01-15", "UTC", "2026-01-15T00:00Z"},
		{"2026-01-15", "Europe/Rome", "2026-01-14T23:00Z"},
		{"2026-07-15", "Europe/Rome", "2026-07-14T22:00Z"},
		{"2026-01-15", "Asia/Jakarta", "2026-01-14T17:00Z"},
		{"2024-02-29", "UTC", "2024-02-29T00:00Z"},
		{"2026-03-29", "Europe/Rome", "2026-03-28T23:00Z"},
		{"2017-10-15", "America/Sao_Paulo", "2017-10-15T03:00Z"}, // 01:00, because midnight is skipped
		{"2026-11-01", "America/Havana", "2026-11-01T04:00Z"},    // the first of two midnights
		{"2010-11-07", "America/St_Johns", "2010-11-07T02:30Z"},  // 00:00, a minute before 23:01 comes again
		{"1866-12-13", "Europe/Rome", "1866-12-12T23:10:04Z"},
		{"9999-12-31", "UTC", "9999-12-31T00:00Z"},

		{"2026-01-15T10:00", "UTC", "2026-01-15T10:00Z"},
		{"2026-01-15T10:00:30", "UTC", "2026-01-15T10:00:30Z"},
		{"2026-01-15 10:00:30", "UTC", "2026-01-15T10:00:30Z"},
		{"2026-01-15T23:59:59", "Europe/Rome", "2026-01-15T22:59:59Z"},
		{"2026-03-29T01:59:59", "Europe/Rome", "2026-03-29T00:59:59Z"},
		{"2026-03-29T03:00", "Europe/Rome", "2026-03-29T01:00Z"},
		{"2026-10-25T01:59:59", "Europe/Rome", "2026-10-24T23:59:59Z"},
		{"2026-10-25T03:00", "Europe/Rome", "2026-10-25T02:00Z"},

		{"2026-01-15T10:00Z", "Europe/Rome", "2026-01-15T10:00Z"},
		{"2026-01-15T10:00:30Z", "Europe/Rome", "2026-01-15T10:00:30Z"},
		{"2026-07-01T01:15:00+09:00", "Asia/Tokyo", "2026-06-30T16:15Z"},
		{"2026-07-01T01:15+09:00", "Europe/Rome", "2026-06-30T16:15Z"},
		{"2026-10-25T02:30:00+02:00", "Europe/Rome", "2026-10-25T00:30Z"},
		{"2026-10-25T02:30:00+01:00", "Europe/Rome", "2026-10-25T01:30Z"},
		{"2026-03-29T02:30:00+01:00", "Europe/Rome", "2026-03-29T01:30Z"}, // with an offset it is an instant
		{"2026-01-15T10:00-03:30", "UTC", "2026-01-15T13:30Z"},
		{"2026-01-15T10:00-00:00", "UTC", "2026-01-15T10:00Z"},
	} {
		at, err := interval.ParseInstant(test.text, location(t, test.zone))
		if err != nil || short(at) != test.want {
			t.Errorf("ParseInstant(%q, %s) = %s, %v; want %s", test.text, test.zone, short(at), err, test.want)
		}
		if again, err := interval.ParseInstant(at.Format("2006-01-02T15:04:05Z07:00"), nil); err != nil || again != at {
			t.Errorf("%s comes back as %s, %v", at, again, err)
		}
	}
	if at, err := interval.ParseInstant("2026-01-15", nil); err != nil || short(at) != "2026-01-15T00:00Z" {
		t.Errorf("without a zone: %s, %v; want UTC", at, err)
	}
}

func TestParseInstantErrors(t *testing.T) {
	t.Parallel()
	const form = "this is neither a date (2026-01-15) nor a date and a time (2026-01-15T10:00, 2026-01-15T10:00:00+07:00)"
	for _, test := range []struct {
		text, code string
		column     int
		message    string // without the text's prefix when code is bad-time
	}{
		{"", "bad-time", 1, form},
		{"now", "bad-time", 1, form},
		{"15.01.2026", "bad-time", 1, form},
		{"2026", "bad-time", 5, form},
		{"2026-1-15", "bad-time", 6, form},
		{"26-01-15", "bad-time", 1, form},
		{"20260115", "bad-time", 5, form},
		{" 2026-01-15", "bad-time", 1, form},
		{"2026-01-15 ", "bad-time", 12, form},
		{"2026-01-15Z", "bad-time", 11, form},
		{"2026-01-15T", "bad-time", 12, form},
		{"2026-01-15T10", "bad-time", 14, form},
		{"2026-01-15T10:00:00+7", "bad-time", 21, form},
		{"2026-01-15T10:00:00+0700", "bad-time", 23, form},
		{"2026-01-15T10:00:00 +07:00", "bad-time", 20, form},
		{"2026-01-15T10:00:00z", "bad-time", 20, form},
		{"2026-01-15T10:00:00ZZ", "bad-time", 21, form},
		{"２026-01-15", "bad-time", 1, form},
		{"2026-02-30", "bad-time", 1, "February 2026 has the days 1 to 28"},
		{"2026-02-29T10:00Z", "bad-time", 1, "February 2026 has the days 1 to 28"},
		{"2026-04-31", "bad-time", 1, "April 2026 has the days 1 to 30"},
		{"2026-01-00", "bad-time", 1, "January 2026 has the days 1 to 31"},
		{"2026-13-01", "bad-time", 1, "months go from 01 to 12"},
		{"2026-00-01", "bad-time", 1, "months go from 01 to 12"},
		{"0000-01-01", "bad-time", 1, "years go from 0001 to 9999"},
		{"2026-01-15T24:00", "bad-time", 12, "hours go from 00 to 23"},
		{"2026-01-15T10:60", "bad-time", 15, "minutes go from 00 to 59"},
		{"2026-01-15T10:00:60", "bad-time", 18, "seconds go from 00 to 59"},
		{"2026-01-15T10:00:00+24:00", "bad-time", 21, "hours of an offset go from 00 to 23"},
		{"2026-01-15T10:00:00+01:60", "bad-time", 24, "minutes of an offset go from 00 to 59"},
		{"2026-01-15T10:00:00.5", "bad-time", 20, "fractions of a second are not supported; write whole seconds"},
		{"2026-01-15T10:00:00,000Z", "bad-time", 20, "fractions of a second are not supported; write whole seconds"},
	} {
		checkInstantError(t, test.text, "Europe/Rome", interval.Error{Code: test.code, Column: test.column,
			Message: `time "` + test.text + `": ` + test.message})
	}
	for _, test := range []struct{ text, zone, code, message string }{
		{"2026-03-29T02:30", "Europe/Rome", "nonexistent-time", `time "2026-03-29T02:30" does not exist in Europe/Rome: its clocks skip it; the first instant after it is 2026-03-29T03:00:00+02:00`},
		{"2026-10-25T02:30", "Europe/Rome", "ambiguous-time", `time "2026-10-25T02:30" occurs twice in Europe/Rome: write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00`},
		{"2026-11-01T01:30:15", "America/New_York", "ambiguous-time", `time "2026-11-01T01:30:15" occurs twice in America/New_York: write 2026-11-01T01:30:15-04:00 or 2026-11-01T01:30:15-05:00`},
		{"2026-04-05T01:45", "Australia/Lord_Howe", "ambiguous-time", `time "2026-04-05T01:45" occurs twice in Australia/Lord_Howe: write 2026-04-05T01:45:00+11:00 or 2026-04-05T01:45:00+10:30`},
		{"2017-10-15T00:00", "America/Sao_Paulo", "nonexistent-time", `time "2017-10-15T00:00" does not exist in America/Sao_Paulo: its clocks skip it; the first instant after it is 2017-10-15T01:00:00-02:00`},
		{"2011-12-30", "Pacific/Apia", "nonexistent-time", `date "2011-12-30" does not exist in Pacific/Apia: its clocks skip that day; the first instant after it is 2011-12-31T00:00:00+14:00`},
		{"2011-12-30T12:00", "Pacific/Apia", "nonexistent-time", `time "2011-12-30T12:00" does not exist in Pacific/Apia: its clocks skip it; the first instant after it is 2011-12-31T00:00:00+14:00`},
		{"0001-01-01", "UTC", "bad-time", `time "0001-01-01" is outside of the years 1 to 9999 in UTC`},
		{"0001-01-01", "Asia/Tokyo", "bad-time", `time "0001-01-01" is outside of the years 1 to 9999 in UTC`},
		{"9999-12-31T23:59:59-01:00", "UTC", "bad-time", `time "9999-12-31T23:59:59-01:00" is outside of the years 1 to 9999 in UTC`},
	} {
		checkInstantError(t, test.text, test.zone, interval.Error{Code: test.code, Message: test.message})
	}
}

func checkInstantError(t *testing.T, text, zone string, want interval.Error) {
	t.Helper()
	at, err := interval.ParseInstant(text, location(t, zone))
	var got *interval.Error
	if !errors.As(err, &got) || !at.IsZero() {
		t.Errorf("ParseInstant(%q, %s) = %s, %v; want an error", text, zone, at, err)
		return
	}
	if *got != want {
		t.Errorf("ParseInstant(%q, %s):\n got %+v\nwant %+v", text, zone, *got, want)
	}
}
