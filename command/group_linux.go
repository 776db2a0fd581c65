package command

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// attributes has the kernel kill the child when the thread that has started it ends, which it does when this
// process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// groupRuns says whether anybody of the group still runs. Those who have ended, and whose end nobody has asked for, do
// not: in a container without an init process that may be for ever.
func groupRuns(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, process := range processes {
		if _, err := strconv.Atoi(process.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + process.Name() + "/stat")
		if err == nil && runsIn(stat, group) {
			return true
		}
	}
	return false
}

// runsIn reads proc_pid_stat(5): after the name in brackets come the state, the parent and the group.
func runsIn(stat []byte, group int) bool {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return false
	}
	return string(fields[2]) == strconv.Itoa(group)
}
