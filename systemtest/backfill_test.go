package systemtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// backfillView is the JSON of a backfill.
type backfillView struct {
	ID         string `json:"id"`
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	State      string `json:"state"`
	Window     int    `json:"max_active_runs"`
	Range      step.Range
	Expected   step.PlanCounts
	Counts     step.WindowCounts
	Running    []struct {
		WorkflowID string `json:"workflow_id"`
	}
	Failed []step.Range                    `json:"failed_ranges"`
	By     *struct{ Start, End time.Time } `json:"blocked_by"`
	NotRun int64                           `json:"not_run"`
}

// backfills runs `starter backfill` with --json, wants this exit code, and returns what was started.
func (w *world) backfills(wantCode int, args ...string) []backfillView {
	w.t.Helper()
	got := w.starter(append([]string{"backfill", "--json"}, args...)...)
	var views []backfillView
	if err := json.Unmarshal([]byte(got.out), &views); err != nil || got.code != wantCode {
		w.t.Fatalf("starter backfill %v exits %d, want %d: %v\n%s%s", args, got.code, wantCode, err, got.talk, got.out)
	}
	return views
}

// oneBackfill starts one without waiting for it.
func (w *world) oneBackfill(args ...string) backfillView {
	w.t.Helper()
	views := w.backfills(0, args...)
	if len(views) != 1 || views[0].ID == "" {
		w.t.Fatalf("starter backfill %v answers %+v", args, views)
	}
	return views[0]
}

// steer runs a command that looks after a backfill, and returns how it stands then.
func (w *world) steer(command string, args ...string) backfillView {
	w.t.Helper()
	got := w.starter(append([]string{"backfill", command, "--json"}, args...)...)
	var view backfillView
	if err := json.Unmarshal([]byte(got.out), &view); err != nil || got.code != 0 {
		w.t.Fatalf("starter backfill %s %v exits %d: %v\n%s%s", command, args, got.code, err, got.talk, got.out)
	}
	return view
}

// plannedRow is the JSON of an interval in a dry run.
type plannedRow struct {
	Interval struct{ Start, End time.Time }
	Verdict  step.Verdict
	Status   string
}

// dryRun returns the plan of a backfill, and what is said with it.
func (w *world) dryRun(args ...string) ([]plannedRow, string) {
	w.t.Helper()
	got := w.starter(append([]string{"backfill", "--dry-run", "--json"}, args...)...)
	var rows []plannedRow
	if err := json.Unmarshal([]byte(got.out), &rows); err != nil || got.code != 0 {
		w.t.Fatalf("starter backfill --dry-run %v exits %d: %v\n%s%s", args, got.code, err, got.talk, got.out)
	}
	return rows, got.talk
}

// startedBy returns the starts of the days whose runs a backfill has started, sorted.
func (w *world) startedBy(campaign string) []string {
	w.t.Helper()
	var days []string
	page, err := w.temporal.ListWorkflow(w.ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", PageSize: 1000, Query: "WorkflowId STARTS_WITH '" + w.name + "-' AND WorkflowType = '" + launch.RunType + "'",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, each := range page.GetExecutions() {
		if launch.MemoText(each.GetMemo(), launch.MemoCampaign) == campaign {
			start, _, _ := strings.Cut(launch.MemoText(each.GetMemo(), launch.MemoInterval), "/")
			days = append(days, start)
		}
	}
	slices.Sort(days)
	return days
}

