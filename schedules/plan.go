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

// Leaves returns the queue from which the pipeline moves to another one; empty: it stays.
func (c *Change) Leaves() string {
	if c.current == nil || c.current.TaskQueue() == c.TaskQueue() {
		return ""
	}
	return c.current.TaskQueue()
}

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

// Blocked returns how many pipelines an apply fails for; their notes say why.
func (p *Plan) Blocked() (count int) {
	for _, change := range p.Changes {
		if change.Verb == Blocked {
			count++
		}
	}
	return count
}

// HasChanges reports whether an apply of the plan would change anything.
func (p *Plan) HasChanges() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Verb != Unchanged && c.Verb != Blocked }) ||
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
	plan.noteSharedTables()
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
	if change.current.held() {
		change.Differences = append(change.Differences, Difference{"state", "paused", "active"})
		change.note("an apply was interrupted while another schedule took over")
	} else if change.current.Paused() {
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
	change.noteConsequences(was, is, s.now())
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
