package retry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"syscall"
)

// The families of errors in the table.
const (
	FamilyHTTP    = "HTTP status"
	FamilySQL     = "SQLSTATE"
	FamilyNetwork = "network"
	FamilyContext = "context"
	FamilyFile    = "file"
	FamilyCommand = "program"
)

// Row is a line of the table that says what errors are worth. What no line matches is Permanent.
type Row struct {
	// Family says what kind of thing is matched.
	Family string
	// Match is what is matched, in words or as its code.
	Match string
	// Class and Type are the verdict. Type is empty for HTTP statuses, which the caller names.
	Class Class
	Type  string
	// Meaning says in a few words what has happened.
	Meaning string

	status  int  // of an HTTP answer
	limited bool // only where the answer itself says that it is about a limit
	is      func(error) bool
}

// Table returns every line, in the order in which they are asked.
func Table() []Row {
	return slices.Concat(statusRows(), contextRows(), stateRows(), networkRows(), fileRows(), commandRows())
}

// OfStatus returns the class of an HTTP answer by its status. limited says that the answer asks to stay away
// (Retry-After) or that it names a quota that is used up.
func OfStatus(status int, limited bool) Class {
	for _, row := range statusRows() {
		if row.status == status && (limited || !row.limited) {
			return row.Class
		}
	}
	return Permanent
}

func statusRows() []Row {
	row := func(status int, limited bool, class Class, meaning string) Row {
		match := strconv.Itoa(status)
		if limited {
			match += " with Retry-After or a quota that is used up"
		}
		return Row{Family: FamilyHTTP, Match: match, Class: class, Meaning: meaning, status: status, limited: limited}
	}
	return []Row{
		row(403, true, Throttled, "forbidden for now: a limit that the API does not tell apart from a refusal"),
		row(408, false, Transient, "request timeout"),
		row(425, false, Transient, "too early"),
		row(429, false, Throttled, "too many requests"),
		row(502, false, Transient, "bad gateway"),
		row(503, true, Throttled, "service unavailable, and it says until when"),
		row(503, false, Transient, "service unavailable"),
		row(504, false, Transient, "gateway timeout"),
	}
}

func contextRows() []Row {
	return []Row{
		{Family: FamilyContext, Match: "canceled", Class: Canceled, Type: TypeCanceled, Meaning: "somebody asked to stop", is: anyOf(context.Canceled)},
		{Family: FamilyContext, Match: "deadline exceeded", Class: Transient, Type: TypeTimeout, Meaning: "the step's own time limit", is: anyOf(context.DeadlineExceeded)},
	}
}

// stateRows lists the SQLSTATE codes and two-character classes that another try may cure (PostgreSQL 17,
// appendix A). SQLite's own codes are translated into these where they arise.
func stateRows() []Row {
	row := func(code, meaning string) Row {
		return Row{Family: FamilySQL, Match: code, Class: Transient, Type: TypeDatabase, Meaning: meaning}
	}
	return []Row{
		row("08", "connection exception"),
		row("25P03", "idle in transaction session timeout"),
		row("25P04", "transaction timeout"),
		row("40001", "serialization failure"),
		row("40003", "statement completion unknown; a load finds out by its receipt"),
		row("40P01", "deadlock detected"),
		row("53", "insufficient resources: connections, memory, disk"),
		row("55P03", "lock not available"),
		row("57014", "query canceled: a statement timeout or a cancel request"),
		row("57P01", "admin shutdown, which is also what a terminated session sees"),
		row("57P02", "crash shutdown"),
		row("57P03", "cannot connect now"),
		row("57P05", "idle session timeout"),
		row("58000", "system error"),
		row("58030", "I/O error; a file that is not there or cannot be opened, 58P01, stays permanent"),
	}
}

func ofSQLState(state string) Verdict {
	verdict := Verdict{Class: Permanent, Type: TypeDatabase}
	if len(state) != 5 {
		return verdict
	}
	for _, row := range stateRows() {
		if row.Match == state || row.Match == state[:2] {
			verdict.Class = row.Class
		}
	}
	return verdict
}

func networkRows() []Row {
	row := func(match string, class Class, kind, meaning string, is func(error) bool) Row {
		return Row{Family: FamilyNetwork, Match: match, Class: class, Type: kind, Meaning: meaning, is: is}
	}
	return []Row{
		row("timeout", Transient, TypeTimeout, "nothing came in time", isTimeout),
		row("unexpected end", Transient, TypeNetwork, "the connection ended in the middle of a message or a body", anyOf(io.ErrUnexpectedEOF)),
		row("reset, aborted, broken pipe, closed", Transient, TypeNetwork, "the connection broke",
			anyOf(syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, net.ErrClosed)),
		row("refused, unreachable, timed out", Transient, TypeNetwork, "no connection came about",
			anyOf(syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT)),
		row("no such host", Permanent, TypeNetwork, "the name server says that there is no such name", func(err error) bool {
			var dns *net.DNSError
			return errors.As(err, &dns) && dns.IsNotFound
		}),
		row("name server away", Transient, TypeNetwork, "the name could not be looked up", anyAs[*net.DNSError]),
		row("any other failure of a socket", Transient, TypeNetwork, "dialling, reading or writing", anyAs[*net.OpError]),
	}
}

func fileRows() []Row {
	row := func(match string, class Class, meaning string, targets ...error) Row {
		return Row{Family: FamilyFile, Match: match, Class: class, Type: TypeFile, Meaning: meaning, is: anyOf(targets...)}
	}
	return []Row{
		row("does not exist", Permanent, "a file step can say missing: wait", fs.ErrNotExist),
		row("permission denied, read-only", Permanent, "the worker may not", fs.ErrPermission, syscall.EROFS),
		row("too many open files", Transient, "the worker or its host is short of descriptors", syscall.EMFILE, syscall.ENFILE),
		row("no space left, quota exceeded", Transient, "as SQLSTATE 53", syscall.ENOSPC, syscall.EDQUOT),
		row("I/O error, stale handle", Transient, "a disk or a network file system; as SQLSTATE 58030", syscall.EIO, syscall.ESTALE),
	}
}

// tempFail is EX_TEMPFAIL of sysexits.h.
const tempFail = 75

// commandRows match what has the method of *exec.ExitError: the exit code, or a negative number when a signal
// has ended the program.
func commandRows() []Row {
	row := func(match string, class Class, kind, meaning string, is func(code int) bool) Row {
		return Row{Family: FamilyCommand, Match: match, Class: class, Type: kind, Meaning: meaning, is: func(err error) bool {
			var exit interface {
				error
				ExitCode() int
			}
			return errors.As(err, &exit) && is(exit.ExitCode())
		}}
	}
	return []Row{
		row("exit code 75", Transient, TypeExitCode, "EX_TEMPFAIL: the program asks for another try", func(code int) bool { return code == tempFail }),
		row("any other exit code", Permanent, TypeExitCode, "the program has failed", func(code int) bool { return code >= 0 }),
		row("ended by a signal", Transient, TypeSignal, "somebody else has ended it: the kernel for want of memory, an operator", func(code int) bool { return code < 0 }),
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func anyOf(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

func anyAs[E error](err error) bool {
	var found E
	return errors.As(err, &found)
}

// first returns the verdict of the first row that matches.
func first(rows []Row, err error) (Verdict, bool) {
	for _, row := range rows {
		if row.is(err) {
			return Verdict{Class: row.Class, Type: row.Type}, true
		}
	}
	return Verdict{}, false
}
