package activities

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/command"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

// Exec is what steps of the kind exec may run with.
type Exec struct {
	environment []string
	folders     string
}

// inherited are the variables that a program gets from the worker, where it has them. The others may hold
// credentials.
var inherited = []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"}

// NewExec allows steps of the kind exec. lookup finds the variables of the worker's environment that programs get.
func NewExec(lookup func(name string) (string, bool)) *Exec {
	e := &Exec{}
	for _, name := range inherited {
		if value, found := lookup(name); found {
			e.environment = append(e.environment, name+"="+value)
			if name == "TMPDIR" {
				e.folders = value
			}
		}
	}
	e.environment = append(e.environment, "TZ=UTC")
	return e
}

// TypeExecNotAllowed is the type of the error of an exec step on a worker that runs no programs.
const TypeExecNotAllowed = "ExecNotAllowed"

const (
	// execGrace is how long a program has between SIGTERM and SIGKILL: short enough for a cancel, which takes
	// some seconds to arrive, to be done within 10 s, and for a step to be handed back while its worker stops.
	execGrace = 3 * time.Second
	// execPart is which part of an attempt's time that is at most. It is taken from its end, so that the program is gone
	// when the time is over and the next attempt may begin.
	execPart = 4
)

// RunCommand runs a program. It counts as progress as long as it runs, so that a cancel arrives;
// start_to_close bounds it.
func (a *Activities) RunCommand(ctx context.Context, in step.Input) (step.Result, error) {
	return a.attempt(ctx, in, func(ctx context.Context, p *progress) (*step.Done, error) {
		if a.exec == nil {
			return nil, retry.Permanentf(TypeExecNotAllowed,
				"this worker runs no programs: start it with --allow-exec or TRANCHE_ALLOW_EXEC=true, or name a task_queue in the pipeline whose workers allow it")
		}
		program, err := a.exec.program(ctx, in)
		if err != nil {
			return nil, err
		}
		defer p.hold("running " + program.Command[0])()
		if program.Folder == "" {
			folder, err := os.MkdirTemp(a.exec.folders, "tranche-exec-")
			if err != nil {
				return nil, fmt.Errorf("make a folder to run %s in: %w", program.Command[0], err)
			}
			program.Folder = folder
			defer func() {
				if err := os.RemoveAll(folder); err != nil {
					activity.GetLogger(ctx).Warn("the folder of a program was not removed", "folder", folder, "reason", err)
				}
			}()
		}
		if deadline, limited := ctx.Deadline(); limited {
			program.Grace = min(execGrace, time.Until(deadline)/execPart)
		}
		ctx, cancel := before(ctx, program.Grace, 1, timeIsUp(activity.GetInfo(ctx)))
		defer cancel()
		// A worker that was stopped for a while finds tasks that it was given meanwhile, and whose attempts are over. The
		// answer to the first heartbeat says so, and the context ends before anything is started.
		activity.RecordHeartbeat(ctx, Position{Note: "starting " + program.Command[0]})
		output, err := program.Run(ctx)
		if err != nil {
			return nil, a.said(err, output)
		}
		return &step.Done{}, nil
	})
}

// program fills the interval into what the step declares.
func (e *Exec) program(ctx context.Context, in step.Input) (command.Program, error) {
	location, err := interval.LoadLocation(in.Timezone)
	if err != nil {
		return command.Program{}, err
	}
	fill := func(t pipeline.Template) (string, error) {
		text, err := t.Execute(in.Interval, location)
		if err != nil {
			err = retry.Permanentf("BadInput", "template %q: %w", t, err)
		}
		return text, err
	}
	program := command.Program{Folder: in.Step.Exec.Folder, Environment: slices.Concat(e.environment, about(ctx, in)), Grace: execGrace}
	for _, argument := range in.Step.Exec.Command {
		text, err := fill(argument)
		if err != nil {
			return program, err
		}
		program.Command = append(program.Command, text)
	}
	for name, value := range in.Step.Exec.Environment {
		text, err := fill(value)
		if err != nil {
			return program, err
		}
		program.Environment = append(program.Environment, name+"="+text)
	}
	return program, nil
}

// about tells a program for which run it works.
func about(ctx context.Context, in step.Input) []string {
	info := activity.GetInfo(ctx)
	return []string{
		"TRANCHE_PIPELINE=" + in.Pipeline,
		"TRANCHE_STEP=" + in.Step.Name,
		"TRANCHE_INTERVAL_START=" + in.Interval.Start.UTC().Format(time.RFC3339),
		"TRANCHE_INTERVAL_END=" + in.Interval.End.UTC().Format(time.RFC3339),
		"TRANCHE_WORKFLOW_ID=" + info.WorkflowExecution.ID,
		"TRANCHE_RUN_ID=" + info.WorkflowExecution.RunID,
		"TRANCHE_ATTEMPT=" + strconv.Itoa(int(info.Attempt)+in.Used),
	}
}

// saidLimit bounds what an error repeats of a program's output, in bytes.
const saidLimit = 1500

// said adds the end of what a program has written to its error.
func (a *Activities) said(err error, output command.Output) error {
	where, tail := "stderr", output.Stderr
	if strings.TrimSpace(tail.Text) == "" {
		where, tail = "stdout", output.Stdout
	}
	text := a.shown(tail)
	if text == "" {
		return fmt.Errorf("%w; it wrote nothing", err)
	}
	return fmt.Errorf("%w; the end of its %s:\n%s", err, where, text)
}

// shown makes an output fit for an error: without secrets, without what would act on a terminal instead of being
// read, and short.
func (a *Activities) shown(tail command.Tail) string {
	text := a.connections.Mask(tail.Text)
	if tail.Cut {
		// What was cut off may have been the first half of a secret, so that the other half is not masked.
		text = text[min(len(text), len(tail.Text)/2):]
	}
	text = strings.TrimSpace(readable(text))
	if over := len(text) - saidLimit; over > 0 || tail.Cut {
		text = "…" + strings.ToValidUTF8(text[max(0, over):], "")
	}
	return text
}
