package schedules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// noteConsequences says what an update means for the intervals, and for the runs that wait.
func (c *Change) noteConsequences(was, is *interval.Grid, now time.Time) {
	before, after := c.current.Definition(), c.definition
	if before.Warehouse != after.Warehouse {
		c.noteWarehouse(is, now)
	} else if before.Schedule.Catchup != after.Schedule.Catchup {
		c.noteCatchupChange(is, now)
	}
	switch {
	case c.regrids && after.Schedule.Since != "":
		c.noteTakeOver(is, now)
	case c.regrids:
		c.note("the old schedule has had no tick yet: the new one replaces it")
		c.noteCatchup(is, now)
	case c.scheduled:
		c.noteStart(was, is, now)
		c.noteEnd(was, is, now)
	}
	if before.Schedule.MaxActiveRuns != after.Schedule.MaxActiveRuns {
		c.note("max_active_runs: holds at once, also for runs that wait")
	}
	if before.TaskQueue != after.TaskQueue {
		c.note("runs that are open stay with the workers of task queue %s, later ones need a worker on %s; the reconciler of %s is deleted if no pipeline is left there", before.TaskQueue, after.TaskQueue, before.TaskQueue)
	}
}

// when says when the reconciler can start what a change makes due.
func (c *Change) when() string {
	if c.current != nil && c.current.Paused() {
		return "once it is unpaused"
	}
	return "at once"
}

// started says what the pipeline's catchup does with intervals that are over and have no outcome.
func (c *Change) started(n int) string {
	switch catchup := c.definition.Schedule.Catchup; catchup {
	case pipeline.CatchupAll:
		return fmt.Sprintf("started %s, oldest first (catchup: all), unless the ledger has %s", c.when(), itOrThem(n))
	case pipeline.CatchupLatest:
		if n == 1 {
			return fmt.Sprintf("started %s (catchup: latest) if it is the newest that is missing", c.when())
		}
		return fmt.Sprintf("not started (catchup: latest), but for the newest one, %s, if that is missing", c.when())
	default:
		return "not started (catchup: none)"
	}
}

// noteCatchup says what happens to the intervals that are over when the Schedule is made.
func (c *Change) noteCatchup(grid *interval.Grid, now time.Time) {
	span := countBetween(grid, time.Time{}, now)
	if span.count == 0 {
		return
	}
	text := fmt.Sprintf("%s %s ended already", span, hasOrHave(span.count))
	switch c.definition.Schedule.Catchup {
	case pipeline.CatchupAll:
		c.note("%s: started, oldest first (catchup: all), unless the ledger has %s", text, itOrThem(span.count))
	case pipeline.CatchupLatest:
		c.note("%s: the newest one is started (catchup: latest), unless the ledger has it", text)
	default:
		c.note("%s: not started (catchup: none)", text)
	}
}

// noteCatchupChange says what another catchup means for the intervals that are over.
func (c *Change) noteCatchupChange(grid *interval.Grid, now time.Time) {
	was, is := c.current.Definition().Schedule.Catchup, c.definition.Schedule.Catchup
	span := countBetween(grid, time.Time{}, now)
	switch is {
	case pipeline.CatchupAll:
		if span.count > 0 {
			c.note("catchup %s → all: %s %s ended and %s expected from now on: those that the ledger has no outcome of are started %s, oldest first",
				was, span, hasOrHave(span.count), isOrAre(span.count), c.when())
		}
	case pipeline.CatchupLatest:
		text := fmt.Sprintf("catchup %s → latest: only the newest interval that is missing is started", was)
		if span.count > 0 {
			text += " " + c.when()
		}
		if was == pipeline.CatchupAll {
			text += "; older ones are not started any more, and those that ended before the pipeline became active are no longer expected"
		}
		c.note("%s", text)
	default:
		c.note("catchup %s → none: nothing is started any more but by the Schedule itself; what that does not start is listed as missing", was)
	}
}

