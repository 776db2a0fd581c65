package main

import (
	"bufio"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "Check pipeline files and report every problem with line and column",
		ArgsUsage: "[FILE|DIR]...",
		Description: `Checks the given files, and the pipelines in the given folders and below them.
Without arguments: the current folder. Nothing is sent anywhere.

Example: starter validate pipelines`,
		Flags: []cli.Flag{
			jsonFlag(),
			&cli.BoolFlag{Name: "show-effective", Usage: "print each pipeline with every default filled in"},
		},
		Action: p.validate,
	}
}

func (p *program) validate(c *cli.Context) error {
	paths := c.Args().Slice()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	all, problems, err := parseAll(paths)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := p.printJSON(validationReport(all, problems)); err != nil {
			return err
		}
		if len(problems) > 0 {
			return coded(exitInvalid, fmt.Errorf("%s found", plural(len(problems), "problem")))
		}
		return nil
	}
	if len(problems) > 0 {
		return problems
	}
	for i, each := range all {
		if !c.Bool("show-effective") {
			fmt.Fprintf(p.out, "%s: %s is valid, %s\n", each.file, each.pipeline.Name, plural(len(each.pipeline.Steps), "step"))
			continue
		}
		if i > 0 {
			fmt.Fprintln(p.out, "---")
		}
		if err := yaml.NewEncoder(p.out).Encode(each.pipeline.Effective()); err != nil {
			return err
		}
	}
	return nil
}

// validation is the JSON of `validate`.
type validation struct {
	Pipelines []validPipeline     `json:"pipelines"`
	Problems  []validationFinding `json:"problems"`
}

type validPipeline struct {
	File     string `json:"file"`
	Pipeline string `json:"pipeline"`
	Digest   string `json:"digest"`
}

type validationFinding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func validationReport(all []loaded, problems pipeline.Problems) validation {
	report := validation{Pipelines: []validPipeline{}, Problems: []validationFinding{}}
	for _, each := range all {
		report.Pipelines = append(report.Pipelines, validPipeline{each.file, each.pipeline.Name, each.pipeline.Digest})
	}
	for _, problem := range problems {
		report.Problems = append(report.Problems, validationFinding(problem))
	}
	return report
}

func (p *program) renderCommand() *cli.Command {
	return &cli.Command{
		Name:      "render",
		Usage:     "Print a pipeline as a run of one interval sees it",
		ArgsUsage: "FILE",
		Description: `Fills in every default and every template, and prints the definition.

Example: starter render pipelines/orders/pipeline.yaml --interval 2026-01-15`,
		Flags:  []cli.Flag{intervalFlag()},
		Action: p.render,
	}
}

func intervalFlag() cli.Flag {
	return &cli.StringFlag{Name: "interval",
		Usage: "`START` of the interval: a date or time in the pipeline's zone, or an instant with an offset"}
}

func (p *program) render(c *cli.Context) error {
	file, err := oneArgument(c, "FILE")
	if err != nil {
		return err
	}
	parsed, err := parseFile(file)
	if err != nil {
		return err
	}
	owned, err := intervalOf(parsed, c.String("interval"))
	if err != nil {
		return err
	}
	text, err := parsed.Render(owned)
	if err != nil {
		return err
	}
	_, err = p.out.Write(text)
	return err
}

func (p *program) intervalsCommand() *cli.Command {
	return &cli.Command{
		Name:      "intervals",
		Usage:     "Print the data intervals of a pipeline or of a schedule",
		ArgsUsage: "[FILE]",
		Description: `Prints the intervals that start at or after --from and before --to. Without --from:
from the interval that is in progress now. Without --to: ten intervals.

Examples:
  starter intervals pipelines/orders/pipeline.yaml --from 2026-01-15 --to 2026-01-18
  starter intervals --cron '30 2 * * *' --timezone Europe/Rome --from 2026-03-28 --to 2026-03-31`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cron", Usage: "five-field cron `TEXT`, instead of a file"},
			&cli.StringFlag{Name: "every", Usage: "elapsed `DURATION` between ticks, instead of a file; counts from --start-date"},
			&cli.StringFlag{Name: "timezone", Usage: "IANA `NAME` of the zone (default: UTC)"},
			&cli.StringFlag{Name: "start-date", Usage: "where the first interval starts"},
			&cli.StringFlag{Name: "from", Usage: "`START` of the first interval to print, or an instant before it"},
			&cli.StringFlag{Name: "to", Usage: "print intervals that start before this"},
			&cli.IntFlag{Name: "limit", Usage: "print at most this many (default: all up to --to, else 10)"},
			jsonFlag(),
		},
		Action: p.intervals,
	}
}

const defaultIntervals = 10

// intervalRow is the JSON of an interval.
type intervalRow struct {
	Start string `json:"start"`
	End   string `json:"end"`
	Tick  string `json:"tick"`
	// Local is the start in the zone of the schedule, with its offset.
	Local string `json:"local"`
}

