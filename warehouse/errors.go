package warehouse

import (
	"context"
	"errors"
	"fmt"

	"github.com/trancheflow/tranche/retry"
)

// Type names of the errors that this package gives; the package comment says what each means.
const (
	TypeBadValue        = "BadValue"
	TypeOutsideInterval = "OutsideInterval"
	TypeCheckFailed     = "CheckFailed"
	TypeFenced          = "Fenced"
	TypeTableOwned      = "TableOwned"
	TypeGridChanged     = "GridChanged"
	TypeStale           = "Stale"
	TypeEmptyReplace    = "EmptyReplace"
	TypeNoUniqueKey     = "NoUniqueKey"
	TypeTableMismatch   = "TableMismatch"
	TypeBadRequest      = "BadRequest"
	TypeNewerLedger     = "NewerLedger"
	TypeStagingLost     = "StagingLost"
	TypeRowsLost        = "RowsLost"
)

func permanent(kind, format string, args ...any) error {
	return retry.PermanentError(kind, fmt.Errorf(format, args...))
}

func transient(kind, format string, args ...any) error {
	return retry.TransientError(kind, fmt.Errorf(format, args...))
}

// isType reports whether err is a retry.Error of the given type.
func isType(err error, kind string) bool {
	var known *retry.Error
	return errors.As(err, &known) && known.Type == kind
}

// ValueError says which value was refused, and why. Its text never holds the value.
type ValueError struct {
	// Row is the number of the row in the source, from 1.
	Row int64
	// Column is the declared name, and Declared the declared type.
	Column, Declared string
	// Reason completes the sentence "the value ...".
	Reason string

	value []byte // goes to the ledger's rejects and nowhere else
}

// Error names row, column, type and reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("row %d, column %q (%s): the value %s", e.Row, e.Column, e.Declared, e.Reason)
}

// DatabaseError is an error of the database in neutral words: rows are never part of it.
type DatabaseError struct {
	// State is the SQLSTATE. For SQLite it is the one that PostgreSQL would give.
	State string
	// Message is ours, or the database's where that cannot hold a row.
	Message string
}

// Error returns message and SQLSTATE.
func (e *DatabaseError) Error() string { return e.Message + " (SQLSTATE " + e.State + ")" }

// SQLState returns the SQLSTATE, by which retry.Classify decides whether another try may help.
func (e *DatabaseError) SQLState() string { return e.State }

// stateMeanings are neutral words for states whose message could hold a row's values
// (PostgreSQL 15, appendix A).
var stateMeanings = map[string]string{
	"21000": "one row would be affected twice",
	"22001": "a text is too long for its column",
	"22003": "a number is out of its column's range",
	"22021": "a text is not valid in the database's encoding",
	"22P02": "a value is not valid for its column's type",
	"23000": "a constraint does not hold",
	"23502": "a NOT NULL constraint does not hold",
	"23503": "a foreign key does not hold",
	"23505": "a unique constraint does not hold",
	"23514": "a CHECK constraint does not hold",
	"23P01": "an exclusion constraint does not hold",
	"44000": "a row is outside its view or policy",
	"P0001": "a trigger or function refused",
}

// wordyClasses are the SQLSTATE classes whose messages speak of sessions, names and resources.
var wordyClasses = map[string]bool{
	"08": true, "25": true, "28": true, "3D": true, "3F": true, "40": true, "42": true,
	"53": true, "54": true, "55": true, "57": true, "58": true,
}

// meaning returns what may be said of an error with this state.
func meaning(state, message string) string {
	if neutral, ok := stateMeanings[state]; ok {
		return neutral
	}
	if len(state) == 5 && wordyClasses[state[:2]] {
		return message
	}
	return "the database refused"
}

// stopped prefers the context's own reason to whatever a driver made of it.
func stopped(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		var known *retry.Error
		if !errors.As(err, &known) {
			return cause
		}
	}
	return err
}
