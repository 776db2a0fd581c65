package interval_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func collect(t *testing.T, line *interval.Timeline, from, to string) []string {
	t.Helper()
	var found []string
	for iv := range line.Between(utc(t, from), utc(t, to)) {
		found = append(found, iv.String())
		if at, ok := line.At(iv.End); !ok || at != iv {
			t.Errorf("At(%s) is %s, %t; want %s", iv.End, at, ok, iv)
		}
		for _, within := range []time.Time{iv.Start, iv.End.Add(-time.Second)} {
			if at, ok := line.Owner(within); !ok || at != iv {
				t.Errorf("Owner(%s) is %s, %t; want %s", within, at, ok, iv)
			}
		}
		if at, ok := line.StartingAt(iv.Start); !ok || at != iv {
			t.Errorf("StartingAt(%s) is %s, %t; want %s", iv.Start, at, ok, iv)
		}
	}
	return found
}

// The hourly grid gives way to a daily one at its last tick before the change, and that to an hourly one again.
func TestTimelineHourlyToDailyAndBack(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-05-04")
	line, err := interval.NewTimeline(
		interval.Spec{Cron: "0 * * * *", Start: start},
		interval.Spec{Cron: "0 0 * * *", Start: start, Since: utc(t, "2026-05-04T09:00:00Z")},
		interval.Spec{Cron: "0 * * * *", Start: start, Since: utc(t, "2026-05-06T00:00:00Z")},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, line, "2026-05-04T07:00:00Z", "2026-05-06T02:00:00Z")
	want := []string{
		"2026-05-04T07:00:00Z/2026-05-04T08:00:00Z", "2026-05-04T08:00:00Z/2026-05-04T09:00:00Z",
		"2026-05-04T09:00:00Z/2026-05-05T00:00:00Z", "2026-05-05T00:00:00Z/2026-05-06T00:00:00Z",
		"2026-05-06T00:00:00Z/2026-05-06T01:00:00Z", "2026-05-06T01:00:00Z/2026-05-06T02:00:00Z",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("interval %d is %s, want %s", i, got[i], want[i])
		}
	}
	for tick, owned := range map[string]bool{
		"2026-05-04T09:00:00Z": true, "2026-05-04T10:00:00Z": false, "2026-05-05T00:00:00Z": true, "2026-05-05T01:00:00Z": false,
	} {
		if _, ok := line.At(utc(t, tick)); ok != owned {
			t.Errorf("At(%s) is %t", tick, ok)
		}
	}
	if iv, ok := line.LastCompleted(utc(t, "2026-05-04T23:00:00Z")); !ok || iv.End != utc(t, "2026-05-04T09:00:00Z") {
		t.Errorf("during the first day of the daily grid the last interval is %s, %t", iv, ok)
	}
}

