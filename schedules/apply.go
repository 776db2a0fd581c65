package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// Ledger asks a worker what the load ledger knows of a pipeline's grids, and has it written there.
type Ledger func(ctx context.Context, request step.GridRequest) (step.GridAnswer, error)

// Applied is what an apply has done for one pipeline.
type Applied struct {
	Pipeline string `json:"pipeline"`
	Verb     Verb   `json:"verb"`
	// Since is where the schedule took over from an earlier one.
	Since string `json:"since,omitempty"`
	// Checked is the number of coming ticks that were compared with the server's own listing.
	Checked int `json:"checked"`
}

// settleAttempts bounds how often a write is tried again because somebody else wrote at the same time, or
// because a tick of the old schedule fell into the moment of the update.
const settleAttempts = 5

// errOverwritten says that what was read back is not what was written.
var errOverwritten = errors.New("somebody else changed the Schedule at the same time")

// Apply makes one Schedule as the plan says: one call at a time, each read back, and the result compared with
// the server's own listing of the coming ticks. The plan may be old: a Schedule that has changed since is
// planned anew.
func (s *Schedules) Apply(ctx context.Context, change Change, ledger Ledger) (Applied, error) {
	source := Source{change.File, change.definition}
	var err error
	for range settleAttempts {
		var applied Applied
		applied, err = s.apply(ctx, &change, ledger)
		if !errors.Is(err, errOverwritten) {
			return applied, err
		}
		again, planErr := s.plan(ctx, source)
		if planErr != nil {
			return applied, planErr
		}
		change = *again
	}
	return Applied{Pipeline: change.Pipeline}, fmt.Errorf("apply the Schedule of %s: %w, %d times in a row; apply again when nobody else does", change.Pipeline, err, settleAttempts)
}

func (s *Schedules) apply(ctx context.Context, change *Change, ledger Ledger) (Applied, error) {
	applied := Applied{Pipeline: change.Pipeline, Verb: change.Verb}
	var written *Schedule
	var err error
	switch change.Verb {
	case Unchanged:
		return applied, nil
	case Blocked:
		return applied, fmt.Errorf("apply the Schedule of %s: %s", change.Pipeline, change.Notes[0])
	case Create:
		written, err = s.create(ctx, change, ledger)
	default:
		written, err = s.update(ctx, change)
	}
	if err != nil {
		return applied, err
	}
	applied.Since = change.want.definition.Schedule.Since
	if change.scheduled {
		if err := s.record(ctx, change, written, ledger); err != nil {
			return applied, err
		}
	}
	applied.Checked, err = s.verify(ctx, change.want)
	return applied, err
}

// create makes a Schedule. The ledger may know the pipeline from a Schedule that was deleted: the new one goes
// on where that ended.
func (s *Schedules) create(ctx context.Context, change *Change, ledger Ledger) (*Schedule, error) {
	known, err := ledger(ctx, gridRequest(change.definition))
	if err != nil {
		return nil, fmt.Errorf("ask the ledger about %s: %w", change.Pipeline, err)
	}
	if !known.Since.IsZero() {
		definition := *change.definition
		schedule := *definition.Schedule
		schedule.Since = known.Since.UTC().Format(time.RFC3339)
		definition.Schedule = &schedule
		if change.want, err = s.desire(ctx, &definition, change.want.compiled); err != nil {
			return nil, err
		}
	}
	memo, attributes, err := s.temporal.ScheduleMarks(ctx, change.Pipeline)
	if err != nil {
		return nil, err
	}
	_, err = s.temporal.WorkflowService().CreateSchedule(ctx, &workflowservice.CreateScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: launch.ScheduleID(change.Pipeline), RequestId: uuid.NewString(),
		Schedule: change.want.schedule, Memo: memo, SearchAttributes: attributes,
	})
	switch {
	case taken(err):
		return nil, errOverwritten
	case err != nil:
		return nil, fmt.Errorf("create the Schedule of %s: %w", change.Pipeline, err)
	}
	return s.readBack(ctx, change)
}

