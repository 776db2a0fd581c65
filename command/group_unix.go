//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// setGroup has the child make a process group of its own, whose number is that of the child.
func setGroup(child *exec.Cmd) error {
	child.SysProcAttr = attributes()
	child.SysProcAttr.Setpgid = true
	return nil
}

// signalGroup sends a signal to all of the group. That nobody is left is no failure.
func signalGroup(group int, signal syscall.Signal) { _ = syscall.Kill(-group, signal) }
