package activities

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

func clock(text string) time.Time {
	at, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

// editedTimeline is hourly and becomes daily at 2026-05-04T09:00.
func editedTimeline(t *testing.T) *interval.Timeline {
	t.Helper()
	timeline, err := interval.NewTimeline(
		interval.Spec{Cron: "0 * * * *", Start: clock("2026-01-01T00:00")},
		interval.Spec{Cron: "0 0 * * *", Start: clock("2026-01-01T00:00"), Since: clock("2026-05-04T09:00")})
	if err != nil {
		t.Fatal(err)
	}
	return timeline
}

// walked goes through a walk, and begins anew at the position after each block.
func walked(t *testing.T, k *walk, now time.Time) []interval.Interval {
	t.Helper()
	var seen []interval.Interval
	var position time.Time
	look := func(intervals []interval.Interval) ([]gaps.Standing, error) {
		if len(intervals) > blockSize || !slices.IsSortedFunc(intervals, func(a, b interval.Interval) int { return a.Start.Compare(b.Start) }) {
			t.Fatalf("a block of %d intervals, or out of order", len(intervals))
		}
		block := make([]gaps.Standing, len(intervals))
		for i, iv := range intervals {
			block[i].Interval = iv
		}
		return block, nil
	}
	for {
		at, ok, err := k.peek(position, now, look)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return seen
		}
		seen = append(seen, at.Interval)
		position = k.after(at.Interval)
		if k.pass(); len(seen)%7 == 0 {
			k.forget()
		}
	}
}

// Both orders see the same intervals: those that start in the range and are over.
func TestWalk(t *testing.T) {
	t.Parallel()
	timeline := editedTimeline(t)
	for _, test := range []struct{ from, to, now string }{
		{"2026-05-01T00:00", "2026-05-10T00:00", "2026-06-01T00:00"},
		{"2026-05-01T00:30", "2026-05-04T09:01", "2026-06-01T00:00"},
		{"2026-05-04T08:00", "2026-05-04T09:00", "2026-06-01T00:00"},
		{"2026-05-01T00:00", "2027-05-10T00:00", "2026-05-07T12:00"},
		{"2026-01-01T00:00", "2026-05-01T00:00", "2026-06-01T00:00"},
		{"2025-01-01T00:00", "2025-12-01T00:00", "2026-06-01T00:00"},
		{"2026-05-06T00:00", "2026-05-07T00:00", "2026-05-06T23:59"},
	} {
		t.Run(test.from, func(t *testing.T) {
			t.Parallel()
			var want []interval.Interval
			for iv := range timeline.Between(clock(test.from), clock(test.to)) {
				if !iv.End.After(clock(test.now)) {
					want = append(want, iv)
				}
			}
			within := step.Range{From: clock(test.from), To: clock(test.to)}
			oldest := walked(t, &walk{timeline: timeline, within: within}, clock(test.now))
			newest := walked(t, &walk{timeline: timeline, within: within, newest: true}, clock(test.now))
			slices.Reverse(newest)
			if !slices.Equal(oldest, want) || !slices.Equal(newest, want) {
				t.Errorf("oldest first %v\nnewest first, turned round %v\nwant %v", short(oldest), short(newest), short(want))
			}
		})
	}
}

func short(intervals []interval.Interval) string {
	if len(intervals) < 5 {
		return fmt.Sprint(intervals)
	}
	return fmt.Sprintf("%d: %v … %v", len(intervals), intervals[0], intervals[len(intervals)-1])
}

// A range whose end is a moment away was planned by somebody whose clock is ahead; one that ends later is not over.
func TestWindowNow(t *testing.T) {
	t.Parallel()
	noon := clock("2026-01-20T12:00")
	a := &Activities{now: func() time.Time { return noon }}
	for _, test := range []struct {
		kind     step.Kind
		to, want time.Time
	}{
		{step.Backfill, noon.Add(20 * time.Second), noon.Add(20 * time.Second)}, {step.Backfill, noon.Add(-time.Hour), noon},
		{step.Backfill, noon.Add(time.Hour), noon}, {step.Catchup, noon.Add(20 * time.Second), noon},
	} {
		w := &window{activities: a, request: step.WindowRequest{Kind: test.kind, Range: step.Range{From: noon.AddDate(0, 0, -1), To: test.to}}}
		if got := w.now(); !got.Equal(test.want) {
			t.Errorf("%s to %s: %s", test.kind, test.to, got)
		}
	}
}
