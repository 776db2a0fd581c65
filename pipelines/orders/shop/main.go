// Command shop is the API of a shop that does not exist: the source of the example pipeline orders.
//
// It lists the orders of any day, page by page, behind a bearer token, and pushes back as APIs do.
// What it answers follows from the day alone, so that the rows a pipeline loads from it can be known
// beforehand. It keeps no state but the number of requests that it still refuses.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, talk: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(code)
}
