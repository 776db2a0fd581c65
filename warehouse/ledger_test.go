package warehouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/warehouse"
)

func TestMigrateIsRepeatable(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		results := make(chan error, 4)
		for range cap(results) {
			go func() { results <- b.Migrate(t.Context()) }()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		table := "tranche.migrations"
		if b.config.Driver == warehouse.DriverSQLite {
			table = "tranche_migrations"
		}
		b.query("update " + table + " set digest = 'another'")
		if err := b.Migrate(t.Context()); retry.Classify(err).Type != "NewerLedger" {
			t.Errorf("a changed migration: %v", err)
		}
	})
}

// Many workers may start at once with an empty database.
func TestMigrateTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		config := b.config
		if config.Driver == warehouse.DriverPostgres {
			b.query("drop schema tranche cascade")
		} else {
			config.DSN += "2"
		}
		results := make(chan error, 4)
		for range cap(results) {
			w := open(t, config)
			go func() { results <- w.Migrate(t.Context()) }()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestOutcomes(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		record := func(n int, fence int64, status string, want bool) {
			t.Helper()
			got, err := b.RecordOutcome(t.Context(), warehouse.Outcome{
				Pipeline: "orders", Interval: day(n), Status: status, Kind: "scheduled", WorkflowID: "w", RunID: fmt.Sprint(fence), Fence: fence, Note: "n",
			})
			if err != nil || got.Written != want {
				t.Errorf("outcome %d/%d: %v, %v", n, fence, got, err)
			}
		}
		record(2, 5, warehouse.OutcomeFailed, true)
		record(2, 7, warehouse.OutcomeLoaded, true)
		record(2, 6, warehouse.OutcomeCancelled, false)
		record(2, 7, warehouse.OutcomeLoaded, true)
		record(1, 1, warehouse.OutcomeAccepted, true)
		record(9, 1, warehouse.OutcomeAccepted, true)
		outcomes, err := b.Outcomes(t.Context(), warehouse.Query{Pipeline: "orders", From: day(1).Start, To: day(3).Start})
		if err != nil || len(outcomes) != 2 {
			t.Fatalf("%+v, %v", outcomes, err)
		}
		got := outcomes[1]
		if got.Status != warehouse.OutcomeLoaded || got.Fence != 7 || got.Interval != day(2) || got.RecordedAt.IsZero() || time.Since(got.RecordedAt) > time.Hour {
			t.Errorf("%+v", got)
		}
		if outcomes, _ = b.Outcomes(t.Context(), warehouse.Query{Pipeline: "orders", Limit: 1}); len(outcomes) != 1 || outcomes[0].Interval != day(1) {
			t.Errorf("limit 1: %+v", outcomes)
		}
		if _, err := b.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: "orders", Interval: day(1), Status: "done"}); retry.Classify(err).Type != "BadRequest" {
			t.Errorf("an unknown status: %v", err)
		}
	})
}

func TestReceipts(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		written := b.load(orders(15, 1, "1|"+noon+"|a|1"))
		b.load(orders(16, 1))
		receipts, err := b.Receipts(t.Context(), warehouse.Query{Pipeline: "orders"})
		if err != nil || len(receipts) != 2 || receipts[0] != written {
			t.Errorf("%+v, %v\nwritten %+v", receipts, err, written)
		}
	})
}

// A later attempt takes the stage over and goes on after the last committed page; the earlier one can
// write no more.
func TestStageTakeOver(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		ref := warehouse.StageRef{Pipeline: "orders", RunID: "run", Step: "extract", WorkflowID: "w", Interval: day(15), Columns: columns(orderColumns), Fence: 10}
		first, err := b.OpenStage(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		page := func(stage *warehouse.Stage, number int, done bool, lines ...string) error {
			_, err := stage.AppendPage(t.Context(), number, rows(lines...), func() (string, bool, error) { return fmt.Sprintf("cursor-%d", number), done, nil })
			return err
		}
		if err := page(first, 1, false, "1|"+noon+"|a|1", "2|"+noon+"|b|1"); err != nil {
			t.Fatal(err)
		}
		if err := page(first, 3, false); retry.Classify(err).Type != "BadRequest" {
			t.Errorf("a page was skipped: %v", err)
		}
		if err := page(first, 2, false, "3|"+noon+"|c|1", "x|"+noon+"|c|1"); err == nil || !strings.Contains(err.Error(), "row 4") {
			t.Errorf("a bad row of page 2: %v", err)
		}
		ref.Fence = 11
		second, err := b.OpenStage(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if p := second.Progress(); p.Position != "cursor-1" || p.Pages != 1 || p.Rows != 2 || p.Done || p.Age < 0 || p.Age > time.Hour {
			t.Errorf("progress %+v", p)
		}
		if err := page(first, 2, true, "9|"+noon+"|z|1"); retry.Classify(err).Type != "Fenced" {
			t.Errorf("the earlier attempt wrote: %v", err)
		}
		if err := first.Restart(t.Context()); retry.Classify(err).Type != "Fenced" {
			t.Errorf("the earlier attempt restarted: %v", err)
		}
		ref.Fence = 10
		if _, err := b.OpenStage(t.Context(), ref); retry.Classify(err).Type != "Fenced" {
			t.Errorf("the earlier attempt opened: %v", err)
		}
		if err := page(second, 2, true, "3|"+noon+"|c|1"); err != nil {
			t.Fatal(err)
		}
		if err := page(second, 3, true); err == nil {
			t.Error("a page came after the last one")
		}
		req := orders(15, 12)
		req.Rows, req.Stage, req.StagedRows = nil, &ref, 3
		b.load(req)
		b.expect("select id, customer from orders order by id", "1|a", "2|b", "3|c")
		req.StagedRows = 4
		b.refuse("StagingLost", req)
	})
}

