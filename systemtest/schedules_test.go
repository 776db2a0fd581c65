package systemtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/warehouse"
)

// beat is the length of the intervals of these tests: as short as a Schedule, a run and a load take beside
// many others.
const beat = 2 * time.Second

// reconcileEvery is how often the reconciler looks in these tests.
const reconcileEvery = 5 * time.Second

// oneRow answers each interval with one row, at its start, and counts how often each was asked for.
type oneRow struct {
	mutex sync.Mutex
	asked map[string]int
}

func newOneRow(a *api) *oneRow {
	o := &oneRow{asked: map[string]int{}}
	a.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		o.mutex.Lock()
		o.asked[r.URL.Query().Get("from")]++
		o.mutex.Unlock()
		writePage(w, r, 1, "row")
		return true
	})
	return o
}

// ticking is a pipeline whose schedule the test says.
func (w *world) ticking(schedule string, more ...string) string {
	w.t.Helper()
	file := w.orders(more...)
	text := strings.Replace(w.read(file), `schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }`, "schedule: { "+schedule+" }", 1)
	return w.write("pipeline.yaml", text)
}

// every is the schedule of beats from an instant.
func every(start time.Time, more string) string {
	return fmt.Sprintf("every: %s, start_date: %q, catchup_window: 10s, max_active_runs: 4%s", beat, start.UTC().Format(time.RFC3339), more)
}

// apply applies a pipeline file.
func (w *world) apply(file string) {
	w.t.Helper()
	if got := w.starter("schedules", "apply", file, "--reconcile-every", reconcileEvery.String()); got.code != 0 {
		w.t.Fatalf("schedules apply exits %d: %s%s", got.code, got.out, got.talk)
	}
	w.t.Cleanup(w.forgetSchedules)
}

// forgetSchedules deletes the test's Schedules, so that they do not go on firing beside the other tests.
func (w *world) forgetSchedules() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, id := range []string{launch.ScheduleID(w.name), launch.ReconcileID(w.name)} {
		_, err := w.temporal.WorkflowService().DeleteSchedule(ctx, &workflowservice.DeleteScheduleRequest{Namespace: "default", ScheduleId: id})
		var missing *serviceerror.NotFound
		if err != nil && !errors.As(err, &missing) {
			w.t.Logf("delete Schedule %s: %v", id, err)
		}
	}
}

// sched runs `starter schedules` and wants it to succeed.
func (w *world) sched(args ...string) answer {
	w.t.Helper()
	got := w.starter(append([]string{"schedules"}, args...)...)
	if got.code != 0 {
		w.t.Fatalf("schedules %v exits %d: %s%s", args, got.code, got.out, got.talk)
	}
	return got
}

// until waits for an instant: what a Schedule does is made of time.
func (w *world) until(at time.Time) {
	w.t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		w.t.Fatal(w.ctx.Err())
	}
}

// outcomes returns the ledger's outcomes of intervals that start in a range.
func (w *world) outcomes(from, to time.Time) []warehouse.Outcome {
	w.t.Helper()
	outcomes, err := w.database.Outcomes(w.ctx, warehouse.Query{Pipeline: w.name, From: from, To: to, Limit: 100_000})
	if err != nil {
		w.t.Fatal(err)
	}
	return outcomes
}

// awaitLoaded waits until the intervals of a timeline that start in a range are loaded, each once, and nothing
// else is; then it looks at the table.
func (w *world) awaitLoaded(line *interval.Timeline, from, to time.Time) {
	w.t.Helper()
	var want []interval.Interval
	for iv := range line.Between(from, to) {
		want = append(want, iv)
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		outcomes := w.outcomes(from, to)
		loaded := 0
		for _, o := range outcomes {
			if o.Status == warehouse.OutcomeLoaded {
				loaded++
			}
		}
		if loaded >= len(want) {
			break
		}
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			w.t.Fatalf("of %d intervals from %s to %s, %d are loaded; %s", len(want), from.Format(time.RFC3339), to.Format(time.RFC3339), loaded, missing(want, outcomes))
		}
	}
	outcomes := w.outcomes(from, to)
	if len(outcomes) != len(want) {
		w.t.Fatalf("the ledger has %d outcomes, want %d", len(outcomes), len(want))
	}
	for i, o := range outcomes {
		if o.Interval != want[i] || o.Status != warehouse.OutcomeLoaded {
			w.t.Errorf("outcome %d is %s %s, want %s loaded", i, o.Interval, o.Status, want[i])
		}
	}
	rows, _, err := w.database.Checksum(w.ctx, "orders", columns, &warehouse.Slice{Interval: interval.Interval{Start: from, End: to}, TimeColumn: "at"})
	if err != nil || rows != int64(len(want)) {
		w.t.Errorf("the table has %d rows for %d intervals, %v", rows, len(want), err)
	}
}

