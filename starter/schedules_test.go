package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
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
		{"schedules pause orders --reason two\nlines", exitUsage, "control characters"},
		{"schedules unpause orders --reason \x1b[31mred", exitUsage, `"\x1b[31mred"`},
		{"schedules unpause orders --reason ", exitUsage, "--reason"},
		{"schedules trigger", exitUsage, "PIPELINE"},
		{"schedules delete", exitUsage, "PIPELINE"},
		{"schedules delete orders --warehouse main", exitUsage, "--forget"},
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

// Notes come from whoever may use Temporal's UI, and must not act on a terminal.
func TestPrintPlanEscapes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &program{streams: streams{out: &out}}
	err := p.printPlan(&schedules.Plan{Changes: []schedules.Change{{
		Pipeline: "orders", File: "a\x1b[2J.yaml", Verb: schedules.Update, Notes: []string{"paused: \x1b]0;title\a and\nmore"},
		Differences: []schedules.Difference{{Path: "owner", Was: "\u202ea", Becomes: "b\r"}},
	}}})
	if err != nil || strings.ContainsAny(out.String(), "\x1b\a\r\u202e") || !strings.Contains(out.String(), `paused: \x1b]0;title\a and\nmore`) {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

// What cannot be applied is not promised to be.
func TestPlanWithBlocked(t *testing.T) {
	t.Parallel()
	blocked := schedules.Change{Pipeline: "a", Verb: schedules.Blocked, Notes: []string{"a foreign Schedule is in the way"}}
	for _, c := range []struct {
		changes []schedules.Change
		code    int
		says    string
	}{
		{[]schedules.Change{{Pipeline: "b", Verb: schedules.Unchanged}}, exitDone, ""},
		{[]schedules.Change{{Pipeline: "b", Verb: schedules.Create}}, exitChanges, "apply` makes them so"},
		{[]schedules.Change{blocked}, exitFailed, "1 pipeline cannot be applied, the notes above say why"},
		{[]schedules.Change{blocked, blocked, {Pipeline: "b", Verb: schedules.Update}}, exitChanges, "2 pipelines cannot be applied, the notes above say why; `starter schedules apply` does the rest"},
	} {
		var out, talk bytes.Buffer
		p := &program{streams: streams{out: &out, talk: &talk}}
		plan := &schedules.Plan{Changes: c.changes}
		if err := p.printPlan(plan); err != nil {
			t.Fatal(err)
		}
		if code := p.report(t.Context(), asPlanned(plan)); code != c.code || !strings.Contains(talk.String(), c.says) {
			t.Errorf("%+v exits %d and says %q", c.changes, code, talk.String())
		}
		if strings.Contains(out.String(), "No changes") != (c.code == exitDone) {
			t.Errorf("%+v is printed as %q", c.changes, out.String())
		}
	}
}

// A namespace that does not exist is named as that by every command.
func TestUnknownNamespace(t *testing.T) {
	t.Parallel()
	settings, err := dial.Read(cli.NewContext(nil, flag.NewFlagSet("", flag.ContinueOnError), nil), dial.Environment{"TEMPORAL_CONFIG_FILE=" + os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	var talk bytes.Buffer
	p := &program{streams: streams{talk: &talk}, connected: &online{Temporal: &launch.Temporal{Namespace: "shop"}, settings: settings}}
	code := p.report(t.Context(), fmt.Errorf("list the Schedules of namespace shop: %w", serviceerror.NewNamespaceNotFound("shop")))
	if want := "starter: list the Schedules of namespace shop: the Temporal at "; code != exitUnreachable || !strings.HasPrefix(talk.String(), want) ||
		!strings.Contains(talk.String(), "has no namespace shop: choose one with --namespace") {
		t.Errorf("exits %d and says %q", code, talk.String())
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
