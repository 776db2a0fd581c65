// Package retry says which failures deserve another try, and when.
//
// It is pure: it reads no clock, draws no random number and knows no driver. What it is told about
// an error it reads from the error itself, through small interfaces that drivers already have.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class says what another try would be good for.
type Class uint8

const (
	// Permanent failures end a step at once: the same input fails in the same way.
	// It is the zero value, since only errors that are known to be transient are tried again.
	Permanent Class = iota
	// Transient failures are worth another try after a pause.
	Transient
	// Throttled is no failure: "not now, come back after this long".
	Throttled
	// Canceled means that somebody asked to stop.
	Canceled
)

// String returns the class as it stands in documents and logs.
func (c Class) String() string {
	switch c {
	case Transient:
		return "transient"
	case Throttled:
		return "throttled"
	case Canceled:
		return "canceled"
	default:
		return "permanent"
	}
}

// Error is an error whose class and stable type name are known where it arises.
type Error struct {
	// Class of the failure.
	Class Class
	// Type is the stable name that operators see in Temporal and that a pipeline file may list
	// under non_retryable_error_types, for example "CheckFailed".
	Type string
	// After is how long the other side asked us to stay away; zero when it did not say.
	After time.Duration
	// Err says what was attempted, on what, and what to do.
	Err error
}

// Error returns the text of the wrapped error: the type is shown beside it wherever errors are shown.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// PermanentError marks an error for which another try is pointless.
func PermanentError(kind string, err error) error {
	return &Error{Class: Permanent, Type: kind, Err: err}
}

// TransientError marks an error that is worth another try.
func TransientError(kind string, err error) error {
	return &Error{Class: Transient, Type: kind, Err: err}
}

// ThrottledError marks an answer that says "not now"; after is zero when it did not say how long.
func ThrottledError(kind string, after time.Duration, err error) error {
	return &Error{Class: Throttled, Type: kind, After: after, Err: err}
}

// Permanentf is PermanentError over fmt.Errorf.
func Permanentf(kind, format string, args ...any) error {
	return PermanentError(kind, fmt.Errorf(format, args...))
}

// Verdict is what is known about an error.
type Verdict struct {
	// Class of the failure.
	Class Class
	// Type is the stable name of the kind of error; never empty.
	Type string
	// After is how long the other side asked us to stay away; zero when it did not say.
	After time.Duration
}

// Type names of errors that no room names itself.
const (
	TypeCanceled     = "Canceled"
	TypeTimeout      = "Timeout"
	TypeNetwork      = "Network"
	TypeDatabase     = "Database"
	TypeFile         = "File"
	TypeExitCode     = "ExitCode"
	TypeSignal       = "Signal"
	TypeUnclassified = "Error"
)

// Classify says what is known about err. A nil error is Permanent with an empty type.
//
// An *Error anywhere in the chain decides. Otherwise the [Table] is asked, which is an allow-list of what is
// worth another try. Everything else is permanent.
func Classify(err error) Verdict {
	if err == nil {
		return Verdict{}
	}
	var known *Error
	if errors.As(err, &known) {
		return Verdict{Class: known.Class, Type: known.Type, After: known.After}
	}
	// A cancel is asked before the database and a deadline after it: a driver wraps the context's error
	// when it was canceled, and knows more than the context when it was not.
	if errors.Is(err, context.Canceled) {
		return Verdict{Class: Canceled, Type: TypeCanceled}
	}
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return ofSQLState(state.SQLState())
	}
	for _, rows := range [][]Row{contextRows(), networkRows(), fileRows(), commandRows()} {
		if verdict, found := first(rows, err); found {
			return verdict
		}
	}
	return Verdict{Class: Permanent, Type: TypeUnclassified}
}
