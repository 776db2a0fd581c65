package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/retry"
)

// cause returns what an error of a step is about: what the worker has said, or a limit after which Temporal has
// given up. The outer one counts: below a timeout Temporal keeps what the attempt before has said.
func cause(err error) (*temporal.ApplicationError, *temporal.TimeoutError) {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case *temporal.ApplicationError:
			return e, nil
		case *temporal.TimeoutError:
			return nil, e
		}
	}
	return nil, nil
}

// errorType returns the stable name of what went wrong. Whether the worker ends an attempt that takes too long, or
// Temporal does so a moment later, is the same to everybody.
func errorType(err error) string {
	application, timeout := cause(err)
	switch {
	case application != nil:
		return application.Type()
	case timeout == nil:
		return "Error"
	case timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT, timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return "TemporalTimeout:" + timeout.TimeoutType().String()
	default:
		return retry.TypeTimeout
	}
}

// reason returns one line for operators: the type and what happened.
func reason(err error) string {
	application, timeout := cause(err)
	switch {
	case application != nil:
		return application.Type() + ": " + application.Message()
	case timeout != nil:
		text := errorType(err) + ": " + limitOver(timeout.TimeoutType())
		if before := timeout.Unwrap(); before != nil {
			text += "; the attempt before: " + reason(before)
		}
		return text
	default:
		return err.Error()
	}
}

// notAgain says why a step that failed was not tried again; empty where the error says so itself.
func notAgain(err error) string {
	var failed *temporal.ActivityError
	if !errors.As(err, &failed) {
		return ""
	}
	switch failed.RetryState() {
	case enums.RETRY_STATE_NON_RETRYABLE_FAILURE:
		return " (not tried again: another try would fail in the same way, or the file says so)"
	case enums.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED:
		return " (not tried again: that was the last of maximum_attempts)"
	case enums.RETRY_STATE_TIMEOUT:
		if _, timeout := cause(err); timeout != nil && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE {
			return ""
		}
		return " (not tried again: schedule_to_close would be over)"
	default:
		return ""
	}
}

func limitOver(limit enums.TimeoutType) string {
	switch limit {
	case enums.TIMEOUT_TYPE_START_TO_CLOSE:
		return "the attempt took longer than its start_to_close"
	case enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE:
		return "the step's schedule_to_close was over"
	case enums.TIMEOUT_TYPE_HEARTBEAT:
		return "nothing was heard of the attempt for the step's heartbeat timeout: its worker was lost"
	default:
		return fmt.Sprintf("the step's %s timeout was over", limit)
	}
}

// attemptsOf returns how many attempts an activity's error stands for, of at most so many, as far as it tells;
// otherwise 0.
func attemptsOf(err error, most int) int {
	application, timeout := cause(err)
	var attempt int
	switch {
	case application != nil:
		if application.HasDetails() && application.Details(&attempt) == nil {
			return attempt
		}
	case timeout != nil:
		var ended *temporal.ActivityError
		if errors.As(err, &ended) && ended.RetryState() == enums.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED {
			return most
		}
		if before := attemptsOf(timeout.Unwrap(), most); before > 0 {
			return before + 1
		}
	}
	return 0
}
