package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/trancheflow/tranche/devserver/firings"
)

const firingsHelp = `Print the times at which Temporal fires schedule specs, computed by the code of its scheduler.

No server is started. Each line of input is a JSON object:
  name      string, copied to the output
  cron      list of cron strings, as in ScheduleSpec.cron_string
  calendars list of StructuredCalendarSpec, intervals: list of IntervalSpec (proto JSON)
  spec      a whole ScheduleSpec (proto JSON); cron, calendars and intervals are added to it
  timezone  name of a zone, for calendars and cron; default UTC
  from      RFC 3339; firings after this instant are printed (from itself is excluded)
  to        RFC 3339; firings up to and with this instant are printed; optional when limit is set
  limit     at most so many times; 0 or left out: no limit
Each line of output, in the order of input, is a JSON object: {"name", "times"} with RFC 3339 instants
in UTC, or {"name", "error"} with Temporal's reason for refusing the spec. Times are nominal: jitter is
left out. The zone database is the host's, else the one in this program; ZONEINFO=FILE.zip sets another.

Usage:
  devserver firings [--file FILE]

Example:
  echo '{"name":"rome","cron":["30 2 * * *"],"timezone":"Europe/Rome","from":"2026-03-27T00:00:00Z","limit":3}' | devserver firings

Flags:
  --file FILE   read this instead of standard input

Exit codes: 0 done (refused specs included), 1 a line is not such an object, 2 usage.
`

func printFirings(ctx context.Context, args []string, std stdio) (err error) {
	flags := flag.NewFlagSet("firings", flag.ContinueOnError)
	path := flags.String("file", "", "")
	if err := parseFlags(flags, args, std.out, firingsHelp); err != nil {
		return err
	}
	name, in := "standard input", std.in
	if *path != "" {
		file, err := os.Open(*path)
		if err != nil {
			return fmt.Errorf("firings: %w", err)
		}
		defer func() { _ = file.Close() }()
		name, in = *path, io.Reader(file)
	}
	if err := firings.Print(ctx, in, std.out); err != nil {
		return fmt.Errorf("firings: %s: %w", name, err)
	}
	return nil
}
