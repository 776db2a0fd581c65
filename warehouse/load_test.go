package warehouse_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/warehouse"
)

// Rows on the bounds belong to the interval that begins there; what is finer than a microsecond is cut
// off before the place is decided.
func TestBounds(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for fence := int64(1); fence <= 3; fence++ {
			b.load(orders(15, fence, "1|2026-01-15T00:00:00Z|a|1.00", "2|2026-01-15T23:59:59.9999999Z|b|2"))
			b.load(orders(16, fence, "3|2026-01-16T00:00:00Z|c|3.5"))
		}
		b.expect("select id, customer, total from orders order by id", "1|a|1.00", "2|b|2.00", "3|c|3.50")
	})
}

func TestStagedEqualsDirect(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lines := []string{"1|2026-01-15T00:00:00Z|a|1.00", "2|2026-01-15T12:00:00+07:00|b|2", "3|2026-01-15T23:00:00|" + null + "|-3.50"}
		direct := b.load(orders(15, 1, lines...))
		before := b.query("select * from orders order by id")
		staged := b.load(b.staged(orders(15, 2), lines...))
		if direct.Checksum != staged.Checksum || staged.Deleted != 3 || staged.Inserted != 3 || staged.Read != 3 {
			t.Errorf("staged %+v\ndirect %+v", staged, direct)
		}
		b.expect("select * from orders order by id", before...)
		rows, sum, err := b.Checksum(t.Context(), "orders", columns(orderColumns), &warehouse.Slice{Interval: day(15), TimeColumn: "ordered_at"})
		if err != nil || rows != 3 || sum != direct.Checksum {
			t.Errorf("Checksum = %d, %s, %v; the receipt has %s", rows, sum, err, direct.Checksum)
		}
	})
}

// A load that fails at its last row leaves the old rows, and a reader sees them all the time.
func TestFailureKeepsTheOldSlice(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		old := []string{"1|" + noon + "|a|1", "2|" + noon + "|b|1", "3|" + noon + "|c|1"}
		bad := []string{"1|" + noon + "|n|1", "2|" + noon + "|n|1", "3|" + noon + "|n|1", "4|" + noon + "|" + null + "|1"}
		strict := func(fence int64, lines ...string) warehouse.LoadRequest {
			req := orders(15, fence, lines...)
			req.Columns[2].NotNull = true
			return req
		}
		b.load(strict(1, old...))
		stop := b.watch("select count(*) from orders", "3")
		message := b.refuse("BadValue", strict(2, bad...))
		if !strings.Contains(message, `row 4, column "customer"`) {
			t.Errorf("the error does not name row and column: %s", message)
		}
		// The stage's columns may be looser than the table: then the table itself refuses.
		loose := b.staged(orders(15, 3), bad...)
		if _, err := b.Load(t.Context(), loose); err == nil {
			t.Error("a NULL in a NOT NULL column was loaded")
		} else if !strings.Contains(err.Error(), "NOT NULL") || retry.Classify(err).Class != retry.Permanent {
			t.Errorf("%v", err)
		}
		stop()
		b.expect("select id, customer from orders order by id", "1|a", "2|b", "3|c")
		good := append(slices.Clone(bad[:3]), "4|"+noon+"|n|1")
		for fence := int64(4); fence < 15; fence++ {
			b.load(strict(fence, good...))
		}
		b.expect("select count(*), min(customer) from orders", "4|n")
	})
}

// watch repeats a query until stop is called and fails when the answer is ever another one.
func (b *bench) watch(sql string, want ...string) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			got, err := b.tryQuery(sql)
			if err != nil {
				b.t.Errorf("the reader: %v", err)
				return
			}
			if len(got) != 1 || !slices.Contains(want, got[0]) {
				b.t.Errorf("the reader saw %q, want one of %q", got, want)
				return
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// A reader sees the old slice or the new one.
func TestReaderSeesNoMix(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		load := func(fence int64) {
			req := orders(15, fence)
			req.Rows = numbered(500+int(fence%2)*100, noon, fmt.Sprint(fence%2), nil)
			b.load(req)
		}
		load(1)
		stop := b.watch("select count(*), min(customer), max(customer) from orders", "500|0|0", "600|1|1")
		for fence := int64(2); fence < 12; fence++ {
			load(fence)
		}
		stop()
	})
}