func missing(want []interval.Interval, outcomes []warehouse.Outcome) string {
	have := map[interval.Interval]string{}
	for _, o := range outcomes {
		have[o.Interval] = o.Status
	}
	var lost []string
	for _, iv := range want {
		if have[iv] != warehouse.OutcomeLoaded && len(lost) < 10 {
			lost = append(lost, iv.String()+" "+have[iv])
		}
	}
	return "not loaded: " + strings.Join(lost, ", ")
}

// runsOf returns how many runs each workflow id of the pipeline has had.
func (w *world) runsOf() map[string]int {
	w.t.Helper()
	runs := map[string]int{}
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", PageSize: 1000,
		Query: fmt.Sprintf(`WorkflowId STARTS_WITH %q`, w.name+"-2")}
	for {
		page, err := w.temporal.ListWorkflow(w.ctx, request)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, each := range page.GetExecutions() {
			runs[each.GetExecution().GetWorkflowId()]++
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return runs
		}
	}
}

// onceEach fails if an interval was run more often than once.
func (w *world) onceEach() {
	w.t.Helper()
	for id, runs := range w.runsOf() {
		if runs != 1 {
			w.t.Errorf("%s was run %d times", id, runs)
		}
	}
}

// beats is the timeline of a pipeline that never had another schedule.
func beats(t *testing.T, start time.Time) *interval.Timeline {
	t.Helper()
	line, err := interval.NewTimeline(interval.Spec{Every: beat, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// ago is an instant in whole seconds.
func ago(d time.Duration) time.Time { return time.Now().UTC().Truncate(time.Second).Add(-d) }

// patch sends Temporal's own call, as its UI and its command line do.
func (w *world) patch(patch *schedulepb.SchedulePatch) {
	w.t.Helper()
	if _, err := w.temporal.WorkflowService().PatchSchedule(w.ctx, &workflowservice.PatchScheduleRequest{
		Namespace: "default", ScheduleId: w.name, RequestId: uuid.NewString(), Patch: patch,
	}); err != nil {
		w.t.Fatal(err)
	}
}

// TestStartInThePast: a Schedule creates nothing for the time before it; with catchup all the past is run, oldest
// first, and the Schedule goes on from there.
func TestStartInThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(40 * time.Second)
	w.apply(w.ticking(every(start, ", catchup: all")))
	w.awaitLoaded(beats(t, start), start, ago(0).Add(3*beat))
	w.onceEach()
	if got := w.starter("schedules", "plan", filepath.Join(w.folder, "pipeline.yaml")); got.code != 0 || !strings.Contains(got.out, "No changes") {
		t.Errorf("plan of the unchanged file exits %d: %s%s", got.code, got.out, got.talk)
	}
}

// TestLatestAndNone: with latest exactly the newest interval before the apply is run, with none no one.
func TestLatestAndNone(t *testing.T) {
	t.Parallel()
	for _, catchup := range []string{"latest", "none"} {
		t.Run(catchup, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			newOneRow(a)
			w.worker(w.connect(a.URL))
			day := time.Now().UTC().Truncate(24 * time.Hour)
			start := day.AddDate(0, 0, -9)
			w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: %s`, start.Format(time.DateOnly), catchup)))
			if catchup == "latest" {
				ticker := time.NewTicker(100 * time.Millisecond)
				defer ticker.Stop()
				for len(w.outcomes(start, day)) == 0 && w.ctx.Err() == nil {
					<-ticker.C
				}
			}
			for range 2 { // what it finds to do, it has found at once
				w.sched("reconcile", w.name)
			}
			runs := w.runsOf()
			if want := map[string]int{"latest": 1, "none": 0}[catchup]; len(runs) != want {
				t.Errorf("with %s there are runs %v", catchup, runs)
			}
			if id := w.name + "-" + day.Format(time.RFC3339); catchup == "latest" && runs[id] != 1 {
				t.Errorf("the newest interval %s was not run: %v", id, runs)
			}
		})
	}
}

// TestPausedTime: what becomes due while a Schedule is paused, by us or in Temporal's UI, is run after it is
// unpaused, there or here.
func TestPausedTime(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"starter", "ui"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			a := newAPI(t)
			newOneRow(a)
			w.worker(w.connect(a.URL))
			start := ago(0)
			w.apply(w.ticking(every(start, ", catchup: all")))
			paused := ago(0)
			if by == "ui" {
				w.patch(&schedulepb.SchedulePatch{Pause: "by the operator"})
			} else {
				w.sched("pause", w.name, "--reason", "by the operator")
				if got := w.sched("list"); !strings.Contains(got.out, "paused") || !strings.Contains(got.out, "by the operator") {
					t.Errorf("list says %s", got.out)
				}
			}
			w.until(paused.Add(20 * time.Second))
			if got := w.sched("reconcile", w.name); !strings.Contains(got.talk, "paused") {
				t.Errorf("while it is paused the reconciler says %s", got.talk)
			}
			if by == "ui" {
				w.patch(&schedulepb.SchedulePatch{Unpause: "go on"})
			} else {
				w.sched("unpause", w.name)
			}
			w.awaitLoaded(beats(t, start), start, ago(0).Add(3*beat))
			w.onceEach()
		})
	}
}

// stateful moves the test to a server of its own whose state is in a file, and returns how to kill it and
// how to start it again.
func (w *world) stateful() (kill, restart func()) {
	w.t.Helper()
	state := filepath.Join(w.folder, "temporal.db")
	server := w.onServer("--port", "0", "--db-filename", state)
	_, port, err := net.SplitHostPort(server.Ready.Address)
	if err != nil {
		w.t.Fatal(err)
	}
	return func() { server.Kill() }, func() { server = w.onServer("--port", port, "--db-filename", state) }
}

// TestOutageBeyondTheWindow: Temporal and all workers are gone for longer than the catchup window. What Temporal
// drops then is found.
func TestOutageBeyondTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	kill, restart := w.stateful()
	a := newAPI(t)
	newOneRow(a)
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	start := ago(0)
	w.apply(w.ticking(every(start, ", catchup: all")))
	w.awaitLoaded(beats(t, start), start, start.Add(2*beat))
	kill()
	worker.Kill()
	w.until(ago(0).Add(30 * time.Second))
	restart()
	w.worker(connections)
	w.awaitLoaded(beats(t, start), start, ago(0).Add(3*beat))
	w.onceEach()
}

// TestDeletedAndMadeAgain: the time without a Schedule is no hole.
func TestDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(0)
	file := w.ticking(every(start, ", catchup: all"))
	w.apply(file)
	w.awaitLoaded(beats(t, start), start, start.Add(beat))
	w.sched("delete", w.name)
	w.until(ago(0).Add(15 * time.Second))
	w.apply(file)
	w.awaitLoaded(beats(t, start), start, ago(0).Add(3*beat))
	w.onceEach()
}

// TestTakenIDs: somebody else's workflow has the id of a coming run, so that Temporal drops the tick without a
// word. The ledger has no outcome for it, so it is run.
func TestTakenIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(0)
	taken := start.Add(10 * beat)
	id := w.name + "-" + taken.Format(time.RFC3339)
	if _, err := w.temporal.ExecuteWorkflow(w.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "foreign"); err != nil {
		t.Fatal(err)
	}
	w.apply(w.ticking(every(start, ", catchup: all")))
	w.until(taken.Add(beat))
	if err := w.temporal.TerminateWorkflow(w.ctx, id, "", "by the test"); err != nil {
		t.Fatal(err)
	}
	w.awaitLoaded(beats(t, start), start, taken.Add(3*beat))
}

// TestManyCallsAtOnce: applies, pauses and triggers that arrive together overwrite each other inside Temporal; the
// intervals are whole all the same.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(10 * time.Second)
	file := w.ticking(every(start, ", catchup: all"))
	w.apply(file)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			switch i % 4 {
			case 0:
				w.patch(&schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
					StartTime: timestamppb.New(start), EndTime: timestamppb.New(start.Add(5 * beat)), OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
				}}})
			case 1:
				w.patch(&schedulepb.SchedulePatch{Pause: "together"})
			case 2:
				w.patch(&schedulepb.SchedulePatch{TriggerImmediately: &schedulepb.TriggerImmediatelyRequest{}})
			default:
				w.starter("schedules", "apply", file, "--reconcile-every", reconcileEvery.String())
			}
		})
	}
	group.Wait()
	w.sched("unpause", w.name)
	w.awaitLoaded(beats(t, start), start, ago(0).Add(2*beat))
}

// TestOtherGrids: beats give way to triples of them and those to beats again. The intervals tile, and the loads
// of each are their own.
func TestOtherGrids(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	w.worker(w.connect(a.URL))
	start := ago(0)
	specs := []interval.Spec{{Every: beat, Start: start}}
	w.apply(w.ticking(every(start, "")))
	w.awaitLoaded(beats(t, start), start, start.Add(2*beat))
	for _, length := range []time.Duration{3 * beat, beat} {
		w.apply(w.ticking(strings.Replace(every(start, ""), beat.String(), length.String(), 1)))
		since := w.since()
		specs = append(specs, interval.Spec{Every: length, Start: start, Since: since})
		line, err := interval.NewTimeline(specs...)
		if err != nil {
			t.Fatal(err)
		}
		w.awaitLoaded(line, start, since.Add(2*length))
	}
	w.onceEach()
}

// since returns where the pipeline's schedule took over, as `starter schedules list` says.
func (w *world) since() time.Time {
	w.t.Helper()
	var rows []struct{ Pipeline, Since string }
	if err := json.Unmarshal([]byte(w.sched("list", "--json").out), &rows); err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if row.Pipeline == w.name {
			at, err := time.Parse(time.RFC3339, row.Since)
			if err != nil {
				w.t.Fatal(err)
			}
			return at
		}
	}
	w.t.Fatalf("%s is not listed: %v", w.name, rows)
	return time.Time{}
}

// TestOperatorInTheUI: the buttons of Temporal's own UI. A backfill runs intervals again under their own ids; a
// trigger at an odd moment runs the last completed interval.
func TestOperatorInTheUI(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		newOneRow(a)
		w.worker(w.connect(a.URL))
		day := time.Now().UTC().Truncate(24 * time.Hour)
		start := day.AddDate(0, 0, -3)
		w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all, max_active_runs: 2`, start.Format(time.DateOnly))))
		line, err := interval.NewTimeline(interval.Spec{Cron: "0 0 * * *", Start: start})
		if err != nil {
			w.t.Fatal(err)
		}
		w.awaitLoaded(line, start, day)
		w.patch(&schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
			StartTime: timestamppb.New(start), EndTime: timestamppb.New(day), OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
		}}})
		w.awaitRuns(func(runs map[string]int) bool {
			return runs[w.name+"-"+day.Format(time.RFC3339)] == 2 && runs[w.name+"-"+day.AddDate(0, 0, -2).Format(time.RFC3339)] == 2
		})
		w.awaitIdle()
		w.patch(&schedulepb.SchedulePatch{TriggerImmediately: &schedulepb.TriggerImmediatelyRequest{}})
		w.awaitRuns(func(runs map[string]int) bool { return runs[w.name+"-"+day.Format(time.RFC3339)] == 3 })
		w.awaitIdle()
		w.awaitLoaded(line, start, day)
		if odd := w.oddRuns(); len(odd) != 1 || !strings.Contains(odd[0], "handed over to "+w.name+"-"+day.Format(time.RFC3339)) {
			w.t.Errorf("the triggered run answers %q", odd)
		}
	})
}

