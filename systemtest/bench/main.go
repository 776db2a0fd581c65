// Command bench measures loads of a million rows of eight columns, each beside the limit that the
// database's own client sets for the same rows into the same table: A B A B, medians. It is no test:
// timings depend on what else the machine does, ratios much less.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/warehouse/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows := flag.Int("rows", 1_000_000, "rows of a load")
	rounds := flag.Int("rounds", 5, "rounds of each path, each between two of its limit")
	memory := flag.Bool("memory", true, "weigh a real worker, with --rows and with five times as many")
	flag.Parse()
	if err := run(ctx, os.Stdout, *rows, *rounds, *memory); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// path is one way of loading, with its limit.
type path struct {
	name  string
	aim   float64
	empty func(context.Context) error
	limit func(context.Context) error
	load  func(context.Context) error
}

func run(ctx context.Context, out io.Writer, rows, rounds int, memory bool) error {
	for _, client := range []string{"psql", "sqlite3"} {
		if _, err := exec.LookPath(client); err != nil {
			return fmt.Errorf("%s sets the limit and is not installed: apt-get install postgresql sqlite3", client)
		}
	}
	server := os.Getenv(pgtest.Variable)
	if server == "" {
		return fmt.Errorf("%s is not set: run `make bench`, which starts a PostgreSQL", pgtest.Variable)
	}
	folder, err := os.MkdirTemp("", "tranche-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	dsn, drop, err := database(ctx, server)
	if err != nil {
		return err
	}
	defer drop()
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(out, "%d rows, %d rounds, %d cores, %s, load %s\n\n", rows, rounds, runtime.NumCPU(), runtime.Version(), strings.TrimSpace(string(load)))
	if err := measurePaths(ctx, out, folder, dsn, rows, rounds); err != nil || !memory {
		return err
	}
	return measureMemory(ctx, out, dsn, rows)
}

// database makes a database for the benchmark.
func database(ctx context.Context, server string) (dsn string, drop func(), err error) {
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return "", nil, err
	}
	connected, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", nil, err
	}
	defer connected.Close(ctx)
	name := fmt.Sprintf("bench_%d", os.Getpid())
	if _, err := connected.Exec(ctx, "create database "+name); err != nil {
		return "", nil, err
	}
	drop = func() {
		// The benchmark may have been interrupted: its database goes all the same.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if connected, err := pgx.ConnectConfig(ctx, config); err == nil {
			defer connected.Close(ctx)
			_, _ = connected.Exec(ctx, "drop database "+name+" with (force)")
		}
	}
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", config.User, config.Host, config.Port, name), drop, nil
}

func measurePaths(ctx context.Context, out io.Writer, folder, dsn string, rows, rounds int) error {
	api := serve(folder)
	defer api.Close()
	b, err := newBench(rows, folder, api)
	if err != nil {
		return err
	}
	postgres, err := opened(ctx, warehouse.Config{Driver: warehouse.DriverPostgres, DSN: dsn})
	if err != nil {
		return err
	}
	defer postgres.Close()
	file := filepath.Join(folder, "bench.db")
	sqlite, err := opened(ctx, warehouse.Config{Driver: warehouse.DriverSQLite, DSN: file})
	if err != nil {
		return err
	}
	defer sqlite.Close()
	// The first loads make the tables, and warm everything.
	for _, w := range []*warehouse.Warehouse{postgres, sqlite} {
		if err := b.checked(ctx, w, b.loadCSV); err != nil {
			return err
		}
	}
	emptyPostgres, limitPostgres, err := b.postgresLimit(ctx, dsn)
	if err != nil {
		return err
	}
	emptySQLite, limitSQLite, err := b.sqliteLimit(ctx, file)
	if err != nil {
		return err
	}
	return b.measure(ctx, out, rounds, []path{
		{"CSV into PostgreSQL, beside psql \\copy", 1.0, emptyPostgres, limitPostgres, func(ctx context.Context) error { return b.checked(ctx, postgres, b.loadCSV) }},
		{"NDJSON over HTTP, staged, into PostgreSQL, beside psql \\copy of CSV", 0.6, emptyPostgres, limitPostgres, func(ctx context.Context) error { return b.checked(ctx, postgres, b.loadNDJSON) }},
		{"CSV into SQLite, beside .import", 0.9, emptySQLite, limitSQLite, func(ctx context.Context) error { return b.checked(ctx, sqlite, b.loadCSV) }},
	})
}

