// Devserver is a real Temporal server, with its web UI, in one process for laptops and tests.
//
// It takes the flags of `temporal server start-dev`, so that either program can stand in for the
// other, and answers one question besides: which instants the server's own scheduler computes for a
// schedule spec (`devserver firings`).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	_ "time/tzdata" // for machines without a zone database of their own

	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/server/common/headers"
)

// Exit codes of all commands.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const topHelp = `Devserver is a real Temporal server and its web UI in one process, for laptops and tests.

Usage:
  devserver server start-dev [flags]   start the server; the flags of "temporal server start-dev"
  devserver firings [flags]            print the times at which Temporal fires schedule specs
  devserver --version                  print the versions of what is inside
  devserver <command> --help           explain one command

Example:
  devserver server start-dev --db-filename tranche.db

Exit codes: 0 done, 1 failed, 2 usage.
`

// stdio is what a program reads and writes: stdout is data, stderr is talk.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal stops the server in good order; giving the signals back to the system makes
	// a second one end the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run executes the command line args and returns the exit code.
func run(ctx context.Context, args []string, std stdio) int {
	err := dispatch(ctx, args, std)
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(std.err, "devserver: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(std.err, "devserver: %v\n", err)
		return exitFailed
	}
}

func dispatch(ctx context.Context, args []string, std stdio) error {
	if len(args) == 0 {
		fmt.Fprint(std.err, topHelp)
		return &usageError{message: "no command given"}
	}
	switch args[0] {
	case "help", "--help", "-h":
		_, err := io.WriteString(std.out, topHelp)
		return err
	case "version", "--version":
		_, err := fmt.Fprintf(std.out, "devserver with Temporal server %s and UI %s, built by %s\n",
			headers.ServerVersion, uiversion.UIVersion, runtime.Version())
		return err
	case "firings":
		return printFirings(ctx, args[1:], std)
	case "server":
		return serverCommand(ctx, args[1:], std)
	}
	return &usageError{message: fmt.Sprintf("unknown command %q; the commands are: server start-dev, firings", args[0])}
}

func serverCommand(ctx context.Context, args []string, std stdio) error {
	if len(args) == 0 {
		return &usageError{message: `"server" needs a command: devserver server start-dev`}
	}
	switch args[0] {
	case "start-dev":
		return startDev(ctx, args[1:], std)
	case "help", "--help", "-h":
		_, err := io.WriteString(std.out, topHelp)
		return err
	}
	return &usageError{message: fmt.Sprintf("unknown command %q; there is only: devserver server start-dev", "server "+args[0])}
}