// TestBackfillIntoTheFuture: the backfill button with an end in the future starts runs before their intervals are over.
// They wait, or they would load what the source has of them so far, and the real ticks would find their ids taken.
func TestBackfillIntoTheFuture(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.intercept(func(out http.ResponseWriter, r *http.Request) bool {
		to, err := time.Parse(time.RFC3339, r.URL.Query().Get("to"))
		rows := 1
		if err != nil || time.Now().Before(to) {
			rows = 0 // as a source that does not know the future
		}
		writePage(out, r, rows, "row")
		return true
	})
	w.worker(w.connect(a.URL))
	start := ago(0)
	w.apply(w.ticking(every(start, ", catchup: all")))
	from := start.Add(8 * beat)
	w.patch(&schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
		StartTime: timestamppb.New(from), EndTime: timestamppb.New(from.Add(4 * beat)), OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	}}})
	w.awaitLoaded(beats(t, start), start, from.Add(6*beat))
	w.onceEach()
}

// awaitRuns waits until the pipeline's runs are as wanted.
func (w *world) awaitRuns(enough func(runs map[string]int) bool) {
	w.t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for !enough(w.runsOf()) {
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			w.t.Fatalf("the runs are %v", w.runsOf())
		}
	}
}

// awaitIdle waits until no run of the pipeline is open.
func (w *world) awaitIdle() {
	w.t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		got := w.starter("runs", w.name, "--open", "--json")
		if got.code == 0 && strings.TrimSpace(got.out) == "[]" {
			return
		}
		select {
		case <-ticker.C:
		case <-w.ctx.Done():
			w.t.Fatalf("still open: %s", got.out)
		}
	}
}

