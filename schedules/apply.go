package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

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

// settleAttempts bounds how often a write is tried again because somebody else wrote at the same time.
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
		written, err = s.update(ctx, change, ledger)
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
	if change.Verb == Update {
		if err := s.tellGate(ctx, change, written); err != nil {
			return applied, err
		}
	}
	if applied.Checked, err = s.verify(ctx, change.want); errors.Is(err, errWrongTicks) {
		// Unless what was listed is another Schedule than the one that was written.
		if _, overwritten := s.readBack(ctx, change); overwritten != nil {
			err = overwritten
		}
	}
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

// update changes a Schedule in place.
func (s *Schedules) update(ctx context.Context, change *Change, ledger Ledger) (*Schedule, error) {
	if change.regrids {
		if err := s.takeOver(ctx, change, ledger); err != nil {
			return nil, err
		}
	}
	return s.replace(ctx, change)
}

// takeOver prepares a Schedule for other ticks. The ledger must have heard of the grid that is there, which would be
// lost when the next one is written. Then the old ticks stop, so that none falls into the moment of the change:
// its interval would be run by the old schedule and belong to the new one. What becomes due by the new ticks
// meanwhile is found by the reconciler.
func (s *Schedules) takeOver(ctx context.Context, change *Change, ledger Ledger) error {
	current := change.current
	was, err := current.Definition().Grid()
	if err != nil {
		return err
	}
	known := gridRequest(current.Definition())
	known.Record, known.At = true, current.appliedAt()
	if _, err := ledger(ctx, known); err != nil {
		return fmt.Errorf("the Schedule of %s is left as it is: the ledger has to know the schedule that it has before another takes over: %w", change.Pipeline, err)
	}
	stopped := proto.CloneOf(current.Current)
	if !current.Paused() {
		stopped.State.Paused, stopped.State.Notes = true, heldNote
	}
	if err := s.write(ctx, current, stopped); err != nil {
		return err
	}
	held, err := s.Get(ctx, current.ID)
	if err != nil {
		return err
	}
	if held == nil || !held.Paused() {
		return errOverwritten
	}
	change.current = held
	definition := *change.want.definition
	schedule := *definition.Schedule
	if last, ok := was.LastCompleted(held.appliedAt()); ok {
		schedule.Since = last.End.Format(time.RFC3339)
	}
	definition.Schedule = &schedule
	change.want, err = s.desire(ctx, &definition, change.want.compiled)
	return err
}

// heldNote is the reason for the pause in which another schedule takes over.
const heldNote = "paused by `starter schedules apply` for a moment, while another schedule takes over"

// held reports whether the Schedule is paused by an apply that was interrupted, and not by an operator.
func (s *Schedule) held() bool { return s.Paused() && s.Notes() == heldNote }

// appliedAt is when the Schedule's definition was last written, by the server's clock.
func (s *Schedule) appliedAt() time.Time {
	if at := s.Info.GetUpdateTime(); at != nil {
		return at.AsTime()
	}
	return s.Info.GetCreateTime().AsTime()
}

// replace writes the wanted Schedule over the one that is there. A pause, and the reason for it, are the
// operator's and stay.
func (s *Schedules) replace(ctx context.Context, change *Change) (*Schedule, error) {
	next := proto.CloneOf(change.want.schedule)
	if change.current.Paused() && !change.current.held() {
		next.State.Paused, next.State.Notes = true, change.current.Notes()
	}
	if err := s.write(ctx, change.current, next); err != nil {
		return nil, err
	}
	return s.readBack(ctx, change)
}

// write writes a Schedule over exactly the version of it that was read.
func (s *Schedules) write(ctx context.Context, current *Schedule, next *schedulepb.Schedule) error {
	_, err := s.temporal.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: current.ID, RequestId: uuid.NewString(),
		Schedule: next, ConflictToken: current.token,
	})
	var mismatch *serviceerror.FailedPrecondition
	if errors.As(err, &mismatch) {
		return errOverwritten
	}
	if err != nil {
		return fmt.Errorf("update the Schedule of %s: %w", current.Pipeline, err)
	}
	return nil
}

// tellGate lets the limits that were applied hold at once, also for runs that wait already: those carry the
// definition that they were started with. A pipeline whose gate is closed needs nobody to be told.
func (s *Schedules) tellGate(ctx context.Context, change *Change, written *Schedule) error {
	was, is := change.limits, change.want.definition.Schedule
	if was == nil || was.MaxActiveRuns == is.MaxActiveRuns && was.DependsOnPast == is.DependsOnPast {
		return nil
	}
	err := s.temporal.SignalWorkflow(ctx, launch.GateID(change.Pipeline), "", step.SignalSlot, step.SlotSignal{
		Limit: is.MaxActiveRuns, InOrder: is.DependsOnPast, Began: written.Info.GetUpdateTime().AsTime(),
	})
	var closed *serviceerror.NotFound
	if err != nil && !errors.As(err, &closed) {
		return fmt.Errorf("the Schedule of %s is applied, but its gate has not heard of max_active_runs %d; the next run tells it: %w", change.Pipeline, is.MaxActiveRuns, err)
	}
	return nil
}

// record has the ledger hear of the schedule that holds now. If that fails, the reconciler does it.
func (s *Schedules) record(ctx context.Context, change *Change, written *Schedule, ledger Ledger) error {
	request := gridRequest(change.want.definition)
	request.Record = true
	request.At = written.appliedAt()
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
