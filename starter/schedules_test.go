package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
)

func TestSchedulesUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	bad := filepath.Join(folder, "pipeline.yaml")
	if err := os.WriteFile(bad, []byte("pipeline: bad\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"schedules", exitDone, "plan"},
		{"schedules aply", exitUsage, `no command schedules "aply"`},
		{"schedules plan " + folder, exitInvalid, "warehouse"},
		{"schedules apply " + folder, exitInvalid, "warehouse"},
		{"schedules plan " + filepath.Join(folder, "nothing"), exitUsage, "nothing"},
		{"schedules apply ../pipelines --reconcile-every 1s", exitUsage, "--reconcile-every"},
		{"schedules apply ../pipelines --reconcile-every 7.5s", exitUsage, "--reconcile-every"},
		{"schedules pause", exitUsage, "reason"},
		{"schedules pause orders", exitUsage, "--reason is missing"},
		{"schedules pause --reason why", exitUsage, "PIPELINE"},
		{"schedules pause orders invoices --reason why", exitUsage, "PIPELINE"},
		{"schedules unpause orders --reason ", exitUsage, "--reason"},
		{"schedules trigger", exitUsage, "PIPELINE"},
		{"schedules delete", exitUsage, "PIPELINE"},
		{"schedules reconcile", exitUsage, "PIPELINE"},
		{"schedules list orders", exitUsage, "no arguments"},
		{"schedules list", exitUnreachable, "connect to Temporal"},
		{"schedules plan ../pipelines", exitUnreachable, "connect to Temporal"},
	} {
		code, out, talk := command(t, strings.Split(c.args, " ")...)
		if code != c.code || !strings.Contains(out+talk, c.says) {
			t.Errorf("%s exits %d, want %d, and does not say %q: %s%s", c.args, code, c.code, c.says, out, talk)
		}
	}
}

// Flags of a command below another one may stand after the names, too.
func TestInterspersedBelow(t *testing.T) {
	t.Parallel()
	app := (&program{}).app()
	got := interspersed(app, []string{"schedules", "pause", "orders", "--reason", "the shop moves", "--namespace", "n"})
	want := []string{"schedules", "pause", "--reason", "the shop moves", "--namespace", "n", "--", "orders"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrintPlan(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &program{streams: streams{out: &out}}
	err := p.printPlan(&schedules.Plan{
		Changes: []schedules.Change{
			{Pipeline: "calm", File: "calm.yaml", Verb: schedules.Unchanged},
			{Pipeline: "orders", File: "orders.yaml", Verb: schedules.Update, Notes: []string{"next tick 2026-01-16T00:00:00Z"},
				Differences: []schedules.Difference{{Path: "schedule.cron", Was: `"0 * * * *"`, Becomes: `"0 0 * * *"`}, {Path: "owner", Becomes: `"data"`}}},
		},
		Reconcilers: []schedules.Reconciler{
			{TaskQueue: "calm", Verb: schedules.Unchanged, Every: pipeline.Duration(time.Minute)},
			{TaskQueue: "tranche", Verb: schedules.Update, Every: pipeline.Duration(10 * time.Second), Notes: []string{"paused: the warehouse moves"},
				Differences: []schedules.Difference{{Path: "every", Was: "5m0s", Becomes: "10s"}}},
		},
		Orphans: []string{"old"},
	})
	want := `orders (orders.yaml): update
  schedule.cron  "0 * * * *"  → "0 0 * * *"
  owner          (none)       → "data"
  - next tick 2026-01-16T00:00:00Z
reconciler of task queue tranche, every 10s: update
  every  5m0s  → 10s
  - paused: the warehouse moves
Schedules without a file here, which go on running and are left alone: old
0 to create, 1 to update, 1 unchanged, 0 blocked; 1 reconciler to create or update.
`
	if err != nil || out.String() != want {
		t.Errorf("printed %s, %v", out.String(), err)
	}
}

// What is paused or has ended has no next run in the past.
func TestNextRun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 16, 0, 0, 0, 0, time.UTC)
	for want, row := range map[string]scheduleRow{
		"2026-01-16T00:00:00Z": {State: stateActive, Next: &at},
		"no further runs":      {State: stateEnded},
		"":                     {State: statePaused},
	} {
		if got := row.nextRun(); got != want {
			t.Errorf("%+v shows %q, want %q", row, got, want)
		}
	}
}