func TestUpsertDuplicates(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(items(1, 1, "10|e", "11|e", "12|e", "13|e", "14|e"))
		for fence := int64(2); fence < 5; fence++ {
			lines := []string{"1|a", "2|x", "1|b"}
			req := items(1, fence, lines...)
			if fence%2 == 0 {
				req = b.staged(req, lines...)
			}
			r := b.load(req)
			if r.Duplicates != 1 || r.Read != 3 || r.Inserted+r.Unchanged != 2 || r.Stale != 0 {
				t.Errorf("receipt %+v", r)
			}
		}
		b.expect("select id, name from items where id < 10 order by id", "1|b", "2|x")
		b.expect("select count(*) from items", "7")

		noKey := items(1, 9, "1|z")
		noKey.Load.UniqueKey = nil
		b.refuse("BadRequest", noKey)
		missing := items(1, 9, "1|z")
		missing.Load.UniqueKey = []string{"code"}
		b.refuse("BadRequest", missing)
		b.query("create table plain (id bigint, name text, v bigint)")
		plain := items(1, 9, "1|z|1")
		plain.Load.Table, plain.Columns, plain.Load.VersionColumn = "plain", columns("id bigint; name text; v bigint"), "v"
		if message := b.refuse("NoUniqueKey", plain); !strings.Contains(message, "(id)") {
			t.Errorf("the error does not name the key: %s", message)
		}
		b.expect("select count(*) from items", "7")
	})
}

func TestNullInTheKey(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lines := []string{"t1|A|6", "t1|" + null + "|5"}
		for fence := int64(1); fence <= 3; fence++ {
			req := items(1, fence, lines...)
			req.Columns, req.Load.UniqueKey = columns("tenant text; code text; n integer"), []string{"tenant", "code"}
			for _, req := range []warehouse.LoadRequest{req, b.staged(req, lines...)} {
				if message := b.refuse("BadValue", req); !strings.Contains(message, `row 2, column "code"`) {
					t.Errorf("the error does not name row and column: %s", message)
				}
			}
		}
	})
}

// Any order and number of runs ends in the newest version of each key.
func TestUpsertVersions(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		quake := func(n int, fence int64, lines ...string) warehouse.LoadRequest {
			req := items(n, fence, lines...)
			req.Columns, req.Load.VersionColumn = columns("id text; updated timestamptz as unixms; place text"), "updated"
			return req
		}
		r := b.load(quake(1, 1, "a|2000|new", "b|1000|b", "a|1000|old", "c|"+null+"|c"))
		if r.Inserted != 3 || r.Duplicates != 1 {
			t.Errorf("receipt %+v", r)
		}
		r = b.load(quake(2, 2, "a|1500|older", "b|1000|same version, newer text", "c|5|c5"))
		if r.Inserted != 2 || r.Stale != 1 || r.Unchanged != 0 {
			t.Errorf("receipt %+v", r)
		}
		r = b.load(quake(3, 3, "a|2000|new", "c|"+null+"|no version", "d|1|d"))
		if r.Inserted != 1 || r.Stale != 1 || r.Unchanged != 1 {
			t.Errorf("receipt %+v", r)
		}
		b.expect("select id, place from items order by id", "a|new", "b|same version, newer text", "c|c5", "d|d")
	})
}

// Without a version column the interval decides: an older one never overwrites a newer one's row.
func TestUpsertByInterval(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(items(2, 1, "1|of day 2"))
		if r := b.load(items(1, 2, "1|of day 1", "2|of day 1")); r.Stale != 1 || r.Inserted != 1 {
			t.Errorf("receipt %+v", r)
		}
		b.load(items(3, 3, "2|of day 3"))
		b.expect("select id, name from items order by id", "1|of day 2", "2|of day 3")
	})
}

