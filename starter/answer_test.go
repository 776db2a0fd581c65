package main

import (
	"errors"
	"fmt"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
)

func TestWaitsForWorker(t *testing.T) {
	t.Parallel()
	task := func(state enums.PendingWorkflowTaskState) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{PendingWorkflowTask: &workflow.PendingWorkflowTaskInfo{State: state}}
	}
	activity := func(state enums.PendingActivityState, attempt int32) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflow.PendingActivityInfo{{State: state, Attempt: attempt}}}
	}
	for name, c := range map[string]struct {
		described *workflowservice.DescribeWorkflowExecutionResponse
		want      bool
	}{
		"nobody takes the workflow":       {task(enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED), true},
		"somebody has taken the workflow": {task(enums.PENDING_WORKFLOW_TASK_STATE_STARTED), false},
		"nobody takes the activity":       {activity(enums.PENDING_ACTIVITY_STATE_SCHEDULED, 1), true},
		"the activity is at work":         {activity(enums.PENDING_ACTIVITY_STATE_STARTED, 1), false},
		"the activity is tried again":     {activity(enums.PENDING_ACTIVITY_STATE_SCHEDULED, 2), false},
		"nothing is pending":              {&workflowservice.DescribeWorkflowExecutionResponse{}, false},
	} {
		if got := waitsForWorker(c.described); got != c.want {
			t.Errorf("%s: waits for a worker is %t", name, got)
		}
	}
}

// What an activity says is shown without the words in which Temporal passes it on.
func TestPlainly(t *testing.T) {
	t.Parallel()
	said := temporal.NewApplicationError("warehouse main does not answer", "Unreachable")
	if got := plainly(fmt.Errorf("workflow execution error: %w", said)); got.Error() != "warehouse main does not answer" {
		t.Errorf("it is shown as %q", got)
	}
	other := errors.New("another error")
	if got := plainly(other); got != other || plainly(nil) != nil {
		t.Errorf("another error is shown as %v", got)
	}
}
