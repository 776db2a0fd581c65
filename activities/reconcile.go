package activities

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// noticeLatest marks, in the ledger's notices, the interval that was started instead of all that were missing.
const noticeLatest = "latest"

// Reconcile says how the intervals of a pipeline stand, closes the books on runs that ended without an outcome, tells
// of missed deadlines, and says what is to be started. It starts nothing itself, and may run twice.
func (a *Activities) Reconcile(ctx context.Context, watched step.Watched) (step.Reconciled, error) {
	beating := inBackground(func(quit <-chan struct{}) { launch.Beat(ctx, quit) })
	defer beating.stop()
	r := &reconciliation{activities: a, watched: watched, herald: a.heraldOf(&watched), result: step.Reconciled{Pipeline: watched.Pipeline}}
	if err := r.run(ctx); err != nil {
		err = fmt.Errorf("reconcile %s: %w", watched.Pipeline, err)
		return r.result, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
	}
	return r.result, nil
}

type reconciliation struct {
	activities *Activities
	watched    step.Watched
	herald     herald
	ledger     *warehouse.Warehouse
	notes      []string
	result     step.Reconciled
}

func (r *reconciliation) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *reconciliation) run(ctx context.Context) error {
	var err error
	if r.ledger, err = r.activities.warehouse(ctx, r.watched.Warehouse); err != nil {
		return err
	}
	history, err := r.history(ctx)
	if err != nil {
		return err
	}
	plan, err := r.plan(ctx, history)
	if err != nil {
		return err
	}
	if err := r.closeBooks(ctx, plan); err != nil {
		return err
	}
	if err := r.tell(ctx, plan.Late); err != nil {
		return err
	}
	if err := r.decide(ctx, plan); err != nil {
		return err
	}
	r.result.Expected, r.result.Loaded, r.result.Accepted, r.result.Failed = plan.Expected, plan.Loaded, plan.Accepted, plan.Failed
	r.result.Open, r.result.Missing, r.result.Recent = plan.Open, plan.Missing, plan.Recent
	r.result.MissingRange, r.result.MissingIntervals = plan.MissingRange(), plan.NewestMissing()
	r.result.Note = strings.Join(append([]string{r.standing()}, r.notes...), "; ")
	return nil
}

// standing says in a few words what is missing, and what has failed.
func (r *reconciliation) standing() string {
	text := "nothing is missing"
	if within := r.result.MissingRange; r.result.Missing > 0 && within != nil {
		text = fmt.Sprintf("%d missing, that start from %s to %s", r.result.Missing,
			within.From.UTC().Format(time.RFC3339), within.To.Add(-time.Second).UTC().Format(time.RFC3339))
		if r.result.Missing == 1 {
			text = "1 missing, that starts at " + within.From.UTC().Format(time.RFC3339)
		}
	}
	if r.result.Failed > 0 {
		text += fmt.Sprintf("; %d failed", r.result.Failed)
	}
	return text
}

// history returns the grids of the ledger, to which that of the Schedule is added if it is not there: whoever
// applied it could not.
func (r *reconciliation) history(ctx context.Context) (gaps.History, error) {
	history, err := gridHistory(ctx, r.ledger, r.watched.Pipeline)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(r.watched.Pipeline, r.watched.Schedule)
	if err != nil {
		return nil, retry.PermanentError("BadSchedule", err)
	}
	at := r.watched.Updated
	if len(history) == 0 {
		at = r.watched.Created
	}
	fresh, err := isFresh(history, spec, at)
	if err != nil {
		r.note("%v", err)
		return history, nil
	}
	if !fresh {
		return history, nil
	}
	err = r.ledger.RecordGrid(ctx, r.watched.Pipeline, func(known []warehouse.GridRow) (warehouse.GridRow, int, error) {
		era, ordinal, err := historyOf(known).Succeed(spec, at)
		return warehouse.GridRow(era), ordinal, err
	})
	if err != nil {
		return nil, err
	}
	return gridHistory(ctx, r.ledger, r.watched.Pipeline)
}

// isFresh reports whether the Schedule says something about the grids that the ledger does not know. Of an older
// Schedule, one that was edited since it was looked at, nothing is to be learnt.
func isFresh(history gaps.History, spec interval.Spec, at time.Time) (bool, error) {
	if len(history) == 0 {
		return true, nil
	}
	newest := history[len(history)-1]
	era, ordinal, err := history.Succeed(spec, at)
	switch {
	case err != nil:
		return false, err
	case ordinal < len(history) && era == newest:
		return false, nil
	case at.Before(newest.Applied):
		return false, fmt.Errorf("the ledger knows a newer schedule than the Schedule itself: apply the pipeline again if this stays")
	}
	return true, nil
}