// TestBackfillRanges: only whole intervals of the grid that are over are run, in the pipeline's zone, whatever the
// zone of the host; what is left out is said, and a range without any is an error.
func TestBackfillRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newHurdles(a, nil)
	w.worker(w.connect(a.URL))
	rome := w.ticking(`cron: "0 0 * * *", timezone: Europe/Rome, start_date: 2026-01-01`)
	var outputs []string
	for _, zone := range []string{"UTC", "Australia/Sydney"} {
		host := *w
		host.environment = append(slices.Clone(w.environment), "TZ="+zone)
		got := host.starter("backfill", rome, "--from", "2026-03-29", "--to", "2026-03-30", "--dry-run")
		outputs = append(outputs, got.out+got.talk)
	}
	if outputs[0] != outputs[1] || !strings.Contains(outputs[0], "2026-03-28T23:00:00Z  2026-03-29T22:00:00Z") || strings.Count(outputs[0], "has no outcome") != 1 {
		t.Errorf("the hosts plan\n%s\n%s", outputs[0], outputs[1])
	}

	four := w.ticking(`cron: "0 4 * * *", start_date: 2026-01-01T04:00`)
	rows, talk := w.dryRun(four, "--from", "2026-04-06", "--to", "2026-04-08")
	if len(rows) != 1 || rows[0].Interval.Start.Format(time.RFC3339) != "2026-04-06T04:00:00Z" ||
		!strings.Contains(talk, "2026-04-05T04:00:00Z/2026-04-06T04:00:00Z lies only partly") || !strings.Contains(talk, "2026-04-07T04:00:00Z/2026-04-08T04:00:00Z lies only partly") {
		t.Errorf("the plan is %+v: %s", rows, talk)
	}
	if got := w.starter("backfill", four, "--from", "2026-04-06T05:00", "--to", "2026-04-07T05:00"); got.code != 2 ||
		!strings.Contains(got.talk, "no interval") || !strings.Contains(got.talk, "lie whole") || strings.Count(got.talk, "partly") != 2 {
		t.Errorf("a range between two ticks exits %d: %s", got.code, got.talk)
	}

	now := time.Now().UTC().Truncate(24 * time.Hour)
	daily := w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s`, now.AddDate(0, 0, -30).Format(time.DateOnly)))
	from, to := now.AddDate(0, 0, -2).Format(time.DateOnly), now.AddDate(0, 0, 10).Format(time.DateOnly)
	if rows, talk := w.dryRun(daily, "--from", from, "--to", to); len(rows) != 2 || !strings.Contains(talk, now.Format(time.RFC3339)) || !strings.Contains(talk, "not over yet") {
		t.Errorf("the plan is %+v: %s", rows, talk)
	}
	views := w.backfills(0, daily, "--from", from, "--to", to, "--wait")
	if len(views) != 1 || views[0].Counts.Loaded != 2 || views[0].Range.To != now || len(w.executions()) != 2 {
		t.Errorf("the backfill answers %+v, and ran %v", views, w.executions())
	}
	if got := w.starter("backfill", daily, "--from", to, "--to", now.AddDate(0, 0, 20).Format(time.DateOnly)); got.code != 2 || !strings.Contains(got.talk, "is not over") {
		t.Errorf("a range in the future exits %d: %s", got.code, got.talk)
	}
	if got := w.starter("backfill", "nobody", "--from", from, "--to", to); got.code != 2 || !strings.Contains(got.talk, "no pipeline of this name") {
		t.Errorf("an unknown name exits %d: %s", got.code, got.talk)
	}
}

// TestDryRunIsWhatIsRun: days that are loaded, failed, missing and open, in every mode.
func TestDryRunIsWhatIsRun(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		h := newHurdles(a, []string{"2026-01-04"})
		w.worker(w.connect(a.URL))
		file := w.orders()
		w.run(file, "2026-01-01", 0)
		w.run(file, "2026-01-05", 0)
		for n, status := range map[int]string{2: warehouse.OutcomeFailed, 6: warehouse.OutcomeCancelled, 7: "accepted"} {
			if _, err := w.database.RecordOutcome(w.ctx, warehouse.Outcome{
				Pipeline: w.name, Status: status, Kind: "manual", RunID: "earlier", Fence: 1, Interval: january(n),
			}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.start(file, "2026-01-04")
		w.await("the run is open", h.entered["2026-01-04"])
		for _, test := range []struct{ reprocess, want string }{
			{"missing", "leave leave run wait leave leave leave"},
			{"failed", "leave run run wait leave run leave"},
			{"all", "run run run wait run run run"},
		} {
			rows, talk := w.dryRun(file, "--from", "2026-01-01", "--to", "2026-01-08", "--reprocess", test.reprocess)
			var got []string
			for _, row := range rows {
				got = append(got, string(row.Verdict))
			}
			if strings.Join(got, " ") != test.want || !strings.Contains(talk, "reprocess "+test.reprocess) || !strings.Contains(talk, "nothing was started") {
				w.t.Errorf("%s plans %v, want %s: %s", test.reprocess, got, test.want, talk)
			}
		}
		close(h.held["2026-01-04"])
		w.status(report{WorkflowID: step.WorkflowID(w.name, day(w.t, "2026-01-05"))})
		for _, args := range [][]string{{"--reprocess", "missing"}, {"--reprocess", "failed", "--order", "newest"}, {"--reprocess", "all"}} {
			args = append([]string{file, "--from", "2026-01-01", "--to", "2026-01-08"}, args...)
			rows, _ := w.dryRun(args...)
			var want []string
			for _, row := range rows {
				if row.Verdict == step.VerdictRun {
					want = append(want, row.Interval.Start.Format(time.RFC3339))
				}
			}
			if slices.Contains(args, "newest") == slices.IsSorted(want) {
				w.t.Errorf("%v plans %v", args, want)
			}
			slices.Sort(want)
			view := w.backfills(0, append(args, "--wait")...)[0]
			if got := w.startedBy(view.WorkflowID); !slices.Equal(got, want) || view.State != "done" {
				w.t.Errorf("%v runs %v, planned were %v", args, got, want)
			}
		}
		if got := w.starter("backfill", file, "--from", "2026-01-01", "--to", "2026-01-08"); got.code != 0 || !strings.Contains(got.talk, "nothing to run") || got.out != "" {
			w.t.Errorf("a backfill of nothing exits %d: %s%s", got.code, got.out, got.talk)
		}
	})
}

// followed is a command that runs beside the test.
type followed struct {
	command   *exec.Cmd
	out, talk *strings.Builder
}

func (w *world) follow(args ...string) *followed {
	w.t.Helper()
	f := &followed{command: exec.CommandContext(w.ctx, shared.binaries.Path("starter"), args...), out: &strings.Builder{}, talk: &strings.Builder{}}
	f.command.Env, f.command.Stdout, f.command.Stderr = w.environment, f.out, f.talk
	if err := f.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// end waits for the command and returns its exit code.
func (f *followed) end() int {
	_ = f.command.Wait()
	return f.command.ProcessState.ExitCode()
}

// TestBackfillOutlivesEverybody: a hundred days; the worker is killed, then the server, then the command line that
// follows the backfill is interrupted. Every day is run once, whoever looks.
func TestBackfillOutlivesEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	kill, restart := w.stateful()
	a := newAPI(t)
	const last = "2026-04-01"
	h := newHurdles(a, []string{last}, 20, 60)
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	file := w.orders("defaults: { timeout: { heartbeat: 3s }, retry: { maximum_attempts: 100, maximum_interval: 1s } }\n")
	id := w.oneBackfill(file, "--from", "2026-01-01", "--to", "2026-04-11", "--max-active-runs", "6").ID
	waits := w.follow("backfill", "show", id, "--wait", "--json")
	w.await("twenty days", h.reached[20])
	worker.Kill()
	w.worker(connections)
	w.await("sixty days", h.reached[60])
	kill()
	restart()
	w.await("the last day that is held", h.entered[last])

	interrupted := w.follow("backfill", "show", id, "--wait")
	w.eventually("the command follows the backfill", func() bool { return w.steer("show", id).Counts.Passed() == 99 })
	if err := interrupted.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := interrupted.end(); code != 130 && code != -1 || !strings.Contains(interrupted.talk.String(), "goes on") && code == 130 {
		t.Errorf("the interrupted command exits %d: %s", code, interrupted.talk)
	}
	close(h.held[last])
	if code := waits.end(); code != 0 {
		t.Errorf("the command that waits exits %d: %s%s", code, waits.out, waits.talk)
	}
	view := w.steer("show", id)
	if view.State != "done" || view.Counts.Passed() != 100 || view.Counts.Failed+view.Counts.Cancelled != 0 || view.NotRun != 0 {
		t.Errorf("the backfill answers %+v", view)
	}
	executions := w.executions()
	for id, count := range executions {
		if count != 1 {
			t.Errorf("%s was run %d times", id, count)
		}
	}
	if rows := w.content().rows; len(executions) != 100 || rows != 100 {
		t.Errorf("%d days were run, the table holds %d rows", len(executions), rows)
	}
	w.replay(report{WorkflowID: view.WorkflowID})
	if events := len(w.events(view.WorkflowID, "")); events > 120 {
		t.Errorf("the history has %d events for 100 days", events)
	}
}

// TestBackfillInterrupted: Ctrl-C leaves the backfill running, and says so.
func TestBackfillInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, []string{"2026-01-02"})
	w.worker(w.connect(a.URL))
	f := w.follow("backfill", w.orders(), "--from", "2026-01-01", "--to", "2026-01-04", "--wait")
	w.await("a day is open", h.entered["2026-01-02"])
	if err := f.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := f.end(); code != 130 || !strings.Contains(f.talk.String(), "goes on") {
		t.Errorf("it exits %d: %s", code, f.talk)
	}
	close(h.held["2026-01-02"])
	got := w.starter("backfill", "show", w.name, "--wait")
	if strings.Contains(got.talk, "no open backfill") { // it was faster
		got = w.starter("backfill", "list", w.name)
	}
	if got.code != 0 || !strings.Contains(got.out, "done") {
		t.Errorf("the backfill exits %d: %s%s", got.code, got.out, got.talk)
	}
}

// TestBackfillOfALostWorkerIsShown: how far it had come is told, with what it does not say now, and never as zero.
func TestBackfillOfALostWorkerIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	h := newHurdles(a, []string{"2026-01-04"})
	worker := w.worker(w.connect(a.URL))
	id := w.oneBackfill(w.orders(), "--from", "2026-01-01", "--to", "2026-01-06", "--max-active-runs", "1").ID
	w.await("the fourth day is open", h.entered["2026-01-04"])
	w.eventually("three days are told of", func() bool { return w.steer("show", id).Counts.Passed() == 3 })
	follow := w.follow("backfill", "show", id, "--wait", "--json")
	worker.Kill()
	got := w.starter("backfill", "show", id, "--json")
	var view backfillView
	if err := json.Unmarshal([]byte(got.out), &view); err != nil || got.code != 4 || !strings.Contains(got.talk, "no worker") {
		t.Fatalf("it exits %d: %v: %s%s", got.code, err, got.talk, got.out)
	}
	if view.State != "not answering" || view.Counts.Passed() != 3 || view.Expected.Total() != 5 || view.Window != 1 || len(view.Running) != 1 {
		t.Errorf("shown is %s", got.out)
	}
	var listed []backfillView
	got = w.starter("backfill", "list", w.name, "--json")
	if err := json.Unmarshal([]byte(got.out), &listed); err != nil || got.code != 0 || len(listed) != 1 || listed[0].Counts.Passed() != 3 {
		t.Errorf("the list exits %d: %v: %s%s", got.code, err, got.talk, got.out)
	}
	if err := follow.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	code := follow.end()
	if err := json.Unmarshal([]byte(follow.out.String()), &listed); err != nil || code != 130 || listed[0].Counts.Passed() != 3 {
		t.Errorf("the command that is interrupted exits %d: %v: %s%s", code, err, follow.talk, follow.out)
	}
	close(h.held["2026-01-04"])
}

// TestBackfillWithoutAWorker says so within seconds.
func TestBackfillWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	for _, more := range [][]string{nil, {"--dry-run"}} {
		got := w.starter(append([]string{"backfill", w.orders(), "--from", "2026-01-01", "--to", "2026-01-04"}, more...)...)
		if got.code != 4 || !strings.Contains(got.talk, "no worker polls task queue "+w.name) {
			t.Errorf("it exits %d: %s", got.code, got.talk)
		}
	}
}
