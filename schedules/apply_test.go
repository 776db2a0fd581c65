package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/trancheflow/tranche/step"
)

// Whatever the schedule says, a second apply finds nothing to do, and the server lists exactly the ticks of
// the pipeline.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	for name, schedule := range map[string]string{
		"daily in UTC":             `cron: "0 0 * * *", start_date: 2026-01-01`,
		"daily in a zone":          `cron: "30 2 * * *", timezone: Europe/Rome, start_date: 2026-01-01`,
		"in a zone without change": `cron: "0 6 * * *", timezone: Asia/Jakarta, start_date: 2026-01-01`,
		"quarters of an hour":      `cron: "*/15 * * * *", timezone: Europe/London, start_date: 2026-01-01`,
		"either day":               `cron: "30 4 1,15 * 5", timezone: America/New_York, start_date: 2026-01-01`,
		"every":                    `every: 7h, start_date: "2026-01-01T01:30:00Z"`,
		"every second":             `every: 1s, start_date: 2026-01-01`,
		"with all settings":        `cron: "5 4 * * 1-5", timezone: Europe/Rome, start_date: 2026-01-01, end_date: 2030-01-01, catchup: all, catchup_window: 2h, jitter: 30s, max_active_runs: 3`,
		"a start in the future":    `cron: "0 0 * * *", start_date: 2030-01-01`,
		"an end in the past":       `cron: "0 0 * * *", start_date: 2026-01-01, end_date: 2026-02-01`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			source := p.source(schedule, "description: For the test.\nowner: data-platform\n")
			if change := p.plan(source); change.Verb != Create {
				t.Fatalf("the first plan is %+v", change)
			}
			applied := p.apply(source)
			if applied.Checked == 0 && name != "an end in the past" {
				t.Error("no tick was compared with the server's listing")
			}
			if change := p.plan(source); change.Verb != Unchanged || len(change.Differences) > 0 {
				t.Errorf("the second plan is %s: %+v", change.Verb, change.Differences)
			}
			if len(p.asked) != 2 || !p.asked[1].Record || p.asked[1].At.IsZero() {
				t.Errorf("the ledger was asked %+v", p.asked)
			}
		})
	}
}

// A change is shown key by key, made in place, and then it is gone.
func TestUpdateInPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	before := p.current()
	changed := p.source(`cron: "0 0 * * *", start_date: 2026-01-01, catchup_window: 2h`, "owner: somebody-else\ndefaults: { retry: { maximum_attempts: 7 } }\n")
	change := p.plan(changed)
	paths := map[string]Difference{}
	for _, d := range change.Differences {
		paths[d.Path] = d
	}
	if d := paths["steps[load].retry.maximum_attempts"]; d.Was != "5" || d.Becomes != "7" {
		t.Errorf("the plan shows %+v", change.Differences)
	}
	if change.Verb != Update || paths["owner"].Becomes != `"somebody-else"` || paths["schedule.catchup_window"].Path == "" {
		t.Errorf("the plan shows %+v", change.Differences)
	}
	p.apply(changed)
	after := p.current()
	if !proto.Equal(before.Info.GetCreateTime(), after.Info.GetCreateTime()) {
		t.Error("the Schedule was made anew")
	}
	if after.Current.GetPolicies().GetCatchupWindow().AsDuration() != 2*time.Hour {
		t.Errorf("the window is %s", after.Current.GetPolicies().GetCatchupWindow().AsDuration())
	}
	if change := p.plan(changed); change.Verb != Unchanged {
		t.Errorf("after the apply the plan shows %+v", change.Differences)
	}
}