// noteWarehouse says that another warehouse has another ledger.
func (c *Change) noteWarehouse(grid *interval.Grid, now time.Time) {
	was, is := c.current.Definition().Warehouse, c.definition.Warehouse
	span := countBetween(grid, time.Time{}, now)
	if span.count == 0 {
		c.note("warehouse %s has a ledger of its own; what is in %s stays there", is, was)
		return
	}
	c.note("warehouse %s has a ledger of its own, which does not know what %s knows of %s that %s ended; what is in %s stays there",
		is, was, span, hasOrHave(span.count), was)
	switch c.definition.Schedule.Catchup {
	case pipeline.CatchupAll:
		c.note("they count as missing in %s and are all run again %s, oldest first (catchup: all), unless its ledger has them", is, c.when())
	case pipeline.CatchupLatest:
		c.note("those since the Schedule was created count as missing in %s; the newest one is run again %s (catchup: latest), unless its ledger has it", is, c.when())
	default:
		c.note("those since the Schedule was created count as missing in %s and are not started (catchup: none)", is)
	}
}

// noteTakeOver says where another grid takes over.
func (c *Change) noteTakeOver(is *interval.Grid, now time.Time) {
	since, _ := time.Parse(time.RFC3339, c.definition.Schedule.Since)
	c.note("the new schedule takes over at %s, the last tick of the old one; intervals before stay as they are", show(is, since))
	first, ok := firstOf(is)
	if !ok {
		return
	}
	if first.Start.After(since) {
		c.note("nothing owns %s to %s: the new schedule begins later than the old one ends, and the data of that time is not loaded", show(is, since), show(is, first.Start))
		return
	}
	c.note("its first interval is %s to %s", show(is, first.Start), show(is, first.End))
	if span := countBetween(is, since, now); span.count > 0 {
		c.note("%s %s ended already and %s started %s", span, hasOrHave(span.count), isOrAre(span.count), c.when())
	}
}

// noteStart says which intervals another start_date adds or drops.
func (c *Change) noteStart(was, is *interval.Grid, now time.Time) {
	before, hadOne := firstOf(was)
	after, hasOne := firstOf(is)
	if !hadOne || !hasOne || before.Start.Equal(after.Start) {
		return
	}
	if after.Start.Before(before.Start) {
		if span := countWhile(is, time.Time{}, now, func(iv interval.Interval) bool { return !iv.End.After(before.Start) }); span.count > 0 {
			c.note("start_date moves to %s: %s %s added, and %s", show(is, after.Start), span, isOrAre(span.count), c.started(span.count))
		}
		c.noteRecut(before, is)
		return
	}
	if span := countWhile(was, time.Time{}, now, func(iv interval.Interval) bool { return !iv.End.After(after.Start) }); span.count > 0 {
		c.note("start_date moves to %s: %s %s dropped: no longer expected, and not started; what is loaded of %s stays",
			show(is, after.Start), span, isOrAre(span.count), itOrThem(span.count))
	}
	if old, ok := was.At(after.End); ok {
		c.noteRecut(old, is)
	}
	if last, ok := was.LastCompleted(now); ok && after.Start.After(last.End) {
		c.note("nothing owns %s to %s: the data of that time is not loaded", show(is, last.End), show(is, after.Start))
	}
}

// noteRecut says that an interval begins elsewhere, because the start_date lies within it or did.
func (c *Change) noteRecut(old interval.Interval, is *interval.Grid) {
	if now, ok := is.At(old.End); ok && now != old {
		c.note("the interval that was %s begins at %s now: where it is loaded, another load of it ends as GridChanged", old, show(is, now.Start))
	}
}

// noteEnd says which intervals another end_date adds or drops.
func (c *Change) noteEnd(was, is *interval.Grid, now time.Time) {
	before, after := endOf(c.current.Definition()), endOf(c.definition)
	switch {
	case before.Equal(after):
	case after.Before(before):
		if span := countBetween(was, lastTick(was, after), now); span.count > 0 {
			c.note("end_date moves to %s: %s %s dropped: no longer expected, and not started; what is loaded of %s stays",
				show(is, after), span, isOrAre(span.count), itOrThem(span.count))
		} else {
			c.note("end_date moves to %s: nothing is started for ticks after it", show(is, after))
		}
	default:
		moves := "end_date is removed"
		if after.Before(forever) {
			moves = "end_date moves to " + show(is, after)
		}
		if span := countBetween(is, lastTick(is, before), now); span.count > 0 {
			c.note("%s: %s that %s ended %s added, and %s", moves, span, hasOrHave(span.count), isOrAre(span.count), c.started(span.count))
		} else {
			c.note("%s: ticks go on after %s", moves, show(is, before))
		}
	}
}

