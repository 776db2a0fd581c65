// Package command runs a program in a process group of its own, and leaves nothing of that group behind.
//
// It knows neither pipelines nor Temporal: what the program is told, and what its end means for a step, is
// decided by package activities. It runs no shell. On systems without process groups every program is
// refused.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// TypeNotStarted is the type of the error of a program that could not be started.
const TypeNotStarted = "CommandNotStarted"

// drainTime is how long the output of a program that has ended is still read: what it has started may hold
// the other end, and write to it, for ever.
const drainTime = 2 * time.Second

// groupTick is how often it is looked whether a group that was asked to end is gone.
const groupTick = 20 * time.Millisecond

// Program is what is to be run.
type Program struct {
	// Command is the program and its arguments. A name without a slash is looked up in PATH of this process;
	// a relative one is relative to Folder.
	Command []string
	// Environment is all that the program gets, as NAME=value; nothing is added from this process.
	Environment []string
	// Folder is where it runs. Empty: where this process runs.
	Folder string
	// Grace is how long the group has between the request to end (SIGTERM) and SIGKILL. Zero: SIGKILL
	// follows at once.
	Grace time.Duration
}

// Output is the end of what a program has written.
type Output struct {
	Stdout, Stderr Tail
}

// Run runs the program to its end, with an empty standard input. The error is nil if it exits with 0.
//
// When ctx ends, the whole group is asked to end, and killed after Grace; the error is then that of the
// context (its cause), whatever the exit code. What the program has left running in its group when it ends by
// itself is killed. A process that has made itself a group or a session of its own is not reached. Otherwise the
// error is an *ExitError, or one of the type CommandNotStarted.
//
// If this process is killed, so is the program on Linux, but not what the program has started; on other systems
// neither is.
func (p Program) Run(ctx context.Context) (Output, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return Output{}, retry.Permanentf(TypeNotStarted, "run a program: none is named")
	}
	if ctx.Err() != nil {
		return Output{}, fmt.Errorf("run %s: %w", p.Command[0], context.Cause(ctx))
	}
	var stdout, stderr tail
	child := exec.Command(p.Command[0], p.Command[1:]...)
	child.Env = append([]string{}, p.Environment...) // nil would be the environment of this process
	child.Dir = p.Folder
	child.Stdout, child.Stderr = &stdout, &stderr
	child.WaitDelay = drainTime
	ended, err := start(child)
	if err != nil {
		return Output{}, p.notStarted(err)
	}
	err = p.await(ctx, child.Process.Pid, ended)
	return Output{stdout.read(), stderr.read()}, err
}

// start starts the child in a group of its own. The channel gets what waiting for it answers.
//
// Linux ends the child when the thread that has started it ends (prctl(2), PR_SET_PDEATHSIG), and Go ends
// threads that it no longer needs: so the goroutine keeps its thread for as long as the child runs.
func start(child *exec.Cmd) (<-chan error, error) {
	if err := setGroup(child); err != nil {
		return nil, err
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := child.Start()
		started <- err
		if err == nil {
			ended <- child.Wait()
		}
	}()
	return ended, <-started
}

// await waits for the end of the program, or brings it about when ctx ends.
func (p Program) await(ctx context.Context, group int, ended <-chan error) error {
	select {
	case err := <-ended:
		signalGroup(group, syscall.SIGKILL)
		return exitError(p.Command[0], err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(p.Grace)
	defer grace.Stop()
	signalGroup(group, syscall.SIGTERM)
	running := ended
	tick := time.NewTicker(groupTick)
	defer tick.Stop()
	for running != nil || groupRuns(group) {
		select {
		case <-running:
			running = nil
			continue
		case <-tick.C:
			continue
		case <-grace.C:
			signalGroup(group, syscall.SIGKILL)
		}
		if running != nil {
			<-running
		}
		break
	}
	return fmt.Errorf("%s was stopped: %w", p.Command[0], context.Cause(ctx))
}

// notStarted says whether another try is worth it: only where the host is short of something.
func (p Program) notStarted(err error) error {
	err = fmt.Errorf("start %s: %w", p.Command[0], err)
	for _, short := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, short) {
			return retry.TransientError(TypeNotStarted, err)
		}
	}
	switch info, lost := os.Stat(p.Folder); { // the system blames the program for a folder that is not there
	case p.Folder != "" && lost != nil:
		err = fmt.Errorf("start %s: the folder to run it in, on the worker's host: %w", p.Command[0], lost)
	case p.Folder != "" && !info.IsDir():
		err = fmt.Errorf("start %s: %s, where it is to run on the worker's host, is no folder", p.Command[0], p.Folder)
	case errors.Is(err, exec.ErrNotFound):
		err = fmt.Errorf("%w: install it on the worker's host, or write its whole path", err)
	case errors.Is(err, fs.ErrNotExist) && p.Folder != "" && !filepath.IsAbs(p.Command[0]):
		err = fmt.Errorf("%w: it is looked up in the folder that the program runs in, %s: write its whole path, or set the folder", err, p.Folder)
	}
	return retry.PermanentError(TypeNotStarted, err)
}
