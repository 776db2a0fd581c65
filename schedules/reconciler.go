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
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/workflows"
)

// DefaultReconcileEvery is how often missing intervals and missed deadlines are looked for where nobody has
// said otherwise.
const DefaultReconcileEvery = 5 * time.Minute

// Reconciler is what an apply does with the Schedule that reconciles the pipelines of a task queue. There is one
// for each queue, because only the workers of a queue are sure to know the warehouses of its pipelines.
type Reconciler struct {
	TaskQueue string `json:"task_queue"`
	Verb      Verb   `json:"verb"`
	// Every is how often it looks after the apply.
	Every       pipeline.Duration `json:"every"`
	Differences []Difference      `json:"differences,omitempty"`
	// Notes are what an operator should know beside them.
	Notes []string `json:"notes,omitempty"`

	// every is what was asked for; zero: as it is.
	every   time.Duration
	current *Schedule
	want    *schedulepb.Schedule
}

// planReconciler compares the reconciler of a task queue with what it should be. Zero leaves an interval that
// somebody has set, and means DefaultReconcileEvery for a new one.
func (s *Schedules) planReconciler(ctx context.Context, taskQueue string, every time.Duration) (*Reconciler, error) {
	change := &Reconciler{TaskQueue: taskQueue, every: every}
	var err error
	if change.current, err = s.Get(ctx, launch.ReconcileID(taskQueue)); err != nil {
		return nil, err
	}
	if every == 0 && change.current != nil {
		every = change.current.Every()
	}
	if every == 0 {
		every = DefaultReconcileEvery
	}
	change.Every = pipeline.Duration(every)
	if change.want, err = s.reconciler(taskQueue, every); err != nil {
		return nil, err
	}
	if change.current == nil {
		change.Verb = Create
		return change, nil
	}
	if change.Differences, err = s.reconcilerDifferences(change.current, change.want, every); err != nil {
		return nil, err
	}
	change.Verb = Unchanged
	if len(change.Differences) > 0 {
		change.Verb = Update
	}
	if change.current.Paused() {
		change.Notes = append(change.Notes, fmt.Sprintf("paused: %s; until it is unpaused nobody looks for missing intervals and deadlines of task queue %s: `temporal schedule toggle --schedule-id %s --unpause`",
			orNothing(change.current.Notes()), taskQueue, launch.ReconcileID(taskQueue)))
	}
	return change, nil
}

// reconcilerDifferences lists in what a reconciler is not as it should be.
func (s *Schedules) reconcilerDifferences(current *Schedule, want *schedulepb.Schedule, every time.Duration) ([]Difference, error) {
	is := proto.CloneOf(current.Current)
	var d diffing
	if was := current.Every(); was > 0 && was != every {
		d.add("every", was.String(), every.String())
		is.Spec.Interval = want.GetSpec().GetInterval() // said above
		if is.GetPolicies().GetCatchupWindow().AsDuration() == was {
			is.Policies.CatchupWindow = want.GetPolicies().GetCatchupWindow()
		}
	}
	d.triggers(is, want)
	d.action(is.GetAction().GetStartWorkflow(), want.GetAction().GetStartWorkflow())
	var was, becomes any
	if err := s.temporal.Converter.FromPayloads(is.GetAction().GetStartWorkflow().GetInput(), &was); err != nil {
		was = err.Error()
	}
	if err := s.temporal.Converter.FromPayloads(want.GetAction().GetStartWorkflow().GetInput(), &becomes); err != nil {
		return nil, fmt.Errorf("compare the input of %s: %w", current.ID, err)
	}
	d.add("action input", was, becomes)
	d.add("action summary", s.summary(is), s.summary(want))
	return d.found, nil
}

// summary returns what the Temporal UI shows beside the runs of a Schedule.
func (s *Schedules) summary(of *schedulepb.Schedule) string {
	var text string
	payload := of.GetAction().GetStartWorkflow().GetUserMetadata().GetSummary()
	if payload == nil || s.temporal.Converter.FromPayload(payload, &text) != nil {
		return ""
	}
	return text
}

// ApplyReconciler makes the reconciler of a task queue as the plan says, and reads it back. The plan may be old: one
// that has changed since is planned anew. A pause of it stays. It returns what was done.
func (s *Schedules) ApplyReconciler(ctx context.Context, change Reconciler) (Verb, error) {
	for range settleAttempts {
		if change.Verb == Unchanged {
			return Unchanged, nil
		}
		err := s.writeReconciler(ctx, change)
		if err != nil && !errors.Is(err, errOverwritten) {
			return change.Verb, fmt.Errorf("%s the Schedule %s: %w", change.Verb, launch.ReconcileID(change.TaskQueue), err)
		}
		again, planErr := s.planReconciler(ctx, change.TaskQueue, change.every)
		if planErr != nil {
			return change.Verb, planErr
		}
		if err == nil && again.Verb == Unchanged {
			return change.Verb, nil
		}
		change = *again
	}
	return change.Verb, fmt.Errorf("%s the Schedule %s: %w, %d times in a row; apply again when nobody else does",
		change.Verb, launch.ReconcileID(change.TaskQueue), errOverwritten, settleAttempts)
}

