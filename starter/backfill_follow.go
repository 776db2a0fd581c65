package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"

	"github.com/trancheflow/tranche/workflows"
)

// How often a backfill is looked at that is followed: on a terminal, and for lines in a log.
const (
	followTerminal = time.Second
	followLines    = 10 * time.Second
)

// isAway tells a Temporal that cannot be reached now from one that refuses.
func isAway(err error) bool {
	var away *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &away) || errors.As(err, &late)
}

// follow shows how far backfills come until all have ended, prints how, and returns the error that says so.
func (p *program) follow(c *cli.Context, o *online, views []*backfillView) error {
	ctx := c.Context
	type end struct {
		view *backfillView
		err  error
	}
	ends := make(chan end, len(views))
	open := map[*backfillView]bool{}
	for _, view := range views {
		if view.ID == "" {
			continue
		}
		open[view] = true
		id, runID := view.WorkflowID, view.RunID
		go func() { ends <- end{view, o.result(ctx, id, runID)} }()
	}
	screen := newScreen(p.talk)
	ticker := time.NewTicker(screen.every)
	defer ticker.Stop()
	var failures []error
	for len(open) > 0 {
		select {
		case ended := <-ends:
			delete(open, ended.view)
			if ended.err != nil {
				failures = append(failures, ended.err)
			}
		case <-ticker.C:
			screen.show(o, ctx, views, open)
		}
	}
	screen.clear()
	if ctx.Err() != nil {
		return errors.Join(p.goesOn(views), p.printLatestIfJSON(c, o, views))
	}
	for _, view := range views {
		if view.ID == "" || len(failures) > 0 {
			continue
		}
		latest, err := o.view(ctx, view.WorkflowID)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		*view = *latest
	}
	return errors.Join(append(failures, p.reportViews(c, views))...)
}

// printLatestIfJSON prints how far backfills are that are not followed to their ends.
func (p *program) printLatestIfJSON(c *cli.Context, o *online, views []*backfillView) error {
	if !c.Bool("json") {
		return nil
	}
	var failures []error
	for _, view := range views {
		if view.ID == "" {
			continue
		}
		latest, err := o.view(context.WithoutCancel(c.Context), view.WorkflowID)
		if latest != nil {
			*view = *latest
		}
		failures = append(failures, err)
	}
	return errors.Join(append(failures, p.printJSON(views))...)
}

// goesOn says what an interrupted command leaves behind.
func (p *program) goesOn(views []*backfillView) error {
	var ids []string
	for _, view := range views {
		if view.ID != "" {
			ids = append(ids, view.ID)
		}
	}
	verb := "goes"
	if len(ids) > 1 {
		verb = "go"
	}
	return fmt.Errorf("the backfill %s %s on: `starter backfill show` looks at it, `starter backfill cancel` ends it", strings.Join(ids, " and "), verb)
}

// reportViews prints how backfills have ended, and returns an error if an interval has failed.
func (p *program) reportViews(c *cli.Context, views []*backfillView) error {
	if c.Bool("json") {
		if err := p.printJSON(views); err != nil {
			return err
		}
	} else {
		for _, view := range views {
			p.printView(view)
		}
	}
	var bad []string
	for _, view := range views {
		if view.bad() {
			bad = append(bad, view.problem())
		}
	}
	if len(bad) > 0 {
		return coded(exitRunFailed, errors.New(strings.Join(bad, "; ")))
	}
	return nil
}

// problem says in a few words what was not well with a backfill that has ended.
func (v *backfillView) problem() string {
	name := v.ID
	if name == "" {
		name = v.Pipeline
	}
	var parts []string
	if v.State != stateDone && v.State != stateNothing {
		parts = append(parts, "was "+v.State)
		if v.State == stateFailed {
			parts[0] = "failed"
		}
	}
	if v.Counts.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%s failed", plural(int(v.Counts.Failed), "interval")))
	}
	if v.Counts.Cancelled > 0 {
		parts = append(parts, fmt.Sprintf("%s cancelled", plural(int(v.Counts.Cancelled), "interval")))
	}
	if v.Blocked != nil {
		parts = append(parts, fmt.Sprintf("%s not run after %s, which has failed", plural(int(v.NotRun), "interval"), v.Blocked))
	}
	if v.Blocked == nil && v.NotRun > 0 {
		parts = append(parts, fmt.Sprintf("%s not run", plural(int(v.NotRun), "interval")))
	}
	if v.Note != "" {
		parts = append(parts, v.Note)
	}
	return fmt.Sprintf("backfill %s: %s", name, strings.Join(parts, ", "))
}

// screen shows progress: one line that is written again and again on a terminal, lines elsewhere.
type screen struct {
	talk     interface{ Write([]byte) (int, error) }
	terminal bool
	every    time.Duration
	shown    int
	last     map[string]string
}

func newScreen(talk interface{ Write([]byte) (int, error) }) *screen {
	s := &screen{talk: talk, every: followLines, last: map[string]string{}}
	if file, is := talk.(*os.File); is {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" {
			s.terminal, s.every = true, followTerminal
		}
	}
	return s
}

func (s *screen) show(o *online, ctx context.Context, views []*backfillView, open map[*backfillView]bool) {
	var lines []string
	for _, view := range views {
		if !open[view] {
			continue
		}
		if latest, _ := o.view(ctx, view.WorkflowID); latest != nil && latest.open {
			lines = append(lines, latest.lines(s.terminal)...)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if s.terminal {
		s.clear()
		for _, line := range lines {
			fmt.Fprintf(s.talk, "%s\n", line)
		}
		s.shown = len(lines)
		return
	}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		if s.last[name] != line {
			fmt.Fprintln(s.talk, line)
		}
		s.last[name] = line
	}
}

// clear takes the lines off the terminal.
func (s *screen) clear() {
	for ; s.shown > 0; s.shown-- {
		fmt.Fprint(s.talk, "\x1b[1A\x1b[2K")
	}
}

// barWidth is how wide a progress bar is.
const barWidth = 24

// lines is the progress of a backfill: one line or, with a bar for a terminal, two that no terminal wraps, since they
// are taken off again.
func (v *backfillView) lines(bar bool) []string {
	text := v.ID + ":"
	passed, total := v.Counts.Passed(), v.Expected.Total()
	if bar && total > 0 {
		full := int(min(passed, total) * barWidth / total)
		text += " [" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "]"
	}
	text += fmt.Sprintf(" %d", passed)
	if total > 0 {
		text += fmt.Sprintf(" of %d (%d%%)", total, passed*100/total)
	}
	more := fmt.Sprintf("%d open, %d failed", len(v.Running), v.Counts.Failed+v.Counts.Cancelled)
	if v.State != workflows.PhaseRunning {
		more += ", " + v.State
	}
	if v.PerHour > 0 {
		more += ", " + rate(v.PerHour)
	}
	if v.ETA != nil {
		more += ", until about " + v.ETA.Format("2006-01-02 15:04Z")
	}
	if !bar {
		return []string{text + ", " + more}
	}
	return []string{cut(text, terminalWidth), cut("  "+more, terminalWidth)}
}

// rate prints runs per hour in a unit that reads well.
func rate(perHour float64) string {
	switch {
	case perHour >= 3600:
		return fmt.Sprintf("%.1f/s", perHour/3600)
	case perHour >= 60:
		return fmt.Sprintf("%.1f/min", perHour/60)
	default:
		return fmt.Sprintf("%.1f/h", perHour)
	}
}
