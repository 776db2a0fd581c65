// Package schedules makes Temporal's Schedules equal to the pipeline files.
//
// A Schedule only triggers: which intervals there are follows from the pipeline file, which were
// run from the load ledger. The package touches only Schedules whose memo says that they are a pipeline's,
// changes them in place, one call at a time, reads each back, and never resumes what an operator paused.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
)

// Schedules are those of one namespace. It is safe for concurrent use; New makes one.
type Schedules struct {
	temporal *launch.Temporal
	now      func() time.Time
}

// New returns the Schedules of a namespace.
func New(temporal *launch.Temporal) *Schedules {
	return &Schedules{temporal: temporal, now: time.Now}
}

// Schedule is a Schedule as the server has it.
type Schedule struct {
	// ID of the Schedule, and the pipeline that its memo names; empty: it is not one of Tranche's.
	ID       string
	Pipeline string
	// Input is what its runs are told; nil when it is not one of Tranche's. Unreadable says why a newer or
	// damaged one cannot be read.
	Input      *launch.Input
	Unreadable error
	// Current is the Schedule itself, with the token that an update of exactly this version bears.
	Current *schedulepb.Schedule
	Info    *schedulepb.ScheduleInfo
	token   []byte
}

// Definition returns the definition that its runs carry; nil when there is none.
func (s *Schedule) Definition() *pipeline.Pipeline {
	if s.Input == nil || s.Unreadable != nil {
		return nil
	}
	return s.Input.Definition
}

// Paused reports whether an operator has paused the Schedule.
func (s *Schedule) Paused() bool { return s.Current.GetState().GetPaused() }

// Notes returns the operator's reason for a pause, or what Tranche wrote.
func (s *Schedule) Notes() string { return s.Current.GetState().GetNotes() }

// Next returns the next instant at which the Schedule will fire. ok is false when it is paused or will
// never fire again.
func (s *Schedule) Next(now time.Time) (next time.Time, ok bool) {
	if s.Paused() {
		return time.Time{}, false
	}
	for _, at := range s.Info.GetFutureActionTimes() {
		if t := at.AsTime(); t.After(now) {
			return t, true
		}
	}
	return time.Time{}, false
}

// memoText returns a text from the memo of the runs that the Schedule starts.
func (s *Schedule) memoText(key string) string {
	return launch.MemoText(s.Current.GetAction().GetStartWorkflow().GetMemo(), key)
}

// Get returns a Schedule; nil when there is none with this id.
func (s *Schedules) Get(ctx context.Context, id string) (*Schedule, error) {
	response, err := patiently(ctx, func(ctx context.Context) (*workflowservice.DescribeScheduleResponse, error) {
		return s.temporal.WorkflowService().DescribeSchedule(ctx, &workflowservice.DescribeScheduleRequest{
			Namespace: s.temporal.Namespace, ScheduleId: id,
		})
	})
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("describe Schedule %s: %w", id, err)
	}
	found := &Schedule{
		ID: id, Pipeline: launch.MemoText(response.GetMemo(), launch.MemoPipeline),
		Current: response.GetSchedule(), Info: response.GetInfo(), token: response.GetConflictToken(),
	}
	if found.Pipeline != "" {
		found.read(s.temporal)
	}
	return found, nil
}

// read decodes what the Schedule's runs are told.
func (s *Schedule) read(temporal *launch.Temporal) {
	s.Input = &launch.Input{}
	payloads := s.Current.GetAction().GetStartWorkflow().GetInput()
	if len(payloads.GetPayloads()) != 1 {
		s.Unreadable = errors.New("its action is not that of a pipeline")
	} else if err := temporal.Converter.FromPayloads(payloads, s.Input); err != nil {
		s.Unreadable = err
	} else {
		s.Unreadable = s.Input.Unreadable()
	}
}

// pageSize is how many Schedules are listed at a time.
const pageSize = 200

// Names returns the pipelines that have a Schedule, with the ids of their Schedules. What was created or
// deleted within the last moments may be missing or still there: the list comes from Temporal's index.
func (s *Schedules) Names(ctx context.Context) (map[string]string, error) {
	names, _, err := s.Listed(ctx)
	return names, err
}

// Listed returns the same as Names and, sorted, the task queues that have a reconciler.
func (s *Schedules) Listed(ctx context.Context) (names map[string]string, queues []string, err error) {
	names = map[string]string{}
	request := &workflowservice.ListSchedulesRequest{Namespace: s.temporal.Namespace, MaximumPageSize: pageSize}
	for {
		page, err := patiently(ctx, func(ctx context.Context) (*workflowservice.ListSchedulesResponse, error) {
			return s.temporal.WorkflowService().ListSchedules(ctx, request)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list the Schedules of namespace %s: %w", s.temporal.Namespace, err)
		}
		for _, each := range page.GetSchedules() {
			if name := launch.MemoText(each.GetMemo(), launch.MemoPipeline); name != "" {
				names[name] = each.GetScheduleId()
			} else if queue, is := strings.CutPrefix(each.GetScheduleId(), launch.ReconcileID("")); is {
				queues = append(queues, queue)
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			slices.Sort(queues)
			return names, queues, nil
		}
	}
}

// overlap is "allow all": runs of one pipeline wait their turn at its gate, where Temporal would drop or
// line up one at a time.
const overlap = enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL
