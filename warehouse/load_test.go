package warehouse_test

import (
	"testing"
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
		b.refuse("OutsideInterval", orders(15, 9, "1|2026-01-16T00:00:00Z|a|1.00"))
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
	})
}

func TestUpsertSmoke(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		r := b.load(items(1, 1, "1|a", "2|x", "1|b"))
		if r.Duplicates != 1 || r.Inserted != 2 {
			t.Errorf("receipt %+v", r)
		}
		b.expect("select id, name from items order by id", "1|b", "2|x")
		r = b.load(b.staged(items(1, 2), "1|a", "2|x", "1|b"))
		if r.Duplicates != 1 || r.Inserted != 0 || r.Unchanged != 2 {
			t.Errorf("receipt %+v", r)
		}
	})
}
