// Command bench measures loads of a million rows of eight columns, each beside the limit that the
// database's own client sets for the same rows into the same table, and the runs of a backfill beside
// bare workflows with as many activities: A B A B, medians. It is no test: timings depend on what else
// the machine does, ratios much less.
//
// Whatever was loaded is read back after the clock has stopped: its checksum must be that of the rows
// which the database's own client wrote.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trancheflow/tranche/warehouse/pgtest"
)

// exitUsage is what the flag package exits with, too.
const exitUsage = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows := flag.Int("rows", 1_000_000, "rows of a load, at least 1")
	rounds := flag.Int("rounds", 5, "rounds of each path, each between two of its limit, at least 1")
	memory := flag.Bool("memory", true, "weigh a real worker, with --rows and with five times as many")
	loads := flag.Bool("loads", true, "measure loads, and with --memory what they need of it")
	runs := flag.Int("runs", 500, "runs of a round of the backfill, which is measured beside bare workflows; 0: not at all")
	flag.Parse()
	if *rows < 1 || *rounds < 1 || *runs < 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: --rows and --rounds are at least 1, --runs is not negative, and there are no arguments")
		os.Exit(exitUsage)
	}
	if err := run(ctx, os.Stdout, plan{*rows, *rounds, *runs, *loads, *memory}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan says what is measured.
type plan struct {
	rows, rounds, runs int
	loads, memory      bool
}

func run(ctx context.Context, out io.Writer, p plan) (err error) {
	folder, err := os.MkdirTemp("", "tranche-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if p.loads {
		if err := measureLoads(ctx, out, folder, p); err != nil {
			return err
		}
	}
	if p.runs == 0 {
		return nil
	}
	return measureOverhead(ctx, out, folder, p.runs, p.rounds)
}

func measureLoads(ctx context.Context, out io.Writer, folder string, p plan) (err error) {
	for _, client := range []string{"psql", "sqlite3"} {
		if _, err := exec.LookPath(client); err != nil {
			return fmt.Errorf("%s sets the limit and is not installed (Debian: apt-get install postgresql sqlite3)", client)
		}
	}
	server := os.Getenv(pgtest.Variable)
	if server == "" {
		return fmt.Errorf("%s is not set: run `make bench`, which starts a PostgreSQL where one is installed", pgtest.Variable)
	}
	dsn, drop, err := database(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	if err := describe(ctx, out, dsn, p.rows, p.rounds); err != nil {
		return err
	}
	if err := measurePaths(ctx, out, folder, dsn, p.rows, p.rounds); err != nil || !p.memory {
		return err
	}
	return measureMemory(ctx, out, folder, dsn, p.rows)
}

// database makes a database for the benchmark, and says how it is dropped.
func database(ctx context.Context, server string) (dsn string, drop func() error, err error) {
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", pgtest.Variable, err)
	}
	name := fmt.Sprintf("bench_%d", os.Getpid())
	if err := execute(ctx, config, "create database "+name); err != nil {
		return "", nil, err
	}
	drop = func() error {
		// The benchmark may have been interrupted: its database goes all the same.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return execute(ctx, config, "drop database "+name+" with (force)")
	}
	return databaseURL(config, name), drop, nil
}

// databaseURL is the server's address with another database, for clients that do not share our parser.
func databaseURL(config *pgx.ConnConfig, name string) string {
	dsn := url.URL{Scheme: "postgres", User: url.User(config.User), Host: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), Path: "/" + name}
	if config.Password != "" {
		dsn.User = url.UserPassword(config.User, config.Password)
	}
	if config.TLSConfig == nil {
		dsn.RawQuery = "sslmode=disable"
	}
	return dsn.String()
}

// execute runs statements in a session of their own.
func execute(ctx context.Context, config *pgx.ConnConfig, statements ...string) error {
	connected, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer connected.Close(ctx)
	for _, statement := range statements {
		if _, err := connected.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func measurePaths(ctx context.Context, out io.Writer, folder, dsn string, rows, rounds int) error {
	api := serve(folder)
	defer api.Close()
	b, err := newBench(rows, folder, api)
	if err != nil {
		return err
	}
	postgres, err := b.postgres(ctx, dsn)
	if err != nil {
		return err
	}
	defer postgres.warehouse.Close()
	sqlite, err := b.sqlite(ctx, filepath.Join(folder, "bench.db"))
	if err != nil {
		return err
	}
	defer sqlite.warehouse.Close()
	return b.measure(ctx, out, rounds, []path{
		{"CSV into PostgreSQL / psql \\copy", 1.0, postgres, postgres.limit, b.loadCSV},
		{"NDJSON over HTTP, staged, into PostgreSQL / psql \\copy of CSV", 0.6, postgres, postgres.limit, b.loadNDJSON},
		{"CSV into SQLite / .import", 0.9, sqlite, sqlite.limit, b.loadCSV},
		{"CSV into SQLite / .import with our page cache", 0, sqlite, sqlite.cachedLimit, b.loadCSV},
	})
}