func TestEmptySource(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for n := 1; n <= 5; n++ {
			req := orders(n, 1)
			req.Rows = numbered(10, day(n).Start.Format(time.RFC3339), "a", nil)
			b.load(req)
		}
		r := b.load(orders(3, 2))
		if r.Inserted != 0 || r.Deleted != 10 {
			t.Errorf("receipt %+v", r)
		}
		b.load(b.staged(orders(3, 3)))
		b.expect("select substr(cast(ordered_at as text), 1, 10), count(*) from orders group by 1 order by 1",
			"2026-01-01|10", "2026-01-02|10", "2026-01-04|10", "2026-01-05|10")
	})
}

func TestReplace(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		snapshot := func(n int, fence int64, lines ...string) warehouse.LoadRequest {
			req := items(n, fence, lines...)
			req.Load = &pipeline.Load{Table: "items", Disposition: pipeline.DispositionReplace}
			return req
		}
		b.load(snapshot(1, 1, "1|a", "2|b"))
		b.load(snapshot(2, 2, "2|b2"))
		b.refuse("Stale", snapshot(1, 3, "1|again"))
		b.refuse("EmptyReplace", snapshot(3, 4))
		b.expect("select id, name from items", "2|b2")
		r := b.load(b.staged(snapshot(3, 5), "7|g", "8|h", "9|i"))
		if r.Deleted != 1 || r.Inserted != 3 {
			t.Errorf("receipt %+v", r)
		}
		empty := snapshot(4, 6)
		empty.Load.AllowEmpty = true
		b.load(empty)
		b.expect("select count(*) from items", "0")
	})
}

func TestBigBatch(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const n = 20_000
		wide := func(yield func([][]byte, error) bool) {
			fields := make([][]byte, 10)
			for i := range n {
				for c := range fields {
					fields[c] = fmt.Appendf(nil, "%d", i*10+c)
				}
				if !yield(fields, nil) {
					return
				}
			}
		}
		var declared []string
		for c := range 10 {
			declared = append(declared, fmt.Sprintf("c%d bigint", c))
		}
		req := items(1, 1)
		req.Rows, req.Columns, req.Load.UniqueKey = wide, columns(strings.Join(declared, "; ")), []string{"c0"}
		var progress int64
		req.Progress = func(rows int64) { progress = rows }
		if r := b.load(req); r.Inserted != n || progress != n {
			t.Errorf("upsert %+v, progress %d", r, progress)
		}
		req.Load = &pipeline.Load{Table: "wide", Disposition: pipeline.DispositionDeleteInsert}
		if r := b.load(req); r.Inserted != n {
			t.Errorf("delete+insert %+v", r)
		}
		b.expect("select count(*), sum(c9) from wide", fmt.Sprintf("%d|%d", n, int64(n)*(n-1)/2*10+9*n))
	})
}

func TestFence(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 5, "1|"+noon+"|new|1"))
		b.refuse("Fenced", orders(15, 4, "1|"+noon+"|old|1"))
		b.load(orders(15, 5, "1|"+noon+"|again|1"))
		b.load(orders(16, 4)) // another interval, another receipt
		b.expect("select customer from orders", "again")
	})
}

// Whatever the order in which attempts come, the highest fence decides.
func TestAnyOrderOfAttempts(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		random := rand.New(rand.NewPCG(7, 7))
		for round := 1; round <= 5; round++ {
			order := random.Perm(6)
			for _, k := range order {
				fence := int64(round*10 + k)
				_, err := b.Load(t.Context(), orders(15, fence, fmt.Sprintf("1|%s|%d|1", noon, fence)))
				if err != nil && retry.Classify(err).Type != "Fenced" {
					t.Fatal(err)
				}
			}
			b.expect("select customer from orders", fmt.Sprint(round*10+5))
		}
	})
}

