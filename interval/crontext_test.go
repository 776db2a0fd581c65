package interval_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// Cron texts that mean the same: the same ticks over two years.
func TestSpellings(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, same string }{
		{"  0\t6  * * * ", "0 6 * * *"},
		{"00 06 01 01 *", "0 6 1 1 *"},
		{"0 0 * * mon-fri", "0 0 * * 1-5"},
		{"0 0 * * MON,Wed,friday", "0 0 * * 1,3,5"},
		{"0 0 1 jan-mar,DECEMBER *", "0 0 1 1-3,12 *"},
		{"0 0 * * fri-sun", "0 0 * * 5,6,0"},
		{"0 0 * * 5-7", "0 0 * * 5,6,0"},
		{"0 0 * * 0-7", "0 0 * * 0-6"},
		{"0 0 * * 7/2", "0 0 * * 0,2,4,6"},
		{"0 0 * * 1/2", "0 0 * * 1,3,5"},
		{"0 0 * * sun-sun", "0 0 * * 0"},
		{"0 0 * * sun-mon", "0 0 * * 0,1"},
		{"5/20 3 * * *", "5,25,45 3 * * *"},
		{"5-30/20 3 * * *", "5,25 3 * * *"},
		{"*/60 3 * * *", "0 3 * * *"},
		{"0 */24 * * *", "0 0 * * *"},
		{"0 0 */31 * *", "0 0 1 * *"},
		{"0 0 ? * ?", "0 0 * * *"},
		{"0 0 15 * ?", "0 0 15 * *"},
		{"1,1,1 0 * * *", "1 0 * * *"},
		{"59-59 23-23 * * *", "59 23 * * *"},
		{"@HOURLY", "0 * * * *"},
	}
	from, to := utc(t, "2026-01-01"), utc(t, "2028-01-01")
	for _, test := range tests {
		got := ticks(newGrid(t, interval.Spec{Cron: test.text}), from, to)
		want := ticks(newGrid(t, interval.Spec{Cron: test.same}), from, to)
		if !slices.Equal(got, want) {
			t.Errorf("%q has %d ticks, %q has %d; the first of the former is %s", test.text, len(got), test.same, len(want), got[0])
		}
	}
}

