package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/workflows"
)

// EnsureReconciler makes the Schedule that reconciles the pipelines of a task queue, or changes how often it
// does. There is one for each queue, because only the workers of a queue are sure to know the warehouses of
// its pipelines. A pause of it stays.
func (s *Schedules) EnsureReconciler(ctx context.Context, taskQueue string, every time.Duration) error {
	id := launch.ReconcileID(taskQueue)
	want, err := s.reconciler(taskQueue, every)
	if err != nil {
		return err
	}
	current, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case current == nil:
		_, err = s.temporal.WorkflowService().CreateSchedule(ctx, &workflowservice.CreateScheduleRequest{
			Namespace: s.temporal.Namespace, ScheduleId: id, Schedule: want, RequestId: uuid.NewString(),
		})
		var exists *serviceerror.WorkflowExecutionAlreadyStarted
		var taken *serviceerror.AlreadyExists
		if errors.As(err, &exists) || errors.As(err, &taken) {
			return nil
		}
	case current.reconcilesEvery() == every && current.taskQueue() == taskQueue:
		return nil
	default:
		want.State = current.Current.GetState()
		_, err = s.temporal.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{
			Namespace: s.temporal.Namespace, ScheduleId: id, Schedule: want, ConflictToken: current.token, RequestId: uuid.NewString(),
		})
	}
	if err != nil {
		return fmt.Errorf("make the Schedule %s: %w", id, err)
	}
	return nil
}

// reconcilesEvery returns the interval of a Schedule that has one, and nothing else.
func (s *Schedule) reconcilesEvery() time.Duration {
	spec := s.Current.GetSpec()
	if len(spec.GetInterval()) != 1 || len(spec.GetStructuredCalendar()) > 0 {
		return 0
	}
	return spec.GetInterval()[0].GetInterval().AsDuration()
}

func (s *Schedules) reconciler(taskQueue string, every time.Duration) (*schedulepb.Schedule, error) {
	input, err := s.temporal.Converter.ToPayloads(workflows.ReconcileInput{TaskQueue: taskQueue})
	if err != nil {
		return nil, fmt.Errorf("encode the input of %s: %w", launch.ReconcileID(taskQueue), err)
	}
	return &schedulepb.Schedule{
		Spec: &schedulepb.ScheduleSpec{Interval: []*schedulepb.IntervalSpec{{Interval: durationpb.New(every)}}},
		Action: &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{StartWorkflow: &workflow.NewWorkflowExecutionInfo{
			WorkflowId:   launch.ReconcileID(taskQueue),
			WorkflowType: &common.WorkflowType{Name: workflows.ReconcileType},
			TaskQueue:    &taskqueue.TaskQueue{Name: taskQueue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
			Input:        input,
			Priority:     &common.Priority{PriorityKey: launch.PriorityFirst},
		}}},
		// What is looked at late is looked at in the next round all the same.
		Policies: &schedulepb.SchedulePolicies{OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: durationpb.New(every)},
		State:    &schedulepb.ScheduleState{Notes: "starts what pipelines of task queue " + taskQueue + " lack"},
	}, nil
}