func TestStageRestartAndLoss(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		req := orders(15, 1)
		lines := []string{"1|" + noon + "|a|1", "2|" + noon + "|b|1", "3|" + noon + "|c|1"}
		staged := b.staged(req, lines...)
		refs, err := b.OpenStages(t.Context())
		if err != nil || len(refs) != 1 || refs[0].WorkflowID != "orders-15" || refs[0].Interval != day(15) {
			t.Fatalf("stages %+v, %v", refs, err)
		}
		var table string
		if b.config.Driver == warehouse.DriverPostgres {
			table = "tranche." + b.query("select tablename from pg_tables where schemaname = 'tranche' and tablename like 'stage\\_%'")[0]
		} else {
			table = b.query("select name from sqlite_schema where name like 'tranche\\_stage\\_%' escape '\\' and type = 'table'")[0]
		}
		b.query("delete from " + table + " where id = 2") // as a crash empties an unlogged table
		b.refuse("StagingLost", staged)
		ref := *staged.Stage
		ref.Fence = 2
		stage, err := b.OpenStage(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if p := stage.Progress(); p.Pages != 0 || p.Rows != 0 || p.Done || p.Position != "" {
			t.Errorf("a stage that lost rows goes on: %+v", p)
		}
		if _, err := stage.AppendPage(t.Context(), 1, rows(lines[0]), func() (string, bool, error) { return "p", false, nil }); err != nil {
			t.Fatal(err)
		}
		if err := stage.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := stage.Progress(); p.Pages != 0 || p.Rows != 0 || p.Restarts != 1 {
			t.Errorf("after a restart: %+v", p)
		}
		req.Fence = 3
		again := b.staged(req, lines...)
		b.load(again)
		b.expect("select count(*) from orders", "3")
		for range 2 {
			if err := b.DropStage(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		if refs, err := b.OpenStages(t.Context()); err != nil || len(refs) != 0 {
			t.Errorf("stages %+v, %v", refs, err)
		}
		staged.Fence = 4
		b.refuse("StagingLost", staged)
	})
}

// Equal content has equal checksums, whatever the database and the order of the rows.
func TestChecksumsOfBothDatabases(t *testing.T) {
	t.Parallel()
	declared := columns("id bigint; flag boolean; small smallint; r real; d double precision; n numeric; m numeric(9,3); day date; at timestamp; tz timestamptz; u uuid; j jsonb; b bytea; t text")
	lines := []string{
		`1|true|-3|0.1|0.1|1.50|2|2026-01-15|2026-01-15 10:00|2026-01-15T10:00:00.123456+07:00|6BA7B810-9DAD-11D1-80B4-00C04FD430C8|{"b":1.0,"a":[1e2,"x"]}|\x00ff|text`,
		`2|f|3|1e-30|1e300|50000.0000000000000001|-0|0001-01-01|9999-12-31 23:59:59.999999|1969-12-31T23:59:59.999999Z|6ba7b8109dad11d180b400c04fd430c8|"s"|AP8=|`,
		strings.Repeat(null+"|", 13) + null,
	}
	var sums []string
	for _, driver := range []string{warehouse.DriverSQLite, warehouse.DriverPostgres} {
		b := newBench(t, driver)
		req := items(1, 1, lines...)
		req.Columns = declared
		req.Load.Disposition, req.Load.UniqueKey = "delete+insert", nil
		direct := b.load(req)
		_, sum, err := b.Checksum(t.Context(), "items", declared, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Fence = 2
		lines[0], lines[2] = lines[2], lines[0]
		staged := b.load(b.staged(req, lines...))
		_, again, err := b.Checksum(t.Context(), "items", declared, &warehouse.Slice{Interval: day(1)})
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, direct.Checksum, sum, staged.Checksum, again)
	}
	for _, sum := range sums {
		if sum != sums[0] || !strings.HasPrefix(sum, "xxh64sum1:3:") {
			t.Fatalf("checksums differ: %q", sums)
		}
	}
}

func TestOpenErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://u:pa%Sword9@localhost/db", "postgres://u:x#y@z9@localhost:x/db", "host=localhost port=zz password=x#y@z9"} {
		_, err := warehouse.Open(t.Context(), warehouse.Config{Driver: warehouse.DriverPostgres, DSN: dsn})
		if err == nil || strings.Contains(err.Error(), "ord9") || strings.Contains(err.Error(), "z9") {
			t.Errorf("%s: %v", dsn, err)
		}
		if got := retry.Classify(err); got.Class != retry.Permanent {
			t.Errorf("%s: %v", dsn, got)
		}
	}
	for _, config := range []warehouse.Config{{Driver: "oracle"}, {Driver: "sqlite"}, {Driver: "sqlite", DSN: ":memory:"}, {Driver: "sqlite", DSN: "/no/such/folder/x.db"}} {
		if _, err := warehouse.Open(t.Context(), config); retry.Classify(err).Type != "BadRequest" {
			t.Errorf("%+v: %v", config, err)
		}
	}
}