func (s *Schedules) writeReconciler(ctx context.Context, change Reconciler) error {
	id := launch.ReconcileID(change.TaskQueue)
	if change.Verb == Create {
		_, err := s.temporal.WorkflowService().CreateSchedule(ctx, &workflowservice.CreateScheduleRequest{
			Namespace: s.temporal.Namespace, ScheduleId: id, Schedule: change.want, RequestId: uuid.NewString(),
		})
		if taken(err) {
			return errOverwritten
		}
		return err
	}
	next := proto.CloneOf(change.want)
	if change.current.Paused() {
		next.State.Paused, next.State.Notes = true, change.current.Notes()
	}
	_, err := s.temporal.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: id, Schedule: next, ConflictToken: change.current.token, RequestId: uuid.NewString(),
	})
	var mismatch *serviceerror.FailedPrecondition
	if errors.As(err, &mismatch) {
		return errOverwritten
	}
	return err
}

// ReleaseReconciler deletes the reconciler of a task queue on which no pipeline has its Schedule any more, and reports
// whether it did. Where somebody applies a pipeline to that queue at the same time, it is there again afterwards.
func (s *Schedules) ReleaseReconciler(ctx context.Context, taskQueue string) (bool, error) {
	id := launch.ReconcileID(taskQueue)
	current, err := s.Get(ctx, id)
	if err != nil || current == nil {
		return false, err
	}
	if used, err := s.serves(ctx, taskQueue); err != nil || used {
		return false, err
	}
	_, err = s.temporal.WorkflowService().DeleteSchedule(ctx, &workflowservice.DeleteScheduleRequest{Namespace: s.temporal.Namespace, ScheduleId: id})
	var missing *serviceerror.NotFound
	if err != nil && !errors.As(err, &missing) {
		return false, fmt.Errorf("delete the Schedule %s: %w", id, err)
	}
	used, err := s.serves(ctx, taskQueue)
	if err != nil || !used {
		return true, err
	}
	_, err = s.temporal.WorkflowService().CreateSchedule(ctx, &workflowservice.CreateScheduleRequest{
		Namespace: s.temporal.Namespace, ScheduleId: id, Schedule: current.Current, RequestId: uuid.NewString(),
	})
	if err != nil && !taken(err) {
		return true, fmt.Errorf("make the Schedule %s again: %w; `starter schedules apply` does", id, err)
	}
	return false, nil
}

// serves reports whether a pipeline has its Schedule on a task queue.
func (s *Schedules) serves(ctx context.Context, taskQueue string) (bool, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range names {
		// The list may still have what was deleted.
		found, err := s.Get(ctx, id)
		if err != nil {
			return false, err
		}
		if found != nil && found.TaskQueue() == taskQueue {
			return true, nil
		}
	}
	return false, nil
}

// taken reports whether a Schedule could not be created because one with its id is there.
func taken(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var exists *serviceerror.AlreadyExists
	return errors.As(err, &started) || errors.As(err, &exists)
}

// Every returns the interval of a Schedule that has one and nothing else, as reconcilers do; otherwise zero.
func (s *Schedule) Every() time.Duration {
	spec := s.Current.GetSpec()
	if len(spec.GetInterval()) != 1 || len(spec.GetStructuredCalendar()) > 0 {
		return 0
	}
	return spec.GetInterval()[0].GetInterval().AsDuration()
}

func (s *Schedules) reconciler(taskQueue string, every time.Duration) (*schedulepb.Schedule, error) {
	id := launch.ReconcileID(taskQueue)
	input, err := s.temporal.Converter.ToPayloads(workflows.ReconcileInput{TaskQueue: taskQueue})
	if err != nil {
		return nil, fmt.Errorf("encode the input of %s: %w", id, err)
	}
	summary, err := s.temporal.Converter.ToPayload("reconcile " + taskQueue)
	if err != nil {
		return nil, fmt.Errorf("encode the summary of %s: %w", id, err)
	}
	return &schedulepb.Schedule{
		Spec: &schedulepb.ScheduleSpec{Interval: []*schedulepb.IntervalSpec{{Interval: durationpb.New(every)}}},
		Action: &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{StartWorkflow: &workflow.NewWorkflowExecutionInfo{
			WorkflowId:   id,
			WorkflowType: &common.WorkflowType{Name: workflows.ReconcileType},
			TaskQueue:    &taskqueue.TaskQueue{Name: taskQueue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
			Input:        input,
			UserMetadata: &sdk.UserMetadata{Summary: summary},
			Priority:     &common.Priority{PriorityKey: launch.PriorityFirst},
		}}},
		// What is looked at late is looked at in the next round all the same.
		Policies: &schedulepb.SchedulePolicies{OverlapPolicy: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: durationpb.New(max(every, leastWindow))},
		State:    &schedulepb.ScheduleState{Notes: "starts what pipelines of task queue " + taskQueue + " lack"},
	}, nil
}

// leastWindow is the shortest catchup window that Temporal heeds: a shorter one counts as this (server v1.32.1).
const leastWindow = 10 * time.Second
