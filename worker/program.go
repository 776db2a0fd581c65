package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/log"

	"github.com/trancheflow/tranche/activities"
	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
)

// Exit codes; those of the starter where they mean the same.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInvalid     = 3
	exitUnreachable = 4
	exitInterrupted = 130
)

// errUsage marks errors of the command line, errInvalid those of connections.yaml.
var (
	errUsage   = errors.New("see --help")
	errInvalid = errors.New("the connections file is not valid")
)

// errForced says that a second signal ended the worker before its steps were done.
var errForced = errors.New("stopped at once by a second signal; steps that were running are tried again elsewhere")

// program is what the worker works with.
type program struct {
	talk        io.Writer
	environment dial.Environment
	signals     <-chan os.Signal
}

// run is the whole program; nothing below it touches the process. It ends when a signal arrives,
// when ctx does, or when the worker cannot go on.
func run(ctx context.Context, args []string, talk io.Writer, environment dial.Environment, signals <-chan os.Signal) int {
	p := &program{talk: talk, environment: environment, signals: signals}
	app := p.app()
	err := app.RunContext(ctx, append([]string{app.Name}, args...))
	if err != nil {
		fmt.Fprintf(talk, "worker: %v\n", err)
	}
	var unreachable *dial.UnreachableError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errInvalid):
		return exitInvalid
	case errors.Is(err, errForced):
		return exitInterrupted
	case errors.As(err, &unreachable):
		return exitUnreachable
	default:
		return exitFailed
	}
}

// Defaults of the flags.
const (
	defaultTaskQueue   = "tranche"
	defaultListen      = "127.0.0.1:9464"
	defaultStopTimeout = 30 * time.Second
	defaultActivities  = 20
)

func (p *program) app() *cli.App {
	return &cli.App{
		Name:            "worker",
		Usage:           "Run the workflows and activities of Tranche",
		UsageText:       "worker --connections FILE [options]",
		HideVersion:     true,
		HideHelpCommand: true,
		Writer:          p.talk,
		ErrWriter:       p.talk,
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return fmt.Errorf("%w; %w", err, errUsage)
		},
		Description: `On SIGTERM or SIGINT the worker takes no new steps, lets the running ones finish or hands
them back, and exits 0. A second signal ends it at once.

Exit codes: 0 done, 1 failed, 2 usage, 3 invalid connections file, 4 Temporal not
reachable, 130 ended by a second signal.`,
		Flags: append(dial.Flags(),
			&cli.StringFlag{Name: "connections", Value: "connections.yaml", EnvVars: []string{"TRANCHE_CONNECTIONS"},
				Usage: "`FILE` with the outside systems by name"},
			&cli.StringFlag{Name: "task-queue", Value: defaultTaskQueue, EnvVars: []string{"TRANCHE_TASK_QUEUE"},
				Usage: "`NAME` of the task queue to serve"},
			&cli.StringFlag{Name: "listen", Value: defaultListen, EnvVars: []string{"TRANCHE_LISTEN"},
				Usage: "`ADDRESS` that serves /ready, /live and /metrics; empty: none"},
			&cli.StringFlag{Name: "ready-file", EnvVars: []string{"TRANCHE_READY_FILE"},
				Usage: "write `FILE` with the address and the process id once the worker polls"},
			&cli.IntFlag{Name: "max-activities", Value: defaultActivities, EnvVars: []string{"TRANCHE_MAX_ACTIVITIES"},
				Usage: "how many steps may run at a time"},
			&cli.DurationFlag{Name: "stop-timeout", Value: defaultStopTimeout, EnvVars: []string{"TRANCHE_STOP_TIMEOUT"},
				Usage: "how long a stopping worker lets its steps go on before it hands them back"},
			&cli.BoolFlag{Name: "allow-exec", EnvVars: []string{"TRANCHE_ALLOW_EXEC"},
				Usage: "run the programs that steps of the kind exec name; whoever may start a pipeline here may then run any program as this user"},
			&cli.DurationFlag{Name: "sweep-interval", Value: defaultSweepInterval, EnvVars: []string{"TRANCHE_SWEEP_INTERVAL"},
				Usage: "how often staged rows of runs that were terminated are looked for and dropped"},
			&cli.StringFlag{Name: "log-format", Value: "text", EnvVars: []string{"TRANCHE_LOG_FORMAT"}, Usage: "text or json"},
			&cli.StringFlag{Name: "log-level", Value: "info", EnvVars: []string{"TRANCHE_LOG_LEVEL"}, Usage: "debug, info, warn or error"},
		),
		Action: p.work,
	}
}

// handBackMargin is what the SDK waits for the steps once they were told to hand back. A program then has three seconds
// before it is killed, its output is read for two more, its folder is removed, and Temporal is told.
const handBackMargin = 10 * time.Second