func TestBadCron(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, code string
		column     int
		message    string
	}{
		{" ", "bad-cron", 1, `cron text is empty; it needs five fields: minute hour day-of-month month day-of-week, such as "0 6 * * *"`},
		{"0 6 * *", "bad-cron", 0, `cron "0 6 * *" has 4 fields; it needs five: minute hour day-of-month month day-of-week`},
		{"daily", "bad-cron", 0, `cron "daily" has 1 field; it needs five: minute hour day-of-month month day-of-week`},
		{"1 2 3 4 5 6 7 8", "bad-cron", 0, `cron "1 2 3 4 5 6 7 8" has 8 fields; it needs five: minute hour day-of-month month day-of-week`},
		{"60 * * * *", "bad-cron", 1, `minute "60" (column 1 of cron "60 * * * *"): "60" is not a number from 0 to 59`},
		{"0 24 * * *", "bad-cron", 3, `hour "24" (column 3 of cron "0 24 * * *"): "24" is not a number from 0 to 23`},
		{"0 0 0 * *", "bad-cron", 5, `day-of-month "0" (column 5 of cron "0 0 0 * *"): "0" is not a number from 1 to 31`},
		{"0 0 1 13 *", "bad-cron", 7, `month "13" (column 7 of cron "0 0 1 13 *"): "13" is not a month from 1 to 12 or from jan to dec`},
		{"0 0 1 janu *", "bad-cron", 7, `month "janu" (column 7 of cron "0 0 1 janu *"): "janu" is not a month from 1 to 12 or from jan to dec`},
		{"0 0 * * 8", "bad-cron", 9, `day-of-week "8" (column 9 of cron "0 0 * * 8"): "8" is not a day from 0 to 7 (0 and 7 are Sunday) or from sun to sat`},
		{"0 0 * * mo", "bad-cron", 9, `day-of-week "mo" (column 9 of cron "0 0 * * mo"): "mo" is not a day from 0 to 7 (0 and 7 are Sunday) or from sun to sat`},
		{"1,61 * * * *", "bad-cron", 3, `minute "61" (column 3 of cron "1,61 * * * *"): "61" is not a number from 0 to 59`},
		{"1,,2 * * * *", "bad-cron", 1, `minute "1,,2" (column 1 of cron "1,,2 * * * *"): an element of the list is empty; write values separated by single commas`},
		{"1-70 * * * *", "bad-cron", 1, `minute "1-70" (column 1 of cron "1-70 * * * *"): "70" is not a number from 0 to 59`},
		{"-5 * * * *", "bad-cron", 1, `minute "-5" (column 1 of cron "-5 * * * *"): "-5" is not a number from 0 to 59`},
		{"1-2-3 * * * *", "bad-cron", 1, `minute "1-2-3" (column 1 of cron "1-2-3 * * * *"): "2-3" is not a number from 0 to 59`},
		{"+5 * * * *", "bad-cron", 1, `minute "+5" (column 1 of cron "+5 * * * *"): "+5" is not a number from 0 to 59`},
		{"*5 * * * *", "bad-cron", 1, `minute "*5" (column 1 of cron "*5 * * * *"): "*5" is not a number from 0 to 59`},
		{"99999999999999999999 * * * *", "bad-cron", 1, `minute "99999999999999999999" (column 1 of cron "99999999999999999999 * * * *"): "99999999999999999999" is not a number from 0 to 59`},
		{"*/0 * * * *", "bad-cron", 1, `minute "*/0" (column 1 of cron "*/0 * * * *"): the step after / must be a number from 1 to 60`},
		{"*/ * * * *", "bad-cron", 1, `minute "*/" (column 1 of cron "*/ * * * *"): the step after / must be a number from 1 to 60`},
		{"*/5/5 * * * *", "bad-cron", 1, `minute "*/5/5" (column 1 of cron "*/5/5 * * * *"): the step after / must be a number from 1 to 60`},
		{"*/90 * * * *", "bad-cron", 1, `minute "*/90" (column 1 of cron "*/90 * * * *"): a step of 90 is more than the 60 values of the field, so that only one of them would be left; for a tick every 90 minutes write every: 90m in place of the cron`},
		{"0 */36 * * *", "bad-cron", 3, `hour "*/36" (column 3 of cron "0 */36 * * *"): a step of 36 is more than the 24 values of the field, so that only one of them would be left; for a tick every 36 hours write every: 36h in place of the cron`},
		{"? * * * *", "bad-cron", 1, `minute "?" (column 1 of cron "? * * * *"): "?" is not a number from 0 to 59`},
		{"0 0 ?/2 * *", "bad-cron", 5, `day-of-month "?/2" (column 5 of cron "0 0 ?/2 * *"): "?" is not a number from 1 to 31`},
		{"0\u00a00 * * *", "bad-cron", 2, `cron "0\u00a00 * * *", column 2: "\u00a0" has no place in cron text; separate the five fields by blanks`},
		{"0 0 é * *", "bad-cron", 5, `cron "0 0 é * *", column 5: "\u00e9" has no place in cron text; separate the five fields by blanks`},
		{"0 0 * * *\n", "bad-cron", 10, `cron "0 0 * * *\n", column 10: "\n" has no place in cron text; separate the five fields by blanks`},
		{"\xff 0 * * *", "bad-cron", 1, `cron "\xff 0 * * *", column 1: "\xff" has no place in cron text; separate the five fields by blanks`},
		{"@dayly", "bad-cron", 1, `cron "@dayly": @dayly is unknown; the names are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`},
		{"@daily 5", "bad-cron", 8, `cron "@daily 5", column 8: nothing may follow @daily`},

		{"0 0 6 * * *", "not-supported", 0, `cron "0 0 6 * * *" has 6 fields; seconds and years are not supported. Write five: "0 6 * * *" if the first field was meant as seconds, "0 0 6 * *" if the last field was meant as years`},
		{"0 30 6 * * *", "not-supported", 0, `cron "0 30 6 * * *" has 6 fields; seconds and years are not supported. Write five: "30 6 * * *" if the first field was meant as seconds`},
		{"0 6 1 1 * 2026", "not-supported", 0, `cron "0 6 1 1 * 2026" has 6 fields; seconds and years are not supported. Write five: "0 6 1 1 *" if the last field was meant as years`},
		{"0 0 6 1 1 ? 2026", "not-supported", 0, `cron "0 0 6 1 1 ? 2026" has 7 fields; seconds and years are not supported. Write five: "0 6 1 1 ?" if the first field was meant as seconds`},
		{"*/10 * * * * *", "not-supported", 0, `cron "*/10 * * * * *" has 6 fields; seconds and years are not supported. Write five: "* * * * *" if the first field was meant as seconds, "*/10 * * * *" if the last field was meant as years; for a tick every 10 seconds write every: 10s in place of the cron`},
		{"x y z x y z", "not-supported", 0, `cron "x y z x y z" has 6 fields; seconds and years are not supported. Write five: minute hour day-of-month month day-of-week`},
		{"0 0 L * *", "not-supported", 5, `day-of-month "L" (column 5 of cron "0 0 L * *"): L (the last day of the month) is not supported; write 1: a run that is due on the 1st covers the month to the end of its last day`},
		{"0 0 L-3 * *", "not-supported", 5, `day-of-month "L-3" (column 5 of cron "0 0 L-3 * *"): L (the last day of the month) is not supported; write 1: a run that is due on the 1st covers the month to the end of its last day`},
		{"0 0 1,l * *", "not-supported", 7, `day-of-month "l" (column 7 of cron "0 0 1,l * *"): L (the last day of the month) is not supported; write 1: a run that is due on the 1st covers the month to the end of its last day`},
		{"0 0 15W * *", "not-supported", 5, `day-of-month "15W" (column 5 of cron "0 0 15W * *"): W (the nearest working day) is not supported; write the day alone, or 1-5 in the day-of-week field for every working day`},
		{"0 0 * * 1#2", "not-supported", 9, `day-of-week "1#2" (column 9 of cron "0 0 * * 1#2"): # (the nth weekday of a month) is not supported; write the weekday alone, "1": each run then covers a week`},
		{"0 0 * * 5L", "not-supported", 9, `day-of-week "5L" (column 9 of cron "0 0 * * 5L"): L (the last such weekday of the month) is not supported; write the weekday alone, "5": each run then covers a week`},
		{"0 0 * * L", "not-supported", 9, `day-of-week "L" (column 9 of cron "0 0 * * L"): L (the last day of the week) is not supported; write sat or sun`},
		{"H 3 * * *", "not-supported", 1, `minute "H" (column 1 of cron "H 3 * * *"): H (a value chosen by a hash) is not supported; write a fixed value, such as 17`},
		{"H/15 3 * * *", "not-supported", 1, `minute "H/15" (column 1 of cron "H/15 3 * * *"): H (a value chosen by a hash) is not supported; write */15`},
		{"H(0-29)/10 3 * * *", "not-supported", 1, `minute "H(0-29)/10" (column 1 of cron "H(0-29)/10 3 * * *"): H (a value chosen by a hash) is not supported; write */10`},
		{"0 22-2 * * *", "not-supported", 3, `hour "22-2" (column 3 of cron "0 22-2 * * *"): a range that wraps around is not supported; write 22-23,0-2`},
		{"0 23-0 * * *", "not-supported", 3, `hour "23-0" (column 3 of cron "0 23-0 * * *"): a range that wraps around is not supported; write 23,0`},
		{"0 20-4/3 * * *", "not-supported", 3, `hour "20-4/3" (column 3 of cron "0 20-4/3 * * *"): a range that wraps around is not supported; write 20,23,2`},
		{"0 0 * * fri-mon", "not-supported", 9, `day-of-week "fri-mon" (column 9 of cron "0 0 * * fri-mon"): a range that wraps around is not supported; write fri-sat,sun-mon`},
		{"0 0 * * 5-1", "not-supported", 9, `day-of-week "5-1" (column 9 of cron "0 0 * * 5-1"): a range that wraps around is not supported; write 5-6,0-1`},
		{"0 0 * * 7-2", "not-supported", 9, `day-of-week "7-2" (column 9 of cron "0 0 * * 7-2"): a range that wraps around is not supported; write 0-2`},
		{"0 0 1 nov-feb *", "not-supported", 7, `month "nov-feb" (column 7 of cron "0 0 1 nov-feb *"): a range that wraps around is not supported; write nov-dec,jan-feb`},
		{"CRON_TZ=Europe/Rome 0 0 * * *", "not-supported", 1, `cron "CRON_TZ=Europe/Rome 0 0 * * *": CRON_TZ= inside cron text is not supported; write timezone: Europe/Rome beside the cron`},
		{"TZ=Asia/Tokyo 0 0 * * *", "not-supported", 1, `cron "TZ=Asia/Tokyo 0 0 * * *": TZ= inside cron text is not supported; write timezone: Asia/Tokyo beside the cron`},
		{"0 0 * * * # nightly", "not-supported", 11, `cron "0 0 * * * # nightly", column 11: a comment inside cron text is not supported; write it outside of the quotes`},
		{"@every 6h", "not-supported", 1, `cron "@every 6h": @every is not supported; write every: 6h in place of the cron`},
		{"@every", "not-supported", 1, `cron "@every": @every is not supported; write every: 24h, or another duration, in place of the cron`},
		{"@every 1d", "not-supported", 1, `cron "@every 1d": @every is not supported; write every: 24h, or another duration, in place of the cron`},
		{"@reboot", "not-supported", 1, `cron "@reboot": @reboot is not supported: a run owns an interval of time, and a start of the machine has none; write when the interval ends, such as @daily`},

		{"0 0 30 2 *", "never-fires", 5, `cron "0 0 30 2 *" never fires: month 2 never has a day 30; write a day that it has, or 1 of the month after for its last day`},
		{"0 0 31 feb,apr,6 ?", "never-fires", 5, `cron "0 0 31 feb,apr,6 ?" never fires: month feb,apr,6 never has a day 31; write a day that it has, or 1 of the month after for its last day`},
		{"0 0 30,31 2 */2", "never-fires", 5, `cron "0 0 30,31 2 */2" never fires: month 2 never has a day 30,31; write a day that it has, or 1 of the month after for its last day`},
	}
	for _, test := range tests {
		_, err := interval.New(interval.Spec{Cron: test.text})
		var errs interval.Errors
		if !errors.As(err, &errs) || len(errs) != 1 {
			t.Errorf("%q: %v, want exactly one error", test.text, err)
			continue
		}
		got := *errs[0]
		want := interval.Error{Code: test.code, Field: interval.FieldCron, Column: test.column, Message: test.message}
		if got != want {
			t.Errorf("%q:\n got %+v\nwant %+v", test.text, got, want)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("99,", 300) + " 0 * * *", strings.Repeat("*", 1<<20)} {
		_, err := interval.New(interval.Spec{Cron: text})
		var errs interval.Errors
		if !errors.As(err, &errs) || len(errs) > 5 || len(errs[0].Message) > 1200 {
			t.Errorf("%d errors for %.20q...: %.1000s", len(errs), text, err)
		}
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := interval.New(interval.Spec{
		Cron: "60,x 24 L 13 8#1", TimeZone: "Europe/Rom",
		Start: utc(t, "2026-01-01").Add(time.Millisecond), End: utc(t, "2025-01-01").Add(time.Microsecond),
	})
	var errs interval.Errors
	if !errors.As(err, &errs) {
		t.Fatalf("%v is no interval.Errors", err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Field+" "+e.Code)
	}
	equal(t, "errors", got, []string{"cron bad-cron", "cron bad-cron", "cron bad-cron", "cron not-supported", "cron bad-cron", "cron not-supported",
		"timezone unknown-time-zone", "start bad-start", "end bad-end"})
	var first *interval.Error
	if !errors.As(err, &first) || first != errs[0] {
		t.Errorf("errors.As finds %v, want the first error", first)
	}
	if n := strings.Count(err.Error(), "; "); n < len(errs)-1 {
		t.Errorf("message has not all the errors: %s", err)
	}
}

func TestNeverFiresIsFoundFast(t *testing.T) {
	t.Parallel()
	start := time.Now()
	const rounds = 100
	for range rounds {
		if _, err := interval.New(interval.Spec{Cron: "0 0 30 2 *"}); err == nil {
			t.Fatal("accepted")
		}
	}
	if each := time.Since(start) / rounds; each > 100*time.Millisecond {
		t.Errorf("took %s", each)
	}
}
