package workflows

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
)

// replay replays a recorded history under the workflow id that it was recorded with: a run compares its
// id with its interval.
func replay(data []byte) error {
	recorded, err := client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{})
	if err != nil {
		return err
	}
	id := recorded.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	r := worker.NewWorkflowReplayer()
	for name, function := range map[string]any{
		launch.RunType: Run, launch.GateType: Gate, BackfillType: Backfill, ReconcileType: Reconcile, LedgerType: Ledger, StandingType: Standing,
		launch.NotifyType: Notify,
		PlanType:          Plan,
	} {
		r.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	return r.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), recorded,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
}

// TestReplay holds the interpreter against histories of released builds: runs that were open when a worker is
// upgraded must go on. A history that no longer replays means that Run needs a new launch.Version, not that
// the history is to be recorded again.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/replay/*.json")
	if err != nil || len(files) < 26 {
		t.Fatalf("found %d histories: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := replay(data); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplayNoticesAnotherInterpreter makes sure that a replay can fail at all.
func TestReplayNoticesAnotherInterpreter(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/replay/v0.1.0-loaded.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := replay(bytes.ReplaceAll(data, []byte(`"extract-http"`), []byte(`"extract-file"`))); err == nil {
		t.Error("a history of another activity replays")
	}
}
