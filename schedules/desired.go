package schedules

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
)

// Memo keys of the runs that a Schedule starts, beside those of package launch. They stand there and not in
// the Schedule's own memo, because Temporal cannot change that (server v1.32.1).
const (
	memoOwner = "tranche.owner"
	memoTicks = "tranche.schedule"
	// memoCompiled says with which year and zone database the calendars were made.
	memoCompiled = "tranche.calendars"
)

// desired is a Schedule as it should be.
type desired struct {
	definition *pipeline.Pipeline
	schedule   *schedulepb.Schedule
	ticks      Ticks
	compiled   compiledWith
	// marked says that runs may bear the search attribute of their interval.
	marked bool
}

// compiledWith is what calendars follow from beside the definition.
type compiledWith struct {
	year  int
	zones string
}

func (c compiledWith) String() string { return strconv.Itoa(c.year) + " " + c.zones }

func (c compiledWith) at() time.Time { return time.Date(c.year, time.January, 1, 0, 0, 0, 0, time.UTC) }

// parseCompiled is the inverse of String; ok is false for any other text.
func parseCompiled(text string) (c compiledWith, ok bool) {
	year, zones, found := strings.Cut(text, " ")
	number, err := strconv.Atoi(year)
	return compiledWith{number, zones}, found && err == nil
}

// renewAfter is how many years calendars that are exact for ten are used: with less than nine left
// they are made anew.
const renewAfter = 2

// compiling decides with what the calendars of a pipeline are compiled: as those of its Schedule were,
// while they are good for long enough, so that nothing changes from apply to apply.
func (s *Schedules) compiling(current *Schedule) compiledWith {
	fresh := compiledWith{s.now().UTC().Year(), interval.ZoneDatabaseVersion()}
	if current == nil {
		return fresh
	}
	was, ok := parseCompiled(current.memoText(memoCompiled))
	if !ok || was.zones != fresh.zones || fresh.year-was.year >= renewAfter || was.year > fresh.year {
		return fresh
	}
	return was
}

// desire builds the Schedule of a pipeline. The definition is an effective one, with its Since.
func (s *Schedules) desire(ctx context.Context, definition *pipeline.Pipeline, with compiledWith) (*desired, error) {
	spec, err := definition.GridSpec()
	if err != nil {
		return nil, err
	}
	ticks, err := Compile(spec, spec.Cron, with.at())
	if err != nil {
		return nil, fmt.Errorf("pipeline %s: make a Schedule of %s: %w", definition.Name, Cadence(definition.Schedule), err)
	}
	action, err := s.temporal.Scheduled(ctx, definition, map[string]string{
		memoOwner: definition.Owner, memoTicks: Cadence(definition.Schedule), memoCompiled: with.String(),
	})
	if err != nil {
		return nil, err
	}
	usable, _, err := s.temporal.Usable(ctx)
	if err != nil {
		return nil, err
	}
	d := &desired{definition: definition, ticks: ticks, compiled: with, marked: usable[launch.AttributeInterval.GetName()]}
	d.schedule = &schedulepb.Schedule{
		Spec:   specOf(ticks, spec, definition.Schedule.Jitter.Std()),
		Action: &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{StartWorkflow: action}},
		Policies: &schedulepb.SchedulePolicies{
			OverlapPolicy: overlap, CatchupWindow: durationpb.New(definition.Schedule.CatchupWindow.Std()),
		},
		State: &schedulepb.ScheduleState{Notes: Cadence(definition.Schedule)},
	}
	return d, nil
}

func specOf(ticks Ticks, grid interval.Spec, jitter time.Duration) *schedulepb.ScheduleSpec {
	spec := &schedulepb.ScheduleSpec{StructuredCalendar: ticks.Calendars, TimezoneName: ticks.TimeZone}
	if ticks.Interval != nil {
		spec.Interval = []*schedulepb.IntervalSpec{ticks.Interval}
	}
	from := ticks.From
	if !grid.Since.IsZero() && grid.Since.After(from) {
		from = grid.Since.Add(time.Second)
	}
	if !from.IsZero() {
		spec.StartTime = timestamppb.New(from)
	}
	if !grid.End.IsZero() {
		spec.EndTime = timestamppb.New(grid.End)
	}
	if jitter > 0 {
		spec.Jitter = durationpb.New(jitter)
	}
	return spec
}

// Cadence says in a line when a pipeline runs, as its file says it.
func Cadence(s *pipeline.Schedule) string {
	text := s.Cron
	if s.Every > 0 {
		text = "every " + s.Every.String()
	}
	if s.Timezone != "" && s.Timezone != "UTC" {
		text += " in " + s.Timezone
	}
	return text
}
