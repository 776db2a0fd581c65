package warehouse_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/warehouse/pgtest"
)

// bench is one database under test, with what tests need to look behind the warehouse's back.
type bench struct {
	*warehouse.Warehouse
	t      testing.TB
	config warehouse.Config
}

// onBoth runs the test on PostgreSQL and on SQLite, each with a database of its own.
func onBoth(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	for _, driver := range []string{warehouse.DriverSQLite, warehouse.DriverPostgres} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, driver))
		})
	}
}

func newBench(t testing.TB, driver string) *bench {
	t.Helper()
	config := warehouse.Config{Driver: driver}
	if driver == warehouse.DriverPostgres {
		config.DSN = pgtest.Postgres(t)
	} else {
		config.DSN = filepath.Join(t.TempDir(), "warehouse.db")
	}
	b := &bench{Warehouse: open(t, config), t: t, config: config}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t testing.TB, config warehouse.Config) *warehouse.Warehouse {
	t.Helper()
	w, err := warehouse.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// query returns the rows of a statement as text, fields joined by "|"; NULL is "NULL".
func (b *bench) query(sql string) []string {
	b.t.Helper()
	rows, err := b.tryQuery(sql)
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func (b *bench) tryQuery(sql string) ([]string, error) {
	if b.config.Driver == warehouse.DriverPostgres {
		return queryPostgres(b.config.DSN, sql)
	}
	return querySQLite(b.config.DSN, sql)
}

func queryPostgres(dsn, sql string) ([]string, error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "set timezone = 'UTC'"); err != nil {
		return nil, err
	}
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, result := range results {
		for _, row := range result.Rows {
			fields := make([]string, len(row))
			for i, field := range row {
				if fields[i] = string(field); field == nil {
					fields[i] = "NULL"
				}
			}
			out = append(out, strings.Join(fields, "|"))
		}
	}
	return out, nil
}

func querySQLite(path, sql string) ([]string, error) {
	conn, err := sqlite3.Open(path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.BusyTimeout(10 * time.Second); err != nil {
		return nil, err
	}
	var out []string
	for strings.TrimSpace(sql) != "" {
		stmt, tail, err := conn.Prepare(sql)
		if err != nil {
			return nil, err
		}
		sql = tail
		for stmt.Step() {
			fields := make([]string, stmt.ColumnCount())
			for i := range fields {
				if fields[i] = stmt.ColumnText(i); stmt.ColumnType(i) == sqlite3.NULL {
					fields[i] = "NULL"
				}
			}
			out = append(out, strings.Join(fields, "|"))
		}
		if err := errors.Join(stmt.Err(), stmt.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *bench) expect(sql string, want ...string) {
	b.t.Helper()
	if got := b.query(sql); !slices.Equal(got, want) {
		b.t.Errorf("%s:\n got %q\nwant %q", sql, got, want)
	}
}

// load is Load, with a failure ending the test.
func (b *bench) load(req warehouse.LoadRequest) warehouse.Receipt {
	b.t.Helper()
	receipt, err := b.Load(b.t.Context(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	return receipt
}

// refuse is Load that must fail with an error of the type; it returns the error's text.
func (b *bench) refuse(kind string, req warehouse.LoadRequest) string {
	b.t.Helper()
	receipt, err := b.Load(b.t.Context(), req)
	if err == nil {
		b.t.Fatalf("loaded %+v, want %s", receipt, kind)
	}
	if got := retry.Classify(err); got.Type != kind {
		b.t.Fatalf("error of type %s (%v), want %s: %v", got.Type, got.Class, kind, err)
	}
	return err.Error()
}

const (
	null = "\x00NULL" // stands for NULL in rows below
)

// rows makes a source of rows written as fields joined by "|".
func rows(lines ...string) warehouse.Rows {
	return func(yield func([][]byte, error) bool) {
		var buffer []byte // reused: a source lends its rows
		for _, line := range lines {
			buffer = append(buffer[:0], line...)
			var fields [][]byte
			for _, field := range strings.Split(string(buffer), "|") {
				if field == null {
					fields = append(fields, nil)
					continue
				}
				fields = append(fields, []byte(field))
			}
			if !yield(fields, nil) {
				return
			}
			for _, field := range fields {
				for i := range field {
					field[i] = '#' // whoever kept it has garbage
				}
			}
		}
	}
}

// columns parses "name type, name type!" with ! for not_null.
func columns(declared string) []pipeline.Column {
	var out []pipeline.Column
	for _, part := range strings.Split(declared, "; ") {
		name, kind, _ := strings.Cut(part, " ")
		kind, notNull := strings.CutSuffix(kind, "!")
		kind, format, _ := strings.Cut(kind, " as ")
		out = append(out, pipeline.Column{Name: name, Type: kind, Format: format, NotNull: notNull})
	}
	return out
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// day is the interval of a day of January 2026, UTC.
func day(n int) interval.Interval {
	start := time.Date(2026, time.January, n, 0, 0, 0, 0, time.UTC)
	return interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}
}

const orderColumns = "id bigint; ordered_at timestamptz; customer text; total numeric(14,2)"

// orders is a delete+insert of orders by day.
func orders(n int, fence int64, lines ...string) warehouse.LoadRequest {
	return warehouse.LoadRequest{
		Pipeline: "orders", Step: "load", WorkflowID: fmt.Sprintf("orders-%d", n), RunID: fmt.Sprintf("run-%d", fence), Attempt: 1,
		Fence: fence, Digest: "d1", Interval: day(n), Columns: columns(orderColumns),
		Load: &pipeline.Load{Table: "orders", Disposition: pipeline.DispositionDeleteInsert, TimeColumn: "ordered_at"},
		Rows: rows(lines...),
	}
}

// items is an upsert by id, with the hidden interval as the version.
func items(n int, fence int64, lines ...string) warehouse.LoadRequest {
	return warehouse.LoadRequest{
		Pipeline: "items", Step: "load", RunID: fmt.Sprintf("run-%d", fence), Fence: fence, Interval: day(n), Columns: columns("id bigint; name text"),
		Load: &pipeline.Load{Table: "items", Disposition: pipeline.DispositionUpsert, UniqueKey: []string{"id"}},
		Rows: rows(lines...),
	}
}

// staged moves the rows of a request through a stage, two rows to a page.
func (b *bench) staged(req warehouse.LoadRequest, lines ...string) warehouse.LoadRequest {
	b.t.Helper()
	ref := warehouse.StageRef{Pipeline: req.Pipeline, RunID: req.RunID, Step: "extract", WorkflowID: req.WorkflowID, Interval: req.Interval, Columns: req.Columns, Fence: req.Fence}
	stage, err := b.OpenStage(b.t.Context(), ref)
	if err != nil {
		b.t.Fatal(err)
	}
	for page := stage.Progress().Pages + 1; !stage.Progress().Done; page++ {
		chunk := lines[:min(2, len(lines))]
		lines = lines[len(chunk):]
		n, err := stage.AppendPage(b.t.Context(), page, rows(chunk...), func() (string, bool, error) {
			return fmt.Sprintf("after page %d", page), len(lines) == 0, nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if n != int64(len(chunk)) {
			b.t.Errorf("page %d: %d rows, want %d", page, n, len(chunk))
		}
	}
	req.Rows, req.Stage, req.StagedRows = nil, &ref, stage.Progress().Rows
	return req
}
