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
	"google.golang.org/protobuf/types/known/timestamppb"
)

// pausePatience bounds how long a pause is sent again. Temporal keeps patches in one slot: of those that arrive
// together one is carried out, and all are answered with success (server v1.32.1).
const pausePatience = time.Minute

// pauseLook is how long a pause may take until it can be seen, before it is sent again.
const pauseLook = 3 * time.Second

// SetPaused pauses or unpauses a Schedule and makes sure that it is. The reason is kept in its notes.
func (s *Schedules) SetPaused(ctx context.Context, current *Schedule, paused bool, reason string) error {
	patch := &schedulepb.SchedulePatch{Unpause: reason}
	if paused {
		patch = &schedulepb.SchedulePatch{Pause: reason}
	}
	for began := time.Now(); time.Since(began) < pausePatience; {
		_, err := s.temporal.WorkflowService().PatchSchedule(ctx, &workflowservice.PatchScheduleRequest{
			Namespace: s.temporal.Namespace, ScheduleId: current.ID, Patch: patch, RequestId: uuid.NewString(),
		})
		if err != nil {
			return fmt.Errorf("pause or unpause the Schedule of %s: %w", current.Pipeline, err)
		}
		done, err := s.awaitPaused(ctx, current.ID, paused)
		switch {
		case err != nil:
			return err
		case done && paused:
			return s.stopCatchup(ctx, current.Pipeline)
		case done:
			return nil
		}
	}
	return fmt.Errorf("the Schedule of %s was told for %s, and its paused state is still not %t: somebody else changes it at the same time, or the server is busy; try again",
		current.Pipeline, pausePatience, paused)
}

// stopCatchup keeps a catchup that is at work from starting more runs; those that are open go on. When the
// Schedule was paused by somebody else, the reconciler sees to that.
func (s *Schedules) stopCatchup(ctx context.Context, pipelineName string) error {
	if _, err := s.temporal.StopCatchup(ctx, pipelineName); err != nil {
		return fmt.Errorf("the Schedule of %s is paused, but its catchup goes on: %w", pipelineName, err)
	}
	return nil
}

func (s *Schedules) awaitPaused(ctx context.Context, id string, paused bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, pauseLook)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		found, err := s.Get(ctx, id)
		var late *serviceerror.DeadlineExceeded
		switch {
		case ctx.Err() != nil, errors.As(err, &late): // the server may notice the deadline first
			return false, nil
		case err != nil:
			return false, err
		case found == nil:
			return false, fmt.Errorf("the Schedule %s was deleted meanwhile", id)
		case found.Paused() == paused:
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}

// Backfill has Temporal start what the Schedule would have started at the ticks from first to last, both included,
// all at once: one patch with one request. A Schedule that is paused does it, too.
func (s *Schedules) Backfill(ctx context.Context, current *Schedule, first, last time.Time) error {
	_, err := s.temporal.WorkflowService().PatchSchedule(ctx, &workflowservice.PatchScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: current.ID, RequestId: uuid.NewString(),
		Patch: &schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
			StartTime: timestamppb.New(first), EndTime: timestamppb.New(last), OverlapPolicy: overlap,
		}}},
	})
	if err != nil {
		return fmt.Errorf("have the Schedule of %s backfilled: %w", current.Pipeline, err)
	}
	return nil
}