func opened(ctx context.Context, config warehouse.Config) (*warehouse.Warehouse, error) {
	w, err := warehouse.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return w, w.Migrate(ctx)
}

// checked loads, and makes sure that every row was.
func (b *bench) checked(ctx context.Context, w *warehouse.Warehouse, load func(context.Context, *warehouse.Warehouse) (warehouse.Receipt, error)) error {
	receipt, err := load(ctx, w)
	if err == nil && receipt.Inserted != int64(b.rows) {
		err = fmt.Errorf("%d rows were loaded, not %d", receipt.Inserted, b.rows)
	}
	return err
}

// measure times every path between two runs of its limit.
func (b *bench) measure(ctx context.Context, out io.Writer, rounds int, paths []path) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tRATIO\tMIN-MAX\tAIM\t\tLIMIT\tLOAD\tCPU")
	for _, p := range paths {
		var limits, loads, cpus, ratios []float64
		timed := func(do func(context.Context) error) (float64, error) {
			if err := p.empty(ctx); err != nil {
				return 0, err
			}
			began := time.Now()
			err := do(ctx)
			return time.Since(began).Seconds(), err
		}
		before, err := timed(p.limit)
		for round := 0; err == nil && round < rounds; round++ {
			var load, after float64
			spent := processorTime()
			load, err = timed(p.load)
			spent = processorTime() - spent
			if err == nil {
				after, err = timed(p.limit)
			}
			limits, loads, cpus = append(limits, before, after), append(loads, load), append(cpus, spent.Seconds())
			ratios = append(ratios, (before+after)/2/load)
			before = after
		}
		if err != nil {
			return errors.Join(table.Flush(), fmt.Errorf("%s: %w", p.name, err))
		}
		verdict := "met"
		if median(ratios) < p.aim {
			verdict = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.2f-%.2f\t%.1f\t%s\t%.2fs\t%.2fs\t%.2fs\n", p.name, median(ratios), slices.Min(ratios), slices.Max(ratios),
			p.aim, verdict, median(limits), median(loads), median(cpus))
	}
	fmt.Fprintln(table, "\nRATIO is rows per second beside the limit's, median of the rounds; CPU is that of the loading process.")
	return table.Flush()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// memoryAim is what a worker may need at most, in MiB.
const memoryAim = 100

func measureMemory(ctx context.Context, out io.Writer, dsn string, rows int) error {
	binaries, err := stack.FindBinaries(".")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tranche-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server, err := binaries.Server(ctx, folder, "--port", "0", "--headless")
	if err != nil {
		return err
	}
	defer server.Kill()
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "PEAK MEMORY OF THE WORKER\t%d ROWS\t%d ROWS\tAIM\n", rows, 5*rows)
	for _, source := range []struct{ name, title, step string }{
		{"from_file", "CSV into PostgreSQL", fileStep},
		{"from_api", "NDJSON over HTTP, staged, into PostgreSQL", httpStep},
	} {
		once, err := peakMemory(ctx, binaries, server, dsn, source.name, source.step, rows)
		if err != nil {
			return err
		}
		more, err := peakMemory(ctx, binaries, server, dsn, source.name, source.step, 5*rows)
		if err != nil {
			return err
		}
		verdict := "met"
		if max(once, more) >= memoryAim {
			verdict = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.0f MiB\t%.0f MiB\tbelow %d MiB: %s\n", source.title, once, more, memoryAim, verdict)
	}
	return table.Flush()
}
