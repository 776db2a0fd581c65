package command

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// ExitError says how a program ended that did not end with success. Package retry classifies it by its
// exit code.
type ExitError struct {
	// Program is the name under which it was started.
	Program string
	// Code is the exit code, or −1 when a signal has ended the program.
	Code int
	// Signal is the name of that signal; empty when the program has exited by itself.
	Signal string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s was ended by a signal that was not sent by this worker: %s", e.Program, e.Signal)
	}
	return fmt.Sprintf("%s ended with exit code %d", e.Program, e.Code)
}

// ExitCode returns Code.
func (e *ExitError) ExitCode() int { return e.Code }

// exitError makes of what exec says of a child an error of ours, or nil.
func exitError(program string, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil // the latter: it has exited with 0, but somebody has kept its output open
	case !errors.As(err, &exit):
		return fmt.Errorf("wait for %s: %w", program, err)
	}
	failed := &ExitError{Program: program, Code: exit.ExitCode()}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		failed.Signal = status.Signal().String()
	}
	return failed
}
