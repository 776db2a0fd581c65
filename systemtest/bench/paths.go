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
	// sum is the checksum of the rows in the tables, from the first look on.
	sum string
}

func (b *bench) path(name string) string { return filepath.Join(b.folder, name) }

func newBench(rows int, folder string, api *httptest.Server) (*bench, error) {
	text := fmt.Sprintf("connections:\n  files: { files: { url: %q } }\n  api: { http: { base_url: %q } }\n", folder, api.URL)
	set, err := connection.Parse("connections.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	b := &bench{rows: rows, folder: folder, connections: set}
	if err := writeFile(b.path("rows.csv"), csvHeader, csvRow, rows); err != nil {
		return nil, err
	}
	return b, writeFile(b.path("rows.ndjson"), "", jsonRow, rows)
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

// target is a database with the two tables: the one that is loaded, and its copy for the limit.
type target struct {
	warehouse *warehouse.Warehouse
	// empty empties both tables and has the database write down what it has in mind, so that no run pays
	// for the one before it.
	empty func(context.Context) error
	// limit has the database's own client load the rows of the CSV into the copy.
	limit func(context.Context) error
	// cachedLimit does the same with the page cache that Tranche gives its writer; only SQLite has it.
	cachedLimit func(context.Context) error
}

// open opens a warehouse and has it make its table, by a load that also warms everything.
func (b *bench) open(ctx context.Context, config warehouse.Config) (*warehouse.Warehouse, error) {
	w, err := warehouse.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	err = w.Migrate(ctx)
	if err == nil {
		_, err = b.loadCSV(ctx, w)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (b *bench) postgres(ctx context.Context, dsn string) (*target, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	w, err := b.open(ctx, warehouse.Config{Driver: warehouse.DriverPostgres, DSN: dsn})
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, config, "create table "+limitTable+" (like "+loadedTable+" including all)"); err != nil {
		w.Close()
		return nil, err
	}
	names := make([]string, 0, len(columns()))
	for _, c := range columns() {
		names = append(names, c.Name)
	}
	copyRows := fmt.Sprintf(`\copy %s (%s) from '%s' csv header`, limitTable, strings.Join(names, ", "), b.path("rows.csv"))
	return &target{
		warehouse: w,
		empty: func(ctx context.Context) error {
			return execute(ctx, config, "truncate "+loadedTable+", "+limitTable, "checkpoint")
		},
		limit: func(ctx context.Context) error {
			return command(ctx, "psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", dsn, "--command", copyRows)
		},
	}, nil
}

// ourPageCache is what Tranche gives its writer; the shell has 2 MiB unless told.
const ourPageCache = "pragma cache_size=-32768;"

func (b *bench) sqlite(ctx context.Context, path string) (*target, error) {
	w, err := b.open(ctx, warehouse.Config{Driver: warehouse.DriverSQLite, DSN: path})
	if err != nil {
		return nil, err
	}
	if err := copyDefinition(ctx, path); err != nil {
		w.Close()
		return nil, err
	}
	// The file's journal mode, WAL, is the shell's, too; whether it waits for the disk is each session's.
	load := []string{"pragma synchronous=full;", ".mode csv", fmt.Sprintf(".import --skip 1 %q %s", b.path("rows.csv"), limitTable)}
	return &target{
		warehouse: w,
		empty: func(ctx context.Context) error {
			return shell(ctx, path, "delete from "+loadedTable+"; delete from "+limitTable+"; pragma wal_checkpoint(truncate);")
		},
		limit:       func(ctx context.Context) error { return shell(ctx, path, load...) },
		cachedLimit: func(ctx context.Context) error { return shell(ctx, path, append([]string{ourPageCache}, load...)...) },
	}, nil
}

// copyDefinition makes the limit's table and indexes like those that Tranche made.
func copyDefinition(ctx context.Context, path string) error {
	query := "select replace(sql, '" + loadedTable + "', '" + limitTable + "') || ';' from sqlite_schema where tbl_name = '" + loadedTable + "' and sql is not null"
	definitions, err := exec.CommandContext(ctx, "sqlite3", path, query).Output()
	if err != nil {
		return fmt.Errorf("read the definition of %s: %w", loadedTable, err)
	}
	return shell(ctx, path, string(definitions))
}

// shell runs SQLite's own.
func shell(ctx context.Context, path string, lines ...string) error {
	return command(ctx, "sqlite3", append([]string{"-batch", "-bail", path}, lines...)...)
}

// command runs a client of a database.
func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.500s", name, err, output)
	}
	return nil
}
