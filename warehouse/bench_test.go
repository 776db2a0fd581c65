package warehouse_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse"
)

// benchFlag is the number of rows of the benchmarks: go test -bench . -rows 5000000
var benchFlag = flag.Int("rows", 1_000_000, "rows loaded by the benchmarks")

const benchColumns = "id bigint; ordered_at timestamptz; customer text; product text; quantity integer; price numeric(12,2); total numeric(12,2); note text"

// benchFile writes rows of one day as CSV and returns its path and content.
func benchFile(b *testing.B) (string, []byte) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var buffer bytes.Buffer
	start := day(15).Start
	for i := range *benchFlag {
		at := start.Add(time.Duration(random.Int64N(int64(24 * time.Hour)))).Truncate(time.Microsecond)
		quantity, cents := random.IntN(50)+1, random.IntN(100_000)
		fmt.Fprintf(&buffer, "%d,%s,customer-%d,product %d,%d,%d.%02d,%d.%02d,note %x\n", i+1, at.Format("2006-01-02T15:04:05.000000Z"),
			random.IntN(50_000), random.IntN(900), quantity, cents/100, cents%100, quantity*cents/100, quantity*cents%100, random.Uint32())
	}
	path := filepath.Join(b.TempDir(), "rows.csv")
	if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path, buffer.Bytes()
}

// fieldsOf gives the rows of a CSV without quotes, each field a slice of the text.
func fieldsOf(text []byte) warehouse.Rows {
	return func(yield func([][]byte, error) bool) {
		var fields [][]byte
		for rest := text; len(rest) > 0; {
			end := bytes.IndexByte(rest, '\n')
			line := rest[:end]
			rest = rest[end+1:]
			fields = fields[:0]
			for {
				comma := bytes.IndexByte(line, ',')
				if comma < 0 {
					fields = append(fields, line)
					break
				}
				fields = append(fields, line[:comma])
				line = line[comma+1:]
			}
			if !yield(fields, nil) {
				return
			}
		}
	}
}

func benchLoad(text []byte, fence int64) warehouse.LoadRequest {
	return warehouse.LoadRequest{
		Pipeline: "bench", Step: "load", RunID: "run", Fence: fence, Interval: day(15), Columns: columns(benchColumns), Rows: fieldsOf(text),
		Load: &pipeline.Load{Table: "loaded", Disposition: pipeline.DispositionDeleteInsert, TimeColumn: "ordered_at"},
	}
}

// reportRatio says how fast the load was beside the limit, measured just before it.
func reportRatio(b *testing.B, limit, load time.Duration) {
	b.ReportMetric(float64(*benchFlag*b.N)/load.Seconds(), "rows/s")
	b.ReportMetric(float64(*benchFlag*b.N)/limit.Seconds(), "limit-rows/s")
	b.ReportMetric(limit.Seconds()/load.Seconds(), "ratio")
}

func run(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Skipf("%s: %v: %s", name, err, out)
	}
}

// BenchmarkPostgres compares a load with `psql \copy` of the same rows into a table of the same shape
// with the same index.
func BenchmarkPostgres(b *testing.B) {
	path, text := benchFile(b)
	for _, source := range []string{"direct", "staged"} {
		b.Run(source, func(b *testing.B) {
			t := newBench(b, warehouse.DriverPostgres)
			var limit, load time.Duration
			for i := range b.N {
				t.query(`drop table if exists limit_rows; create table limit_rows (id bigint, ordered_at timestamptz, customer text, product text, quantity integer,
					price numeric(12,2), total numeric(12,2), note text); create index on limit_rows (ordered_at)`)
				t.query("drop table if exists loaded; checkpoint")
				began := time.Now()
				run(b, "psql", t.config.DSN, "-q", "-c", `\copy limit_rows from '`+path+`' csv`)
				limit += time.Since(began)
				t.query("checkpoint")
				req := benchLoad(text, int64(i+1))
				began = time.Now()
				if source == "staged" {
					req = stageAll(b, t, req)
				}
				if r := t.load(req); r.Inserted != int64(*benchFlag) {
					b.Fatalf("%+v", r)
				}
				load += time.Since(began)
			}
			reportRatio(b, limit, load)
		})
	}
}

// stageAll moves a request's rows through a stage in pages of 10,000 rows.
func stageAll(b *testing.B, t *bench, req warehouse.LoadRequest) warehouse.LoadRequest {
	b.Helper()
	ref := warehouse.StageRef{Pipeline: req.Pipeline, RunID: fmt.Sprint(req.Fence), Step: "extract", Interval: req.Interval, Columns: req.Columns, Fence: req.Fence}
	stage, err := t.OpenStage(b.Context(), ref)
	if err != nil {
		b.Fatal(err)
	}
	const size = 10_000
	text := bytes.Join(nil, nil)
	for fields := range req.Rows {
		text = append(append(text, bytes.Join(fields, []byte(","))...), '\n')
	}
	for page := 1; len(text) > 0; page++ {
		end := 0
		for i := 0; i < size && end < len(text); i++ {
			end += bytes.IndexByte(text[end:], '\n') + 1
		}
		chunk := text[:end]
		text = text[end:]
		if _, err := stage.AppendPage(b.Context(), page, fieldsOf(chunk), func() (string, bool, error) { return "next", len(text) == 0, nil }); err != nil {
			b.Fatal(err)
		}
	}
	req.Rows, req.Stage, req.StagedRows = nil, &ref, stage.Progress().Rows
	return req
}

// BenchmarkSQLite compares a load with the shell's `.import` of the same rows into a table of the same
// shape with the same index, both in WAL mode and waiting for the disk.
func BenchmarkSQLite(b *testing.B) {
	path, text := benchFile(b)
	for _, source := range []string{"direct", "staged"} {
		b.Run(source, func(b *testing.B) {
			var limit, load time.Duration
			for i := range b.N {
				file := filepath.Join(b.TempDir(), fmt.Sprintf("limit%d.db", i))
				began := time.Now()
				run(b, "sqlite3", file, "pragma journal_mode=wal", "pragma synchronous=full", `create table limit_rows (id integer, ordered_at text, customer text, product text,
					quantity integer, price text, total text, note text) strict`, "create index i on limit_rows (ordered_at)", ".mode csv", ".import '"+path+"' limit_rows")
				limit += time.Since(began)
				t := newBench(b, warehouse.DriverSQLite)
				req := benchLoad(text, int64(i+1))
				began = time.Now()
				if source == "staged" {
					req = stageAll(b, t, req)
				}
				if r := t.load(req); r.Inserted != int64(*benchFlag) {
					b.Fatalf("%+v", r)
				}
				load += time.Since(began)
			}
			reportRatio(b, limit, load)
		})
	}
}
