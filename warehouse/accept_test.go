package warehouse_test

import (
	"fmt"
	"testing"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse"
)

func TestAccept(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		record := func(iv interval.Interval, status string, fence int64) {
			t.Helper()
			if _, err := b.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: "orders", Interval: iv, Status: status, RunID: "run", Fence: fence, Attempts: 3, StartedAt: iv.End}); err != nil {
				t.Fatal(err)
			}
		}
		record(day(1), warehouse.OutcomeLoaded, 5)
		record(day(2), warehouse.OutcomeFailed, 5)
		record(day(3), warehouse.OutcomeAccepted, 5)
		record(day(4), warehouse.OutcomeCancelled, 50) // by a run that ended after it was looked
		accept := func(runID string, fence int64, want ...interval.Interval) {
			t.Helper()
			got, err := b.Accept(t.Context(), warehouse.Outcome{Pipeline: "orders", RunID: runID, Fence: fence, Note: "closed by " + runID},
				[]interval.Interval{day(1), day(2), day(3), day(4), day(5)})
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s accepts %v, %v, want %v", runID, got, err, want)
			}
		}
		accept("a", 10, day(2), day(5))
		accept("a", 10, day(2), day(5)) // another attempt of the same
		accept("b", 11)
		outcomes, err := b.Outcomes(t.Context(), warehouse.Query{Pipeline: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range outcomes {
			got = append(got, fmt.Sprintf("%d %s %q %d %t", o.Interval.Start.Day(), o.Status, o.Note, o.Attempts, o.StartedAt.IsZero()))
		}
		want := []string{`1 loaded "" 3 false`, `2 accepted "closed by a" 0 true`, `3 accepted "" 3 false`, `4 cancelled "" 3 false`, `5 accepted "closed by a" 0 true`}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		// A run that starts later says how it stands.
		record(day(5), warehouse.OutcomeLoaded, 12)
		if outcomes, err = b.Outcomes(t.Context(), warehouse.Query{Pipeline: "orders", From: day(5).Start}); err != nil || outcomes[0].Status != warehouse.OutcomeLoaded {
			t.Errorf("%+v, %v", outcomes, err)
		}
		if got, err := b.Accept(t.Context(), warehouse.Outcome{Pipeline: "orders"}, nil); got != nil || err != nil {
			t.Errorf("nothing: %v, %v", got, err)
		}
	})
}

// What a slice holds is counted, as receipts name it.
func TestRowsOfASlice(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		load := &pipeline.Load{Table: "orders", Disposition: pipeline.DispositionDeleteInsert, TimeColumn: "at", Scope: map[string]string{"shop": "eu"}}
		columns := []pipeline.Column{{Name: "id", Type: "bigint"}, {Name: "at", Type: "timestamptz"}}
		count := func(slice *warehouse.Slice, want int64) {
			t.Helper()
			if got, err := b.Rows(t.Context(), "orders", columns, slice); got != want || err != nil {
				t.Errorf("%d rows, %v, want %d", got, err, want)
			}
		}
		before, scope, err := b.TableKey(t.Context(), load)
		if err != nil || scope != `{"shop":"eu"}` {
			t.Fatal(before, scope, err)
		}
		count(nil, 0) // there is no table yet
		receipt, err := b.Load(t.Context(), warehouse.LoadRequest{
			Pipeline: "orders", Step: "load", RunID: "r", Fence: 1, Interval: day(2), Load: load, Columns: columns,
			Rows: func(yield func([][]byte, error) bool) {
				for _, at := range []string{"2026-01-02T00:00:00Z", "2026-01-02T10:00:00Z"} {
					if !yield([][]byte{[]byte("1"), []byte(at)}, nil) {
						return
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		after, scope, err := b.TableKey(t.Context(), load)
		if before != receipt.Table || after != receipt.Table || scope != receipt.Scope || err != nil {
			t.Errorf("%s, then %s and %s, but the receipt says %s and %s: %v", before, after, scope, receipt.Table, receipt.Scope, err)
		}
		slice := func(iv interval.Interval, shop string) *warehouse.Slice {
			return &warehouse.Slice{Interval: iv, TimeColumn: "at", Scope: map[string]string{"shop": shop}}
		}
		count(slice(day(2), "eu"), 2)
		count(slice(day(2), "us"), 0)
		count(slice(day(3), "eu"), 0)
		count(nil, 2)
		if _, err := b.Rows(t.Context(), "orders", columns, &warehouse.Slice{Interval: day(2), TimeColumn: "when"}); err == nil {
			t.Error("a time column that is none was taken")
		}
	})
}
