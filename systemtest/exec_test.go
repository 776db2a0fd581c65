package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trancheflow/tranche/warehouse"
)

// program is a pipeline of one exec step, whose script a shell runs; more is added to the step.
func (w *world) program(script, more string) string {
	return w.write("program.yaml", fmt.Sprintf(`pipeline: %[1]s
warehouse: warehouse
task_queue: %[1]s
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
steps:
  - name: program
    exec:
      command: [/bin/sh, -c, %[2]q, "{{ date .Interval.Start }}"]
      environment: { FOLDER: %[3]q }
%[4]s`, w.name, script, w.folder, more))
}

// TestExec: a program runs where the worker allows it, with the interval and without the worker's secrets; its exit
// code decides.
func TestExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	connections := w.connect("http://127.0.0.1:1")
	forbidding := w.worker(connections)
	file := w.program(`env >"$FOLDER/told"; echo "day $0" >>"$FOLDER/told"; echo "$API_TOKEN" >>"$FOLDER/told"`, "")
	if r := w.run(file, "2026-01-15", 5); !strings.Contains(r.Error, "ExecNotAllowed") || !strings.Contains(r.Error, "--allow-exec") || r.Result != nil && r.Result.Steps[0].Attempts > 1 {
		t.Errorf("without --allow-exec the run answers %+v", r)
	}
	forbidding.Kill()
	w.worker(connections, "--allow-exec")
	r := w.run(file, "2026-01-15", 0)
	told := w.read(filepath.Join(w.folder, "told"))
	for _, want := range []string{
		"TRANCHE_PIPELINE=" + w.name + "\n", "TRANCHE_STEP=program\n", "TRANCHE_INTERVAL_START=2026-01-15T00:00:00Z\n", "TRANCHE_INTERVAL_END=2026-01-16T00:00:00Z\n",
		"TRANCHE_WORKFLOW_ID=" + r.WorkflowID + "\n", "TRANCHE_RUN_ID=" + r.RunID + "\n", "TRANCHE_ATTEMPT=1\n", "TZ=UTC\n", "day 2026-01-15\n",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in what the program was told:\n%s", want, told)
		}
	}
	for _, hidden := range []string{apiToken, "WAREHOUSE", "TEMPORAL_"} {
		if strings.Contains(told, hidden) {
			t.Errorf("the program was told %s:\n%s", hidden, told)
		}
	}
}

// TestExitCodes: 75 asks for another try, every other code is final, and a step's rules decide over both.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code, retry string
		attempts    int
		exit        int
	}{
		"another try":       {"75", "", 3, 5},
		"final":             {"1", "", 1, 5},
		"ruled to be tried": {"1", ", rules: [{ error_types: [ExitCode], action: retry }]", 3, 5},
		"ruled to be final": {"75", ", non_retryable_error_types: [ExitCode]", 1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			w.worker(w.connect("http://127.0.0.1:1"), "--allow-exec")
			file := w.program(`echo "ran" >>"$FOLDER/runs"; echo "no luck with `+apiToken+`" >&2; exit `+test.code,
				"    retry: { maximum_attempts: 3, initial_interval: 10ms"+test.retry+" }\n")
			r := w.run(file, "2026-01-15", test.exit)
			data, err := os.ReadFile(filepath.Join(w.folder, "runs"))
			if got := strings.Count(string(data), "ran"); err != nil || got != test.attempts {
				t.Errorf("the program ran %d times, want %d: %v", got, test.attempts, err)
			}
			if !strings.Contains(r.Error, "ExitCode") || !strings.Contains(r.Error, "no luck with ***") || strings.Contains(r.Error, apiToken) {
				t.Errorf("the run ends with %s", r.Error)
			}
		})
	}
}

// TestALateTaskStartsNoProgram: a worker is stopped for a while, as with its host. Temporal gives it the next attempt all
// the same, since it was asking for work, and then gives that up, too. When the worker goes on, it starts no program for
// an attempt that is over: others may have done the work since.
func TestALateTaskStartsNoProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	connections := w.connect("http://127.0.0.1:1")
	stopped := w.worker(connections, "--allow-exec")
	r := w.start(w.program(`echo "attempt $TRANCHE_ATTEMPT." >>"$FOLDER/attempts"; if [ "$TRANCHE_ATTEMPT" = 1 ]; then exec sleep 600; fi`,
		"    timeout: { heartbeat: 2s }\n    retry: { maximum_attempts: 100 }\n"), "2026-01-15")
	started := func(attempt string) bool {
		text, err := os.ReadFile(filepath.Join(w.folder, "attempts"))
		return err == nil && strings.Contains(string(text), "attempt "+attempt+".")
	}
	w.eventually("the program runs", func() bool { return started("1") })
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second attempt is over, too", func() bool {
		described, err := w.temporal.DescribeWorkflow(w.ctx, r.WorkflowID, r.RunID)
		if err != nil {
			t.Fatal(err)
		}
		pending := described.RawResponse.GetPendingActivities()
		return len(pending) == 1 && pending[0].GetAttempt() > 2
	})
	w.worker(connections, "--allow-exec")
	if err := w.temporal.GetWorkflow(w.ctx, r.WorkflowID, r.RunID).Get(w.ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.eventually("the worker has found the second attempt", func() bool {
		for line := range strings.Lines(w.read(stopped.Log)) {
			if strings.Contains(line, "Activity error") && strings.Contains(line, " Attempt=2 ") {
				return true
			}
		}
		return started("2")
	})
	if started("2") {
		t.Errorf("a program was started for an attempt that was over:\n%s", w.read(filepath.Join(w.folder, "attempts")))
	}
}
