package command

import "syscall"

// attributes has the kernel kill the child when the thread that has started it ends, which it does when this
// process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