// What an operator changes in Temporal's UI is found and put right, but a pause stays, with its reason.
func TestDriftAndPause(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	source := p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	p.apply(source)
	if err := p.schedules.SetPaused(p.ctx, p.current(), true, "the shop moves house"); err != nil {
		t.Fatal(err)
	}
	drifted := p.current()
	drifted.Current.Policies.CatchupWindow = durationpb.New(time.Minute)
	drifted.Current.Spec.Jitter = durationpb.New(time.Minute)
	if _, err := p.schedules.temporal.WorkflowService().UpdateSchedule(p.ctx, &workflowservice.UpdateScheduleRequest{
		Namespace: "default", ScheduleId: p.name, Schedule: drifted.Current, RequestId: uuid.NewString(),
	}); err != nil {
		t.Fatal(err)
	}
	change := p.plan(source)
	if change.Verb != Update || len(change.Differences) != 2 || !strings.Contains(strings.Join(change.Notes, "\n"), "the shop moves house") {
		t.Errorf("the plan shows %+v, %q", change.Differences, change.Notes)
	}
	p.apply(source)
	after := p.current()
	if !after.Paused() || after.Notes() != "the shop moves house" {
		t.Errorf("after the apply paused is %t, notes are %q", after.Paused(), after.Notes())
	}
	if _, ok := after.Next(time.Now()); ok {
		t.Error("a paused Schedule has a next run")
	}
	if change := p.plan(source); change.Verb != Unchanged {
		t.Errorf("after the apply the plan shows %+v", change.Differences)
	}
	if err := p.schedules.SetPaused(p.ctx, after, false, "moved"); err != nil {
		t.Fatal(err)
	}
	if p.current().Paused() {
		t.Error("it is still paused")
	}
	if change := p.plan(source); change.Verb != Unchanged {
		t.Errorf("after the pause the plan shows %+v", change.Differences)
	}
}

// A Schedule of somebody else with the pipeline's id is in the way, and stays as it is.
func TestForeignSchedule(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := newPlace(t)
	theirs := other.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	want, err := p.schedules.desire(p.ctx, theirs.Definition, p.schedules.compiling(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.schedules.temporal.WorkflowService().CreateSchedule(p.ctx, &workflowservice.CreateScheduleRequest{
		Namespace: "default", ScheduleId: p.name, Schedule: want.schedule, RequestId: uuid.NewString(),
	}); err != nil {
		t.Fatal(err)
	}
	before := p.current().Info.GetUpdateTime()
	change := p.plan(p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	if change.Verb != Blocked || !strings.Contains(change.Notes[0], "not made by Tranche") {
		t.Errorf("the plan is %s, %q", change.Verb, change.Notes)
	}
	if _, err := p.schedules.Apply(p.ctx, change, p.ledger); err == nil || !strings.Contains(err.Error(), "not made by Tranche") {
		t.Errorf("the apply says %v", err)
	}
	if after := p.current().Info.GetUpdateTime(); !proto.Equal(before, after) {
		t.Error("the foreign Schedule was updated")
	}
}

// Another schedule takes over at the last tick of the old one before the update, seen by the server's clock.
func TestOtherTicksTakeOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`every: 1s, start_date: 2026-01-01`, ""))
	changed := p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	change := p.plan(changed)
	if notes := strings.Join(change.Notes, "\n"); !strings.Contains(notes, "takes over at") {
		t.Errorf("the plan notes %q", notes)
	}
	applied, err := p.schedules.Apply(p.ctx, change, p.ledger)
	if err != nil {
		t.Fatal(err)
	}
	updated := p.current().Info.GetUpdateTime().AsTime()
	if want := updated.Truncate(time.Second).Format(time.RFC3339); applied.Since != want {
		t.Errorf("it takes over at %s, updated at %s", applied.Since, updated)
	}
	last := p.asked[len(p.asked)-1]
	if !last.Record || last.Schedule.Since != applied.Since || !last.At.Equal(updated) {
		t.Errorf("the ledger was told %+v", last)
	}
	if change := p.plan(changed); change.Verb != Unchanged {
		t.Errorf("after the apply the plan shows %+v", change.Differences)
	}
	if since := p.current().Definition().Schedule.Since; since != applied.Since {
		t.Errorf("runs are told %q", since)
	}
}