func (p *program) intervals(c *cli.Context) error {
	grid, err := gridOf(c)
	if err != nil {
		return err
	}
	from, to, err := p.bounds(c, grid)
	if err != nil {
		return err
	}
	limit := c.Int("limit")
	switch {
	case c.IsSet("limit") && limit < 1:
		return usagef("--limit must be at least 1")
	case limit == 0 && !c.IsSet("to"):
		limit = defaultIntervals
	}
	return p.printIntervals(c.Bool("json"), grid, from, to, limit)
}

// printIntervals streams: ten years of minutes are five million lines.
func (p *program) printIntervals(asJSON bool, grid *interval.Grid, from, to time.Time, limit int) error {
	out := bufio.NewWriterSize(p.out, 64<<10)
	defer out.Flush()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if asJSON {
		fmt.Fprint(out, "[")
	} else {
		fmt.Fprintln(table, "START\tEND\tLOCAL START\tLENGTH")
	}
	printed := 0
	for owned := range grid.Between(from, to) {
		row := intervalRow{
			Start: owned.Start.UTC().Format(time.RFC3339), End: owned.End.UTC().Format(time.RFC3339),
			Tick: owned.End.UTC().Format(time.RFC3339), Local: owned.Start.In(grid.Location()).Format(time.RFC3339),
		}
		if asJSON {
			separator := ",\n  "
			if printed == 0 {
				separator = "\n  "
			}
			fmt.Fprintf(out, `%s{"start": %q, "end": %q, "tick": %q, "local": %q}`, separator, row.Start, row.End, row.Tick, row.Local)
		} else {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.Start, row.End, row.Local, pipeline.Duration(owned.End.Sub(owned.Start)))
			if printed%1000 == 999 {
				table.Flush()
			}
		}
		if printed++; printed == limit {
			break
		}
	}
	if asJSON {
		fmt.Fprint(out, "\n]\n")
		return out.Flush()
	}
	if printed == 0 {
		fmt.Fprintf(p.talk, "no interval starts in [%s, %s)\n", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return out.Flush()
}

// gridOf builds the grid of the file, or of the flags that stand in for one.
func gridOf(c *cli.Context) (*interval.Grid, error) {
	instead := c.IsSet("cron") || c.IsSet("every") || c.IsSet("timezone") || c.IsSet("start-date")
	if c.NArg() > 0 {
		if instead {
			return nil, usagef("give either a pipeline file or --cron, --every, --timezone and --start-date")
		}
		file, err := oneArgument(c, "FILE")
		if err != nil {
			return nil, err
		}
		parsed, err := parseFile(file)
		if err != nil {
			return nil, err
		}
		return parsed.Grid()
	}
	if c.IsSet("cron") == c.IsSet("every") {
		return nil, usagef("give a pipeline file, or one of --cron and --every")
	}
	if c.IsSet("cron") && strings.TrimSpace(c.String("cron")) == "" {
		return nil, usagef("--cron is empty: write five fields, such as '0 0 * * *'")
	}
	return gridOfFlags(c)
}

func gridOfFlags(c *cli.Context) (*interval.Grid, error) {
	spec := interval.Spec{Cron: c.String("cron"), TimeZone: c.String("timezone")}
	location := time.UTC
	if spec.TimeZone != "" {
		var err error
		if location, err = interval.LoadLocation(spec.TimeZone); err != nil {
			return nil, usagef("--timezone: %w", err)
		}
	}
	if text := c.String("every"); text != "" {
		every, err := pipeline.ParseDuration(text)
		if err != nil {
			return nil, usagef("--every: %w", err)
		}
		if every <= 0 {
			return nil, usagef("--every: %q is no time between ticks: the least is 1s", text)
		}
		spec.Every = every.Std()
	}
	if text := c.String("start-date"); text != "" {
		start, err := interval.ParseInstant(text, location)
		if err != nil {
			return nil, usagef("--start-date: %w", err)
		}
		spec.Start = start
	}
	grid, err := interval.New(spec)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return grid, nil
}

// farAway is later than any interval that will be asked for.
var farAway = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *program) bounds(c *cli.Context, grid *interval.Grid) (from, to time.Time, err error) {
	from, to = p.now().UTC().Truncate(time.Second), farAway
	if owned, ok := grid.Owner(from); ok {
		from = owned.Start
	}
	for _, bound := range []struct {
		flag string
		at   *time.Time
	}{{"from", &from}, {"to", &to}} {
		if !c.IsSet(bound.flag) {
			continue
		}
		if *bound.at, err = interval.ParseInstant(c.String(bound.flag), grid.Location()); err != nil {
			return from, to, usagef("--%s: %w", bound.flag, err)
		}
	}
	if !from.Before(to) {
		return from, to, usagef("--from %s is not before --to %s: the range is half-open and would hold no interval",
			from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return from, to, nil
}

func oneArgument(c *cli.Context, name string) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("%s takes exactly one %s, not %d", c.Command.Name, name, c.NArg())
	}
	return c.Args().First(), nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(noun, "s"))
}
