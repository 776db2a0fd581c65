package schedules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/interval"
)

// Schedules really fire across a clock change exactly at the ticks: by their own backfill, which goes through
// the same code as firing in time does.
func TestFiresAcrossClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cron, zone string
		from, to         string // local days, whose ticks are fired: [from, to)
		ticks            int    // 0: as many as package interval says
	}{
		{"quarters of the long day in London", "*/15 * * * *", "Europe/London", "2026-10-25", "2026-10-26", 100},
		{"quarters of the short day in London", "*/15 * * * *", "Europe/London", "2026-03-29", "2026-03-30", 92},
		{"a skipped time in Rome", "30 2 * * *", "Europe/Rome", "2026-03-28", "2026-03-31", 3},
		{"a repeated time in Rome", "30 2 * * *", "Europe/Rome", "2026-10-24", "2026-10-27", 3},
		{"hours of the long day in Rome", "0 * * * *", "Europe/Rome", "2026-10-25", "2026-10-26", 25},
		{"a repeated time in New York", "30 1 * * *", "America/New_York", "2026-10-31", "2026-11-03", 3},
		{"minutes of a night hour in Rome", "*/15 2 * * *", "Europe/Rome", "2026-10-25", "2026-10-26", 0},
		{"half an hour in Lord Howe", "*/10 1,2 * * *", "Australia/Lord_Howe", "2026-04-05", "2026-04-06", 0},
		{"a gap at midnight in Beirut", "0 0 * * *", "Asia/Beirut", "2026-03-28", "2026-03-31", 3},
		{"a gap at midnight in Cairo", "0 0 * * *", "Africa/Cairo", "2026-04-23", "2026-04-26", 3},
		{"working hours over Sydney's change", "*/30 8-18 * * 1-5", "Australia/Sydney", "2026-10-02", "2026-10-06", 0},
		{"either day in Santiago", "30 4 1,15 * 5", "America/Santiago", "2026-04-01", "2026-04-20", 0},
		{"the week before a change in Casablanca", "0 3 * * *", "Africa/Casablanca", "2026-02-13", "2026-02-18", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.apply(p.source(fmt.Sprintf("cron: %q, timezone: %s, start_date: 2026-01-01", c.cron, c.zone), ""))
			if err := p.schedules.SetPaused(p.ctx, p.current(), true, "only the backfill fires"); err != nil {
				t.Fatal(err)
			}
			grid, err := p.current().Definition().Grid()
			if err != nil {
				t.Fatal(err)
			}
			from, to := localDay(t, c.from, grid), localDay(t, c.to, grid)
			var want []string
			for tick, ok := grid.Next(from.Add(-time.Second)); ok && tick.Before(to); tick, ok = grid.Next(tick) {
				want = append(want, tick.Format(time.RFC3339))
			}
			if c.ticks > 0 && len(want) != c.ticks {
				t.Fatalf("package interval has %d ticks, want %d", len(want), c.ticks)
			}
			p.backfill(from, to.Add(-time.Second))
			if got := p.fired(len(want)); !slices.Equal(got, want) {
				t.Errorf("it fired at\n%v, want\n%v", got, want)
			}
		})
	}
}

func localDay(t *testing.T, day string, grid *interval.Grid) time.Time {
	t.Helper()
	at, err := interval.ParseInstant(day, grid.Location())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// backfill asks the Schedule for its own backfill; both ends are inclusive.
func (p *place) backfill(from, to time.Time) {
	p.t.Helper()
	_, err := p.schedules.temporal.WorkflowService().PatchSchedule(p.ctx, &workflowservice.PatchScheduleRequest{
		Namespace: "default", ScheduleId: p.name, RequestId: uuid.NewString(),
		Patch: &schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
			StartTime: timestamppb.New(from), EndTime: timestamppb.New(to), OverlapPolicy: overlap,
		}}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// fired returns the times at which the Schedule has started workflows, from their ids, once it has nothing
// left to start.
func (p *place) fired(atLeast int) []string {
	p.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		started := p.ids()
		if info := p.current().Info; len(started) >= atLeast && info.GetBufferSize() == 0 && int(info.GetActionCount()) == len(started) {
			return started
		}
		select {
		case <-ticker.C:
		case <-p.ctx.Done():
			return started
		}
	}
}

func (p *place) ids() []string {
	var started []string
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", PageSize: 1000,
		Query: fmt.Sprintf(`WorkflowId STARTS_WITH %q`, p.name+"-")}
	listed, err := p.schedules.temporal.ListWorkflow(p.ctx, request)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, each := range listed.GetExecutions() {
		started = append(started, strings.TrimPrefix(each.GetExecution().GetWorkflowId(), p.name+"-"))
	}
	slices.Sort(started)
	return started
}
