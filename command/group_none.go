//go:build !unix

package command

import (
	"errors"
	"os/exec"
	"syscall"
)

// setGroup refuses: what could not be ended must not be started.
func setGroup(*exec.Cmd) error {
	return errors.New("this system has no process groups, so the program could not be stopped: run the step on a worker on Linux, macOS or BSD")
}

func signalGroup(int, syscall.Signal) {}

func groupRuns(int) bool { return false }
