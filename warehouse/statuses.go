package warehouse

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// Status is how an interval stands, without the rest of its outcome.
type Status struct {
	Interval interval.Interval
	// Status is one of the outcomes.
	Status string
	// Digest is that of the run's definition; empty when it is not known.
	Digest string
}

// statusPage is how many entries are read at a time, each page in a session of its own.
const statusPage = 5000

// Statuses returns how the intervals of a pipeline stand that have an outcome and start in [from, to), in the order
// of start and end; a zero bound is none. They are read page by page, so that any number needs little memory. An
// error ends the sequence.
func (w *Warehouse) Statuses(ctx context.Context, pipelineName string, from, to time.Time) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		err := w.pages(ctx, "outcomes", "status || ' ' || digest", "pipeline = $1", []any{pipelineName}, from, to, func(iv interval.Interval, status string) bool {
			status, digest, _ := strings.Cut(status, " ")
			return yield(Status{Interval: iv, Status: status, Digest: digest}, nil)
		})
		if err != nil {
			yield(Status{}, fmt.Errorf("read outcomes of %s: %w", pipelineName, err))
		}
	}
}

// Noticed returns the intervals of a pipeline of which somebody was told what, as Statuses does.
func (w *Warehouse) Noticed(ctx context.Context, pipelineName, what string, from, to time.Time) iter.Seq2[interval.Interval, error] {
	return func(yield func(interval.Interval, error) bool) {
		err := w.pages(ctx, "notices", "what", "pipeline = $1 and what = $2", []any{pipelineName, what}, from, to, func(iv interval.Interval, _ string) bool {
			return yield(iv, nil)
		})
		if err != nil {
			yield(interval.Interval{}, fmt.Errorf("read notices of %s: %w", pipelineName, err))
		}
	}
}

// entry is what a page holds.
type entry struct {
	interval interval.Interval
	text     string
}

// pages reads a table of the ledger by start and end until each returns false.
func (w *Warehouse) pages(ctx context.Context, table, column, where string, args []any, from, to time.Time, each func(iv interval.Interval, text string) bool) error {
	after := interval.Interval{}
	page := make([]entry, 0, statusPage)
	for {
		var err error
		if page, err = w.page(ctx, table, column, where, args, pageBounds{from: from, to: to, after: after}, page[:0]); err != nil {
			return err
		}
		for _, e := range page {
			if !each(e.interval, e.text) {
				return nil
			}
		}
		if len(page) < statusPage {
			return nil
		}
		after = page[len(page)-1].interval
	}
}

// pageBounds say which entries come next: those that start in [from, to) and stand behind after.
type pageBounds struct {
	from, to time.Time
	after    interval.Interval
}

func (w *Warehouse) page(ctx context.Context, table, column, where string, args []any, bounds pageBounds, into []entry) ([]entry, error) {
	sql := "select interval_start, interval_end, " + column + " from " + w.db.ledger(table) + " where " + where
	args = args[:len(args):len(args)]
	add := func(condition string, values ...time.Time) {
		numbers := make([]any, len(values))
		for i, value := range values {
			args = append(args, value.UTC())
			numbers[i] = len(args)
		}
		sql += " and " + fmt.Sprintf(condition, numbers...)
	}
	if !bounds.after.IsZero() {
		add("(interval_start, interval_end) > ($%d, $%d)", bounds.after.Start, bounds.after.End)
		bounds.from = bounds.after.Start // so that also a planner without statistics reads no more than is left
	}
	if !bounds.from.IsZero() {
		add("interval_start >= $%d", bounds.from)
	}
	if !bounds.to.IsZero() {
		add("interval_start < $%d", bounds.to)
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return into, err
	}
	defer s.release()
	err = s.query(ctx, sql+fmt.Sprintf(" order by interval_start, interval_end limit %d", statusPage), args, func(scan func(dest ...any) error) error {
		var e entry
		err := scan(&e.interval.Start, &e.interval.End, &e.text)
		utc(&e.interval.Start, &e.interval.End)
		into = append(into, e)
		return err
	})
	return into, err
}

// LastNoticed returns the newest interval of a pipeline of which somebody was told what; ok is false when there is
// none.
func (w *Warehouse) LastNoticed(ctx context.Context, pipelineName, what string) (last interval.Interval, ok bool, err error) {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return interval.Interval{}, false, fmt.Errorf("read notices of %s: %w", pipelineName, err)
	}
	defer s.release()
	err = s.query(ctx, "select interval_start, interval_end from "+w.db.ledger("notices")+
		" where pipeline = $1 and what = $2 order by interval_end desc limit 1", []any{pipelineName, what},
		func(scan func(dest ...any) error) error {
			err := scan(&last.Start, &last.End)
			utc(&last.Start, &last.End)
			ok = err == nil
			return err
		})
	if err != nil {
		return interval.Interval{}, false, fmt.Errorf("read notices of %s: %w", pipelineName, err)
	}
	return last, ok, nil
}
