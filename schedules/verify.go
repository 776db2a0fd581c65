package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// errWrongTicks says that the server lists other ticks than the pipeline has.
var errWrongTicks = errors.New("the server reads it otherwise")

// verified is how many coming ticks are compared with the server's listing: as many as it lists at a time.
const verified = 1000

// verifiedYears bounds how far ahead they are looked for.
const verifiedYears = 10

// verify compares the coming ticks with what the server itself says that the Schedule will fire at, and so,
// for compiled ticks, the days around the coming clock changes. It returns how many were compared.
func (s *Schedules) verify(ctx context.Context, want *desired) (int, error) {
	grid, err := want.definition.Grid()
	if err != nil {
		return 0, err
	}
	now := s.now().Truncate(time.Second)
	until := now.AddDate(verifiedYears, 0, 0)
	if exact := want.ticks.Exact; !exact.IsZero() && exact.Before(until) {
		until = exact
	}
	checked, err := s.verifyFrom(ctx, want, grid, now, until)
	if err != nil || want.ticks.Plain {
		return checked, err
	}
	const around = 36 * time.Hour
	for change := range interval.ClockChanges(grid.Location(), now.Add(around), until.Add(-around)) {
		more, err := s.verifyFrom(ctx, want, grid, change.Add(-around), change.Add(around))
		if err != nil {
			return checked, err
		}
		checked += more
	}
	return checked, nil
}

// verifyFrom compares the ticks after an instant, up to another one, with the listing.
func (s *Schedules) verifyFrom(ctx context.Context, want *desired, grid *interval.Grid, after, until time.Time) (int, error) {
	var ticks []time.Time
	for tick, ok := grid.Next(after); ok && len(ticks) < verified && !tick.After(until); tick, ok = grid.Next(tick) {
		ticks = append(ticks, tick)
	}
	listed, err := s.listing(ctx, want.definition.Name, after, ticks, until)
	if err != nil {
		return 0, err
	}
	jitter := want.definition.Schedule.Jitter.Std()
	if jitter > 0 {
		return len(ticks), sameUpTo(want.definition.Name, grid, listed, after, jitter)
	}
	for i := range max(len(ticks), len(listed)) {
		switch {
		case i >= len(listed):
			return i, wrongTicks(want.definition.Name, "it will not fire at %s, which is a tick", ticks[i])
		case i >= len(ticks) || listed[i].Before(ticks[i]):
			return i, wrongTicks(want.definition.Name, "it will fire at %s, which is no tick", listed[i])
		case ticks[i].Before(listed[i]):
			return i, wrongTicks(want.definition.Name, "it will not fire at %s, which is a tick", ticks[i])
		}
	}
	return len(ticks), nil
}

// sameUpTo makes sure of what can be seen through the jitter that the server adds in its listing: that each
// firing follows a tick.
func sameUpTo(name string, grid *interval.Grid, listed []time.Time, after time.Time, jitter time.Duration) error {
	for _, at := range listed {
		if last, ok := grid.LastCompleted(at); !ok || at.Sub(last.End) > jitter && last.End.After(after) {
			return wrongTicks(name, "it will fire at %s, which follows no tick", at)
		}
	}
	return nil
}

func wrongTicks(name, format string, at time.Time) error {
	return fmt.Errorf("the Schedule of %s is applied, but %w: "+format+
		"; this is a fault of Tranche or of the server: pause it with `starter schedules pause %s --reason wrong-ticks` and report it",
		name, errWrongTicks, at.UTC().Format(time.RFC3339), name)
}
