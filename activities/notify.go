package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

// StartNotification starts the workflow that delivers a message of a run. One that was started before is not started
// again.
func (a *Activities) StartNotification(ctx context.Context, ask step.NotificationAsk) error {
	started, err := a.temporal.Notify(ctx, ask.TaskQueue, ask.Notification)
	if err != nil {
		return a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), temporalError(err))
	}
	activity.GetLogger(ctx).Info("a notification is on its way", "pipeline", ask.Notification.Message.Pipeline, "notification", started.WorkflowID)
	return nil
}

// Pauses between tries to deliver a message.
const (
	notifyFirst   = time.Second
	notifyLongest = 5 * time.Minute
	notifyJitter  = 0.25
)

// Notify delivers a message once. A try that fails for a while is an error which is worth another one; what the
// receiver will never take, or a connection that is none, is permanent.
func (a *Activities) Notify(ctx context.Context, n step.Notification) error {
	err := a.notify(ctx, n)
	if err == nil {
		return nil
	}
	attempt := int(activity.GetInfo(ctx).Attempt)
	verdict := retry.Classify(err)
	if verdict.Class == retry.Canceled {
		// The worker stops. The message goes to another one.
		verdict = retry.Verdict{Class: retry.Transient, Type: verdict.Type}
	}
	reason := connection.Line(a.connections.Mask(err.Error()), errorLimit)
	options := temporal.ApplicationErrorOptions{NonRetryable: verdict.Class == retry.Permanent}
	if !options.NonRetryable {
		policy := retry.Policy{Initial: notifyFirst, Coefficient: 2, Maximum: notifyLongest, Jitter: notifyJitter}
		options.NextRetryDelay = max(verdict.After, policy.Delay(attempt, a.random()))
		activity.GetLogger(ctx).Warn("a notification was not delivered; it is tried again", "pipeline", n.Message.Pipeline,
			"notification", n.Message.ID, "reason", reason, "again_after", options.NextRetryDelay.String())
	}
	return temporal.NewApplicationErrorWithOptions(reason, verdict.Type, options)
}

func (a *Activities) notify(ctx context.Context, n step.Notification) error {
	webhook, err := a.connections.Webhook(n.Connection)
	if err != nil {
		return err
	}
	message := a.cleaned(n.Message)
	message.Link = link(webhook, a.temporal.Namespace, message)
	err = webhook.Send(ctx, connection.Message{
		ID: message.ID, Title: title(message), Quote: quote(message), Lines: lines(message), Link: message.Link,
		Fields: func(text string) any {
			message.Text = text
			return message
		},
	})
	if err != nil {
		return fmt.Errorf("tell of a %s of %s: %w", message.Event, message.Pipeline, err)
	}
	return nil
}

// cleaned takes secrets and what cannot be printed out of the texts that others wrote.
func (a *Activities) cleaned(m step.Message) step.Message {
	for _, text := range []*string{&m.Description, &m.Owner, &m.ErrorType, &m.Reason} {
		*text = connection.Line(a.connections.Mask(*text), errorLimit)
	}
	return m
}

// link leads to the run in Temporal's UI or, where the message is about no single run, to the pipeline's Schedule.
func link(webhook *connection.Webhook, namespace string, m step.Message) string {
	if m.RunID == "" {
		return webhook.Link("namespaces", namespace, "schedules", m.Pipeline)
	}
	return webhook.Link("namespaces", namespace, "workflows", m.WorkflowID, m.RunID, "history")
}
