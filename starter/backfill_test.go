package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// What is wrong with a range is said before Temporal is asked, with what would be right.
func TestBackfillUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, schedule string) string {
		file := filepath.Join(folder, name+".yaml")
		text := strings.Replace(goodPipeline, "pipeline: orders", "pipeline: "+name, 1)
		text = regexp.MustCompile(`schedule:.*\n(  .*\n)*`).ReplaceAllString(text, "schedule: "+schedule+"\n")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rome := write("rome", `{ cron: "0 0 * * *", timezone: Europe/Rome, start_date: 2026-01-01 }`)
	chain := write("chain", `{ cron: "0 0 * * *", start_date: 2026-01-01, depends_on_past: true }`)
	const january = "--from 2026-01-01 --to 2026-02-01"
	for name, test := range map[string]struct{ args, part string }{
		"nothing":           {"", "at least one FILE"},
		"no from":           {rome + " --to 2026-01-01", "--from is missing"},
		"no to":             {rome + " --from 2026-01-01", "--to is missing"},
		"reversed":          {rome + " --from 2026-05-02 --to 2026-05-01", "exchange them"},
		"empty":             {rome + " --from 2026-05-02 --to 2026-05-02", "half-open"},
		"impossible":        {rome + " --from 2026-02-30 --to 2026-03-05", "--from: "},
		"ambiguous":         {rome + " --from 2026-10-25T02:30 --to 2026-11-01", "2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"},
		"skipped":           {rome + " --from 2026-03-29T02:30 --to 2026-04-01", "does not exist"},
		"skipped end":       {rome + " --from 2026-03-01 --to 2026-03-29T02:30", "--to: "},
		"no window":         {rome + " " + january + " --max-active-runs 0", "1 to 500"},
		"wide window":       {rome + " " + january + " --max-active-runs 501", "1 to 500"},
		"order":             {rome + " " + january + " --order latest", "neither oldest nor newest"},
		"reprocess":         {rome + " " + january + " --reprocess some", "missing, failed and all"},
		"wait and detach":   {rome + " " + january + " --wait --detach", "not both"},
		"newest of a chain": {chain + " " + january + " --order newest", "depends on the past"},
		"named twice":       {rome + " rome " + january, "give one of them"},
		"no file":           {"./nowhere.yaml " + january, "nowhere.yaml"},
		"via with window":   {rome + " " + january + " --via-schedule --max-active-runs 3", "--max-active-runs does not go with"},
		"resize to nothing": {"resize orders/x", "--max-active-runs"},
		"show nothing":      {"show", "exactly one ID"},
		"list of two":       {"list a b", "at most one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, talk := command(t, append([]string{"backfill"}, strings.Fields(test.args)...)...)
			if code != exitUsage || !strings.Contains(talk, test.part) || out != "" {
				t.Errorf("it exits %d: %s%s", code, talk, out)
			}
		})
	}
	// What is right is asked of Temporal.
	if code, _, talk := command(t, append([]string{"backfill", rome}, strings.Fields(january)...)...); code != exitUnreachable {
		t.Errorf("a range that is right exits %d: %s", code, talk)
	}
}

func TestShortID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := shortID(time.Date(2026, 1, 5, 23, 0, 0, 0, time.UTC))
		if !regexp.MustCompile(`^jan05-[a-z]{5}$`).MatchString(id) || strings.ContainsAny(id[6:], "aeiouly") {
			t.Fatalf("the id is %q", id)
		}
		seen[id] = true
	}
	if len(seen) < 990 {
		t.Errorf("only %d of 1000 ids are different", len(seen))
	}
}

