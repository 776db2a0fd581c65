package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/extract"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// Bounds of a listing.
const (
	// maximumRestarts is how often a listing may begin again, because its position was too old or
	// the API has forgotten it.
	maximumRestarts = 3
)

// ExtractHTTP stages the rows of an HTTP API, page by page. An attempt goes on after the last page
// that an earlier one has committed.
func (a *Activities) ExtractHTTP(ctx context.Context, in step.Input) (step.Result, error) {
	return a.attempt(ctx, in, func(ctx context.Context, p *progress) (*step.Done, error) {
		api, err := a.connections.HTTP(in.Step.HTTP.Connection)
		if err != nil {
			return nil, err
		}
		if err := a.connections.OnTaskQueue(api, activity.GetInfo(ctx).TaskQueue); err != nil {
			return nil, err
		}
		location, err := interval.LoadLocation(in.Timezone)
		if err != nil {
			return nil, err
		}
		listing, err := extract.OpenHTTP(api, in.Step.HTTP, in.Interval, location)
		if err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", in.Step.HTTP.Path, in.Step.HTTP.Connection, err)
		}
		opened, err := a.warehouse(ctx, in.Warehouse)
		if err != nil {
			return nil, err
		}
		stage, err := opened.OpenStage(ctx, stageRef(ctx, in.Owner, in.Step, in.Step))
		if err != nil {
			return nil, err
		}
		l := &listingRun{activities: a, in: in, listing: listing, stage: stage, progress: p}
		return l.read(connection.WithWaits(ctx, p.throttle.turn))
	})
}

// stageRef names the stage of a source for the current attempt.
func stageRef(ctx context.Context, owner step.Owner, source, writer pipeline.Step) warehouse.StageRef {
	info := activity.GetInfo(ctx)
	return warehouse.StageRef{
		Pipeline: owner.Pipeline, RunID: info.WorkflowExecution.RunID, Step: source.Name,
		WorkflowID: info.WorkflowExecution.ID, Interval: owner.Interval,
		Columns: writer.SourceColumns(), Fence: fence(info),
	}
}

// fence orders attempts: it grows with every attempt, every execution after a wait, every reset and
// every rerun, since the server issues the time.
func fence(info activity.Info) int64 { return info.StartedTime.UnixMicro() }

// listingRun is one attempt to read a listing to its end.
type listingRun struct {
	activities *Activities
	in         step.Input
	listing    *extract.Listing
	stage      *warehouse.Stage
	progress   *progress
}

func (l *listingRun) read(ctx context.Context) (*step.Done, error) {
	if l.expired() {
		if err := l.restart(ctx, errors.New("the position is older than resume_within, and the listing may have shifted since")); err != nil {
			return nil, err
		}
	}
	for !l.stage.Progress().Done {
		err := l.page(ctx)
		verdict := l.progress.throttle.verdict(err)
		switch {
		case err == nil:
			l.progress.throttle.gotOn()
		case verdict.Class == retry.Throttled:
			if err := l.progress.throttle.obey(ctx, verdict, err); err != nil {
				return nil, err
			}
		case verdict.Type == extract.TypeCursorRejected:
			if err := l.restart(ctx, err); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	got := l.stage.Progress()
	done := &step.Done{Rows: got.Rows, Pages: got.Pages}
	if got.Restarts > 0 {
		done.Note = fmt.Sprintf("the listing began again %d times", got.Restarts)
	}
	return done, nil
}

// page asks for the next page and commits it with the position after it.
func (l *listingRun) page(ctx context.Context) error {
	before := l.stage.Progress()
	page, err := l.listing.Fetch(ctx, before.Position)
	if err != nil {
		return fmt.Errorf("list %s: %w", l.in.Step.HTTP.Connection, err)
	}
	defer page.Close()
	var broken error // of the page itself, which says where: the stage has nothing to add
	rows := counted(page.Rows(), l.progress, before.Rows, &broken)
	if _, err := l.stage.AppendPage(ctx, before.Pages+1, rows, page.Next); err != nil {
		if broken != nil && errors.Is(err, broken) {
			err = broken
		}
		return fmt.Errorf("list %s: %w", l.in.Step.HTTP.Connection, err)
	}
	after := l.stage.Progress()
	l.progress.page(after.Pages, after.Rows)
	return nil
}

// progressRows is how often rows are reported as progress.
const progressRows = 1024

// counted reports progress as rows go by, and keeps the error with which they break off.
func counted(rows extract.Rows, p *progress, before int64, broken *error) warehouse.Rows {
	return func(yield func([][]byte, error) bool) {
		n := before
		for row, err := range rows {
			if n++; n%progressRows == 0 {
				p.rows(n)
			}
			if err != nil {
				*broken = err
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// expired says whether the position is too old to go on from: a listing by page number or offset
// shifts when records come and go.
func (l *listingRun) expired() bool {
	spec := l.in.Step.HTTP
	got := l.stage.Progress()
	if got.Done || got.Pages == 0 || spec.Pagination == nil {
		return false
	}
	switch spec.Pagination.Kind {
	case pipeline.PaginationPage, pipeline.PaginationOffset:
		return got.Age > spec.ResumeWithin.Std()
	default:
		return false
	}
}

func (l *listingRun) restart(ctx context.Context, why error) error {
	if l.stage.Progress().Restarts >= maximumRestarts {
		return retry.Permanentf(extract.TypeCursorRejected, "list %s: the listing began again %d times and did not come to its end: %w",
			l.in.Step.HTTP.Connection, maximumRestarts, why)
	}
	activity.GetLogger(ctx).Info("the listing begins again", "reason", l.activities.connections.Mask(why.Error()))
	return l.stage.Restart(ctx)
}
