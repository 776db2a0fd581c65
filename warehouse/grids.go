package warehouse

import (
	"context"
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// GridRow is one of the grids that a pipeline has had. A later one took over at its Spec.Since.
type GridRow struct {
	// Spec of the grid, with the instant since which it holds; zero for one that follows no other.
	Spec interval.Spec
	// Applied is when the pipeline's Schedule was created or updated with it.
	Applied time.Time
}

// Grids returns the grids that the pipeline has had, oldest first; none if it never had a Schedule.
func (w *Warehouse) Grids(ctx context.Context, pipelineName string) ([]GridRow, error) {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("read grids of %s: %w", pipelineName, err)
	}
	defer s.release()
	rows, err := w.grids(ctx, s, pipelineName)
	if err != nil {
		return nil, fmt.Errorf("read grids of %s: %w", pipelineName, err)
	}
	return rows, nil
}

// grids relies on the ordinals being 0, 1, 2 and so on, as RecordGrid writes them.
func (w *Warehouse) grids(ctx context.Context, s session, pipelineName string) ([]GridRow, error) {
	var rows []GridRow
	err := s.query(ctx, "select since, cron, every_seconds, timezone, start_at, end_at, applied_at from "+w.db.ledger("grids")+
		" where pipeline = $1 order by ordinal", []any{pipelineName},
		func(scan func(dest ...any) error) error {
			var row GridRow
			var since, end *time.Time
			var seconds int64
			err := scan(&since, &row.Spec.Cron, &seconds, &row.Spec.TimeZone, &row.Spec.Start, &end, &row.Applied)
			row.Spec.Every = time.Duration(seconds) * time.Second
			if since != nil {
				row.Spec.Since = *since
			}
			if end != nil {
				row.Spec.End = *end
			}
			utc(&row.Spec.Since, &row.Spec.Start, &row.Spec.End, &row.Applied)
			rows = append(rows, row)
			return err
		})
	return rows, err
}

// RecordGrid writes one grid of a pipeline. What to write follows from those that are known: next is told them
// and returns the row with its place among them, from 0 (replace the first) to their number (add one). Nobody
// else changes them meanwhile. What next refuses is not written.
func (w *Warehouse) RecordGrid(ctx context.Context, pipelineName string, next func(known []GridRow) (row GridRow, ordinal int, err error)) error {
	err := w.changeGrids(ctx, pipelineName, func(s session) error {
		known, err := w.grids(ctx, s, pipelineName)
		if err != nil {
			return err
		}
		row, ordinal, err := next(known)
		if err != nil {
			return err
		}
		if ordinal < 0 || ordinal > len(known) {
			return permanent(TypeBadRequest, "grid %d cannot follow %d known ones", ordinal, len(known))
		}
		_, err = s.exec(ctx, `insert into `+w.db.ledger("grids")+`
			(pipeline, ordinal, since, cron, every_seconds, timezone, start_at, end_at, applied_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			on conflict (pipeline, ordinal) do update set
			since = excluded.since, cron = excluded.cron, every_seconds = excluded.every_seconds, timezone = excluded.timezone,
			start_at = excluded.start_at, end_at = excluded.end_at, applied_at = excluded.applied_at`,
			pipelineName, int64(ordinal), orNull(row.Spec.Since), row.Spec.Cron, int64(row.Spec.Every/time.Second), row.Spec.TimeZone,
			row.Spec.Start.UTC(), orNull(row.Spec.End), row.Applied.UTC())
		return err
	})
	if err != nil {
		return fmt.Errorf("record a grid of %s: %w", pipelineName, err)
	}
	return nil
}

// ForgetGrids removes the grids of a pipeline. Its receipts, outcomes and notices stay.
func (w *Warehouse) ForgetGrids(ctx context.Context, pipelineName string) error {
	err := w.changeGrids(ctx, pipelineName, func(s session) error {
		_, err := s.exec(ctx, "delete from "+w.db.ledger("grids")+" where pipeline = $1", pipelineName)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget the grids of %s: %w", pipelineName, err)
	}
	return nil
}

func (w *Warehouse) changeGrids(ctx context.Context, pipelineName string, change func(s session) error) error {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release()
	if err := s.begin(ctx, lock{key: "grids|" + pipelineName}); err != nil {
		return err
	}
	if err := change(s); err != nil {
		return err
	}
	return s.commit(ctx)
}

func orNull(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC()
}

// Notice remembers that somebody was told of the intervals, and returns those of which nobody was before: of
// many callers at a time, one gets each. What says of what was told, such as "deadline".
func (w *Warehouse) Notice(ctx context.Context, pipelineName, what string, intervals []interval.Interval) (fresh []interval.Interval, err error) {
	if len(intervals) == 0 {
		return nil, nil
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("record notices of %s: %w", pipelineName, err)
	}
	defer s.release()
	if err := s.begin(ctx, lock{key: "notices|" + pipelineName}); err != nil {
		return nil, fmt.Errorf("record notices of %s: %w", pipelineName, err)
	}
	for _, iv := range intervals {
		n, err := s.exec(ctx, "insert into "+w.db.ledger("notices")+
			" (pipeline, interval_start, interval_end, what, noticed_at) values ($1, $2, $3, $4, $5) on conflict do nothing",
			pipelineName, iv.Start.UTC(), iv.End.UTC(), what, w.now().UTC())
		if err != nil {
			return nil, fmt.Errorf("record notices of %s: %w", pipelineName, err)
		}
		if n > 0 {
			fresh = append(fresh, iv)
		}
	}
	if err := s.commit(ctx); err != nil {
		return nil, fmt.Errorf("record notices of %s: %w", pipelineName, err)
	}
	return fresh, nil
}
