package systemtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/trancheflow/tranche/warehouse"
)

// backfillView is the JSON of a backfill.
type backfillView struct {
	ID         string `json:"id"`
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	State      string `json:"state"`
	Window     int    `json:"max_active_runs"`
	Range      struct{ From, To time.Time }
	Expected   struct{ Run, Wait, Loaded, Failed, Blocked int64 }
	Counts     struct{ Started, Loaded, Failed, Cancelled, Left int64 }
	Running    []struct {
		WorkflowID string `json:"workflow_id"`
	}
	Failed  []struct{ From, To time.Time } `json:"failed_ranges"`
	Blocked *struct{ Start, End time.Time } `json:"blocked_by"`
	NotRun  int64                           `json:"not_run"`
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

// TestBackfillCommand: a range is run and followed to its end.
func TestBackfillCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newHurdles(a, nil)
	w.worker(w.connect(a.URL))
	file := w.orders()
	views := w.backfills(0, file, "--from", "2026-01-05", "--to", "2026-01-15", "--wait")
	if len(views) != 1 || views[0].State != "done" || views[0].Counts.Loaded != 10 || views[0].Counts.Started != 10 || views[0].Expected.Run != 10 {
		t.Errorf("the backfill answers %+v", views)
	}
	got := w.starter("backfill", "list", w.name)
	t.Log(got.out, got.talk)
	got = w.starter("backfill", "show", views[0].ID)
	t.Log(got.out, got.talk)
	got = w.starter("backfill", file, "--from", "2026-01-14", "--to", "2026-01-20", "--dry-run")
	t.Log(got.out, got.talk)
}