// plan compares what is expected with the ledger and with the runs that are open.
func (r *reconciliation) plan(ctx context.Context, history gaps.History) (*gaps.Plan, error) {
	// The open runs first: one that ends meanwhile has its outcome by the time the ledger is read.
	open, err := r.activities.openTicks(ctx, r.watched.Pipeline)
	if err != nil {
		return nil, err
	}
	chosen, _, err := r.ledger.LastNoticed(ctx, r.watched.Pipeline, noticeLatest)
	if err != nil {
		return nil, err
	}
	schedule := r.watched.Schedule
	return gaps.Make(gaps.Request{
		History: history,
		Policy: gaps.Policy{
			Catchup: schedule.Catchup, CatchupWindow: schedule.CatchupWindow.Std(), Jitter: schedule.Jitter.Std(),
			Deadline: r.watched.Deadline.Std(), DependsOnPast: schedule.DependsOnPast,
		},
		Now:     r.activities.now(),
		Written: r.watched.Updated,
		Chosen:  chosen.End,
		Ledger: gaps.Ledger{
			Statuses: func(from, to time.Time) iter.Seq2[gaps.Status, error] {
				return statuses(r.ledger.Statuses(ctx, r.watched.Pipeline, from, to))
			},
			Noticed: func(from, to time.Time) iter.Seq2[interval.Interval, error] {
				return r.ledger.Noticed(ctx, r.watched.Pipeline, warehouse.NoticeDeadline, from, to)
			},
		},
		Open: func(tick time.Time) bool { return open[tick.Unix()] },
	})
}

func statuses(read iter.Seq2[warehouse.Status, error]) iter.Seq2[gaps.Status, error] {
	return func(yield func(gaps.Status, error) bool) {
		for status, err := range read {
			if !yield(gaps.Status(status), err) {
				return
			}
		}
	}
}

// closeBooks looks closer at those that are missing and might be started: the list of open runs may lag behind,
// and a run that was terminated has left no outcome.
func (r *reconciliation) closeBooks(ctx context.Context, plan *gaps.Plan) error {
	candidates := plan.Candidates()
	found := make([]closing, len(candidates))
	failures := each(len(candidates), func(i int) (err error) {
		found[i], err = r.herald.closing(ctx, r.ledger, candidates[i], false)
		return err
	})
	for i, failure := range failures {
		if failure != nil {
			return failure
		}
		if found[i].open || found[i].outcome != "" {
			plan.Strike(candidates[i], found[i].open, found[i].outcome)
		}
		if found[i].booked {
			r.note("%s: %s", candidates[i], found[i].note)
			r.wakeNext(ctx, candidates[i])
		}
	}
	if shown := 3; len(r.notes) > shown {
		r.notes = append(r.notes[:shown], fmt.Sprintf("and %d more runs had ended without an outcome", len(r.notes)-shown))
	}
	return nil
}

// wakeNext has the run of the next interval look at this one, whose own run did not live to tell it.
func (r *reconciliation) wakeNext(ctx context.Context, of interval.Interval) {
	if !r.watched.Schedule.DependsOnPast {
		return
	}
	spec, err := specOf(r.watched.Pipeline, r.watched.Schedule)
	if err == nil {
		err = r.activities.wakeAfter(ctx, r.watched.Pipeline, spec, of)
	}
	if err != nil { // it looks by itself, later
		activity.GetLogger(ctx).Warn("could not tell the run of the next interval", "pipeline", r.watched.Pipeline, "interval", of.String(), "reason", err)
	}
}

func (r *reconciliation) decide(ctx context.Context, plan *gaps.Plan) error {
	if r.watched.Paused {
		if err := r.stopCatchup(ctx); err != nil {
			return err
		}
	}
	decision := plan.Decide()
	if r.watched.Paused && plan.Missing > 0 {
		r.note("nothing is started: the Schedule is paused%s", because(r.watched.Note))
		return nil
	}
	if decision.Why != "" {
		r.note("%s", decision.Why)
	}
	if !decision.Chosen.IsZero() {
		if _, err := r.ledger.Notice(ctx, r.watched.Pipeline, noticeLatest, []interval.Interval{decision.Chosen}); err != nil {
			return err
		}
	}
	if !r.watched.Paused {
		r.result.Catchup = decision.Start
	}
	return nil
}

// stopCatchup keeps a catchup that is at work from starting more runs; those that are open go on.
func (r *reconciliation) stopCatchup(ctx context.Context) error {
	stopped, err := r.activities.temporal.StopCatchup(ctx, r.watched.Pipeline)
	if stopped {
		r.note("%s starts no more runs", launch.CatchupID(r.watched.Pipeline))
	}
	return err
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}
