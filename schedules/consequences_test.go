package schedules

import (
	"strings"
	"testing"
	"time"
)

// A plan says what a change means for the intervals: how many, which, and whether they are started.
func TestConsequences(t *testing.T) {
	t.Parallel()
	const daily = `cron: "0 0 * * *", start_date: 2026-06-01`
	now := time.Date(2026, 6, 15, 10, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		was, is   string // schedules
		warehouse string // empty: as it was
		paused    bool
		says      []string
		saysNot   string
	}{
		"catchup on": {was: daily, is: daily + ", catchup: all",
			says: []string{"catchup none → all: 14 intervals, from 2026-06-01T00:00:00Z to 2026-06-15T00:00:00Z, have ended", "started at once, oldest first", "next tick 2026-06-16T00:00:00Z"}},
		"catchup on, paused": {was: daily, is: daily + ", catchup: all", paused: true,
			says: []string{"paused: by the test", "started once it is unpaused"}, saysNot: "next tick"},
		"catchup latest": {was: daily + ", catchup: all", is: daily + ", catchup: latest",
			says: []string{"catchup all → latest: only the newest interval that is missing is started", "no longer expected"}},
		"catchup off": {was: daily + ", catchup: all", is: daily, says: []string{"catchup all → none: nothing is started any more"}, saysNot: "at once"},
		"one interval": {was: `cron: "0 0 * * *", start_date: 2026-06-14`, is: `cron: "0 0 * * *", start_date: 2026-06-14, catchup: all`,
			says: []string{"1 interval, 2026-06-14T00:00:00Z to 2026-06-15T00:00:00Z, has ended and is expected"}},
		"start earlier, none": {was: daily, is: `cron: "0 0 * * *", start_date: 2026-05-30`,
			says: []string{"start_date moves to 2026-05-30T00:00:00Z: 2 intervals, from 2026-05-30T00:00:00Z to 2026-06-01T00:00:00Z, are added, and not started (catchup: none)"}},
		"start earlier, all": {was: daily + ", catchup: all", is: `cron: "0 0 * * *", start_date: 2026-05-31, catchup: all`,
			says: []string{"1 interval, 2026-05-31T00:00:00Z to 2026-06-01T00:00:00Z, is added, and started at once, oldest first (catchup: all), unless the ledger has it"}},
		"start later": {was: daily, is: `cron: "0 0 * * *", start_date: 2026-06-04`,
			says: []string{"3 intervals, from 2026-06-01T00:00:00Z to 2026-06-04T00:00:00Z, are dropped", "what is loaded of them stays"}, saysNot: "nothing owns"},
		"start within an interval": {was: daily, is: `cron: "0 0 * * *", start_date: "2026-06-01T12:00:00Z"`,
			says: []string{"begins at 2026-06-01T12:00:00Z now", "GridChanged"}, saysNot: "dropped"},
		"start in the future": {was: daily, is: `cron: "0 0 * * *", start_date: 2026-07-01`,
			says: []string{"14 intervals", "are dropped", "nothing owns 2026-06-15T00:00:00Z to 2026-07-01T00:00:00Z"}},
		"another grid that starts in the future": {was: daily, is: `cron: "0 * * * *", start_date: 2026-07-01`,
			says: []string{"takes over at 2026-06-15T00:00:00Z", "nothing owns 2026-06-15T00:00:00Z to 2026-07-01T00:00:00Z"}, saysNot: "its first interval"},
		"another grid": {was: daily, is: `cron: "0 * * * *", start_date: 2026-06-01`,
			says: []string{"takes over at 2026-06-15T00:00:00Z", "10 intervals, from 2026-06-15T00:00:00Z to 2026-06-15T10:00:00Z, have ended already and are started at once"}},
		"another grid, paused": {was: daily, is: `cron: "0 9 * * *", start_date: 2026-06-01`, paused: true,
			says: []string{"has ended already and is started once it is unpaused"}},
		"end earlier": {was: daily, is: daily + ", end_date: 2026-06-10",
			says: []string{"end_date moves to 2026-06-10T00:00:00Z: 5 intervals, from 2026-06-10T00:00:00Z to 2026-06-15T00:00:00Z, are dropped", "no further runs"}},
		"end in the future": {was: daily, is: daily + ", end_date: 2026-07-10", says: []string{"end_date moves to 2026-07-10T00:00:00Z: nothing is started for ticks after it"}},
		"end later": {was: daily + ", end_date: 2026-06-10, catchup: latest", is: daily + ", end_date: 2026-06-13, catchup: latest",
			says: []string{"3 intervals, from 2026-06-10T00:00:00Z to 2026-06-13T00:00:00Z, that have ended are added, and not started (catchup: latest), but for the newest one, at once"}},
		"no end": {was: daily + ", end_date: 2026-07-10", is: daily, says: []string{"end_date is removed: ticks go on after 2026-07-10T00:00:00Z"}},
		"warehouse, all": {was: daily + ", catchup: all", is: daily + ", catchup: all", warehouse: "other",
			says: []string{"warehouse other has a ledger of its own", "14 intervals", "are all run again at once, oldest first"}},
		"warehouse, none": {was: daily, is: daily, warehouse: "other", says: []string{"count as missing in other and are not started (catchup: none)"}},
		"limit":           {was: daily, is: daily + ", max_active_runs: 3", says: []string{"max_active_runs: holds at once, also for runs that wait"}},
		"jitter": {was: `cron: "*/15 * * * *", start_date: 2026-06-01`, is: `cron: "*/15 * * * *", start_date: 2026-06-01, jitter: 20m`,
			says: []string{"jitter 20m0s is longer than the 15m0s between ticks: Temporal cuts it at the next tick"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.apply(p.source(c.was, ""))
			if c.paused {
				if err := p.schedules.SetPaused(p.ctx, p.current(), true, "by the test"); err != nil {
					t.Fatal(err)
				}
			}
			p.schedules.now = func() time.Time { return now }
			source := p.source(c.is, "")
			if c.warehouse != "" {
				source.Definition.Warehouse = c.warehouse
			}
			notes := strings.Join(p.plan(source).Notes, "\n")
			for _, want := range c.says {
				if !strings.Contains(notes, want) {
					t.Errorf("the plan does not say %q:\n%s", want, notes)
				}
			}
			if c.saysNot != "" && strings.Contains(notes, c.saysNot) {
				t.Errorf("the plan says %q:\n%s", c.saysNot, notes)
			}
		})
	}
}

