package retry

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

type sqlError string

func (e sqlError) Error() string    { return "database says " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

type exitCode int

func (e exitCode) Error() string { return "the program ends" }
func (e exitCode) ExitCode() int { return int(e) }

func TestClassify(t *testing.T) {
	t.Parallel()
	throttled := ThrottledError("RateLimited", 3*time.Second, errors.New("429"))
	for name, test := range map[string]struct {
		err  error
		want Verdict
	}{
		"nothing":                    {nil, Verdict{}},
		"unknown":                    {errors.New("odd"), Verdict{Permanent, TypeUnclassified, 0}},
		"marked permanent":           {fmt.Errorf("load: %w", Permanentf("CheckFailed", "no rows")), Verdict{Permanent, "CheckFailed", 0}},
		"marked transient":           {TransientError("StagingLost", io.EOF), Verdict{Transient, "StagingLost", 0}},
		"marked wins over cause":     {PermanentError("BadValue", context.DeadlineExceeded), Verdict{Permanent, "BadValue", 0}},
		"throttled":                  {fmt.Errorf("get: %w", throttled), Verdict{Throttled, "RateLimited", 3 * time.Second}},
		"canceled":                   {fmt.Errorf("x: %w", context.Canceled), Verdict{Canceled, TypeCanceled, 0}},
		"deadline":                   {context.DeadlineExceeded, Verdict{Transient, TypeTimeout, 0}},
		"file deadline":              {os.ErrDeadlineExceeded, Verdict{Transient, TypeTimeout, 0}},
		"reset":                      {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, Verdict{Transient, TypeNetwork, 0}},
		"refused":                    {syscall.ECONNREFUSED, Verdict{Transient, TypeNetwork, 0}},
		"short body":                 {fmt.Errorf("page 3: %w", io.ErrUnexpectedEOF), Verdict{Transient, TypeNetwork, 0}},
		"no such host":               {&net.DNSError{IsNotFound: true}, Verdict{Permanent, TypeNetwork, 0}},
		"name server away":           {&net.DNSError{IsTemporary: true}, Verdict{Transient, TypeNetwork, 0}},
		"serialization":              {sqlError("40001"), Verdict{Transient, TypeDatabase, 0}},
		"deadlock":                   {sqlError("40P01"), Verdict{Transient, TypeDatabase, 0}},
		"connection class":           {sqlError("08006"), Verdict{Transient, TypeDatabase, 0}},
		"shutdown":                   {sqlError("57P01"), Verdict{Transient, TypeDatabase, 0}},
		"not null":                   {sqlError("23502"), Verdict{Permanent, TypeDatabase, 0}},
		"undefined column":           {sqlError("42703"), Verdict{Permanent, TypeDatabase, 0}},
		"not an SQLSTATE":            {sqlError("8"), Verdict{Permanent, TypeDatabase, 0}},
		"transaction timeout":        {sqlError("25P04"), Verdict{Transient, TypeDatabase, 0}},
		"invalid password":           {sqlError("28P01"), Verdict{Permanent, TypeDatabase, 0}},
		"no such server file":        {sqlError("58P01"), Verdict{Permanent, TypeDatabase, 0}},
		"canceled by the context":    {fmt.Errorf("%w: %w", sqlError("57014"), context.Canceled), Verdict{Canceled, TypeCanceled, 0}},
		"no such file":               {&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, Verdict{Permanent, TypeFile, 0}},
		"not allowed":                {&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, Verdict{Permanent, TypeFile, 0}},
		"too many open files":        {&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, Verdict{Transient, TypeFile, 0}},
		"disk full":                  {&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, Verdict{Transient, TypeFile, 0}},
		"stale handle":               {&fs.PathError{Op: "read", Path: "x", Err: syscall.ESTALE}, Verdict{Transient, TypeFile, 0}},
		"a socket that is not there": {&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}, Verdict{Transient, TypeNetwork, 0}},
		"program failed":             {fmt.Errorf("step: %w", exitCode(1)), Verdict{Permanent, TypeExitCode, 0}},
		"program asks to try again":  {exitCode(75), Verdict{Transient, TypeExitCode, 0}},
		"program was killed":         {exitCode(-1), Verdict{Transient, TypeSignal, 0}},
		"end of file is not broken":  {io.EOF, Verdict{Permanent, TypeUnclassified, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(test.err); got != test.want {
				t.Errorf("Classify(%v) = %+v, want %+v", test.err, got, test.want)
			}
		})
	}
}

func TestOfStatus(t *testing.T) {
	t.Parallel()
	for status := 100; status < 600; status++ {
		want, limited := Permanent, Permanent
		switch status {
		case 408, 425, 502, 504:
			want, limited = Transient, Transient
		case 429:
			want, limited = Throttled, Throttled
		case 503:
			want, limited = Transient, Throttled
		case 403:
			limited = Throttled
		}
		if got := OfStatus(status, false); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
		if got := OfStatus(status, true); got != limited {
			t.Errorf("%d with a limit: %v, want %v", status, got, limited)
		}
	}
}

var update = flag.Bool("update", false, "write docs/errors.md anew where it shows the table")

// The document shows the table as it is.
func TestTableIsDocumented(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/errors.md", "<!-- table -->\n", "<!-- end of table -->\n"
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	var table strings.Builder
	table.WriteString("| what | match | class | type | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range Table() {
		kind := "`" + row.Type + "`"
		if row.Type == "" {
			kind = "`HTTPStatus`"
			if row.Class == Throttled {
				kind = "`RateLimited`"
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", row.Family, row.Match, row.Class, kind, row.Meaning)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(document) != want {
		t.Errorf("%s does not show the table of package retry: run go test ./retry -update", path)
	}
}
