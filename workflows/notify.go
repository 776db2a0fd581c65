package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// For how long, and with which pauses, it is tried to deliver a message. What comes a day late helps nobody. The
// pauses are those that the activity asks for; the policy's own hold for attempts that were lost with their worker.
const (
	notifyPatience = 24 * time.Hour
	notifyAttempt  = 45 * time.Second
	notifyFirst    = time.Second
	notifyLongest  = 5 * time.Minute
)

// metricNotifications counts messages by how they have ended.
const metricNotifications = "tranche_notifications"

// NotifyInput is what Notify is started with: a step.Notification.
type NotifyInput struct {
	step.Notification

	unreadable error
}

// UnmarshalJSON decodes strictly, and keeps what this build cannot read as an error, as that of launch.Input does.
func (in *NotifyInput) UnmarshalJSON(data []byte) error {
	if in.unreadable = launch.Strictly(data, &in.Notification); in.unreadable == nil && in.Version > step.NotificationVersion {
		in.unreadable = fmt.Errorf("its version is %d, and this worker knows none above %d", in.Version, step.NotificationVersion)
	}
	return nil
}

// MarshalJSON writes the notification alone.
func (in NotifyInput) MarshalJSON() ([]byte, error) { return json.Marshal(in.Notification) }

// Notify delivers a message to a webhook. It fails when the receiver refuses it for good, or does not take it for a
// day. Nothing waits for it.
func Notify(ctx workflow.Context, input NotifyInput) error {
	if input.unreadable != nil {
		// A panic fails the workflow task, not the workflow: Temporal tries again until a worker
		// can read the input.
		panic(fmt.Sprintf("this notification needs a newer worker: %v", input.unreadable))
	}
	message := input.Message
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** of %s, interval %s, to the webhook %s\n", message.Event, message.Pipeline, message.Interval, input.Connection))
	trying := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              launch.ControlQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout:    notifyAttempt,
		ScheduleToCloseTimeout: notifyPatience,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: notifyFirst, BackoffCoefficient: 2, MaximumInterval: notifyLongest},
		Summary:                "tell " + input.Connection,
	})
	err := workflow.ExecuteActivity(trying, step.ActivityNotify, input.Notification).Get(ctx, nil)
	result := "delivered"
	switch {
	case temporal.IsCanceledError(err):
		result = "cancelled"
	case err != nil:
		result = "failed"
		workflow.GetLogger(ctx).Error("a notification was not delivered, and is not tried again", "pipeline", message.Pipeline,
			"notification", message.ID, "reason", reason(err))
	}
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"pipeline": message.Pipeline, "event": message.Event, "result": result}).
		Counter(metricNotifications).Inc(1)
	return err
}