// The ledger hears of the schedule that is there before another one takes over; if it cannot, nothing is changed.
func TestTheLedgerHearsFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`every: 1s, start_date: 2026-01-01`, ""))
	change := p.plan(p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	before := p.current()
	deaf := func(context.Context, step.GridRequest) (step.GridAnswer, error) {
		return step.GridAnswer{}, errors.New("no worker")
	}
	if _, err := p.schedules.Apply(p.ctx, change, deaf); err == nil || !strings.Contains(err.Error(), "left as it is") {
		t.Errorf("without a ledger the apply says %v", err)
	}
	if after := p.current(); after.Paused() || !proto.Equal(before.Info.GetUpdateTime(), after.Info.GetUpdateTime()) {
		t.Error("the Schedule was changed")
	}
	p.asked = nil
	if _, err := p.schedules.Apply(p.ctx, change, p.ledger); err != nil {
		t.Fatal(err)
	}
	if len(p.asked) != 2 || !p.asked[0].Record || p.asked[0].Schedule.Every == 0 || !p.asked[1].Record || p.asked[1].Schedule.Cron == "" {
		t.Errorf("the ledger was told %+v", p.asked)
	}
	if p.current().Paused() {
		t.Error("it is paused after the apply")
	}
}

// An apply that was interrupted while another schedule took over leaves the Schedule paused: the next one goes on,
// and without one the reconciler lets it run again.
func TestInterruptedTakeOver(t *testing.T) {
	t.Parallel()
	hold := func(p *place) {
		p.t.Helper()
		p.apply(p.source(`every: 1s, start_date: 2026-01-01`, ""))
		held := proto.CloneOf(p.current().Current)
		held.State.Paused, held.State.Notes = true, heldNote
		if err := p.schedules.write(p.ctx, p.current(), held); err != nil {
			p.t.Fatal(err)
		}
	}
	p := newPlace(t)
	hold(p)
	for _, schedule := range []string{`every: 1s, start_date: 2026-01-01`, `every: 7s, start_date: 2026-01-01`} {
		if change := p.plan(p.source(schedule, "")); change.Verb != Update || !strings.Contains(strings.Join(change.Notes, " "), "interrupted") {
			t.Errorf("%s: the plan is %s, %q", schedule, change.Verb, change.Notes)
		}
	}
	p.apply(p.source(`every: 7s, start_date: 2026-01-01`, ""))
	if after := p.current(); after.Paused() || after.Definition().Schedule.Every.Std() != 7*time.Second {
		t.Errorf("after the apply it is paused: %t, every %s", after.Paused(), after.Definition().Schedule.Every)
	}

	other := newPlace(t)
	hold(other)
	held := other.current().appliedAt()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for time.Since(held) < 4*time.Second { // ticks pass unseen
		<-ticker.C
	}
	other.schedules.now = func() time.Time { return time.Now().Add(heldTooLong + time.Minute) }
	if w := other.schedules.watched(other.ctx, other.current()); w.Paused || w.Problem != "" {
		t.Errorf("the reconciler sees %+v", w)
	}
	if other.current().Paused() {
		t.Error("it is still paused")
	}
	first := held.Truncate(time.Second).Add(time.Second)
	for fired := other.ids(); !slices.Contains(fired, first.Format(time.RFC3339)) || !slices.Contains(fired, first.Add(2*time.Second).Format(time.RFC3339)); fired = other.ids() {
		if <-ticker.C; other.ctx.Err() != nil {
			t.Fatalf("of the ticks since %s it has started %v", held, fired)
		}
	}
}

// A pipeline that the ledger knows from a Schedule that was deleted goes on where that ended.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.answer.Since = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	applied := p.apply(p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	if applied.Since != "2026-05-04T09:00:00Z" || p.current().Definition().Schedule.Since != applied.Since {
		t.Errorf("it goes on at %q", applied.Since)
	}
	if start := p.current().Current.GetSpec().GetStartTime().AsTime(); !start.Equal(p.answer.Since.Add(time.Second)) {
		t.Errorf("the Schedule starts at %s", start)
	}
}

// Many who apply at once end with one Schedule as the file says, or say that they did not.
func TestApplyTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	source := p.source(`cron: "0 0 * * *", timezone: Europe/Rome, start_date: 2026-01-01`, "")
	change := p.plan(source)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			mine := newPlace(t)
			if _, err := mine.schedules.Apply(p.ctx, change, mine.ledger); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if change := p.plan(source); change.Verb != Unchanged {
		t.Errorf("after five applies the plan shows %s %+v", change.Verb, change.Differences)
	}
}

