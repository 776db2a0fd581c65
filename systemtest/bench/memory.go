package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/trancheflow/tranche/systemtest/stack"
)

// memoryPipelines are the definitions whose worker is weighed: the rows of a file, and those of an API.
const memoryPipelines = `pipeline: %s
warehouse: warehouse
schedule: { cron: "0 0 * * *", start_date: 2026-01-01 }
defaults: { timeout: { start_to_close: 20m, schedule_to_close: 30m } }
steps:
  - name: extract
%s      columns:
%s  - name: load
    load: { from: extract, table: %s, disposition: delete+insert, time_column: ordered_at }
`

const (
	fileStep = "    file:\n      connection: files\n      path: rows.csv\n"
	httpStep = "    http:\n      connection: api\n      path: /rows\n      format: ndjson\n"
)

// Aims for a worker's peak memory, in MiB. It counts as equal for one and five times the rows within
// memoryTolerance: the garbage collector alone moves it by some MiB, and four million rows that were
// held would take hundreds.
const (
	memoryAim       = 100
	memoryTolerance = 10
)

// measureMemory weighs a real worker for each kind of source, a fresh process each time.
func measureMemory(ctx context.Context, out io.Writer, folder, dsn string, rows int) error {
	binaries, err := stack.FindBinaries(".")
	if err != nil {
		return err
	}
	server, err := binaries.Server(ctx, folder, "--port", "0", "--headless")
	if err != nil {
		return err
	}
	defer server.Kill()
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "PEAK MEMORY OF THE WORKER (VmHWM)\t%d ROWS\t%d ROWS\tBELOW %d MiB\tEQUAL, WITHIN %d MiB\n", rows, 5*rows, memoryAim, memoryTolerance)
	for _, source := range []struct{ name, title, step string }{
		{"from_file", "CSV into PostgreSQL", fileStep},
		{"from_api", "NDJSON over HTTP, staged, into PostgreSQL", httpStep},
	} {
		once, err := peakMemory(ctx, binaries, server, folder, dsn, source.name, source.step, rows)
		if err != nil {
			return errors.Join(table.Flush(), err)
		}
		more, err := peakMemory(ctx, binaries, server, folder, dsn, source.name, source.step, 5*rows)
		if err != nil {
			return errors.Join(table.Flush(), err)
		}
		fmt.Fprintf(table, "%s\t%.0f MiB\t%.0f MiB\t%s\t%s\n", source.title, once, more,
			met(max(once, more) < memoryAim), met(math.Abs(more-once) <= memoryTolerance))
	}
	return table.Flush()
}

// peakMemory returns the greatest resident memory, in MiB, of a real worker that runs one interval of
// so many rows.
func peakMemory(ctx context.Context, binaries stack.Binaries, server *stack.Process, parent, dsn, name, source string, rows int) (mib float64, err error) {
	folder, err := os.MkdirTemp(parent, name)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = writeRows(w, jsonRow, rows)
	}))
	defer api.Close()
	if source == fileStep {
		if err := writeFile(filepath.Join(folder, "rows.csv"), csvHeader, csvRow, rows); err != nil {
			return 0, err
		}
	}
	connections := filepath.Join(folder, "connections.yaml")
	file := filepath.Join(folder, "pipeline.yaml")
	text := fmt.Sprintf("connections:\n  files: { files: { url: %q } }\n  api: { http: { base_url: %q } }\n  warehouse: { postgres: { url: \"${DSN}\" } }\n", folder, api.URL)
	if err := os.WriteFile(connections, []byte(text), 0o600); err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, []byte(definition(name, source)), 0o600); err != nil {
		return 0, err
	}
	environment := stack.Environment("TEMPORAL_ADDRESS="+server.Ready.Address, "DSN="+dsn)
	worker, err := binaries.Worker(ctx, folder, environment, "--connections", connections)
	if err != nil {
		return 0, err
	}
	defer worker.Kill()
	starter := exec.CommandContext(ctx, binaries.Path("starter"), "run", file, "--interval", "2026-01-15", "--wait")
	starter.Env = environment
	output, err := starter.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w: %s\n%s", name, err, output, worker.Tail())
	}
	if !strings.Contains(string(output), fmt.Sprintf("loaded, %d rows", rows)) {
		return 0, fmt.Errorf("run %s did not load %d rows: %s", name, rows, output)
	}
	mib, err = highWaterMark(worker.Ready.PID)
	if err != nil {
		return 0, err
	}
	_, err = worker.Stop(time.Minute)
	return mib, err
}

func definition(name, source string) string {
	var list strings.Builder
	for _, c := range columns() {
		fmt.Fprintf(&list, "        - { name: %s, type: %q }\n", c.Name, c.Type)
	}
	return fmt.Sprintf(memoryPipelines, name, source, list.String(), name)
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// highWaterMark reads the greatest resident memory of a process, in MiB.
func highWaterMark(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	match := highWater.FindSubmatch(status)
	if match == nil {
		return 0, fmt.Errorf("process %d tells no peak memory", pid)
	}
	kib, err := strconv.ParseFloat(string(match[1]), 64)
	return kib / 1024, err
}
