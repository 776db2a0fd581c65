// Command starter is the command line of Tranche: it checks pipeline files, shows their data
// intervals, and starts and lists runs. It talks to Temporal and reads YAML; it holds no data
// credentials.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/trancheflow/tranche/dial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, talk: os.Stderr}, dial.Environment(os.Environ()))
	stop()
	os.Exit(code)
}
