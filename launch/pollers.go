package launch

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// pollerAge is how long ago a worker may have asked for work and still count as there: a worker asks at least once a
// minute, which is how long Temporal holds an empty poll.
const pollerAge = 70 * time.Second

// Polled reports whether a worker polls a task queue for workflows. One that was killed counts for a minute more.
func (t *Temporal) Polled(ctx context.Context, queue string) (bool, error) {
	return t.polled(ctx, queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
}

// PolledForSteps is Polled for activities.
func (t *Temporal) PolledForSteps(ctx context.Context, queue string) (bool, error) {
	return t.polled(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
}

func (t *Temporal) polled(ctx context.Context, queue string, kind enums.TaskQueueType) (bool, error) {
	described, err := t.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: t.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: queue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: kind,
	})
	if err != nil {
		return false, fmt.Errorf("ask Temporal who polls task queue %s: %w", queue, err)
	}
	for _, poller := range described.GetPollers() {
		if time.Since(poller.GetLastAccessTime().AsTime()) < pollerAge {
			return true, nil
		}
	}
	return false, nil
}
