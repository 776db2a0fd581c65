package schedules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
)

// Verb is what an apply does with a Schedule.
type Verb string

// The verbs of a plan.
const (
	// Create makes a Schedule that is not there.
	Create Verb = "create"
	// Update changes one in place.
	Update Verb = "update"
	// Unchanged leaves it as it is.
	Unchanged Verb = "unchanged"
	// Blocked cannot be done: the note says why, and apply fails for this pipeline.
	Blocked Verb = "blocked"
)

// Change is what an apply does for one pipeline.
type Change struct {
	Pipeline string `json:"pipeline"`
	// File that the definition was read from, for messages.
	File        string       `json:"file,omitempty"`
	Verb        Verb         `json:"verb"`
	Differences []Difference `json:"differences,omitempty"`
	// Notes say what it means for the intervals, and what else an operator should know.
	Notes []string `json:"notes,omitempty"`

	definition *pipeline.Pipeline
	current    *Schedule
	want       *desired
	// limits is the schedule as it was applied; nil for a new one.
	limits *pipeline.Schedule
	// regrids says that other ticks take over; scheduled that the ledger has to hear of the schedule.
	regrids, scheduled bool
}

// TaskQueue returns the queue whose workers run the pipeline.
func (c *Change) TaskQueue() string { return c.definition.TaskQueue }

// NeedsLedger reports whether the ledger has to hear of the change, for which there must be a worker.
func (c *Change) NeedsLedger() bool { return c.scheduled && c.Verb != Blocked }

// Plan is what an apply does.
type Plan struct {
	Changes []Change `json:"changes"`
	// Reconcilers are those of the task queues of these pipelines, sorted by queue.
	Reconcilers []Reconciler `json:"reconcilers"`
	// Orphans are pipelines with a Schedule and without a file. An apply leaves them alone.
	Orphans []string `json:"orphans,omitempty"`
}

// HasChanges reports whether an apply of the plan would do anything.
func (p *Plan) HasChanges() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Verb != Unchanged }) ||
		slices.ContainsFunc(p.Reconcilers, func(r Reconciler) bool { return r.Verb != Unchanged })
}

// Source is a pipeline with the file it was read from.
type Source struct {
	File string
	// Definition is the effective definition.
	Definition *pipeline.Pipeline
}

