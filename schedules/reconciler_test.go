package schedules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
)

// planReconciler plans the reconciler of the test's task queue.
func (p *place) planReconciler(every time.Duration) Reconciler {
	p.t.Helper()
	plan, err := p.schedules.Plan(p.ctx, []Source{p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")}, every)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(plan.Reconcilers) != 1 || plan.Reconcilers[0].TaskQueue != p.name {
		p.t.Fatalf("the reconcilers are %+v", plan.Reconcilers)
	}
	if plan.Reconcilers[0].Verb != Unchanged && !plan.HasChanges() {
		p.t.Error("the reconciler's change is none of the plan's")
	}
	return plan.Reconcilers[0]
}

func (p *place) applyReconciler(change Reconciler) Verb {
	p.t.Helper()
	done, err := p.schedules.ApplyReconciler(p.ctx, change)
	if err != nil {
		p.t.Fatal(err)
	}
	return done
}

// The reconciler is part of the plan: made with the default, changed only where somebody says so, and a pause stays.
func TestReconciler(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for i, c := range []struct {
		asked, every time.Duration
		verb         Verb
	}{
		{0, DefaultReconcileEvery, Create},
		{0, DefaultReconcileEvery, Unchanged},
		{10 * time.Second, 10 * time.Second, Update},
		{5 * time.Second, 5 * time.Second, Update}, // shorter than the shortest catchup window
		{0, 5 * time.Second, Unchanged},
		{5 * time.Second, 5 * time.Second, Unchanged},
	} {
		change := p.planReconciler(c.asked)
		if change.Verb != c.verb || change.Every.Std() != c.every {
			t.Fatalf("%d: the plan is %s every %s: %+v", i, change.Verb, change.Every, change.Differences)
		}
		if c.verb == Update && (len(change.Differences) == 0 || change.Differences[0].Path != "every" || change.Differences[0].Becomes != c.every.String()) {
			t.Errorf("%d: the differences are %+v", i, change.Differences)
		}
		if done := p.applyReconciler(change); done != c.verb {
			t.Errorf("%d: done is %s", i, done)
		}
	}
	id := launch.ReconcileID(p.name)
	if _, err := p.schedules.temporal.WorkflowService().PatchSchedule(p.ctx, &workflowservice.PatchScheduleRequest{
		Namespace: "default", ScheduleId: id, RequestId: uuid.NewString(), Patch: &schedulepb.SchedulePatch{Pause: "the warehouse moves"},
	}); err != nil {
		t.Fatal(err)
	}
	change := p.planReconciler(time.Minute)
	for len(change.Notes) == 0 && p.ctx.Err() == nil {
		change = p.planReconciler(time.Minute) // a patch is carried out soon after it was answered
	}
	if change.Verb != Update || !strings.Contains(strings.Join(change.Notes, "\n"), "paused: the warehouse moves") {
		t.Errorf("the plan of a paused one is %s, %q", change.Verb, change.Notes)
	}
	p.applyReconciler(change)
	found, err := p.schedules.Get(p.ctx, id)
	if err != nil || !found.Paused() || found.Notes() != "the warehouse moves" || found.Every() != time.Minute {
		t.Errorf("after the apply it is %+v, %v", found, err)
	}
	if summary := p.schedules.summary(found.Current); summary != "reconcile "+p.name {
		t.Errorf("its runs have the summary %q", summary)
	}
	// A plan that is too old by now is made again.
	if done := p.applyReconciler(Reconciler{TaskQueue: p.name, Verb: Create, want: change.want}); done != Unchanged {
		t.Errorf("an old plan did %s", done)
	}
}

// The reconciler goes with the last pipeline of its task queue, and not before.
func TestReconcilerIsReleased(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), newPlace(t)
	source := p.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	p.apply(source)
	beside := other.source(`cron: "0 0 * * *", start_date: 2026-01-01`, "")
	beside.Definition.TaskQueue = p.name
	other.apply(beside)
	p.applyReconciler(p.planReconciler(0))
	if released, err := p.schedules.ReleaseReconciler(p.ctx, p.name); released || err != nil {
		t.Fatalf("with two pipelines it is released: %t, %v", released, err)
	}
	if err := p.schedules.Delete(p.ctx, p.current()); err != nil {
		t.Fatal(err)
	}
	// The list of Schedules may not know yet that the other one is there.
	for names, err := p.schedules.Names(p.ctx); names[other.name] == ""; names, err = p.schedules.Names(p.ctx) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if released, err := p.schedules.ReleaseReconciler(p.ctx, p.name); released || err != nil {
		t.Fatalf("with one pipeline it is released: %t, %v", released, err)
	}
	beside.Definition.TaskQueue = other.name
	change := other.plan(beside)
	if change.Leaves() != p.name {
		t.Errorf("it leaves %q", change.Leaves())
	}
	other.apply(beside)
	if released, err := p.schedules.ReleaseReconciler(p.ctx, p.name); !released || err != nil {
		t.Errorf("without a pipeline it is released: %t, %v", released, err)
	}
	if found, err := p.schedules.Get(p.ctx, launch.ReconcileID(p.name)); found != nil || err != nil {
		t.Errorf("afterwards there is %+v, %v", found, err)
	}
	if released, err := p.schedules.ReleaseReconciler(p.ctx, p.name); released || err != nil {
		t.Errorf("once more it is released: %t, %v", released, err)
	}
}
