package gaps

import (
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// Era is a grid that a pipeline had, as the ledger keeps it.
type Era struct {
	// Spec of the grid. Its Since is where it took over from the one before; zero for one that follows no other.
	Spec interval.Spec
	// Applied is when the pipeline's Schedule was created or updated with it.
	Applied time.Time
}

// History is the sequence of grids that a pipeline has had, oldest first. It is empty for one that never had a
// Schedule.
type History []Era

// ActiveSince returns when the pipeline got its first Schedule; zero: never. Ticks before it are not expected, but
// for what `catchup` adds.
func (h History) ActiveSince() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].Applied
}

// Timeline returns the intervals of all its grids. It is an error for an empty one.
func (h History) Timeline() (*interval.Timeline, error) {
	specs := make([]interval.Spec, len(h))
	for i, era := range h {
		specs[i] = era.Spec
	}
	return interval.NewTimeline(specs...)
}

// Succeed returns the grid that a schedule means for the pipeline, and its place in the history: that of the
// newest grid where it only changes that one's bounds, the next place where it takes over from it.
//
// The same cadence (what the cron text means, or the elapsed time and its phase, and the zone) goes on, whatever
// happened to start and end. Another one takes over at the last tick at or before at; where there was none yet, it
// replaces the newest grid, as nothing was run by that. A spec that has a Since says itself where it takes over:
// it is what a Schedule really carries.
func (h History) Succeed(spec interval.Spec, at time.Time) (era Era, ordinal int, err error) {
	if len(h) == 0 {
		return Era{Spec: spec, Applied: at}, 0, nil
	}
	last := len(h) - 1
	newest := h[last]
	same, err := sameCadence(newest.Spec, spec)
	switch {
	case err != nil:
		return Era{}, 0, err
	case same && (spec.Since.IsZero() || spec.Since.Equal(newest.Spec.Since)):
		spec.Since = newest.Spec.Since
		return Era{Spec: spec, Applied: newest.Applied}, last, nil
	case spec.Since.IsZero():
		timeline, err := h.Timeline()
		if err != nil {
			return Era{}, 0, err
		}
		before, ok := timeline.LastCompleted(at)
		if !ok {
			spec.Since = newest.Spec.Since
			return Era{Spec: spec, Applied: newest.Applied}, last, nil
		}
		spec.Since = before.End
	}
	for i, era := range h[:last] {
		if same, err := sameCadence(era.Spec, spec); err == nil && same && era.Spec.Since.Equal(spec.Since) {
			return era, i, nil // heard of late, when others have taken over already
		}
	}
	if spec.Since.Before(newest.Spec.Since) {
		return Era{}, 0, fmt.Errorf("the schedule says that it holds since %s, but one that holds since %s is known already: apply the pipeline again",
			spec.Since.UTC().Format(time.RFC3339), newest.Spec.Since.UTC().Format(time.RFC3339))
	}
	return Era{Spec: spec, Applied: at}, last + 1, nil
}

func sameCadence(a, b interval.Spec) (bool, error) {
	first, err := interval.New(a)
	if err != nil {
		return false, fmt.Errorf("the newest grid of the ledger: %w", err)
	}
	second, err := interval.New(b)
	if err != nil {
		return false, fmt.Errorf("the schedule: %w", err)
	}
	return interval.SameCadence(first, second), nil
}
