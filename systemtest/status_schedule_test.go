package systemtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/warehouse"
)

// A backfill of exactly the gaps of a range: what is loaded stays, by whatever definition, and so does what lies outside.
func TestGapsAreFilled(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		a := newAPI(w.t)
		for n := 1; n <= 12; n++ {
			a.set(januaryDay(n), n)
		}
		a.intercept(answer404)
		w.worker(w.connect(a.URL))
		file := w.twelve("")
		w.run(file, januaryDay(2), 5)
		a.intercept(nil)
		w.run(w.write("old.yaml", strings.Replace(w.read(file), "size: 100", "size: 50", 1)), januaryDay(3), 0)
		w.run(file, januaryDay(5), 0)
		w.says(2, "", "--fill or --accept", "gaps", file, "--fill", "--accept", "--reason", "x", "--by", "y")
		w.says(2, "", "needs --fill", "gaps", file, "--max-active-runs", "2")
		got := w.starter("gaps", file, "--from", "2026-01-01", "--to", "2026-01-07", "--fill", "--json")
		var filled struct {
			Gaps     int `json:"gaps"`
			Backfill struct {
				ID string `json:"id"`
			} `json:"backfill"`
		}
		if err := json.Unmarshal([]byte(got.out), &filled); err != nil || got.code != 0 || filled.Gaps != 4 || filled.Backfill.ID == "" {
			w.t.Fatalf("gaps --fill exits %d, %v:\n%s%s", got.code, err, got.out, got.talk)
		}
		if got := w.starter("backfill", "show", filled.Backfill.ID, "--wait"); got.code != 0 {
			w.t.Fatalf("the backfill: %d\n%s%s", got.code, got.out, got.talk)
		}
		w.gaps(0, file, "--to", "2026-01-07")
		report := w.gaps(6, file)
		if want := "3-3 1 loaded outdated\n7-12 6 missing gap\n"; report.ranges() != want {
			w.t.Errorf("left:\n%swant\n%s", report.ranges(), want)
		}
		for id, count := range w.executions() {
			if want := map[bool]int{true: 2, false: 1}[strings.HasSuffix(id, "-01-03T00:00:00Z")]; count != want {
				w.t.Errorf("%s has run %d times", id, count)
			}
		}
		w.says(0, w.name+": no gaps in 6 intervals\n\nLoaded by another definition (a gap with --outdated):\n2026-01-03: loaded, by another definition\n", "",
			"gaps", file, "--to", "2026-01-07", "--fill")
	})
}

// What lies between two gaps, and nobody expects, is not run.
func TestWhatNobodyExpectsIsNotFilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.intercept(answer404)
	w.worker(w.connect(a.URL))
	file := w.twelve("")
	w.apply(file)
	w.run(file, januaryDay(3), 5)
	w.run(file, januaryDay(6), 5)
	a.intercept(nil)
	got := w.starter("gaps", w.name, "--fill")
	if want := w.name + ": 2 gaps in 2 intervals (2 failed)\n2026-01-03: failed\n2026-01-06: failed\n"; got.code != 0 || got.out != want || !strings.Contains(got.talk, " for 2 gaps; look at it with `starter backfill show ") {
		t.Fatalf("gaps --fill exits %d:\n%s%swant\n%s", got.code, got.out, got.talk, want)
	}
	w.eventually("the gaps are filled", func() bool { return w.starter("gaps", w.name).code == 0 && w.gaps(0, w.name).Counts["loaded"] == 2 })
	backfills := w.starter("backfill", "list", w.name, "--json")
	var listed []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(backfills.out), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v: %s%s", err, backfills.out, backfills.talk)
	}
	if got := w.starter("backfill", "show", listed[0].ID, "--wait"); got.code != 0 {
		t.Fatalf("the backfill: %d\n%s%s", got.code, got.out, got.talk)
	}
	if runs := w.executions(); len(runs) != 2 {
		t.Errorf("more was run: %v", runs)
	}
}

