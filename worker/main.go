// Command worker runs the workflows and activities of Tranche. It is the only program that holds
// data credentials: it reads connections.yaml, in which secrets stand as ${NAME} of its environment.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/trancheflow/tranche/dial"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr, dial.Environment(os.Environ()), signals))
}
