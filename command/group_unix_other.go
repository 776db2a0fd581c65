//go:build unix && !linux

package command

import "syscall"

// attributes are none: the child survives when this process is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