func TestConcurrentAttemptsOfOneInterval(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		var group sync.WaitGroup
		for fence := int64(1); fence <= 8; fence++ {
			group.Go(func() {
				req := orders(15, fence)
				req.Rows = numbered(100+int(fence), noon, fmt.Sprint(fence), nil)
				if _, err := b.Load(t.Context(), req); err != nil && retry.Classify(err).Type != "Fenced" {
					t.Errorf("fence %d: %v", fence, err)
				}
			})
		}
		group.Wait()
		b.expect("select count(*), min(customer), max(customer) from orders", "108|8|8")
		receipts, err := b.Receipts(t.Context(), warehouse.Query{Pipeline: "orders"})
		if err != nil || len(receipts) != 1 || receipts[0].Fence != 8 || receipts[0].Inserted != 108 {
			t.Errorf("receipts %+v, %v", receipts, err)
		}
	})
}

// Sixteen intervals, eight at a time, while a reader keeps a cursor open.
func TestConcurrentIntervals(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(30, 1))
		stop := b.watch("select count(*) % 1000 from orders", "0")
		defer stop()
		var group sync.WaitGroup
		slots := make(chan struct{}, 8)
		for n := 1; n <= 16; n++ {
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				req := orders(n, 1)
				req.Rows = numbered(1000, day(n).Start.Format(time.RFC3339), "a", nil)
				if _, err := b.Load(t.Context(), req); err != nil {
					t.Errorf("day %d: %v", n, err)
				}
			})
		}
		group.Wait()
		b.expect("select count(*), count(distinct ordered_at) from orders", "16000|16")
	})
}

// Upserts of the same keys by different intervals, at the same time, end in the newest interval's rows.
func TestConcurrentUpserts(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		var group sync.WaitGroup
		for n := 1; n <= 6; n++ {
			group.Go(func() {
				var lines []string
				for _, id := range rand.New(rand.NewPCG(uint64(n), 0)).Perm(200) {
					lines = append(lines, fmt.Sprintf("%d|day %d", id, n))
				}
				if _, err := b.Load(t.Context(), items(n, 1, lines...)); err != nil {
					t.Errorf("day %d: %v", n, err)
				}
			})
		}
		group.Wait()
		b.expect("select name, count(*) from items group by name", "day 6|200")
	})
}

func TestOwners(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|a|1"))
		other := orders(15, 2, "2|"+noon+"|b|1")
		other.Pipeline = "other"
		if message := b.refuse("TableOwned", other); !strings.Contains(message, "orders/load") {
			t.Errorf("the error does not name the owner: %s", message)
		}
		other.Load.Scope = map[string]string{"shop": "eu"}
		b.refuse("TableMismatch", other)
		b.expect("select count(*) from orders", "1")
	})
}

func TestScope(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		shop := func(name string, fence int64, lines ...string) warehouse.LoadRequest {
			req := orders(15, fence, lines...)
			req.Step, req.Load.Table, req.Load.Scope = "load-"+name, "shops", map[string]string{"shop": name}
			return req
		}
		b.load(shop("eu", 1, "1|"+noon+"|a|1", "2|"+noon+"|a|1"))
		b.load(shop("us", 1, "1|"+noon+"|b|1"))
		if r := b.load(b.staged(shop("eu", 2), "3|"+noon+"|c|1")); r.Deleted != 2 {
			t.Errorf("receipt %+v", r)
		}
		b.expect("select shop, id, customer from shops order by shop, id", "eu|3|c", "us|1|b")
		whole := orders(15, 3)
		whole.Load.Table = "shops"
		whole.Pipeline = "greedy"
		b.refuse("TableMismatch", whole) // it would have to fill shop
		rows, _, err := b.Checksum(t.Context(), "shops", columns(orderColumns), &warehouse.Slice{Interval: day(15), TimeColumn: "ordered_at", Scope: map[string]string{"shop": "us"}})
		if err != nil || rows != 1 {
			t.Errorf("Checksum of a scope: %d rows, %v", rows, err)
		}
	})
}

func TestGridChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|a|1"))
		hour := orders(15, 2, "1|"+noon+"|a|1")
		hour.Interval = interval.Interval{Start: at("2026-01-15T12:00:00Z"), End: at("2026-01-15T13:00:00Z")}
		if message := b.refuse("GridChanged", hour); !strings.Contains(message, "2026-01-15T00:00:00Z/2026-01-16T00:00:00Z") {
			t.Errorf("the error does not name the other interval: %s", message)
		}
		hour.Interval = interval.Interval{Start: at("2026-01-16T00:00:00Z"), End: at("2026-01-16T01:00:00Z")}
		hour.Rows = rows()
		b.load(hour)
		// Of two that overlap and come together, one wins.
		results := make(chan error, 2)
		for _, length := range []time.Duration{time.Hour, 2 * time.Hour} {
			go func() {
				req := orders(20, 1)
				req.Interval.End = req.Interval.Start.Add(length)
				req.Rows = numbered(2000, "2026-01-20T00:30:00Z", "a", nil)
				_, err := b.Load(t.Context(), req)
				results <- err
			}()
		}
		failed := 0
		for range 2 {
			if err := <-results; err != nil {
				failed++
				if retry.Classify(err).Type != "GridChanged" {
					t.Error(err)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%d of two overlapping loads failed, want 1", failed)
		}
	})
}

func TestChecks(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		two, zero := int64(2), int64(0)
		b.load(orders(15, 1, "1|"+noon+"|a|1"))
		for i, check := range []pipeline.Check{
			{MinimumRows: &two}, {MaximumRows: &zero}, {Unique: []string{"customer", "total"}}, {NotNull: "total"},
		} {
			lines := []string{"1|" + noon + "|a|" + null, "2|" + noon + "|a|" + null}
			if check.MinimumRows != nil {
				lines = lines[:1]
			}
			req := orders(15, int64(2+i), lines...)
			req.Load.Checks = []pipeline.Check{check}
			b.refuse("CheckFailed", req)
			b.refuse("CheckFailed", b.staged(req, lines...))
			b.expect("select customer, total from orders", "a|1.00")
		}
		up := items(1, 1, "1|a", "2|a")
		up.Load.Checks = []pipeline.Check{{Unique: []string{"name"}}}
		b.refuse("CheckFailed", up)
		up = items(1, 1, "1|a", "2|b", "2|a", "2|b")
		up.Load.Checks = []pipeline.Check{{Unique: []string{"name"}}, {MinimumRows: &two}, {MaximumRows: &two}}
		b.load(up)
	})
}

func TestOutside(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lines := []string{"1|" + noon + "|in|1", "2|2026-01-16T00:00:00Z|end|1", "3|2026-01-14T23:59:59Z|before|1", "4|" + null + "|never|1"}
		for _, req := range []warehouse.LoadRequest{orders(15, 1, lines...), b.staged(orders(15, 1), lines...)} {
			message := b.refuse("OutsideInterval", req)
			if !strings.Contains(message, "row 2") || !strings.Contains(message, "last_instant") {
				t.Errorf("no row or no hint: %s", message)
			}
		}
		var sums []string
		for fence, req := range []warehouse.LoadRequest{orders(15, 2, lines...), b.staged(orders(15, 3), lines...)} {
			req.Load.Outside = "drop"
			r := b.load(req)
			if r.Read != 4 || r.Inserted != 1 || r.Dropped != 3 {
				t.Errorf("receipt %d %+v", fence, r)
			}
			sums = append(sums, r.Checksum)
		}
		_, sum, err := b.Checksum(t.Context(), "orders", columns(orderColumns), nil)
		if err != nil || sums[0] != sum || sums[1] != sum {
			t.Errorf("receipts %q, table %s, %v", sums, sum, err)
		}
	})
}

// A slice by local dates follows the pipeline's zone.
func TestDateColumn(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		jakarta, err := interval.LoadLocation("Asia/Jakarta")
		if err != nil {
			t.Fatal(err)
		}
		req := orders(15, 1, "1|2026-01-15|a|1")
		req.Columns = columns("id bigint; ordered_at date; customer text; total numeric(14,2)")
		req.Location = jakarta
		req.Interval = interval.Interval{Start: at("2026-01-14T17:00:00Z"), End: at("2026-01-15T17:00:00Z")}
		b.load(req)
		req.Rows = rows("2|2026-01-16|a|1")
		b.refuse("OutsideInterval", req)
		req.Rows = rows("2|2026-01-14|a|1")
		b.refuse("OutsideInterval", req)
		req.Location = nil
		b.refuse("BadRequest", req)
		b.expect("select id, ordered_at from orders", "1|2026-01-15")
	})
}

