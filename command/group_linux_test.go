package command

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestTheDeadDoNotRun: a program has ended, and nobody has asked for its end. Whoever stops a group does not wait for it.
func TestTheDeadDoNotRun(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "600")
	if err := setGroup(child); err != nil {
		t.Fatal(err)
	}
	child.SysProcAttr.Pdeathsig = 0 // it is tied to a thread that the test does not keep
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	group := child.Process.Pid
	if !groupRuns(group) {
		t.Error("the child runs, and its group does not")
	}
	signalGroup(group, syscall.SIGKILL)
	eventually(t, "the group runs no more", func() bool { return !groupRuns(group) })
	if syscall.Kill(-group, 0) != nil {
		t.Error("the child is gone before anybody has asked for its end: the test shows nothing")
	}
	if err := child.Wait(); err == nil {
		t.Error("the child has succeeded")
	}
	for stat, want := range map[string]bool{
		"7 (sleep) S 1 7 7 0": true, "7 (sl) eep) R 1 7 7": true, "7 (sleep) Z 1 7 7": false, "8 (sleep) S 1 8 8": false, "7 (sleep)": false, "": false,
	} {
		if got := runsIn([]byte(stat), 7); got != want {
			t.Errorf("%q runs in group 7: %v", stat, got)
		}
	}
}