// oddRuns returns the outcomes of the runs whose ids are no ticks at midnight.
func (w *world) oddRuns() []string {
	w.t.Helper()
	var outcomes []string
	for id := range w.runsOf() {
		if strings.HasSuffix(id, "T00:00:00Z") {
			continue
		}
		var result struct{ Outcome string }
		if err := w.temporal.GetWorkflow(w.ctx, id, "").Get(w.ctx, &result); err != nil {
			w.t.Fatal(err)
		}
		outcomes = append(outcomes, result.Outcome)
	}
	slices.Sort(outcomes)
	return outcomes
}

// TestApplyAgainAndAgain: the unchanged file is applied many times while the worker is restarted; there is one
// Schedule, and one run for each interval.
func TestApplyAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	connections := w.connect(a.URL)
	worker := w.worker(connections)
	start := ago(0)
	file := w.ticking(every(start, ", catchup: all"))
	for i := range 5 {
		w.apply(file)
		if i%2 == 1 {
			worker.Kill()
			worker = w.worker(connections)
		}
	}
	w.awaitLoaded(beats(t, start), start, ago(0).Add(4*beat))
	w.onceEach()
	if got := w.sched("list"); strings.Count("\n"+got.out, "\n"+w.name+" ") != 1 {
		t.Errorf("list says %s", got.out)
	}
}

