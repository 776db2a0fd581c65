//go:build unix && !linux

package command

import "syscall"

// attributes are none: the child survives when this process is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// groupRuns says whether anybody is left of the group, be it somebody whose end nobody has asked for yet.
func groupRuns(group int) bool { return syscall.Kill(-group, 0) == nil }