// Two pipelines that load one table are told of each other; with scopes they may.
func TestSharedTables(t *testing.T) {
	t.Parallel()
	one, two, three := newPlace(t), newPlace(t), newPlace(t)
	sources := []Source{}
	for _, each := range []*place{one, two, three} {
		source := each.source(`cron: "0 0 * * *", start_date: 2026-06-01`, "")
		if each == three {
			source.Definition.Steps[1].Load.Scope = map[string]string{"shop": "eu"}
		}
		sources = append(sources, source)
	}
	plan, err := one.schedules.Plan(one.ctx, sources, 0)
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]string{one.name: "so does pipeline " + two.name, two.name: "so does pipeline " + one.name}
	for _, change := range plan.Changes {
		notes, want := strings.Join(change.Notes, "\n"), others[change.Pipeline]
		if told := strings.Contains(notes, "TableOwned"); told != (want != "") || !strings.Contains(notes, want) {
			t.Errorf("%s is told %s", change.Pipeline, notes)
		}
	}
}

// What is compiled into one calendar is one calendar.
func TestCalendarsAreCounted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for schedule, want := range map[string]string{
		`cron: "0 * * * *", timezone: Europe/Rome, start_date: 2026-06-01`:  "into 1 UTC calendar,",
		`cron: "30 2 * * *", timezone: Europe/Rome, start_date: 2026-06-01`: " UTC calendars,",
	} {
		if notes := strings.Join(p.plan(p.source(schedule, "")).Notes, "\n"); !strings.Contains(notes, want) {
			t.Errorf("%s says %s, not %q", schedule, notes, want)
		}
	}
}
