package step_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

func TestLeaves(t *testing.T) {
	t.Parallel()
	outcomes := []string{"", step.OutcomeLoaded, step.OutcomeAccepted, step.OutcomeFailed, step.OutcomeCancelled}
	for reprocess, want := range map[step.Reprocess]string{
		step.ReprocessMissing: "[false true true true true]",
		step.ReprocessFailed:  "[false true true false false]",
		step.ReprocessAll:     "[false false false false false]",
	} {
		var got []bool
		for _, outcome := range outcomes {
			got = append(got, reprocess.Leaves(outcome))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s leaves %v of %q, want %s", reprocess, got, outcomes, want)
		}
	}
}

// In whatever order intervals fail, and also when one fails twice: neighbours become one range.
func TestAddFailed(t *testing.T) {
	t.Parallel()
	hour := func(n int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(n) * time.Hour) }
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var failed []int
		for n := range 60 {
			if rng.IntN(3) > 0 {
				failed = append(failed, n)
			}
		}
		var want []step.Range
		for _, n := range failed {
			if last := len(want) - 1; last >= 0 && want[last].To.Equal(hour(n)) {
				want[last].To = hour(n + 1)
			} else {
				want = append(want, step.Range{From: hour(n), To: hour(n + 1)})
			}
		}
		failed = append(failed, failed[:5]...)
		rng.Shuffle(len(failed), func(i, j int) { failed[i], failed[j] = failed[j], failed[i] })
		var state step.WindowState
		for _, n := range failed {
			state.AddFailed(interval.Interval{Start: hour(n), End: hour(n + 1)})
		}
		if !slices.Equal(state.Failed, want) {
			t.Fatalf("seed %d: %v\nwant %v", seed, state.Failed, want)
		}
	}
	var state step.WindowState
	for n := range 3 * step.FailedRanges {
		state.AddFailed(interval.Interval{Start: hour(2 * n), End: hour(2*n + 1)})
	}
	if len(state.Failed) != step.FailedRanges || state.Failed[0].From != hour(0) || !state.FailedMore {
		t.Errorf("%d ranges are kept", len(state.Failed))
	}
}

// What has failed is put in again once. Where not all of it is known, everything that was passed is.
func TestRetry(t *testing.T) {
	t.Parallel()
	hour := func(n int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(n) * time.Hour) }
	passed := step.Range{From: hour(0), To: hour(1000)}
	var state step.WindowState
	if got := state.Retry(passed); got != 0 || state.Round != 0 || state.Again != nil {
		t.Errorf("nothing has failed, and %d are put in: %+v", got, state)
	}
	fail := func(hours ...int) {
		for _, n := range hours {
			state.AddFailed(interval.Interval{Start: hour(n), End: hour(n + 1)})
			state.Counts.Failed++
		}
	}
	fail(5, 6, 9)
	state.Counts.Failed, state.Counts.Cancelled, state.Done = 2, 1, true
	state.Blocked = &interval.Interval{Start: hour(9), End: hour(10)}
	want := []step.Range{{From: hour(5), To: hour(7)}, {From: hour(9), To: hour(10)}}
	if got := state.Retry(passed); got != 3 || !slices.Equal(state.Again, want) || state.Failed != nil || state.Done || state.Blocked != nil || state.Round != 1 || state.Counts != (step.WindowCounts{}) {
		t.Errorf("%d are put in: %+v", got, state)
	}
	fail(2)
	if got := state.Retry(passed); got != 1 || len(state.Again) != 3 || state.Again[0].From != hour(2) || state.Round != 2 {
		t.Errorf("%d are put in: %+v", got, state)
	}
	for n := range step.FailedRanges + 1 {
		fail(100 + 2*n)
	}
	if got := state.Retry(passed); got != step.FailedRanges+1 || !slices.Equal(state.Again, []step.Range{passed}) || state.FailedMore {
		t.Errorf("%d are put in: %+v", got, state)
	}
}
