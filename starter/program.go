package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/pipeline"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0   // done
	exitFailed      = 1   // something went wrong that no other code names
	exitUsage       = 2   // the command line is wrong
	exitInvalid     = 3   // a pipeline file is wrong
	exitUnreachable = 4   // Temporal or its workers cannot be reached
	exitRunFailed   = 5   // a run that was waited for failed
	exitGaps        = 6   // gaps were found
	exitChanges     = 7   // a plan has changes
	exitInterrupted = 130 // interrupted by a signal
)

const exitCodeHelp = `Exit codes: 0 done, 1 failed, 2 usage, 3 invalid pipeline, 4 Temporal or its
workers not reachable, 5 a run failed, 6 gaps found, 7 a plan has changes,
130 interrupted.`

// codedError carries the exit code that an error stands for.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func coded(code int, err error) error { return &codedError{code, err} }

func usagef(format string, args ...any) error { return coded(exitUsage, fmt.Errorf(format, args...)) }

// streams are where a command writes: out is data, talk is for people.
type streams struct{ out, talk io.Writer }

// program is what every command works with.
type program struct {
	streams
	environment dial.Environment
	// now is the only clock. It decides nothing but defaults that are shown to people.
	now func() time.Time
	// connected is the connection that the command has made; nil: none yet.
	connected *online
}

// run is the whole program; nothing below it touches the process.
func run(ctx context.Context, args []string, io streams, environment dial.Environment) int {
	p := &program{streams: io, environment: environment, now: time.Now}
	app := p.app()
	err := app.RunContext(ctx, append([]string{app.Name}, interspersed(app, args)...))
	return p.report(ctx, err)
}

// report prints an error for people and returns the exit code.
func (p *program) report(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	err = p.unknownNamespace(err)
	if ctx.Err() != nil {
		fmt.Fprintf(p.talk, "starter: interrupted: %v\n", err)
		return exitInterrupted
	}
	var problems pipeline.Problems
	if errors.As(err, &problems) {
		for _, problem := range problems {
			fmt.Fprintln(p.talk, problem.Error())
		}
		return exitInvalid
	}
	fmt.Fprintf(p.talk, "starter: %v\n", err)
	var withCode *codedError
	var unreachable *dial.UnreachableError
	switch {
	case errors.As(err, &withCode):
		return withCode.code
	case errors.As(err, &unreachable):
		return exitUnreachable
	default:
		return exitFailed
	}
}

func (p *program) app() *cli.App {
	return &cli.App{
		Name:                 "starter",
		Usage:                "Check pipelines, show their data intervals, make their Schedules, start and list runs and backfills",
		Description:          exitCodeHelp,
		Writer:               p.out,
		ErrWriter:            p.talk,
		Suggest:              true,
		HideVersion:          true,
		EnableBashCompletion: true,
		ExitErrHandler:       func(*cli.Context, error) {},
		OnUsageError:         usageError,
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return usagef("there is no command %q; `starter --help` lists them", name)
			}
			return cli.ShowAppHelp(c)
		},
		Commands: p.commands(),
	}
}

func (p *program) commands() []*cli.Command {
	commands := []*cli.Command{
		p.validateCommand(), p.renderCommand(), p.intervalsCommand(),
		p.runCommand(), p.rerunCommand(), p.backfillCommand(), p.runsCommand(), p.statusCommand(), p.gapsCommand(), p.schedulesCommand(),
		p.setupCommand(),
	}
	for _, command := range commands {
		finish(command)
	}
	return commands
}

// finish gives a command, and those below it, what all commands share.
func finish(command *cli.Command) {
	command.OnUsageError = usageError
	command.Description += "\n\n" + exitCodeHelp
	for _, below := range command.Subcommands {
		finish(below)
	}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return usagef("%v; see --help", err)
}

// printJSON prints a value as indented JSON.
func (p *program) printJSON(value any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON for scripts"}
}
