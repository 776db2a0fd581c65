package schedules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/schedules"
)

// Whatever is a valid schedule fires at its ticks, or is refused with a reason.
func FuzzCompile(f *testing.F) {
	zones := interval.Zones()
	seed := func(text, zone string, start, end time.Time) {
		number, _ := slices.BinarySearch(zones, zone)
		f.Add(text, uint16(number), start.Unix(), end.Unix())
	}
	for _, text := range []string{"30 2 * * *", "*/7 1-3 25-31 3,10 0", "0 0 29 2 */3", "0 0 31 12 5"} {
		seed(text, "Europe/Rome", start, time.Time{})
		seed(text, "Africa/Casablanca", utc(f, "2001-09-09"), utc(f, "2033-05-18"))
	}
	seed("59 23 * * *", "Asia/Tokyo", utc(f, "1969-12-31T23:59:59"), utc(f, "2100-12-31T23:59:59"))
	seed("0 0 29 2 *", "Pacific/Apia", utc(f, "2096-10-02"), utc(f, "2110-01-01"))
	f.Fuzz(func(t *testing.T, text string, number uint16, from, to int64) {
		const century = 5_000_000_000
		spec := interval.Spec{Cron: text, TimeZone: zones[int(number)%len(zones)], Start: time.Unix(from%century, 0)}
		if to %= century; to > 0 {
			spec.End = time.Unix(to, 0)
		}
		if _, err := interval.New(spec); err != nil {
			return
		}
		ticks, err := schedules.Compile(spec, text, now)
		if err != nil {
			if !strings.Contains(err.Error(), "has no tick in the years 2000 to 2100") {
				t.Errorf("%+v: %v", spec, err)
			}
			return
		}
		if len(ticks.Calendars) == 0 || len(ticks.Calendars) > 300 || ticks.Size() > 16<<10 || ticks.Shortened {
			t.Errorf("%+v: %d calendars in %d bytes", spec, len(ticks.Calendars), ticks.Size())
		}
		const month = 31 * 24 * time.Hour
		for _, at := range []time.Time{ticks.From, now, exact.Add(-month), quiet, spec.End.Add(-month)} {
			if err := ticks.Check(spec, at, at.Add(month)); err != nil {
				t.Errorf("%+v: %v", spec, err)
			}
		}
	})
}
