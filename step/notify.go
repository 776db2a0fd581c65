package step

import (
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Names of the activity types that tell people of what happens to runs.
const (
	// ActivityStartNotification starts the workflow that delivers a message.
	ActivityStartNotification = "start-notification"
	// ActivityNotify delivers it.
	ActivityNotify = "notify"
)

// NotificationVersion is the newest version of a notification that this build understands. It grows when the same
// input would lead to other commands.
const NotificationVersion = 1

// Notification is what the workflow that delivers a message is started with. It holds facts only: no rows, and no
// secrets.
type Notification struct {
	// Version of the notification; NotificationVersion.
	Version int `json:"version"`
	// Connection names the webhook.
	Connection string  `json:"connection"`
	Message    Message `json:"message"`
}

// MessageVersion is the version of what a webhook of the shape json gets. It grows when a field changes its meaning
// or goes; new ones may come without it.
const MessageVersion = 1

// Message is what people are told, and what a webhook of the shape json gets.
type Message struct {
	// Version is MessageVersion.
	Version int `json:"version"`
	// ID names the message: each event has one, and each try to deliver it has the same.
	ID string `json:"id"`
	// Event is "failure", "deadline" or "recovery".
	Event string `json:"event"`
	// Text says it in a few lines. It and Link are set when the message is delivered.
	Text string `json:"text,omitempty"`
	// Pipeline with what its file says of it.
	Pipeline    string `json:"pipeline"`
	Description string `json:"description,omitempty"`
	Owner       string `json:"owner,omitempty"`
	// Timezone is the pipeline's zone, in which people name its intervals.
	Timezone string `json:"timezone"`
	// Interval is the one that it is about or, of several, the first one: Count says how many there are, and
	// LastInterval is the last of them.
	Interval     interval.Interval  `json:"interval"`
	Count        int                `json:"count,omitempty"`
	LastInterval *interval.Interval `json:"last_interval,omitempty"`
	// Kind of the run, its workflow id and its run id; a missed deadline has none.
	Kind       Kind   `json:"kind,omitempty"`
	WorkflowID string `json:"workflow_id,omitempty"`
	RunID      string `json:"run_id,omitempty"`
	// Step that failed, after so many attempts, and why: the type of the error and its text, without secrets.
	Step      string `json:"step,omitempty"`
	Attempts  int    `json:"attempts,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// Rows that a run which has recovered its interval has written.
	Rows *int64 `json:"rows,omitempty"`
	// Deadline that was missed.
	Deadline pipeline.Duration `json:"deadline,omitempty"`
	// Link leads to the run, or to the pipeline's Schedule, in Temporal's UI; empty where nobody has said where
	// that is.
	Link string `json:"link,omitempty"`
	// OccurredAt is when it was found out, by the server's clock or a worker's.
	OccurredAt time.Time `json:"occurred_at"`
}

// NotificationAsk has a message delivered. Asking twice delivers it once.
type NotificationAsk struct {
	// TaskQueue is where the workflow runs that delivers it.
	TaskQueue    string       `json:"task_queue"`
	Notification Notification `json:"notification"`
}

// About is a message about a pipeline, as far as that is known from its definition.
func About(definition *pipeline.Pipeline, event string) Message {
	return Message{
		Version: MessageVersion, Event: event, Pipeline: definition.Name, Description: definition.Description,
		Owner: definition.Owner, Timezone: definition.Schedule.Timezone,
	}
}
