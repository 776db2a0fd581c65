// Command demo shows the main job on real programs: it starts a Temporal server, the shop API and a
// worker, runs the example pipelines over several intervals into SQLite, runs the same intervals
// again, and compares what the tables hold. It exits 1 if anything differs.
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
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"database/sql"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/systemtest/stack"
	"github.com/trancheflow/tranche/warehouse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	keep := flag.Bool("keep", false, "stay up after the demo, for looking at the Temporal UI")
	flag.Parse()
	if err := run(ctx, ".", os.Stdout, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

// example is a pipeline with the intervals that the demo runs.
type example struct {
	name      string
	intervals []string
	// order sorts the few rows that are shown.
	order string
}

var examples = []example{
	{"orders", []string{"2026-01-15", "2026-01-16", "2026-01-17"}, "id"},
	{"earthquakes", []string{"2018-02-04", "2018-02-05"}, "id"},
	{"weather", []string{"2012-01-01", "2013-07-01", "2015-12-01"}, "date"},
}

// demo is one run of it.
type demo struct {
	root, folder string
	out          io.Writer
	binaries     stack.Binaries
	server       *stack.Process
	environment  []string
}

// stopTimeout is how long a program may take to end.
const stopTimeout = 60 * time.Second

func run(ctx context.Context, root string, out io.Writer, keep bool) error {
	binaries, err := stack.FindBinaries(root)
	if err != nil {
		return err
	}
	d := &demo{root: root, folder: filepath.Join(root, ".demo"), out: out, binaries: binaries}
	if err := d.prepare(); err != nil {
		return err
	}
	stop, err := d.start(ctx)
	if err != nil {
		return errors.Join(err, stop())
	}
	err = d.show(ctx)
	if err == nil && keep {
		fmt.Fprintf(out, "\nThe Temporal UI is at %s; Ctrl-C ends everything.\n", d.server.Ready.UI)
		<-ctx.Done()
	} else if err == nil {
		fmt.Fprintf(out, "\nThe Temporal UI was at %s; `make demo KEEP=1` keeps it up.\n", d.server.Ready.UI)
	}
	return errors.Join(err, stop())
}

// connections are those of pipelines/connections.yaml, with the database in the demo's own folder.
const connections = `connections:
  shop:      { http: { base_url: "${SHOP_URL}", bearer: "${SHOP_TOKEN}" } }
  quakes:    { files: { url: ../pipelines/earthquakes/data } }
  climate:   { files: { url: ../pipelines/weather/data } }
  warehouse: { sqlite: { path: ./tranche.db } }
`

func (d *demo) prepare() error {
	if err := os.RemoveAll(d.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(d.folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.folder, "connections.yaml"), []byte(connections), 0o644)
}

// start starts the programs; the returned function ends them, whatever has been started.
func (d *demo) start(ctx context.Context) (stop func() error, err error) {
	var started []*stack.Process
	stop = func() error {
		var failures []error
		for i := len(started) - 1; i >= 0; i-- {
			code, err := started[i].Stop(stopTimeout)
			if err == nil && code != 0 {
				err = fmt.Errorf("%s exited %d\n%s", started[i].Name, code, started[i].Tail())
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	}
	const token = "SHOP_TOKEN=demo-token-for-the-shop"
	shop, err := d.binaries.Shop(ctx, d.folder, stack.Environment(token))
	if err != nil {
		return stop, err
	}
	started = append(started, shop)
	if d.server, err = d.binaries.Server(ctx, d.folder, "--port", "0", "--ui-port", "0"); err != nil {
		return stop, err
	}
	started = append(started, d.server)
	d.environment = stack.Environment("TEMPORAL_ADDRESS=" + d.server.Ready.Address)
	worker, err := d.binaries.Worker(ctx, d.folder, append(d.environment, token, "SHOP_URL=http://"+shop.Ready.Address),
		"--connections", filepath.Join(d.folder, "connections.yaml"))
	if err != nil {
		return stop, err
	}
	started = append(started, worker)
	fmt.Fprintf(d.out, "Temporal server %s, shop API %s and worker are up.\n", d.server.Ready.Address, shop.Ready.Address)
	return stop, nil
}

// show runs every interval twice and compares.
func (d *demo) show(ctx context.Context) error {
	database, err := warehouse.Open(ctx, warehouse.Config{Driver: warehouse.DriverSQLite, DSN: d.database()})
	if err != nil {
		return err
	}
	defer database.Close()
	fmt.Fprintf(d.out, "\n== First time\n")
	if err := d.runAll(ctx); err != nil {
		return err
	}
	before, err := d.contents(ctx, database)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n== The same intervals again\n")
	if err := d.runAll(ctx); err != nil {
		return err
	}
	after, err := d.contents(ctx, database)
	if err != nil {
		return err
	}
	if err := d.schedule(ctx); err != nil {
		return err
	}
	if err := d.compare(before, after); err != nil {
		return err
	}
	if err := d.printRows(ctx); err != nil {
		return err
	}
	return d.printReceipts(ctx, database)
}

func (d *demo) database() string { return filepath.Join(d.folder, "tranche.db") }

func (d *demo) file(name string) string {
	return filepath.Join(d.root, "pipelines", name, "pipeline.yaml")
}

func (d *demo) runAll(ctx context.Context) error {
	for _, each := range examples {
		for _, start := range each.intervals {
			if err := d.starter(ctx, 0, "run", d.file(each.name), "--interval", start, "--wait"); err != nil {
				return err
			}
		}
	}
	return nil
}

// starter runs the command line as a user would, and wants this exit code.
func (d *demo) starter(ctx context.Context, want int, args ...string) error {
	fmt.Fprintf(d.out, "\n$ starter %s\n", strings.Join(args, " "))
	command := exec.CommandContext(ctx, d.binaries.Path("starter"), args...)
	command.Env, command.Stdout, command.Stderr = d.environment, d.out, d.out
	err := command.Run()
	if command.ProcessState != nil && command.ProcessState.ExitCode() == want {
		return nil
	}
	return fmt.Errorf("starter %s should have exited %d: %w", strings.Join(args, " "), want, err)
}

// planHasChanges is the exit code of a plan that has some.
const planHasChanges = 7

// schedule makes Temporal Schedules of the pipelines: from then on their runs start by themselves.
func (d *demo) schedule(ctx context.Context) error {
	fmt.Fprintf(d.out, "\n== Schedules, so that runs start by themselves\n")
	pipelines := filepath.Join(d.root, "pipelines")
	for _, command := range []struct {
		exits int
		args  []string
	}{
		{planHasChanges, []string{"schedules", "plan", pipelines}},
		{0, []string{"schedules", "apply", pipelines}},
		{0, []string{"schedules", "plan", pipelines}},
		{0, []string{"schedules", "list"}},
	} {
		if err := d.starter(ctx, command.exits, command.args...); err != nil {
			return err
		}
	}
	return nil
}

// content is what a table holds.
type content struct {
	rows     int64
	checksum string
}

func (d *demo) contents(ctx context.Context, database *warehouse.Warehouse) (map[string]content, error) {
	all := map[string]content{}
	for _, each := range examples {
		columns, err := d.columns(each.name)
		if err != nil {
			return nil, err
		}
		rows, sum, err := database.Checksum(ctx, each.name, columns, nil)
		if err != nil {
			return nil, err
		}
		all[each.name] = content{rows, sum}
	}
	return all, nil
}

func (d *demo) columns(name string) ([]pipeline.Column, error) {
	data, err := os.ReadFile(d.file(name))
	if err != nil {
		return nil, err
	}
	parsed, problems := pipeline.Parse(pipeline.Source{File: d.file(name), Data: data})
	if len(problems) > 0 {
		return nil, problems
	}
	return parsed.Step("extract").SourceColumns(), nil
}

func (d *demo) compare(before, after map[string]content) error {
	fmt.Fprintf(d.out, "\n== What the tables hold\n\n")
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TABLE\tROWS\tCHECKSUM AFTER THE FIRST TIME\tROWS\tCHECKSUM AFTER THE SECOND\t")
	var different []string
	for _, each := range examples {
		was, is := before[each.name], after[each.name]
		verdict := "equal"
		if was != is || was.rows == 0 {
			verdict = "DIFFERENT"
			different = append(different, each.name)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\n", each.name, was.rows, was.checksum, is.rows, is.checksum, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(different) > 0 {
		return fmt.Errorf("running the same intervals again changed %s", strings.Join(different, ", "))
	}
	return nil
}

// printRows shows a few rows of each table, as any SQLite client would.
func (d *demo) printRows(ctx context.Context) error {
	database, err := sql.Open("sqlite3", "file:"+d.database())
	if err != nil {
		return err
	}
	defer database.Close()
	for _, each := range examples {
		fmt.Fprintf(d.out, "\n== %s, the first rows\n\n", each.name)
		rows, err := database.QueryContext(ctx, fmt.Sprintf("select * from %s order by %s limit 3", each.name, each.order))
		if err != nil {
			return err
		}
		if err := d.printTable(rows); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) printTable(rows *sql.Rows) error {
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(names, "\t"))
	values := make([]sql.NullString, len(names))
	targets := make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		texts := make([]string, len(values))
		for i, value := range values {
			texts[i] = value.String
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	return errors.Join(rows.Err(), table.Flush())
}

func (d *demo) printReceipts(ctx context.Context, database *warehouse.Warehouse) error {
	fmt.Fprintf(d.out, "\n== Receipts of the load ledger, one per interval\n\n")
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PIPELINE\tINTERVAL\tDELETED\tINSERTED\tUNCHANGED\tDROPPED\tCHECKSUM OF THE ROWS SENT")
	for _, each := range examples {
		receipts, err := database.Receipts(ctx, warehouse.Query{Pipeline: each.name})
		if err != nil {
			return err
		}
		for _, receipt := range receipts {
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", receipt.Pipeline, receipt.Interval, receipt.Deleted,
				receipt.Inserted, receipt.Unchanged, receipt.Dropped, receipt.Checksum)
		}
	}
	return table.Flush()
}