// Plan compares the pipelines, and the reconcilers of their task queues, with the Schedules that are there. Zero for
// reconcileEvery keeps what a reconciler has; a new one gets DefaultReconcileEvery. It changes nothing.
func (s *Schedules) Plan(ctx context.Context, sources []Source, reconcileEvery time.Duration) (*Plan, error) {
	plan := &Plan{Changes: []Change{}, Reconcilers: []Reconciler{}}
	with, queues := map[string]bool{}, map[string]bool{}
	for _, source := range sources {
		change, err := s.plan(ctx, source)
		if err != nil {
			return nil, err
		}
		plan.Changes = append(plan.Changes, *change)
		with[source.Definition.Name] = true
		if change.Verb != Blocked {
			queues[change.TaskQueue()] = true
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		change, err := s.planReconciler(ctx, queue, reconcileEvery)
		if err != nil {
			return nil, err
		}
		plan.Reconcilers = append(plan.Reconcilers, *change)
	}
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !with[name] {
			plan.Orphans = append(plan.Orphans, name)
		}
	}
	slices.SortFunc(plan.Changes, func(a, b Change) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return plan, nil
}

func (s *Schedules) plan(ctx context.Context, source Source) (*Change, error) {
	name := source.Definition.Name
	change := &Change{Pipeline: name, File: source.File, definition: source.Definition}
	current, err := s.Get(ctx, launch.ScheduleID(name))
	if err != nil {
		return nil, err
	}
	switch {
	case current == nil:
		return change, s.planCreate(ctx, change)
	case current.Pipeline != name:
		change.block("a Schedule with the id %s is there and was not made by Tranche: rename the pipeline, or delete that Schedule with `temporal schedule delete --schedule-id %s`", current.ID, current.ID)
		return change, nil
	case current.Unreadable != nil:
		change.block("the Schedule cannot be read, so it is not touched: %v; use a newer starter, or delete it with `starter schedules delete %s` and apply again", current.Unreadable, name)
		return change, nil
	}
	change.current = current
	return change, s.planUpdate(ctx, change)
}

func (c *Change) block(format string, args ...any) {
	c.Verb = Blocked
	c.note(format, args...)
}

func (c *Change) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

func (s *Schedules) planCreate(ctx context.Context, change *Change) error {
	want, err := s.desire(ctx, change.definition, s.compiling(nil))
	if err != nil {
		change.block("%v", err)
		return nil
	}
	change.Verb, change.want, change.scheduled = Create, want, true
	grid, err := change.definition.Grid()
	if err != nil {
		return err
	}
	change.noteCatchup(grid, s.now())
	change.noteTicks(grid, want, s.now())
	return nil
}

func (s *Schedules) planUpdate(ctx context.Context, change *Change) error {
	was, err := change.current.Definition().Grid()
	if err != nil {
		return fmt.Errorf("read the schedule of %s as it was applied: %w", change.Pipeline, err)
	}
	if err := change.settleSince(was, s.now()); err != nil {
		return err
	}
	if change.want, err = s.desire(ctx, change.definition, s.compiling(change.current)); err != nil {
		change.block("%v", err)
		return nil
	}
	if change.Differences, err = differences(change.current, change.want); err != nil {
		return err
	}
	change.Verb = Unchanged
	if change.current.Paused() {
		change.note("paused: %s", orNothing(change.current.Notes()))
	}
	if len(change.Differences) == 0 {
		return nil
	}
	change.Verb = Update
	is, err := change.definition.Grid()
	if err != nil {
		return err
	}
	change.noteGrids(was, is, s.now())
	change.noteTicks(is, change.want, s.now())
	return nil
}

func orNothing(text string) string {
	if text == "" {
		return "no reason was given"
	}
	return text
}

// settleSince decides where the definition's grid takes over: where it did, if it ticks by the same rule as
// before; at the last tick of the old grid, if not.
func (c *Change) settleSince(was *interval.Grid, now time.Time) error {
	definition := *c.definition
	schedule := *definition.Schedule
	definition.Schedule = &schedule
	c.definition = &definition
	applied := c.current.Definition().Schedule
	c.limits = applied
	schedule.Since = applied.Since
	is, err := c.definition.Grid()
	if err != nil {
		return err
	}
	c.regrids = !interval.SameCadence(was, is)
	c.scheduled = c.regrids || applied.StartDate != schedule.StartDate || applied.EndDate != schedule.EndDate
	if !c.regrids {
		return nil
	}
	if last, ok := was.LastCompleted(now); ok {
		schedule.Since = last.End.Format(time.RFC3339)
	}
	return nil
}

// mostCounted bounds the counting of intervals for a note.
const mostCounted = 1_000_000

// countBetween counts the intervals that start at or after from and end at or before now.
func countBetween(grid *interval.Grid, from, now time.Time) (count int, first, last interval.Interval) {
	for iv := range grid.Between(from, now) {
		if iv.End.After(now) || count == mostCounted {
			break
		}
		if count == 0 {
			first = iv
		}
		last = iv
		count++
	}
	return count, first, last
}

func counted(n int) string {
	switch {
	case n == mostCounted:
		return "more than 1,000,000 intervals"
	case n == 1:
		return "1 interval"
	default:
		return fmt.Sprintf("%d intervals", n)
	}
}

// noteCatchup says what happens to the intervals that are over when the Schedule is made.
func (c *Change) noteCatchup(grid *interval.Grid, now time.Time) {
	count, first, last := countBetween(grid, time.Time{}, now)
	if count == 0 {
		return
	}
	span := fmt.Sprintf("%s, from %s to %s, have ended already", counted(count), show(grid, first.Start), show(grid, last.End))
	if count == 1 {
		span = fmt.Sprintf("1 interval, %s to %s, has ended already", show(grid, first.Start), show(grid, last.End))
	}
	switch c.definition.Schedule.Catchup {
	case pipeline.CatchupAll:
		c.note("%s: started, oldest first (catchup: all), unless the ledger has them", span)
	case pipeline.CatchupLatest:
		c.note("%s: the newest one is started (catchup: latest), unless the ledger has it", span)
	default:
		c.note("%s: not started (catchup: none)", span)
	}
}

// noteGrids says what another schedule means for the intervals.
func (c *Change) noteGrids(was, is *interval.Grid, now time.Time) {
	switch {
	case c.regrids && c.definition.Schedule.Since != "":
		since, _ := time.Parse(time.RFC3339, c.definition.Schedule.Since)
		c.note("the new schedule takes over at %s, the last tick of the old one; intervals before stay as they are", show(is, since))
		if first, ok := is.Owner(since); ok && first.Start.Equal(since) {
			c.note("its first interval is %s to %s", show(is, first.Start), show(is, first.End))
		}
		if count, _, last := countBetween(is, since, now); count > 0 {
			c.note("%s up to %s have ended already and are started at once", counted(count), show(is, last.End))
		}
	case c.regrids:
		c.note("the old schedule has had no tick yet: the new one replaces it")
		c.noteCatchup(is, now)
	case c.scheduled:
		before, _, _ := countBetween(was, time.Time{}, now)
		after, _, _ := countBetween(is, time.Time{}, now)
		if before != after {
			c.note("the bounds move: %s have ended by now, %s did before; catchup is %s", counted(after), counted(before), c.definition.Schedule.Catchup)
		}
	}
}

// noteTicks says when the Schedule fires next, and how it was put to Temporal.
func (c *Change) noteTicks(grid *interval.Grid, want *desired, now time.Time) {
	next, ok := grid.Next(now)
	if !ok {
		c.note("no further runs: the end date has passed")
		return
	}
	c.note("next tick %s", show(grid, next))
	if want.ticks.Plain {
		return
	}
	text := fmt.Sprintf("ticks are compiled into %d UTC calendars, because the clocks of %s change", len(want.ticks.Calendars), grid.Location())
	if !want.ticks.Exact.IsZero() {
		text += fmt.Sprintf("; exact until %s, and renewed before", want.ticks.Exact.UTC().Format(time.DateOnly))
	}
	if want.ticks.Shortened {
		text += "; fewer years than usual, because this schedule needs many"
	}
	c.note("%s", text)
}

// show writes an instant in UTC and, where that differs, in the pipeline's zone.
func show(grid *interval.Grid, at time.Time) string {
	utc := at.UTC().Format(time.RFC3339)
	if local := at.In(grid.Location()).Format(time.RFC3339); local != utc {
		return utc + " (" + local + ")"
	}
	return utc
}