func (p *program) work(c *cli.Context) error {
	logger, err := p.logger(c)
	if err != nil {
		return err
	}
	if c.NArg() > 0 {
		return fmt.Errorf("the worker takes no arguments, but got %q; %w", c.Args().First(), errUsage)
	}
	if c.Int("max-activities") < 1 || c.Duration("stop-timeout") < 0 || c.Duration("sweep-interval") <= 0 {
		return fmt.Errorf("--max-activities must be at least 1, --stop-timeout not negative and --sweep-interval above 0; %w", errUsage)
	}
	connections, err := p.connections(c.String("connections"))
	if err != nil {
		return err
	}
	if err := apart(c.String("task-queue"), connections.TaskQueues()); err != nil {
		return errors.Join(err, connections.Close())
	}
	connections.LogTo(logger)
	service, err := startService(c.String("listen"), connections.Collector())
	if err != nil {
		return errors.Join(err, connections.Close())
	}

	settings, err := dial.Read(c, p.environment)
	if err != nil {
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	temporal, err := dial.Dial(c.Context, settings, dial.Options{Logger: log.NewStructuredLogger(logger), Metrics: service.metricsHandler()})
	if err != nil {
		return err
	}
	options := activities.Options{Connections: connections, Temporal: temporal, StopGrace: c.Duration("stop-timeout")}
	if c.Bool("allow-exec") {
		options.Exec = activities.NewExec(p.environment.LookupEnv)
	}
	steps := activities.New(options)
	logger.Info("worker starts", "address", settings.Address(), "namespace", settings.Namespace(),
		"task_queue", c.String("task-queue"), "connections", connections.Names(), "allow_exec", c.Bool("allow-exec"), "listen", service.address())
	err = p.serve(c, temporal, steps, connections.TaskQueues(), service, logger)
	if errors.Is(err, errForced) {
		// Steps are still running: closing what they work with would make them fail, and they could
		// still tell Temporal so. The process ends instead, and they are tried again elsewhere.
		return err
	}
	steps.Close()
	temporal.Close()
	service.stop()
	return errors.Join(err, connections.Close())
}

// serve polls until a signal arrives, ctx ends or the worker fails for good.
func (p *program) serve(c *cli.Context, temporal *launch.Temporal, steps *activities.Activities, limited []connection.TaskQueue, service *service, logger *slog.Logger) error {
	fatal := make(chan error, 1)
	polling := pollersOf(c, temporal, steps, limited, func(err error) {
		select {
		case fatal <- err:
		default:
		}
	})
	if err := polling.start(); err != nil {
		return err
	}
	ctx, stopSweeping := context.WithCancel(c.Context)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { sweep(ctx, temporal, steps, c.Duration("sweep-interval"), logger) })
	defer sweeping.Wait()
	defer stopSweeping()
	service.ready(true)
	if file := c.String("ready-file"); file != "" {
		if err := writeReady(file, service.address()); err != nil {
			polling.stop()
			return err
		}
	}
	logger.Info("worker is ready")

	var failure error
	select {
	case <-c.Context.Done():
	case received := <-p.signals:
		logger.Info("worker stops: it takes no new steps and waits for the running ones", "signal", received.String())
	case failure = <-fatal:
		failure = fmt.Errorf("poll task queue %s: %w", c.String("task-queue"), failure)
	}
	service.ready(false)
	return p.stop(polling, failure, logger)
}

// stop waits for the running steps, unless a second signal says otherwise.
func (p *program) stop(polling *pollers, failure error, logger *slog.Logger) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		polling.stop()
	}()
	select {
	case <-stopped:
		logger.Info("worker stopped")
		return failure
	case <-p.signals:
		return errForced
	}
}

func (p *program) connections(file string) (*connection.Set, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the connections: %w: say which file with --connections or TRANCHE_CONNECTIONS; %w", err, errUsage)
	}
	set, err := connection.Parse(file, data, p.environment.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", errInvalid, err)
	}
	return set, nil
}

func (p *program) logger(c *cli.Context) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn and error; %w", c.String("log-level"), errUsage)
	}
	options := &slog.HandlerOptions{Level: level}
	switch c.String("log-format") {
	case "text":
		return slog.New(slog.NewTextHandler(p.talk, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.talk, options)), nil
	default:
		return nil, fmt.Errorf("--log-format %q is neither text nor json; %w", c.String("log-format"), errUsage)
	}
}

// writeReady tells whoever started the worker that it polls. The file appears at once and whole.
func writeReady(file, address string) error {
	text := fmt.Sprintf("{\"address\": %q, \"pid\": %d}\n", address, os.Getpid())
	draft := file + ".new"
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(draft, file); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}
