package warehouse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse"
)

// typed is a delete+insert of one day without a time column.
func typed(declared string, fence int64, lines ...string) warehouse.LoadRequest {
	return warehouse.LoadRequest{
		Pipeline: "typed", Step: "load", RunID: fmt.Sprint(fence), Fence: fence, Interval: day(1), Columns: columns(declared), Rows: rows(lines...),
		Load: &pipeline.Load{Table: "typed", Disposition: pipeline.DispositionDeleteInsert},
	}
}

func TestBigNumbers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const declared = "id bigint; n bigint; max bigint; price numeric(18,6); long numeric; e numeric"
		line := "9007199254740993|-9007199254740993|9223372036854775807|16.4|50000.0000000000000001|1e3"
		want := "9007199254740993|-9007199254740993|9223372036854775807|16.400000|50000.0000000000000001|1000"
		const names = "select id, n, max, price, long, e from "
		b.load(typed(declared, 1, line))
		b.expect(names+"typed", want)
		b.load(b.staged(typed(declared, 2), line))
		b.expect(names+"typed", want)
		for fence := int64(3); fence < 6; fence++ {
			up := typed(declared, fence, line)
			up.Step, up.Load = "up", &pipeline.Load{Table: "upserted", Disposition: pipeline.DispositionUpsert, UniqueKey: []string{"id"}}
			b.load(up)
		}
		b.expect(names+"upserted", want)
		message := b.refuse("BadValue", typed(declared, 6, line, strings.Replace(line, "9223372036854775807", "9223372036854775808", 1)))
		if !strings.Contains(message, `row 2, column "max"`) || strings.Contains(message, "9223372036854775808") {
			t.Error(message)
		}
		b.expect("select count(*) from typed", "1")
	})
}

func TestTenths(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		req := typed("n numeric(4,1)", 1)
		req.Rows = func(yield func([][]byte, error) bool) {
			for range 1000 {
				if !yield([][]byte{[]byte("0.1")}, nil) {
					return
				}
			}
		}
		b.load(req)
		sum := "select sum(n) from typed"
		if b.config.Driver == warehouse.DriverSQLite { // its sum is a float: add up the tenths
			sum = "select sum(cast(replace(n, '.', '') as integer)) / 10 || '.' || (sum(cast(replace(n, '.', '') as integer)) % 10) from typed"
		}
		b.expect(sum, "100.0")
	})
}

func TestTexts(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		var lines []string
		for i := range 2000 {
			zip := [...]string{"02134", "00501", "15E2621", "1_000"}[i%4]
			if i >= 1199 {
				zip = "007"
			}
			lines = append(lines, fmt.Sprintf("%d|%s", i, zip))
		}
		b.load(typed("id integer; zip text", 1, lines...))
		b.expect("select id, zip from typed order by id", lines...)
		b.load(b.staged(typed("id integer; zip text", 2), lines...))
		b.expect("select id, zip from typed order by id", lines...)
		for _, text := range []string{"a\x00b", "\xff"} {
			b.refuse("BadValue", typed("id integer; zip text", 3, "1|"+text))
		}
		b.load(typed("id integer; zip text", 4, "1|", "2|"+null, "3|line\r\nnext"))
		b.expect("select id, zip from typed order by id", "1|", "2|NULL", "3|line\r\nnext")
	})
}

func TestConversions(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lite := b.config.Driver == warehouse.DriverSQLite
		const declared = "i integer; n numeric; tz timestamptz; ts timestamp; d date; t text; b boolean; j jsonb; r bytea; u uuid"
		line := `42|1e3|2026-01-15T10:00:00Z|2023-11-21T01:31:00+02:00|2026-01-15|{"a":1}|true|{"a":1}|\x00ff|6BA7B810-9DAD-11D1-80B4-00C04FD430C8`
		want := `42|1000|2026-01-15 10:00:00+00|2023-11-20 23:31:00|2026-01-15|{"a":1}|t|{"a": 1}|\x00ff|6ba7b810-9dad-11d1-80b4-00c04fd430c8`
		if lite {
			want = `42|1000|2026-01-15T10:00:00.000000Z|2023-11-20T23:31:00.000000|2026-01-15|{"a":1}|1|{"a":1}|` + "\x00\xff" + `|6ba7b810-9dad-11d1-80b4-00c04fd430c8`
		}
		b.load(typed(declared, 1, line))
		const names = "select i, n, tz, ts, d, t, b, j, r, u from typed"
		b.expect(names, want)
		b.load(b.staged(typed(declared, 2), line))
		b.expect(names, want)
		good := []string{"1", "2", "96439848935", "4", "5"}
		req := typed("i integer", 3, good...)
		req.Load.Table, req.Step = "small", "small"
		if message := b.refuse("BadValue", req); !strings.Contains(message, `row 3, column "i" (integer)`) {
			t.Error(message)
		}
		if _, err := b.tryQuery("select * from small"); err == nil {
			t.Error("the table was made although nothing was loaded")
		}
	})
}

// Wall clocks with offsets are three instants, not one.
func TestOffsets(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for fence, kind := range []string{"timestamp", "timestamptz"} {
			req := typed("id integer; at "+kind, int64(fence+1), "1|2023-11-21T01:31:00+02:00", "2|2023-11-21T01:31:00+01:00", "3|2023-11-21T01:31:00Z", "4|2024-01-01 00:00:00")
			req.Load.Table, req.Step = kind+"s", kind
			b.load(req)
			separator := " "
			if b.config.Driver == warehouse.DriverSQLite {
				separator = "T"
			}
			var want []string
			for i, at := range []string{"2023-11-20T23:31:00", "2023-11-21T00:31:00", "2023-11-21T01:31:00", "2024-01-01T00:00:00"} {
				want = append(want, fmt.Sprintf("%d|%s", i+1, strings.Replace(at, "T", separator, 1)))
			}
			b.expect("select id, substr(cast(at as text), 1, 19) from "+kind+"s order by id", want...)
		}
	})
}

// A field that only late rows have is NULL before, and the table's columns are the declared ones.
func TestLateField(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		var lines []string
		for i := range 600 {
			coupon := null
			if i >= 500 {
				coupon = "X"
			}
			lines = append(lines, fmt.Sprintf("%d|%s", i, coupon))
		}
		b.load(typed("id integer; coupon text", 1, lines...))
		b.expect("select count(coupon), count(*) from typed", "100|600")
		wider := typed("id integer; coupon text; extra text", 2, "1|a|b")
		if message := b.refuse("TableMismatch", wider); !strings.Contains(message, `"extra" is missing`) {
			t.Error(message)
		}
	})
}
