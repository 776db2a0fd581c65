package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const help = `Serve the orders of an invented shop: GET /orders?from=&to=&page=&per_page=

Usage:
  SHOP_TOKEN=... shop [flags]

Examples:
  SHOP_TOKEN=secret shop
  SHOP_TOKEN=secret shop --listen 127.0.0.1:0 --ready-file shop.json --refuse off

Flags:
  --listen ADDRESS    where to listen (default 127.0.0.1:8089); port 0 chooses a free one
  --refuse N          refuse the first N requests of the process with 429, the first of them with
                      Retry-After: 1, the others without (default 2); off refuses none
  --closed DAY        a day without orders, such as 2026-01-18, in the shop's zone; repeatable
  --ready-file FILE   once it listens, write {"address", "pid"} to this file, in one step; it is
                      removed at the end

Environment:
  SHOP_TOKEN          the bearer token that GET /orders asks for; required

Exit codes: 0 stopped by a signal, 1 failed (the port is taken, ...), 2 usage.
`

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Time limits of the server. Its answers are small, and there is nothing to wait for.
const (
	requestTimeout  = 10 * time.Second
	shutdownTimeout = 5 * time.Second
)

// maximumRefusals bounds --refuse.
const maximumRefusals = 1_000_000

// streams are where the program writes: out is data, talk is for people.
type streams struct{ out, talk io.Writer }

// usageError says that the command line or the environment is wrong.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// options are the flags as given.
type options struct {
	listen    string
	refuse    int
	closed    map[string]bool
	readyFile string
}

// run is the whole program; nothing below it touches the process.
func run(ctx context.Context, args []string, std streams, env func(string) (string, bool)) int {
	err := start(ctx, args, std, env)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(std.out, help)
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(std.talk, "shop: %v (see: shop --help)\n", err)
		return exitUsage
	}
	fmt.Fprintf(std.talk, "shop: %v\n", err)
	return exitFailed
}

func start(ctx context.Context, args []string, std streams, env func(string) (string, bool)) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	token, _ := env("SHOP_TOKEN")
	if token == "" {
		return &usageError{"the variable SHOP_TOKEN is not set or empty: it is the token that clients have to send"}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w; --listen takes another address", err)
	}
	return serve(ctx, listener, newAPI(token, catalogue{o.closed}, o.refuse), o.readyFile, std)
}

func parseFlags(args []string) (options, error) {
	o := options{refuse: 2, closed: map[string]bool{}}
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8089", "")
	flags.StringVar(&o.readyFile, "ready-file", "", "")
	flags.Func("refuse", "", func(text string) error {
		n, err := parseRefusals(text)
		o.refuse = n
		return err
	})
	flags.Func("closed", "", func(text string) error {
		date, err := parseDay(text)
		o.closed[date] = true
		return err
	})
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		// Package flag writes names with one dash.
		return o, &usageError{strings.NewReplacer("flag -", "flag --", "defined: -", "defined: --", "argument: -", "argument: --").Replace(err.Error())}
	case flags.NArg() > 0:
		return o, &usageError{fmt.Sprintf("unexpected argument %q: shop takes flags only", flags.Arg(0))}
	}
	return o, nil
}

func parseRefusals(text string) (int, error) {
	if text == "off" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maximumRefusals {
		return 0, fmt.Errorf("write a number from 0 to %d, or off", maximumRefusals)
	}
	return n, nil
}

// serve answers until ctx ends; requests under way are then finished.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, readyFile string, std streams) error {
	server := &http.Server{Handler: handler, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	address := listener.Addr().String()
	if readyFile != "" {
		if err := writeReady(readyFile, address); err != nil {
			return errors.Join(fmt.Errorf("write --ready-file %s: %w", readyFile, err), server.Close())
		}
		defer os.Remove(readyFile)
	}
	fmt.Fprintf(std.out, "shop listens on http://%s\n", address)
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// ctx has ended, and what is under way may still take a moment.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		return fmt.Errorf("stop: requests were still under way after %s: %w", shutdownTimeout, err)
	}
	return nil
}

// writeReady writes the file in one step, so that whoever waits for it never reads half of it.
func writeReady(file, address string) error {
	content, err := json.Marshal(struct {
		Address string `json:"address"`
		PID     int    `json:"pid"`
	}{address, os.Getpid()})
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = draft.Write(append(content, '\n'))
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