// The run of an interval that waits for the one before goes on when that is accepted.
func TestAnAcceptedGapWakesTheRunThatWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	a.set(januaryDay(2), 2)
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Query().Get("from"), "2026-01-01") {
			answer.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	w.worker(w.connect(a.URL))
	file := w.twelve(", depends_on_past: true")
	w.run(file, januaryDay(1), 5)
	second := w.start(file, januaryDay(2))
	w.untilDetails(second, "waits for the interval before")
	before := w.signals(second)
	w.gaps(0, file, "--accept", "--reason", "no orders yet", "--by", "anna", "--to", "2026-01-02")
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, second)
	if w.signals(second) == before {
		t.Error("it was not woken: it has found out by itself")
	}
}

// signals counts how often a run was told that the past has changed.
func (w *world) signals(r report) int {
	count := 0
	for _, event := range w.events(r.WorkflowID, r.RunID) {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			count++
		}
	}
	return count
}

// What a Schedule says of its pipeline: what is expected, what runs next, what catches up, why it is paused.
func TestStatusOfASchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	letGo := make(chan struct{})
	entered := make(chan struct{}, 20)
	w.worker(w.connect(a.URL))
	a.intercept(answer404)
	file := w.twelve("")
	w.apply(file)
	w.run(file, januaryDay(3), 5)
	heading := w.name + ": 0 0 * * * in UTC, catchup none\nno further runs\nreconciled AGO ago: nothing is missing\n"
	shows := func(want string, args ...string) {
		t.Helper()
		got := w.starter(append([]string{"status"}, args...)...)
		if text := reconciledAgo.ReplaceAllString(got.out, "reconciled AGO ago"); got.code != 0 || text != want {
			t.Errorf("status %v exits %d:\n%s%s\nwant\n%s", args, got.code, text, got.talk, want)
		}
	}
	shows(heading+"\n12 intervals, 2026-01-01 to 2026-01-12\n\n2025-12-29 Mon     --F-\n2026-01-05 Mon  -------\n2026-01-12 Mon  -\n\nF failed 1   - unexpected 11\n", w.name)
	// What has failed was wanted by somebody; the rest nobody expects.
	w.says(6, w.name+": 1 gap in 1 interval (1 failed)\n2026-01-03: failed\n", "11 intervals before ", "gaps", w.name)
	if report := w.gaps(6, w.name, "--all"); report.Gaps != 12 || report.Expected != 12 {
		t.Errorf("all: %+v", report)
	}
	a.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		entered <- struct{}{}
		select {
		case <-letGo:
		case <-r.Context().Done():
		}
		return false
	})
	w.apply(w.twelve(", catchup: all"))
	<-entered
	w.eventually("status tells of the catchup", func() bool {
		got := w.starter("status", w.name)
		return strings.Contains(got.out, "\ncatching up: "+launch.CatchupID(w.name)+"\n") && strings.Contains(got.out, "R running 1   W waiting 1   F failed 1   M missing 9\n")
	})
	// By Temporal's own means, so that the note may hold anything.
	w.patch(&schedulepb.SchedulePatch{Pause: "the shop\u202emoves"})
	w.eventually("status tells of the pause", func() bool {
		return strings.Contains(w.starter("status", w.name).out, "\npaused: the shop\\u202emoves\n")
	})
	close(letGo)
	w.awaitIdle()
	w.says(1, "", "has no Schedule", "status", w.name+"x")
	w.says(2, "", "takes exactly one PIPELINE or FILE", "status")
	w.says(2, "", "--from 2026-01-05T00:00:00Z is not before --to", "gaps", w.name, "--from", "2026-01-05", "--to", "2026-01-05")
	w.says(2, "", "--from", "gaps", w.name, "--from", "soon")
}

var reconciledAgo = regexp.MustCompile(`reconciled [0-9]+[smh] ago`)