// The flags of a command may stand before the name of the one below it.
func TestFlagsBeforeASubcommand(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"backfill --json list orders":         "backfill list --json -- orders",
		"backfill --address x:1 show a/b":     "backfill show --address x:1 -- a/b",
		"backfill list.yaml --from list":      "backfill --from list -- list.yaml",
		"backfill --from list --to show file": "backfill --from list --to show -- file",
	} {
		app := (&program{}).app()
		if got := strings.Join(interspersed(app, strings.Fields(given)), " "); got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	v := &backfillView{ID: "orders/jan05-kxmpt"}
	v.add(workflows.BackfillProgress{
		Pipeline: "orders", Phase: workflows.PhaseRunning, Expected: step.PlanCounts{Run: 80, Loaded: 20}, Begun: now.Add(-time.Hour),
		Mark: workflows.BackfillMark{At: now.Add(-10 * time.Minute), Ended: 10},
		State: step.WindowState{
			Counts:   step.WindowCounts{Started: 34, Loaded: 27, Failed: 3, Left: 20},
			InFlight: []step.Flight{{Interval: interval.Interval{Start: now, End: now.Add(time.Hour)}, RunID: "r"}},
		},
	}, now)
	const more = "1 open, 3 failed, 2.0/min, until about 2026-01-05 12:25Z"
	if got, want := strings.Join(v.lines(true), "\n"), "orders/jan05-kxmpt: [############------------] 50 of 100 (50%)\n  "+more; got != want {
		t.Errorf("on a terminal it is\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(v.lines(false), "\n"), "orders/jan05-kxmpt: 50 of 100 (50%), "+more; got != want {
		t.Errorf("elsewhere it is\n%s\nwant\n%s", got, want)
	}
	long := *v
	long.ID = strings.Repeat("orders", 20) + "/jan05-kxmpt"
	for _, line := range long.lines(true) {
		if columns(line) > terminalWidth {
			t.Errorf("a terminal wraps %s", line)
		}
	}
	if len(v.Running) != 1 || v.Running[0].WorkflowID != "orders-2026-01-05T13:00:00Z" {
		t.Errorf("running are %+v", v.Running)
	}
	v.add(workflows.BackfillProgress{Pipeline: "orders", Phase: workflows.PhasePaused}, now)
	if v.ETA != nil || v.PerHour != 0 || v.State != workflows.PhasePaused {
		t.Errorf("paused it is %+v", v)
	}
}

// A retry is of exactly what has failed; where a failed interval kept others from being run, those follow.
func TestRetryOf(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	whole := step.Range{From: day(1), To: day(31)}
	failed := []step.Range{{From: day(4), To: day(6)}}
	blocker := &interval.Interval{Start: day(5), End: day(6)}
	for name, test := range map[string]struct {
		newest, more bool
		view         backfillView
		again        []step.Range
		position     time.Time
		run          int64
	}{
		"oldest": {false, false, backfillView{Position: day(31), Failed: failed, Counts: step.WindowCounts{Failed: 2}}, failed, day(31), 2},
		"newest": {true, false, backfillView{Position: day(1), Failed: failed, Counts: step.WindowCounts{Failed: 2}}, failed, day(1), 2},
		"stopped": {false, false, backfillView{Position: day(9), State: stateCancelled, NotRun: 22, Failed: failed, Counts: step.WindowCounts{Failed: 2}},
			failed, day(31), 2},
		"too many": {false, true, backfillView{Position: day(20), FailedMore: true, Failed: failed, Counts: step.WindowCounts{Failed: 9}},
			[]step.Range{{From: day(1), To: day(20)}}, day(31), 9},
		"blocked": {false, false, backfillView{Position: day(6), NotRun: 25, Blocked: blocker, Failed: failed, Counts: step.WindowCounts{Failed: 2}}, failed, day(6), 27},
		"blocked before": {false, false, backfillView{Position: day(6), NotRun: 25, Blocked: blocker},
			[]step.Range{{From: day(5), To: day(6)}}, day(6), 26},
	} {
		input := workflows.BackfillInput{Definition: &pipeline.Pipeline{Schedule: &pipeline.Schedule{}}, Range: whole, Newest: test.newest, Window: 7}
		got := retryOf(input, &test.view)
		if got.Version != workflows.BackfillVersion || got.Kind != step.Backfill || got.Window != 7 || got.Range != whole || got.State.Round != 1 || got.State.Counts != (step.WindowCounts{}) ||
			len(got.State.Again) != 1 || got.State.Again[0] != test.again[0] || !got.State.Position.Equal(test.position) || got.Expected.Run != test.run {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
