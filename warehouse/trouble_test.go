package warehouse_test

import (
	"testing"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/warehouse"
)

// A run that loads an interval after trouble is told so, also when it asks again, and no other run is.
func TestRecovery(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		fence := int64(0)
		record := func(n int, run, status string, want bool) {
			t.Helper()
			fence++
			for range 2 { // an activity may run twice
				got, err := b.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: "orders", Interval: day(n), Status: status, RunID: run, Fence: fence})
				if err != nil || !got.Written || got.Recovered != want {
					t.Errorf("day %d, run %s, %s: %+v, %v; want %v", n, run, status, got, err, want)
				}
			}
		}
		late := func(n int) {
			t.Helper()
			if _, err := b.Notice(t.Context(), "orders", warehouse.NoticeDeadline, []interval.Interval{day(n)}); err != nil {
				t.Fatal(err)
			}
		}
		record(1, "a", warehouse.OutcomeLoaded, false)
		record(1, "b", warehouse.OutcomeFailed, false)
		record(1, "c", warehouse.OutcomeFailed, false)
		record(1, "d", warehouse.OutcomeLoaded, true)
		record(1, "e", warehouse.OutcomeLoaded, false)
		record(1, "f", warehouse.OutcomeCancelled, false)
		record(1, "g", warehouse.OutcomeLoaded, false)

		// What was told stays to be recovered from, although somebody has cancelled a run meanwhile.
		record(2, "a", warehouse.OutcomeFailed, false)
		record(2, "b", warehouse.OutcomeCancelled, false)
		record(2, "c", warehouse.OutcomeLoaded, true)

		late(3)
		record(3, "a", warehouse.OutcomeLoaded, true)
		record(3, "b", warehouse.OutcomeLoaded, false)
		record(3, "c", warehouse.OutcomeCancelled, false)
		record(3, "d", warehouse.OutcomeLoaded, false)
		record(3, "e", warehouse.OutcomeFailed, false)
		record(3, "f", warehouse.OutcomeLoaded, true)

		late(4)
		record(4, "a", warehouse.OutcomeFailed, false)
		record(4, "b", warehouse.OutcomeLoaded, true)
		record(4, "c", warehouse.OutcomeLoaded, false)
		record(5, "a", warehouse.OutcomeLoaded, false) // another interval's trouble is its own

		// A failure that comes too late is none.
		old, err := b.RecordOutcome(t.Context(), warehouse.Outcome{Pipeline: "orders", Interval: day(5), Status: warehouse.OutcomeFailed, RunID: "z"})
		if err != nil || old.Written {
			t.Errorf("%+v, %v", old, err)
		}
		record(5, "b", warehouse.OutcomeLoaded, false)
		if fresh, err := b.Notice(t.Context(), "orders", warehouse.NoticeDeadline, []interval.Interval{day(3), day(4)}); err != nil || len(fresh) != 0 {
			t.Errorf("of the deadlines it is told again: %v, %v", fresh, err)
		}
	})
}