func TestExistingTables(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lite := b.config.Driver == warehouse.DriverSQLite
		timestamptz, numeric := "timestamptz", "numeric(14,2)"
		if lite {
			timestamptz, numeric = "text", "text"
		}
		for _, c := range []struct{ ddl, want string }{
			{"id bigint, customer text, total " + numeric, `column "ordered_at" is missing`},
			{"id text, ordered_at " + timestamptz + ", customer text, total " + numeric, `column "id" is text`},
			{"id bigint, ordered_at " + timestamptz + ", customer text, total real", `column "total" is real`},
			{"id bigint, ordered_at " + timestamptz + ", customer text, total " + numeric + ", region text not null", `column "region" is NOT NULL`},
		} {
			b.query("create table existing (" + c.ddl + ")")
			req := orders(15, 1, "1|"+noon+"|a|1")
			req.Load.Table = "existing"
			if message := b.refuse("TableMismatch", req); !strings.Contains(strings.ToLower(message), strings.ToLower(c.want)) {
				t.Errorf("%s: want %q in %s", c.ddl, c.want, message)
			}
			b.query("drop table existing")
		}
		b.query("create table existing (extra text default 'x', total " + numeric + ", customer text, ordered_at " + timestamptz + ", id bigint)")
		req := orders(15, 1, "1|"+noon+"|a|1")
		req.Load.Table = "existing"
		b.load(req)
		b.expect("select extra, id, customer from existing", "x|1|a")
		req.Load = &pipeline.Load{Table: "existing", Disposition: pipeline.DispositionDeleteInsert}
		if message := b.refuse("TableMismatch", req); !strings.Contains(message, "time_column") {
			t.Error(message)
		}
	})
}

// A constraint of the table may refuse a row; the row is in no error.
func TestErrorsHoldNoRows(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const secret = "hunter2"
		check := "create table orders (id bigint primary key, ordered_at timestamptz, customer text check (customer <> 'hunter2'), total numeric(14,2))"
		if b.config.Driver == warehouse.DriverSQLite {
			check = "create table orders (id bigint primary key, ordered_at text, customer text constraint polite check (customer <> 'hun' || 'ter2'), total text)"
		}
		b.query(check)
		var messages []string
		for _, lines := range [][]string{{"1|" + noon + "|" + secret + "|1"}, {"1|" + noon + "|" + secret + "x|1", "1|" + noon + "|" + secret + "y|1"}, {"1|" + noon + "|a|" + secret}, {secret + "|" + noon + "|a|1"}} {
			for _, staged := range []bool{false, true} {
				req := orders(15, 1, lines...)
				if staged && !strings.HasSuffix(lines[0], secret) && !strings.HasPrefix(lines[0], secret) {
					req = b.staged(req, lines...)
				}
				_, err := b.Load(t.Context(), req)
				if err == nil {
					t.Fatalf("%q was loaded", lines)
				}
				if class := retry.Classify(err).Class; class != retry.Permanent {
					t.Errorf("%v is %v", err, class)
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					messages = append(messages, fmt.Sprintf("%v %+v", e, e))
				}
			}
		}
		for _, message := range messages {
			if strings.Contains(message, secret) {
				t.Errorf("the value is in the error: %s", message)
			}
		}
		rejects, err := b.Rejects(t.Context(), warehouse.Query{Pipeline: "orders"})
		if err != nil || len(rejects) != 4 || rejects[0].Value != `"hunter2"` || rejects[0].Row != 1 {
			t.Errorf("rejects %+v, %v", rejects, err)
		}
	})
}

