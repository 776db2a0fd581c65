package warehouse_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/warehouse"
)

func TestGrids(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		at := time.Date(2026, 5, 1, 9, 10, 11, 123456000, time.UTC)
		first := warehouse.GridRow{Spec: interval.Spec{Cron: "0 * * * *", TimeZone: "Asia/Jakarta", Start: day(1).Start}, Applied: at}
		second := warehouse.GridRow{
			Spec: interval.Spec{
				Every: 90 * time.Minute, TimeZone: "UTC", Start: day(1).Start, End: day(30).Start, Since: day(7).Start,
			},
			Applied: at.Add(time.Hour),
		}
		record := func(row warehouse.GridRow, ordinal, known int) {
			t.Helper()
			err := b.RecordGrid(t.Context(), "orders", func(rows []warehouse.GridRow) (warehouse.GridRow, int, error) {
				if len(rows) != known {
					t.Errorf("%d grids are known, want %d: %+v", len(rows), known, rows)
				}
				return row, ordinal, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		expect := func(want ...warehouse.GridRow) {
			t.Helper()
			if got, err := b.Grids(t.Context(), "orders"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
			}
		}
		expect()
		record(second, 0, 0)
		record(first, 0, 1)
		expect(first)
		record(second, 1, 1)
		expect(first, second)

		refusal := errors.New("no")
		if err := b.RecordGrid(t.Context(), "orders", func([]warehouse.GridRow) (warehouse.GridRow, int, error) { return second, 2, refusal }); !errors.Is(err, refusal) {
			t.Errorf("what was refused: %v", err)
		}
		if err := b.RecordGrid(t.Context(), "orders", func([]warehouse.GridRow) (warehouse.GridRow, int, error) { return second, 3, nil }); err == nil {
			t.Error("a grid may leave a hole in the order")
		}
		expect(first, second)
		if err := b.ForgetGrids(t.Context(), "order"); err != nil {
			t.Fatal(err)
		}
		expect(first, second)
		if err := b.ForgetGrids(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		expect()
	})
}

// Of many who find the same grid missing at the same time, one writes it.
func TestGridsRecordedTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		row := warehouse.GridRow{Spec: interval.Spec{Cron: "0 * * * *", TimeZone: "UTC", Start: day(1).Start}, Applied: day(2).Start}
		results := make(chan error, 8)
		for range cap(results) {
			go func() {
				results <- b.RecordGrid(t.Context(), "orders", func(known []warehouse.GridRow) (warehouse.GridRow, int, error) {
					return row, len(known), nil
				})
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if got, err := b.Grids(t.Context(), "orders"); err != nil || len(got) != cap(results) {
			t.Errorf("%d grids, %v: two saw the same ones before they wrote", len(got), err)
		}
	})
}

func TestNotices(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		notice := func(what string, intervals []interval.Interval, want ...interval.Interval) {
			t.Helper()
			if got, err := b.Notice(t.Context(), "orders", what, intervals); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %v: %v, %v", what, intervals, got, err)
			}
		}
		notice("deadline", nil)
		notice("deadline", []interval.Interval{day(1), day(2)}, day(1), day(2))
		notice("deadline", []interval.Interval{day(2), day(3)}, day(3))
		notice("other", []interval.Interval{day(2)}, day(2))
		fresh := make(chan int, 8)
		for range cap(fresh) {
			go func() {
				got, err := b.Notice(t.Context(), "orders", "deadline", []interval.Interval{day(4), day(5)})
				if err != nil {
					t.Error(err)
				}
				fresh <- len(got)
			}()
		}
		total := 0
		for range cap(fresh) {
			total += <-fresh
		}
		if total != 2 {
			t.Errorf("two intervals were told of %d times", total)
		}
	})
}