// overwriting is a ledger that has another file applied whenever an apply tells it of the schedule, and so between
// the write and the look at the server's listing.
func (p *place) overwriting(times int) Ledger {
	other := newPlace(p.t)
	other.name = p.name
	crons := []string{"5 5 * * *", "6 6 * * *"}
	written := 0
	return func(ctx context.Context, request step.GridRequest) (step.GridAnswer, error) {
		if request.Record && written < times {
			other.apply(other.source(fmt.Sprintf("cron: %q, start_date: 2026-01-01", crons[written%2]), ""))
			written++
		}
		return p.ledger(ctx, request)
	}
}

// Another file that is applied at the same time is not taken for a fault of the server: the apply is made again.
func TestApplyAmongOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	source := p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	ledger := p.overwriting(2)
	if _, err := p.schedules.Apply(p.ctx, p.plan(source), ledger); err != nil {
		t.Fatal(err)
	}
	if change := p.plan(source); change.Verb != Unchanged {
		t.Errorf("after the apply the plan shows %+v", change.Differences)
	}
}

// Somebody who does not stop is named as what is in the way.
func TestApplyAgainstOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	source := p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	ledger := p.overwriting(settleAttempts)
	_, err := p.schedules.Apply(p.ctx, p.plan(source), ledger)
	if err == nil || !strings.Contains(err.Error(), "somebody else changed the Schedule") || strings.Contains(err.Error(), "report it") {
		t.Errorf("the apply says %v", err)
	}
}

// Pauses and triggers that arrive together overwrite each other inside Temporal; ours are made sure of.
func TestPauseAmongOtherCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(p.source(`cron: "0 0 1 1 *", start_date: 2026-01-01`, ""))
	current := p.current()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			_, _ = p.schedules.temporal.WorkflowService().PatchSchedule(p.ctx, &workflowservice.PatchScheduleRequest{
				Namespace: "default", ScheduleId: p.name, RequestId: uuid.NewString(),
				Patch: &schedulepb.SchedulePatch{TriggerImmediately: &schedulepb.TriggerImmediatelyRequest{}},
			})
		})
	}
	if err := p.schedules.SetPaused(p.ctx, current, true, "now"); err != nil {
		t.Error(err)
	}
	group.Wait()
	if !p.current().Paused() {
		t.Error("it is not paused")
	}
}

// The calendars that were compiled last year are good enough, those of two years ago are made anew.
func TestCalendarsAreRenewed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	real := p.schedules.now
	source := p.source(`cron: "30 2 * * *", timezone: Europe/Rome, start_date: 2026-01-01`, "")
	p.schedules.now = func() time.Time { return real().AddDate(-1, 0, 0) }
	p.apply(source)
	p.schedules.now = real
	if change := p.plan(source); change.Verb != Unchanged {
		t.Errorf("after a year the plan shows %+v", change.Differences)
	}
	p.schedules.now = func() time.Time { return real().AddDate(1, 0, 0) }
	change := p.plan(source)
	if change.Verb != Update || len(change.Differences) == 0 {
		t.Errorf("after two years the plan is %s", change.Verb)
	}
	for _, d := range change.Differences {
		if !strings.HasPrefix(d.Path, "action memo") && d.Path != "ticks" && d.Path != "start time" {
			t.Errorf("a renewal changes %+v", d)
		}
	}
}

// Orphans are named and left alone.
func TestOrphans(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), newPlace(t)
	other.apply(other.source(`cron: "0 0 * * *", start_date: 2026-01-01`, ""))
	for {
		plan, err := p.schedules.Plan(p.ctx, []Source{p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")}, 0)
		if err != nil {
			t.Fatal(err) // also when the list does not know it in time
		}
		if strings.Contains(" "+strings.Join(plan.Orphans, " ")+" ", " "+other.name+" ") {
			break
		}
	}
	other.current()
}
