package pipeline

import (
	"slices"
	"strings"
)

// errorTypes are the types of the errors of Tranche's own steps, that is of every kind but activity. Each stands in
// docs/operations.md, under Errors.
var errorTypes = []string{
	"BadAnswer", "BadInput", "BadPath", "BadPosition", "BadRecord", "BadRequest", "BadSource", "BadValue",
	"Canceled", "CheckFailed", "CircuitOpen", "CommandNotStarted", "Credentials", "CursorRejected", "Database",
	"EmptyReplace", "Error", "ExecNotAllowed", "ExitCode", "Fenced", "File", "FileMissing", "GridChanged",
	"HTTPStatus", "HostNotAllowed", "Interrupted", "Network", "NewerLedger", "NoUniqueKey", "OutsideInterval", "Pagination",
	"Panic", "RateLimited", "Redirect", "RowsLost", "Signal", "SourceChanged", "StagingLost", "Stale", "Storage",
	"TLS", "TableMismatch", "TableOwned", "Timeout", "Truncated", "UnexpectedBody", "UnknownConnection",
	"WaitTooLong", "WrongTaskQueue",
}

// temporalTimeout begins the types of the time limits that Temporal itself keeps, such as TemporalTimeout:Heartbeat.
const temporalTimeout = "TemporalTimeout:"

// ErrorTypes lists the types of the errors of Tranche's own steps, sorted.
func ErrorTypes() []string { return slices.Clone(errorTypes) }

// knownErrorType reports whether a step of Tranche's own kinds can fail with such an error.
func knownErrorType(name string) bool {
	return slices.Contains(errorTypes, name) || strings.HasPrefix(name, temporalTimeout)
}

// meantErrorType returns the type that a misspelt one probably means, or "".
func meantErrorType(name string) string {
	lower := make([]string, len(errorTypes))
	for i, known := range errorTypes {
		lower[i] = strings.ToLower(known)
	}
	if meant := suggest(name, lower); meant != "" {
		return errorTypes[slices.Index(lower, meant)]
	}
	return ""
}