// forever stands for no end.
var forever = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

func endOf(definition *pipeline.Pipeline) time.Time {
	if spec, err := definition.GridSpec(); err == nil && !spec.End.IsZero() {
		return spec.End
	}
	return forever
}

func lastTick(grid *interval.Grid, at time.Time) time.Time {
	last, _ := grid.LastCompleted(at)
	return last.End
}

// noteTicks says when the Schedule fires next, and how it was put to Temporal.
func (c *Change) noteTicks(grid *interval.Grid, want *desired, now time.Time) {
	next, ok := grid.Next(now)
	if !ok {
		c.note("no further runs: the end date has passed")
		return
	}
	if c.current == nil || !c.current.Paused() {
		c.note("next tick %s", show(grid, next))
	}
	if jitter, gap := c.definition.Schedule.Jitter.Std(), shortestGap(grid, next); gap > 0 && jitter > gap {
		c.note("jitter %s is longer than the %s between ticks: Temporal cuts it at the next tick", jitter, gap)
	}
	if want.ticks.Plain {
		return
	}
	calendars := "1 UTC calendar"
	if n := len(want.ticks.Calendars); n != 1 {
		calendars = fmt.Sprintf("%d UTC calendars", n)
	}
	text := fmt.Sprintf("ticks are compiled into %s, because the clocks of %s change", calendars, grid.Location())
	if !want.ticks.Exact.IsZero() {
		text += fmt.Sprintf("; exact until %s, and renewed before", want.ticks.Exact.UTC().Format(time.DateOnly))
	}
	if want.ticks.Shortened {
		text += "; fewer years than usual, because this schedule needs many"
	}
	c.note("%s", text)
}

// gapsLookedAt bounds how many coming ticks are looked at for the shortest time between two.
const gapsLookedAt = 100

// shortestGap returns the shortest time between the coming ticks; zero when there is one tick only.
func shortestGap(grid *interval.Grid, tick time.Time) (gap time.Duration) {
	for range gapsLookedAt {
		next, ok := grid.Next(tick)
		if !ok {
			break
		}
		if between := next.Sub(tick); gap == 0 || between < gap {
			gap = between
		}
		tick = next
	}
	return gap
}

// noteSharedTables says which pipelines load the same table, of which the ledger lets one in.
func (p *Plan) noteSharedTables() {
	type target struct{ warehouse, table, scope string }
	loads := map[target][]int{}
	for i, change := range p.Changes {
		for _, step := range change.definition.Steps {
			if step.Load == nil {
				continue
			}
			scope, _ := json.Marshal(step.Load.Scope) // of texts, in the order of the keys
			t := target{change.definition.Warehouse, step.Load.Table, string(scope)}
			if !slices.Contains(loads[t], i) {
				loads[t] = append(loads[t], i)
			}
		}
	}
	for i := range p.Changes {
		change := &p.Changes[i]
		for _, step := range change.definition.Steps {
			if step.Load == nil {
				continue
			}
			scope, _ := json.Marshal(step.Load.Scope)
			var others []string
			for _, other := range loads[target{change.definition.Warehouse, step.Load.Table, string(scope)}] {
				if other != i {
					others = append(others, p.Changes[other].Pipeline)
				}
			}
			if len(others) > 0 {
				change.note("step %s loads table %s of warehouse %s, and so does pipeline %s: the one that loads second fails as TableOwned; give each a scope, or one of them another table",
					step.Name, step.Load.Table, change.definition.Warehouse, strings.Join(others, ", "))
			}
		}
	}
}