func TestAwkwardNames(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|a|1"))
		names := []string{"order", "user", "Größe", `rating ("1-5")`, `x"; DROP TABLE orders; --`, "a) VALUES (1); DELETE FROM orders; --", "$1", "it's", "a?b", ":c"}
		var declared []pipeline.Column
		var fields []string
		for i, name := range names {
			declared = append(declared, pipeline.Column{Name: name, Type: "text"})
			fields = append(fields, fmt.Sprintf("v%d'\"; --", i))
		}
		declared = append(declared, pipeline.Column{Name: "when", Type: "timestamptz"})
		line := strings.Join(fields, "|") + "|" + noon
		for i, table := range []string{`"my.sales"`, "order", `"x""; DROP TABLE orders; --"`} {
			for _, disposition := range []string{pipeline.DispositionDeleteInsert, pipeline.DispositionUpsert} {
				req := orders(15, 1, line)
				req.Columns = declared
				req.Step = fmt.Sprint(i, disposition)
				req.Load = &pipeline.Load{Table: table, Disposition: disposition, TimeColumn: "when", Scope: map[string]string{`sc"ope`: "'; --"}}
				if disposition == pipeline.DispositionUpsert {
					req.Load.Table = strings.TrimSuffix(table, `"`) + "2"
					if table != req.Load.Table+"2" && strings.HasPrefix(table, `"`) {
						req.Load.Table += `"`
					}
					req.Load.UniqueKey = []string{names[3]}
				}
				b.load(req)
				req.Fence = 2
				b.load(b.staged(req, line))
				rows, _, err := b.Checksum(t.Context(), req.Load.Table, declared, nil)
				if err != nil || rows != 1 {
					t.Errorf("%s: %d rows, %v", req.Load.Table, rows, err)
				}
			}
		}
		b.expect("select count(*) from orders", "1")
		b.expect(`select "Größe", "rating (""1-5"")", "$1" from "my.sales"`, `v2'"; --|v3'"; --|v6'"; --`)
	})
}

func TestLongNames(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("x", 63)
		req := orders(15, 1, "1|"+noon+"|a|1")
		req.Columns = columns("id bigint; ordered_at timestamptz; " + long + "_a text; " + long + "_b text")
		if message := b.refuse("BadRequest", req); !strings.Contains(message, long+"_a") {
			t.Errorf("the error does not name the column: %s", message)
		}
		req.Columns = columns("id bigint; ordered_at timestamptz; id text; total text")
		b.refuse("BadRequest", req)
		req.Columns = columns("id bigint; ordered_at timestamptz; _interval_start text; total text")
		b.refuse("BadRequest", req)
	})
}

// A source that breaks, at its first row or later, fails the load with its own error.
func TestSourceErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|old|1"))
		broken := retry.TransientError("Weather", errors.New("the line is down"))
		for _, good := range []int{0, 1, 30_000} {
			req := orders(15, 2)
			req.Rows = func(yield func([][]byte, error) bool) {
				for row := range numbered(good, noon, "new", nil) {
					if !yield(row, nil) {
						return
					}
				}
				yield(nil, broken)
			}
			if message := b.refuse("Weather", req); !strings.Contains(message, "the line is down") {
				t.Error(message)
			}
		}
		req := orders(15, 2)
		req.Rows = func(yield func([][]byte, error) bool) { yield([][]byte{[]byte("1")}, nil) }
		b.refuse("BadRequest", req)
		b.expect("select customer from orders", "old")
	})
}

// A cancelled load ends soon, says so, and leaves the table.
func TestCancel(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|old|1"))
		ctx, cancel := context.WithCancel(t.Context())
		req := orders(15, 2)
		req.Rows = func(yield func([][]byte, error) bool) {
			for row := range numbered(5_000, noon, "new", nil) {
				if !yield(row, nil) {
					return
				}
			}
			cancel()
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
		_, err := b.Load(ctx, req)
		if got := retry.Classify(err); got.Class != retry.Canceled {
			t.Errorf("%v is %v", err, got)
		}
		b.load(orders(15, 3, "1|"+noon+"|new|1"))
		b.expect("select customer from orders", "new")
	})
}