// TestPlanOfAChange shows what an edit does, and exits 7; without a worker nothing that the ledger must hear of
// is applied.
func TestPlanOfAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	file := w.ticking(`cron: "0 * * * *", start_date: 2026-01-01`)
	if got := w.starter("schedules", "plan", file); got.code != 7 || !strings.Contains(got.out, "create") || !strings.Contains(got.out, "have ended already") {
		t.Errorf("plan of a new file exits %d: %s%s", got.code, got.out, got.talk)
	}
	if got := w.starter("schedules", "apply", file); got.code != 4 || !strings.Contains(got.talk, "no worker polls task queue "+w.name) {
		t.Errorf("apply without a worker exits %d: %s%s", got.code, got.out, got.talk)
	}
	a := newAPI(t)
	w.worker(w.connect(a.URL))
	w.apply(file)
	if got := w.starter("schedules", "plan", file); got.code != 0 {
		t.Errorf("plan after the apply exits %d: %s%s", got.code, got.out, got.talk)
	}
	daily := w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01`)
	got := w.starter("schedules", "plan", daily)
	for _, want := range []string{`schedule.cron`, `"0 * * * *"`, `→ "0 0 * * *"`, "takes over at", "its first interval is"} {
		if got.code != 7 || !strings.Contains(got.out, want) {
			t.Errorf("plan of a change exits %d and does not say %q: %s%s", got.code, want, got.out, got.talk)
		}
	}
}
