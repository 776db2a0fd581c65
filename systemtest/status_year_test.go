package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/warehouse"
)

// minutesOfYear is how many minutes 2025 had.
const minutesOfYear = 525_600

// fillYear writes an outcome for each minute of 2025 but for those whose number can be divided.
func (w *world) fillYear(divisor int) {
	w.t.Helper()
	const columns = "(pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at)"
	values := `select '%s', timestamptz '2025-01-01 00:00+00' + n * interval '1 minute', timestamptz '2025-01-01 00:01+00' + n * interval '1 minute',
		'loaded', 'backfill', '', '', 0, '%s', '', now() from generate_series(0, %d) n where n %% %d > 0`
	table := "tranche.outcomes"
	if w.config.Driver == warehouse.DriverSQLite {
		table = "tranche_outcomes"
		values = `with recursive n(n) as (select 0 union all select n + 1 from n where n < %[3]d)
			select '%[1]s', strftime('%%Y-%%m-%%dT%%H:%%M:%%S', 1735689600 + n * 60, 'unixepoch') || '.000000Z',
			strftime('%%Y-%%m-%%dT%%H:%%M:%%S', 1735689660 + n * 60, 'unixepoch') || '.000000Z', 'loaded', 'backfill', '', '', 0, '%[2]s', '', '2026-01-01T00:00:00.000000Z'
			from n where n %% %[4]d > 0`
	}
	digest := strings.Repeat("d", 64)
	w.execute("insert into " + table + " " + columns + " " + fmt.Sprintf(values, w.name, digest, minutesOfYear-1, divisor))
}

// peak is the most memory that a process has held so far, in MiB.
func peak(t *testing.T, process int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		t.Skipf("skipped: the memory of a process is not told here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// A year of minutes is answered in pages, counted and joined, without being held by anybody.
func TestAYearOfMinutesIsSummarised(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		file := w.ticking(`every: 1m, start_date: 2025-01-01, end_date: 2026-01-01`)
		worker := w.worker(w.connect("http://127.0.0.1:1"))
		w.gaps(0, file, "--to", "2025-01-01T00:00:00Z") // the worker has opened the warehouse
		before := peak(w.t, worker.ID())
		w.fillYear(1440)
		begun := time.Now()
		report := w.gaps(6, file)
		took := time.Since(begun)
		if report.Expected != minutesOfYear || report.Gaps != 365 || report.Counts["loaded"] != minutesOfYear-365 {
			w.t.Errorf("%d expected, %d gaps: %v", report.Expected, report.Gaps, report.Counts)
		}
		begun = time.Now()
		status := w.starter("status", file, "--from", "2025-01-01")
		if status.code != 0 || !strings.Contains(status.out, "\n525600 intervals\n") || !strings.Contains(status.out, "ranges before, and:\n") ||
			!strings.Contains(status.out, "\n2025-12-31: missing\n2025-12-31 00:01 to 2025-12-31 23:59, 1439 intervals: loaded, by another definition\n") || len(status.out) > 10_000 {
			w.t.Errorf("status exits %d:\n%s%s", status.code, status.out, status.talk)
		}
		w.t.Logf("%s: gaps took %s, status %s, the worker grew from %d to %d MiB", w.config.Driver, took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), before, peak(w.t, worker.ID()))
		if after := peak(w.t, worker.ID()); after > before+150 {
			w.t.Errorf("the worker grew from %d to %d MiB", before, after)
		}
	})
}

// Every other minute missing is the longest answer that there can be: hundreds of pages.
func TestEveryOtherMinuteIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	file := w.ticking(`every: 1m, start_date: 2025-01-01, end_date: 2025-04-01`)
	w.worker(w.connect("http://127.0.0.1:1"))
	w.fillYear(2)
	begun := time.Now()
	got := w.starter("gaps", file, "--json")
	var report gapReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 6 {
		t.Fatalf("exits %d: %v\n%.1000s%s", got.code, err, got.out, got.talk)
	}
	const minutes = 90 * 1440
	if report.Gaps != minutes/2 || len(report.Ranges) != minutes {
		t.Errorf("%d gaps in %d ranges", report.Gaps, len(report.Ranges))
	}
	t.Logf("%d ranges took %s", len(report.Ranges), time.Since(begun).Round(time.Millisecond))
	interrupted := exec.CommandContext(w.ctx, shared.binaries.Path("starter"), "gaps", file, "--json")
	interrupted.Env = w.environment
	out, err := interrupted.StdoutPipe()
	if err == nil {
		err = interrupted.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(out)
	if err := interrupted.Wait(); interrupted.ProcessState.ExitCode() != 130 || len(rest) > len(got.out)/2 {
		t.Errorf("interrupted, it ends as %v after %d of %d bytes", err, len(rest), len(got.out))
	}
	if people := w.starter("gaps", file); people.code != 6 || strings.Count(people.out, "\n") > 300 || !strings.Contains(people.out, "more; --json lists them all\n") {
		t.Errorf("exits %d, %d lines", people.code, strings.Count(people.out, "\n"))
	}
}