// readBack reads what was written and makes sure that it is what the server has.
func (s *Schedules) readBack(ctx context.Context, change *Change) (*Schedule, error) {
	written, err := s.Get(ctx, launch.ScheduleID(change.Pipeline))
	if err != nil {
		return nil, err
	}
	if written == nil || written.Pipeline != change.Pipeline || written.Unreadable != nil {
		return nil, errOverwritten
	}
	left, err := differences(written, change.want)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%w: %s is %q after the write, not %q", errOverwritten, left[0].Path, left[0].Was, left[0].Becomes)
	}
	return written, nil
}

// update changes a Schedule in place. Where other ticks take over, it makes sure that no tick of the old ones
// fell between the last one that was known and the moment of the update: that interval would be run by the
// old schedule and belong to the new one.
func (s *Schedules) update(ctx context.Context, change *Change) (*Schedule, error) {
	was, err := change.current.Definition().Grid()
	if err != nil {
		return nil, err
	}
	for range settleAttempts {
		written, err := s.replace(ctx, change)
		if err != nil || !change.regrids {
			return written, err
		}
		last, ok := was.LastCompleted(written.Info.GetUpdateTime().AsTime())
		if !ok || last.End.Format(time.RFC3339) == change.want.definition.Schedule.Since {
			return written, nil
		}
		definition := *change.want.definition
		schedule := *definition.Schedule
		schedule.Since = last.End.Format(time.RFC3339)
		definition.Schedule = &schedule
		if change.want, err = s.desire(ctx, &definition, change.want.compiled); err != nil {
			return nil, err
		}
		change.current = written
	}
	return nil, fmt.Errorf("apply the Schedule of %s: ticks of the old schedule come faster than the new one can take over: pause it with `starter schedules pause %s`, apply, and unpause it",
		change.Pipeline, change.Pipeline)
}

// replace writes the wanted Schedule over the one that is there. A pause, and the reason for it, are the
// operator's and stay.
func (s *Schedules) replace(ctx context.Context, change *Change) (*Schedule, error) {
	next := proto.CloneOf(change.want.schedule)
	if change.current.Paused() {
		next.State.Paused, next.State.Notes = true, change.current.Notes()
	}
	_, err := s.temporal.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: change.current.ID, RequestId: uuid.NewString(),
		Schedule: next, ConflictToken: change.current.token,
	})
	var mismatch *serviceerror.FailedPrecondition
	if errors.As(err, &mismatch) {
		return nil, errOverwritten
	}
	if err != nil {
		return nil, fmt.Errorf("update the Schedule of %s: %w", change.Pipeline, err)
	}
	return s.readBack(ctx, change)
}

// record has the ledger hear of the schedule that holds now. If that fails, the reconciler does it.
func (s *Schedules) record(ctx context.Context, change *Change, written *Schedule, ledger Ledger) error {
	request := gridRequest(change.want.definition)
	request.Record = true
	request.At = written.Info.GetCreateTime().AsTime()
	if change.Verb == Update {
		request.At = written.Info.GetUpdateTime().AsTime()
	}
	if _, err := ledger(ctx, request); err != nil {
		return fmt.Errorf("the Schedule of %s is applied, but the ledger has not heard of it; the reconciler will see to it: %w", change.Pipeline, err)
	}
	return nil
}

func gridRequest(definition *pipeline.Pipeline) step.GridRequest {
	return step.GridRequest{Pipeline: definition.Name, Warehouse: definition.Warehouse, Schedule: *definition.Schedule}
}

// Delete removes a pipeline's Schedule. What the ledger knows stays, so that nothing is lost if it is made
// again.
func (s *Schedules) Delete(ctx context.Context, current *Schedule) error {
	_, err := s.temporal.WorkflowService().DeleteSchedule(ctx, &workflowservice.DeleteScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: current.ID,
	})
	if err != nil {
		return fmt.Errorf("delete the Schedule of %s: %w", current.Pipeline, err)
	}
	return nil
}

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
	return fmt.Errorf("the Schedule of %s is applied, but the server reads it otherwise: "+format+
		"; this is a fault of Tranche or of the server: pause it with `starter schedules pause %s --reason wrong-ticks` and report it",
		name, at.UTC().Format(time.RFC3339), name)
}
