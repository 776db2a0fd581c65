// Package stack runs the programs of Tranche as real processes, for the demo and for the tests of
// the whole system: the Temporal server, the worker, the shop API and the starter.
package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Ready is what a program writes to its ready file once it can be used.
type Ready struct {
	// Address where it serves, host:port.
	Address string `json:"address"`
	// UI is the URL of the Temporal UI; empty for programs without.
	UI string `json:"ui,omitempty"`
	// PID of the process.
	PID int `json:"pid"`
}

// Process is a program that was started.
type Process struct {
	// Name for messages.
	Name string
	// Ready is what it said once it could be used.
	Ready Ready
	// Log is the file that holds its output.
	Log string

	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Spec says what to start.
type Spec struct {
	// Name for messages and the files' names.
	Name string
	// Program is the path of the binary, Args its arguments without the ready file.
	Program string
	Args    []string
	// Environment replaces the process's own; nil means the caller's.
	Environment []string
	// Dir receives the log and the ready file.
	Dir string
}

// readyTimeout bounds how long a program may take until it can be used, on a busy machine.
const readyTimeout = 90 * time.Second

// pollInterval is how often the ready file is looked for.
const pollInterval = 20 * time.Millisecond

// Start starts a program and waits until it says that it can be used.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	output, err := os.CreateTemp(spec.Dir, spec.Name+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, Log: output.Name(), ended: make(chan struct{})}
	ready := strings.TrimSuffix(p.Log, ".log") + ".ready"
	defer output.Close()
	p.command = exec.Command(spec.Program, append(spec.Args, "--ready-file", ready)...)
	p.command.Env, p.command.Stdout, p.command.Stderr = spec.Environment, output, output
	// A signal that the terminal sends to the caller's group is the caller's to pass on.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	if err := p.await(ctx, ready); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// await waits for the ready file.
func (p *Process) await(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &p.Ready) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, ctx.Err(), p.Tail())
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.Name, p.err, p.Tail())
		case <-ticker.C:
		}
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ID returns the id of the process.
func (p *Process) ID() int { return p.command.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.command.Process.Signal(signal) }

// Kill ends the process as kill -9 does, and waits for it.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Stop asks the process to end and waits for it; it returns its exit code. One that does not end in
// time is killed, which is an error.
func (p *Process) Stop(timeout time.Duration) (int, error) {
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode(), nil
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop %s: %w", p.Name, err)
	}
	return p.Wait(timeout)
}

// Wait waits for the process to end by itself; it returns its exit code. One that does not end in
// time is killed, which is an error.
func (p *Process) Wait(timeout time.Duration) (int, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode(), nil
	case <-timer.C:
		p.Kill()
		return 0, fmt.Errorf("%s did not end within %s and was killed\n%s", p.Name, timeout, p.Tail())
	}
}

// tailLines is how much of a log is shown with an error.
const tailLines = 15

// Tail returns the end of the process's output.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// Environment returns the caller's environment with variables set on top, as KEY=value, and
// without whatever points at another Temporal.
func Environment(set ...string) []string {
	var environment []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TEMPORAL_") && !strings.HasPrefix(variable, "TRANCHE_") {
			environment = append(environment, variable)
		}
	}
	// A profile of the user must not send the traffic of a test to a real cluster.
	environment = append(environment, "TEMPORAL_CONFIG_FILE="+os.DevNull)
	return append(environment, set...)
}
