package interval

import (
	"strconv"
	"strings"
)

// The codes of [Error]. They are stable: scripts and tests may compare them.
const (
	CodeBadCron         = "bad-cron"          // cron text that is not valid
	CodeNotSupported    = "not-supported"     // valid in some other cron, not here; the message says what to write
	CodeNeverFires      = "never-fires"       // a valid schedule without a single tick
	CodeUnknownTimeZone = "unknown-time-zone" // no such name in the pinned database
	CodeBadEvery        = "bad-every"         // not a positive number of whole seconds, or without a start
	CodeBadStart        = "bad-start"         // a start with a fraction of a second, or out of range
	CodeBadEnd          = "bad-end"           // an end that is not after the start
	CodeMissingCron     = "missing-cron"      // neither cron nor every
	CodeCronAndEvery    = "cron-and-every"    // both

	CodeBadTime         = "bad-time"         // ParseInstant: not a date or time, or one that no calendar has
	CodeNonexistentTime = "nonexistent-time" // ParseInstant: the local clock never shows it
	CodeAmbiguousTime   = "ambiguous-time"   // ParseInstant: the local clock shows it twice

	CodeNoInterval = "no-interval" // StartingAt: no interval starts at this instant
)

// The values of [Error.Field].
const (
	FieldCron     = "cron"
	FieldEvery    = "every"
	FieldTimeZone = "timezone"
	FieldStart    = "start"
	FieldEnd      = "end"
)

// Error is one thing that is wrong, in a form from which a caller can make its own report.
type Error struct {
	Code    string // one of the Code constants
	Field   string // the part of a Spec that is wrong, one of the Field constants; "" outside of New
	Column  int    // 1-based, in characters of Spec.Cron or of ParseInstant's text; 0 when no single place is wrong
	Message string // what is wrong and what would be right; a whole sentence without file names
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errors is everything that is wrong with a Spec, in the order of its fields. It is never empty when
// it is returned as an error. [errors.As] with a *Error finds the first.
type Errors []*Error

// Error joins the messages with "; ".
func (e Errors) Error() string {
	messages := make([]string, len(e))
	for i, one := range e {
		messages[i] = one.Message
	}
	return strings.Join(messages, "; ")
}

// Unwrap lets errors.Is and errors.As look at each of the errors.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, one := range e {
		list[i] = one
	}
	return list
}

// excerpt quotes a text for a message, and cuts it when it is longer than any valid one.
func excerpt(text string) string {
	const longest = 80
	for i := range text {
		if i >= longest {
			return strconv.Quote(text[:i]) + "..."
		}
	}
	return strconv.Quote(text)
}
