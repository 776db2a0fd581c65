package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/extract"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse"
)

// Names of the tables: the one that Tranche makes and loads, and a copy of it for the limit.
const (
	loadedTable = "loaded"
	limitTable  = "limit_rows"
)

// bench holds what the paths work on.
type bench struct {
	rows        int
	folder      string
	connections *connection.Set
	fence       int64
}

func newBench(rows int, folder string, api *httptest.Server) (*bench, error) {
	text := fmt.Sprintf("connections:\n  files: { files: { url: %q } }\n  api: { http: { base_url: %q } }\n", folder, api.URL)
	set, err := connection.Parse("connections.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	b := &bench{rows: rows, folder: folder, connections: set}
	if err := writeFile(filepath.Join(folder, "rows.csv"), csvHeader, csvRow, rows); err != nil {
		return nil, err
	}
	return b, writeFile(filepath.Join(folder, "rows.ndjson"), "", jsonRow, rows)
}

// serve answers with the rows as NDJSON.
func serve(folder string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		http.ServeFile(w, r, filepath.Join(folder, "rows.ndjson"))
	}))
}

func (b *bench) request() warehouse.LoadRequest {
	b.fence++
	return warehouse.LoadRequest{
		Pipeline: "bench", Step: "load", WorkflowID: "bench", RunID: fmt.Sprintf("run-%d", b.fence), Attempt: 1, Fence: b.fence, Digest: "bench",
		Interval: day, Columns: columns(),
		Load: &pipeline.Load{Table: loadedTable, Disposition: pipeline.DispositionDeleteInsert, TimeColumn: "ordered_at"},
	}
}

// loadCSV does what the activities of a file step and its load do.
func (b *bench) loadCSV(ctx context.Context, w *warehouse.Warehouse) (warehouse.Receipt, error) {
	files, err := b.connections.Files("files")
	if err != nil {
		return warehouse.Receipt{}, err
	}
	spec := &pipeline.File{Connection: "files", Path: "rows.csv", Format: "csv", Compression: "none", Columns: columns()}
	seen, err := extract.OpenFile(ctx, files, spec, day, nil)
	if err != nil {
		return warehouse.Receipt{}, err
	}
	pin := seen.Pin()
	seen.Close()
	file, err := extract.OpenPinned(ctx, files, spec, pin)
	if err != nil {
		return warehouse.Receipt{}, err
	}
	defer file.Close()
	request := b.request()
	request.Rows = file.Rows()
	return w.Load(ctx, request)
}

// loadNDJSON does what the activities of an HTTP step and its load do: the rows are staged, then loaded.
func (b *bench) loadNDJSON(ctx context.Context, w *warehouse.Warehouse) (warehouse.Receipt, error) {
	api, err := b.connections.HTTP("api")
	if err != nil {
		return warehouse.Receipt{}, err
	}
	request := b.request()
	ref := warehouse.StageRef{Pipeline: "bench", RunID: request.RunID, Step: "extract", WorkflowID: "bench", Interval: day, Columns: columns(), Fence: b.fence}
	listing, err := extract.OpenHTTP(api, &pipeline.HTTP{Connection: "api", Method: "GET", Path: "/rows", Format: "ndjson", Columns: columns()}, day, nil)
	if err != nil {
		return warehouse.Receipt{}, err
	}
	stage, err := w.OpenStage(ctx, ref)
	if err != nil {
		return warehouse.Receipt{}, err
	}
	page, err := listing.Fetch(ctx, "")
	if err != nil {
		return warehouse.Receipt{}, err
	}
	defer page.Close()
	if _, err := stage.AppendPage(ctx, 1, page.Rows(), page.Next); err != nil {
		return warehouse.Receipt{}, err
	}
	request.Stage, request.StagedRows = &ref, stage.Progress().Rows
	receipt, err := w.Load(ctx, request)
	if err != nil {
		return receipt, err
	}
	return receipt, w.DropStage(ctx, ref)
}

// command runs a client of a database.
func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.500s", name, err, output)
	}
	return nil
}

// postgresLimit makes the limit's table like the one that Tranche made, and returns what empties both and
// what loads it.
func (b *bench) postgresLimit(ctx context.Context, dsn string) (empty, limit func(context.Context) error, err error) {
	run := func(ctx context.Context, sql ...string) error {
		connected, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer connected.Close(ctx)
		for _, statement := range sql {
			if _, err := connected.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}
	if err := run(ctx, "create table "+limitTable+" (like "+loadedTable+" including all)"); err != nil {
		return nil, nil, err
	}
	empty = func(ctx context.Context) error {
		return run(ctx, "truncate "+loadedTable+", "+limitTable, "checkpoint")
	}
	names := make([]string, 0, len(columns()))
	for _, c := range columns() {
		names = append(names, c.Name)
	}
	copyCommand := fmt.Sprintf(`\copy %s (%s) from '%s' csv header`, limitTable, strings.Join(names, ", "), filepath.Join(b.folder, "rows.csv"))
	return empty, func(ctx context.Context) error { return command(ctx, "psql", "-q", "-X", dsn, "-c", copyCommand) }, nil
}

// sqliteLimit does the same in an SQLite file, with the shell's own import.
func (b *bench) sqliteLimit(ctx context.Context, path string) (empty, limit func(context.Context) error, err error) {
	shell := func(ctx context.Context, lines ...string) error {
		args := []string{"-bail", path}
		return command(ctx, "sqlite3", append(args, lines...)...)
	}
	definitions, err := exec.CommandContext(ctx, "sqlite3", path, "select replace(sql, '"+loadedTable+"', '"+limitTable+"') || ';' from sqlite_master where tbl_name = '"+loadedTable+"' and sql is not null").Output()
	if err != nil {
		return nil, nil, err
	}
	if err := shell(ctx, string(definitions)); err != nil {
		return nil, nil, err
	}
	empty = func(ctx context.Context) error {
		return shell(ctx, "delete from "+loadedTable+"; delete from "+limitTable+"; pragma wal_checkpoint(truncate);")
	}
	return empty, func(ctx context.Context) error {
		return shell(ctx, ".mode csv", ".import --skip 1 "+filepath.Join(b.folder, "rows.csv")+" "+limitTable)
	}, nil
}
