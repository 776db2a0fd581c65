package warehouse_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/warehouse"
)

// collect reads a sequence to its end.
func collect[V any](t *testing.T, sequence iter.Seq2[V, error]) []V {
	t.Helper()
	var all []V
	for v, err := range sequence {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestStatusesAndNoticed(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		short := interval.Interval{Start: day(2).Start, End: day(2).Start.Add(time.Hour)}
		for iv, status := range map[interval.Interval]string{
			day(3): warehouse.OutcomeFailed, day(1): warehouse.OutcomeLoaded, day(2): warehouse.OutcomeAccepted, short: warehouse.OutcomeCancelled,
		} {
			for _, name := range []string{"orders", "order"} {
				if _, err := b.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: name, Interval: iv, Status: status, Digest: "d1"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := collect(t, b.Statuses(t.Context(), "orders", time.Time{}, time.Time{}))
		want := []warehouse.Status{{day(1), "loaded", "d1"}, {short, "cancelled", "d1"}, {day(2), "accepted", "d1"}, {day(3), "failed", "d1"}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		if got := collect(t, b.Statuses(t.Context(), "orders", day(2).Start, day(3).Start)); fmt.Sprint(got) != fmt.Sprint(want[1:3]) {
			t.Errorf("of a range: %v", got)
		}
		for range b.Statuses(t.Context(), "orders", time.Time{}, time.Time{}) {
			break // whoever stops early leaves nothing behind
		}
		if _, ok, err := b.LastNoticed(t.Context(), "orders", "late"); ok || err != nil {
			t.Errorf("nothing was noticed, but %v %v", ok, err)
		}
		if _, err := b.Notice(t.Context(), "orders", "late", []interval.Interval{day(4), day(2)}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Notice(t.Context(), "orders", "other", []interval.Interval{day(9)}); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, b.Noticed(t.Context(), "orders", "late", day(1).Start, day(5).Start)); fmt.Sprint(got) != fmt.Sprint([]interval.Interval{day(2), day(4)}) {
			t.Errorf("noticed: %v", got)
		}
		if last, ok, err := b.LastNoticed(t.Context(), "orders", "late"); last != day(4) || !ok || err != nil {
			t.Errorf("last %v, %v, %v", last, ok, err)
		}
	})
}

// More than a page of outcomes, with one read for each page.
func TestStatusesOfManyPages(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const total = 12_000
		insert := `insert into tranche.outcomes (pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at) select 'orders', timestamptz '2026-01-01 00:00+00' + n * interval '1 minute', timestamptz '2026-01-01 00:01+00' + n * interval '1 minute',
			'loaded', '', '', '', 0, '', '', now() from generate_series(0, 11999) n`
		if b.config.Driver == warehouse.DriverSQLite {
			insert = `insert into tranche_outcomes (pipeline, interval_start, interval_end, status, kind, workflow_id, run_id, fence, digest, note, recorded_at) select 'orders', strftime('%Y-%m-%dT%H:%M:%S', 1767225600 + value * 60, 'unixepoch') || '.000000Z',
				strftime('%Y-%m-%dT%H:%M:%S', 1767225660 + value * 60, 'unixepoch') || '.000000Z', 'loaded', '', '', '', 0, '', '', '2026-01-01T00:00:00.000000Z'
				from (with recursive n(value) as (select 0 union all select value + 1 from n where value < 11999) select value from n)`
		}
		b.query(insert)
		next := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		count := 0
		for status, err := range b.Statuses(t.Context(), "orders", time.Time{}, time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			if status.Interval.Start != next || status.Interval.End != next.Add(time.Minute) {
				t.Fatalf("entry %d is %v", count, status)
			}
			count, next = count+1, next.Add(time.Minute)
		}
		if count != total {
			t.Errorf("%d of %d entries", count, total)
		}
	})
}
