package pipeline

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Schedules that look as impossible as 30 February and are not.
func TestSchedulesThatLookWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, timezone, first, second string }{
		// Day of month or day of week: the Mondays of February.
		{"0 0 30 2 1", "UTC", "2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"},
		// EST is five hours behind UTC all the year, New York is not.
		{"0 9 * * 1", "EST", "2026-01-05T14:00:00Z", "2026-01-12T14:00:00Z"},
	} {
		p := with(t, `"0 0 * * *"`, `"`+c.cron+`"`, "schedule:\n", "schedule:\n  timezone: "+c.timezone+"\n")
		grid, err := p.Grid()
		if err != nil {
			t.Fatal(err)
		}
		var ticks []string
		for iv := range grid.Between(time.Time{}, instant(t, "2040-01-01T00:00:00Z")) {
			if ticks = append(ticks, iv.End.Format(time.RFC3339)); len(ticks) == 2 {
				break
			}
		}
		if got := strings.Join(ticks, " "); got != c.first+" "+c.second {
			t.Errorf("%s in %s ticks at %s", c.cron, c.timezone, got)
		}
	}
}

// The zones come from the program: a host without a zone database changes nothing.
func TestZonesWithoutTheHost(t *testing.T) {
	t.Setenv("ZONEINFO", "/nowhere")
	p := with(t, "schedule:\n", "schedule:\n  timezone: Europe/Rome\n")
	loc, err := p.Location()
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, time.July, 6, 9, 0, 0, 0, loc).Zone(); offset != 2*60*60 {
		t.Errorf("Rome is %d s ahead of UTC in July", offset)
	}
}

// The greatest file that is read takes no time that anybody would notice, whatever is in it.
func TestTimeToRead(t *testing.T) {
	t.Parallel()
	if os.Getenv("CI") == "" && testing.Short() {
		t.Skip("short: the greatest files are not read")
	}
	ok := minimal(t)
	fill := func(unit string) string { return ok + strings.Repeat(unit, (MaximumSize-len(ok))/len(unit)) }
	var needs strings.Builder
	for i := range 990 {
		needs.WriteString("  - { name: s" + strings.Repeat("x", i%40) + ", needs: [extract, load], activity: { type: A } }\n")
	}
	for name, text := range map[string]string{
		"comments":   fill("# password=\n") + "x",
		"unknown":    fill("aaaaaaaaaaaa: b\n"),
		"steps":      fill("  - name: x\n"),
		"too many":   fill("  - { name: x, activity: { type: A } }\n"),
		"duplicates": ok + needs.String(),
		"never":      strings.Replace(ok, "0 0 * * *", "0 0 30 2 *", 1),
		"bad syntax": fill("  - name: x\n")[:MaximumSize-10] + "\n\t{",
		"brackets":   ok + "x: " + strings.Repeat("[", 9000),
	} {
		began := time.Now()
		_, problems := parseText(text)
		// Far above what it takes, so that a busy machine does not fail it, and far below quadratic.
		if took := time.Since(began); took > 20*time.Second || len(problems) == 0 {
			t.Errorf("%s: %s, %d problems", name, took, len(problems))
		} else {
			t.Logf("%s: %s, %d problems", name, took.Round(time.Millisecond), len(problems))
		}
	}
}
