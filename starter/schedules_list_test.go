package main

import (
	"testing"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
)

// The next run is the one that Temporal lists; where that is not what was applied, the row says so.
func TestScheduleRow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 15, 10, 30, 0, 0, time.UTC)
	midnight := time.Date(2026, 6, 16, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		schedule pipeline.Schedule
		state    *schedulepb.ScheduleState
		lists    []time.Time
		want     string
		next     time.Time
		note     string
	}{
		"as applied":         {lists: []time.Time{now.Add(-time.Second), midnight}, want: stateActive, next: midnight},
		"with jitter":        {schedule: pipeline.Schedule{Jitter: pipeline.Duration(time.Hour)}, lists: []time.Time{midnight.Add(time.Minute)}, want: stateActive, next: midnight.Add(time.Minute)},
		"no tick":            {lists: []time.Time{midnight.Add(time.Minute)}, want: stateActive, next: midnight.Add(time.Minute), note: planSays},
		"a tick left out":    {lists: []time.Time{midnight.AddDate(0, 0, 1)}, want: stateActive, next: midnight.AddDate(0, 0, 1), note: planSays},
		"no run any more":    {want: stateActive, note: planSays},
		"paused":             {state: &schedulepb.ScheduleState{Paused: true, Notes: "moves"}, lists: []time.Time{midnight}, want: statePaused, note: "moves"},
		"ended":              {schedule: pipeline.Schedule{EndDate: "2026-06-10"}, want: stateEnded},
		"ended, but it runs": {schedule: pipeline.Schedule{EndDate: "2026-06-10"}, lists: []time.Time{midnight}, want: stateActive, next: midnight, note: planSays},
	} {
		c.schedule.Cron, c.schedule.StartDate = "0 0 * * *", "2026-06-01"
		found := &schedules.Schedule{
			Pipeline: "orders", Input: &launch.Input{Definition: &pipeline.Pipeline{Name: "orders", Schedule: &c.schedule}},
			Current: &schedulepb.Schedule{State: c.state}, Info: &schedulepb.ScheduleInfo{},
		}
		for _, at := range c.lists {
			found.Info.FutureActionTimes = append(found.Info.FutureActionTimes, timestamppb.New(at))
		}
		p := &program{now: func() time.Time { return now }}
		row := p.scheduleRow(found)
		var next time.Time
		if row.Next != nil {
			next = *row.Next
		}
		if row.State != c.want || !next.Equal(c.next) || row.Note != c.note || row.title() != "orders" {
			t.Errorf("%s: the row is %+v, next %s", name, row, next)
		}
	}
}

// A reconciler is listed with how often it looks and, if it is paused, why.
func TestReconcilerRow(t *testing.T) {
	t.Parallel()
	p := &program{now: func() time.Time { return time.Date(2026, 6, 15, 10, 30, 0, 0, time.UTC) }}
	spec := &schedulepb.ScheduleSpec{Interval: []*schedulepb.IntervalSpec{{Interval: durationpb.New(time.Minute)}}}
	at := timestamppb.New(p.now().Add(time.Second))
	found := &schedules.Schedule{Current: &schedulepb.Schedule{Spec: spec}, Info: &schedulepb.ScheduleInfo{FutureActionTimes: []*timestamppb.Timestamp{at}}}
	if row := p.reconcilerRow("shop", found); row.State != stateActive || row.Schedule != "every 1m0s" || row.TaskQueue != "shop" || row.Next == nil || row.title() != "(reconciler)" {
		t.Errorf("an active one is %+v", row)
	}
	found.Current.State = &schedulepb.ScheduleState{Paused: true, Notes: "the warehouse moves"}
	if row := p.reconcilerRow("shop", found); row.State != statePaused || row.Note != "the warehouse moves" || row.Next != nil {
		t.Errorf("a paused one is %+v", row)
	}
	found.Current = &schedulepb.Schedule{Spec: &schedulepb.ScheduleSpec{StructuredCalendar: []*schedulepb.StructuredCalendarSpec{{}}}}
	if row := p.reconcilerRow("shop", found); row.Note != planSays {
		t.Errorf("one that was changed is %+v", row)
	}
}
