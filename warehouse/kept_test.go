package warehouse_test

import (
	"testing"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse"
)

// A receipt counts for its own interval, step, table and scope, and only as long as the table is there.
func TestLoadedBy(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		written := b.load(orders(15, 1, "1|"+noon+"|a|1"))
		ask := func(what string, step string, n int, load pipeline.Load, want *warehouse.Receipt) {
			t.Helper()
			got, found, err := b.LoadedBy(t.Context(), "orders", step, day(n), &load)
			if err != nil || found != (want != nil) || found && got != *want {
				t.Errorf("%s: %+v, %v, %v", what, got, found, err)
			}
		}
		load := *orders(15, 1).Load
		ask("as it was loaded", "load", 15, load, &written)
		ask("another day", "load", 16, load, nil)
		ask("another step", "load2", 15, load, nil)
		scoped, elsewhere := load, load
		scoped.Scope, elsewhere.Table = map[string]string{"shop": "eu"}, "elsewhere"
		ask("a scope", "load", 15, scoped, nil)
		ask("no such table", "load", 15, elsewhere, nil)
		b.query("create table elsewhere (id integer)")
		ask("another table", "load", 15, elsewhere, nil)
		b.query("drop table orders")
		ask("a table that is gone", "load", 15, load, nil)
	})
}

// Of a table that is replaced as a whole a later interval's receipt will do, and an earlier one's not.
func TestLoadedByALaterReplace(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		req := items(16, 1, "1|x")
		req.Load = &pipeline.Load{Table: "items", Disposition: pipeline.DispositionReplace}
		b.load(req)
		for n, want := range map[int]bool{15: true, 16: true, 17: false} {
			if got, found, err := b.LoadedBy(t.Context(), "items", "load", day(n), req.Load); err != nil || found != want || found && got.Interval != day(16) {
				t.Errorf("day %d: %+v, %v, %v", n, got, found, err)
			}
		}
	})
}