// Every keeps its phase over a change: it counts from Start, not from where it took over.
func TestTimelineEveryKeepsItsPhase(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-05-04T00:20:00Z")
	line, err := interval.NewTimeline(
		interval.Spec{Cron: "0 * * * *", Start: start},
		interval.Spec{Every: time.Hour, Start: start, Since: utc(t, "2026-05-04T03:00:00Z")},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, line, "2026-05-04T02:00:00Z", "2026-05-04T04:00:00Z")
	want := []string{"2026-05-04T02:00:00Z/2026-05-04T03:00:00Z", "2026-05-04T03:00:00Z/2026-05-04T03:20:00Z", "2026-05-04T03:20:00Z/2026-05-04T04:20:00Z"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A grid that takes over after its own end has no tick, and that is no error.
func TestTimelineAfterItsEnd(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-05-04")
	line, err := interval.NewTimeline(
		interval.Spec{Cron: "0 * * * *", Start: start},
		interval.Spec{Cron: "0 0 * * *", Start: start, End: utc(t, "2026-05-04T12:00:00Z"), Since: utc(t, "2026-05-04T15:00:00Z")},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := collect(t, line, "2026-05-04T13:00:00Z", "2026-06-01"); len(got) != 2 {
		t.Errorf("got %q, want the two hours before", got)
	}
}

// Whatever grids follow each other, each from the last tick of the one before: the intervals tile.
func TestTimelineTiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	crons := []string{"0 * * * *", "*/15 * * * *", "30 2 * * *", "0 0 * * 1", "5 4 1,15 * 5", "0 0 1 * *"}
	zones := []string{"UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe"}
	for round := range 50 {
		start := utc(t, "2026-01-01").Add(time.Duration(random.IntN(100000)) * time.Second)
		spec := func() interval.Spec {
			if random.IntN(4) == 0 {
				return interval.Spec{Every: time.Duration(1+random.IntN(100000)) * time.Second, Start: start}
			}
			return interval.Spec{Cron: crons[random.IntN(len(crons))], TimeZone: zones[random.IntN(len(zones))], Start: start}
		}
		specs := []interval.Spec{spec()}
		now := start
		for range random.IntN(5) {
			now = now.Add(time.Duration(random.IntN(60*24)) * time.Hour)
			line, err := interval.NewTimeline(specs...)
			if err != nil {
				t.Fatal(err)
			}
			next := spec()
			if last, ok := line.LastCompleted(now); ok {
				next.Since = last.End
				specs = append(specs, next)
			} else {
				specs[len(specs)-1] = next
			}
		}
		line, err := interval.NewTimeline(specs...)
		if err != nil {
			t.Fatal(err)
		}
		at := start
		for iv := range line.Between(start, now.AddDate(0, 2, 0)) {
			if iv.Start != at.UTC() || !iv.Start.Before(iv.End) {
				t.Fatalf("round %d, %v: after %s comes %s", round, specs, at, iv)
			}
			at = iv.End
		}
	}
}

func TestTimelineRefusesDisorder(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-05-04")
	if _, err := interval.NewTimeline(); err == nil {
		t.Error("an empty timeline is accepted")
	}
	a := interval.Spec{Cron: "0 * * * *", Start: start}
	b := interval.Spec{Cron: "0 * * * *", Start: start, Since: utc(t, "2026-05-06")}
	c := interval.Spec{Cron: "0 * * * *", Start: start, Since: utc(t, "2026-05-05")}
	if _, err := interval.NewTimeline(a, b, c); err == nil {
		t.Error("grids out of order are accepted")
	}
	if _, err := interval.NewTimeline(a, a); err == nil {
		t.Error("a second grid that takes over nowhere is accepted")
	}
}

func TestSameCadence(t *testing.T) {
	t.Parallel()
	start := utc(t, "2026-05-04")
	grid := func(spec interval.Spec) *interval.Grid {
		if spec.Start.IsZero() {
			spec.Start = start
		}
		g, err := interval.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		name string
		a, b interval.Spec
		same bool
	}{
		{"another way to write it", interval.Spec{Cron: "@daily"}, interval.Spec{Cron: "0 0 * * *"}, true},
		{"another start", interval.Spec{Cron: "@daily"}, interval.Spec{Cron: "@daily", Start: start.AddDate(1, 0, 0)}, true},
		{"another end", interval.Spec{Cron: "@daily"}, interval.Spec{Cron: "@daily", End: start.AddDate(1, 0, 0)}, true},
		{"another zone", interval.Spec{Cron: "@daily"}, interval.Spec{Cron: "@daily", TimeZone: "Europe/Rome"}, false},
		{"another time", interval.Spec{Cron: "0 1 * * *"}, interval.Spec{Cron: "0 0 * * *"}, false},
		{"a star that decides how clock changes are read", interval.Spec{Cron: "0-59 3 * * *"}, interval.Spec{Cron: "* 3 * * *"}, false},
		{"every and cron", interval.Spec{Every: time.Hour}, interval.Spec{Cron: "@hourly"}, false},
		{"every from a start of the same phase", interval.Spec{Every: time.Hour}, interval.Spec{Every: time.Hour, Start: start.Add(5 * time.Hour)}, true},
		{"every from a start of another phase", interval.Spec{Every: time.Hour}, interval.Spec{Every: time.Hour, Start: start.Add(time.Minute)}, false},
	} {
		if got := interval.SameCadence(grid(c.a), grid(c.b)); got != c.same {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
