package schedules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// Watch returns the pipelines of a task queue as their Schedules say they are, sorted by name. Calendars that
// are no longer good for long are compiled anew on the way. A Schedule that cannot be read is in the list
// with the reason.
//
// It is an activity: step.ActivityWatch.
func (s *Schedules) Watch(ctx context.Context, request step.WatchRequest) ([]step.Watched, error) {
	quit := make(chan struct{})
	defer close(quit)
	go launch.Beat(ctx, quit)
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, name := range request.Pipelines {
		// The list may not know yet what was made just now.
		wanted[name], names[name] = true, launch.ScheduleID(name)
	}
	watched := []step.Watched{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(wanted) > 0 && !wanted[name] {
			continue
		}
		found, err := s.Get(ctx, names[name])
		if err != nil {
			return nil, err
		}
		if found == nil || found.Pipeline != name || found.TaskQueue() != request.TaskQueue {
			continue
		}
		watched = append(watched, s.watched(ctx, found))
	}
	return watched, nil
}

// TaskQueue returns the queue on which the Schedule starts its runs.
func (s *Schedule) TaskQueue() string {
	return s.Current.GetAction().GetStartWorkflow().GetTaskQueue().GetName()
}

// Written returns when the Schedule was created, and when its definition was last written, by the server's clock.
func (s *Schedule) Written() (created, updated time.Time) {
	return s.Info.GetCreateTime().AsTime(), s.appliedAt()
}

func (s *Schedules) watched(ctx context.Context, found *Schedule) step.Watched {
	w := step.Watched{
		Pipeline: found.Pipeline, Paused: found.Paused(), Note: found.Notes(),
		Created: found.Info.GetCreateTime().AsTime(), Updated: found.appliedAt(),
	}
	definition := found.Definition()
	if definition == nil {
		w.Problem = fmt.Sprintf("its Schedule needs a newer worker: %v", found.Unreadable)
		return w
	}
	if found.held() && s.now().Sub(found.appliedAt()) > heldTooLong {
		if err := s.release(ctx, found); err != nil {
			w.Problem = err.Error()
			return w
		}
		w.Paused, w.Note = false, ""
	}
	w.Warehouse, w.Digest, w.Schedule, w.Deadline = definition.Warehouse, definition.Digest, *definition.Schedule, definition.Deadline
	w.TaskQueue, w.Description, w.Owner, w.Notify = definition.TaskQueue, definition.Description, definition.Owner, definition.Notify
	if err := s.renew(ctx, found); err != nil {
		w.Problem = err.Error()
	}
	return w
}

// heldTooLong is how long an apply may hold a Schedule while another one takes over, before it counts as interrupted.
const heldTooLong = 5 * time.Minute

// release lets a Schedule go on whose apply was interrupted before anything had changed. What became due meanwhile is
// started by the Schedule's own backfill, in the same call: no operator meant it to be left out.
func (s *Schedules) release(ctx context.Context, found *Schedule) error {
	_, err := s.temporal.WorkflowService().PatchSchedule(ctx, &workflowservice.PatchScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: found.ID, RequestId: uuid.NewString(),
		Patch: &schedulepb.SchedulePatch{
			Unpause: Cadence(found.Definition().Schedule),
			BackfillRequest: []*schedulepb.BackfillRequest{{
				StartTime:     timestamppb.New(found.appliedAt().Truncate(time.Second).Add(time.Second)),
				EndTime:       timestamppb.New(s.now()),
				OverlapPolicy: overlap,
			}},
		},
	})
	if err != nil {
		return fmt.Errorf("release the Schedule of %s, which an interrupted apply holds: %w", found.Pipeline, err)
	}
	done, err := s.awaitPaused(ctx, found.ID, false)
	if err == nil && !done {
		err = fmt.Errorf("the Schedule of %s, which an interrupted apply holds, was told to go on and does not yet", found.Pipeline)
	}
	return err
}

// renew compiles the calendars of a Schedule anew when they were compiled with an older zone database, or
// less than nine of their ten years are left. A worker that is older than the one that compiled them leaves
// them alone.
func (s *Schedules) renew(ctx context.Context, found *Schedule) error {
	was, ok := parseCompiled(found.memoText(memoCompiled))
	fresh := s.compiling(found)
	if !ok || fresh == was || fresh.zones < was.zones || fresh.year < was.year {
		return nil
	}
	want, err := s.desire(ctx, found.Definition(), fresh)
	if err != nil {
		return fmt.Errorf("renew the calendars of %s: %w", found.Pipeline, err)
	}
	change := Change{Pipeline: found.Pipeline, Verb: Update, definition: found.Definition(), current: found, want: want}
	_, err = s.replace(ctx, &change)
	if errors.Is(err, errOverwritten) {
		return nil // somebody applies just now; the next round sees what is left to do
	}
	return err
}
