package warehouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// Load writes one interval's rows into the table, or leaves the table as it was. It may be called any
// number of times, at the same time and from several processes: the attempt with the highest fence
// decides what the slice is in the end.
//
// The rows are read once, in order, by one goroutine at a time. On SQLite all rows are had before the
// transaction begins, on PostgreSQL the first one.
func (w *Warehouse) Load(ctx context.Context, req LoadRequest) (Receipt, error) {
	j, err := w.plan(req)
	if err == nil {
		var receipt Receipt
		if receipt, err = j.run(ctx); err == nil {
			return receipt, nil
		}
		err = j.explain(ctx, err)
		w.reject(ctx, req.Pipeline, req.Step, req.RunID, req.Interval, err)
	}
	table := ""
	if req.Load != nil {
		table = req.Load.Table
	}
	return Receipt{}, fmt.Errorf("load %s/%s %s into %s: %w", req.Pipeline, req.Step, req.Interval, table, err)
}

// explain finds out whether a session was lost because a newer attempt ended it: then another try is
// pointless, and the reason is not the network.
func (j *job) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || retry.Classify(err).Class != retry.Transient {
		return err
	}
	s, connectErr := j.w.db.acquire(ctx)
	if connectErr != nil {
		return err
	}
	defer s.release()
	shape, describeErr := s.describe(ctx, j.table)
	if describeErr != nil || shape == nil {
		return err
	}
	if fenced := j.checkFence(ctx, s, shape.name.String()); isType(fenced, TypeFenced) {
		return fenced
	}
	return err
}

// errUnderShared says that what was seen before the transaction has changed: the table's lock must be
// exclusive after all.
var errUnderShared = errors.New("the table needs an exclusive lock")

func (j *job) run(ctx context.Context) (Receipt, error) {
	s, err := j.w.db.acquire(ctx)
	if err != nil {
		return Receipt{}, err
	}
	defer s.release()
	view, err := j.look(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	if err := j.checkFence(ctx, s, view.name); err != nil {
		return Receipt{}, err
	}
	src, err := j.source(ctx, s, view)
	if err != nil {
		return Receipt{}, err
	}
	defer src.close(s)
	j.alive.run(j.req.Progress)
	defer j.alive.stop()
	l := lock{key: j.receiptKey(view.name), table: view.name, exclusive: view.exclusive, fence: j.req.Fence}
	for {
		if err := s.begin(ctx, l); err != nil {
			return Receipt{}, err
		}
		receipt, err := j.transact(ctx, s, src, l)
		if !errors.Is(err, errUnderShared) {
			return receipt, err
		}
		s.rollback()
		l.exclusive = true
	}
}

// view is what is known of the table before, and again within, the transaction.
type view struct {
	name      string // in the ledger's spelling
	shape     *tableShape
	owners    []owner
	exclusive bool
}

type owner struct{ scope, pipeline, step string }

func (j *job) look(ctx context.Context, s session) (*view, error) {
	shape, err := s.describe(ctx, j.table)
	if err != nil {
		return nil, err
	}
	v := &view{shape: shape}
	if shape == nil {
		if err := j.resolve(ctx, s); err != nil {
			return nil, err
		}
		v.name = j.table.String()
	} else {
		j.table = shape.name
		v.name = shape.name.String()
		if err := j.checkTable(shape); err != nil {
			return nil, err
		}
	}
	if v.owners, err = j.owners(ctx, s, v.name); err != nil {
		return nil, err
	}
	owned, err := j.checkOwners(v)
	if err != nil {
		return nil, err
	}
	v.exclusive = shape == nil || !owned || len(v.owners) > 1 || j.req.Load.Disposition == pipeline.DispositionReplace
	return v, nil
}

// resolve gives a table that is yet to be made the schema in which it will be.
func (j *job) resolve(ctx context.Context, s session) error {
	if j.table.schema != "" || j.w.db.foldsCase() {
		return nil
	}
	return s.query(ctx, "select coalesce(current_schema()::text, 'public')", nil, func(scan func(dest ...any) error) error {
		return scan(&j.table.schema)
	})
}

func (j *job) owners(ctx context.Context, s session, table string) ([]owner, error) {
	var owners []owner
	err := s.query(ctx, "select scope, pipeline, step from "+j.w.db.ledger("owners")+" where table_name = $1 order by scope", []any{table},
		func(scan func(dest ...any) error) error {
			var o owner
			err := scan(&o.scope, &o.pipeline, &o.step)
			owners = append(owners, o)
			return err
		})
	return owners, err
}

// checkOwners reports whether the load owns its part of the table already. Parts that could overlap
// are refused: the whole table beside a scope, and scopes over other columns.
func (j *job) checkOwners(v *view) (bool, error) {
	mine := j.scopeKey()
	owned := false
	for _, o := range v.owners {
		if o.scope == mine {
			if o.pipeline != j.req.Pipeline || o.step != j.req.Step {
				return false, permanent(TypeTableOwned, "table %s%s is owned by %s/%s: two owners would delete each other's rows; give the loads a scope, or delete the owner from the ledger",
					v.name, scopeText(mine), o.pipeline, o.step)
			}
			owned = true
			continue
		}
		if !sameScopeColumns(o.scope, mine) {
			return false, permanent(TypeTableOwned, "table %s%s is owned by %s/%s, and%s could hold the same rows: all loads of a table need a scope over the same columns",
				v.name, scopeText(o.scope), o.pipeline, o.step, scopeText(mine))
		}
	}
	return owned, nil
}

func scopeText(scope string) string {
	if scope == "" {
		return " as a whole"
	}
	return " scope " + scope
}

// transact does the load's work between begin and commit.
func (j *job) transact(ctx context.Context, s session, src *source, l lock) (Receipt, error) {
	v, err := j.look(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	if v.exclusive && !l.exclusive {
		return Receipt{}, errUnderShared
	}
	if v.name != l.table {
		return Receipt{}, transient(TypeTableMismatch, "the table became %s meanwhile", v.name)
	}
	if err := j.checkFence(ctx, s, v.name); err != nil {
		return Receipt{}, err
	}
	if err := j.checkGrid(ctx, s, v.name); err != nil {
		return Receipt{}, err
	}
	if v.shape == nil {
		if err := j.createTable(ctx, s); err != nil {
			return Receipt{}, err
		}
		if v.shape, err = s.describe(ctx, j.table); err != nil {
			return Receipt{}, err
		}
		if v.shape == nil {
			return Receipt{}, transient(TypeTableMismatch, "the table that was just made is not there")
		}
	} else if err := j.checkContent(ctx, s, v); err != nil {
		return Receipt{}, err
	}
	j.fill(v.shape)
	receipt := j.receipt(v.name)
	if err := j.write(ctx, s, src, &receipt); err != nil {
		return Receipt{}, err
	}
	if err := j.runChecks(ctx, s, src, &receipt); err != nil {
		return Receipt{}, err
	}
	if err := j.seal(ctx, s, v, l, &receipt); err != nil {
		return Receipt{}, err
	}
	return receipt, s.commit(ctx)
}

// fill decides which columns the load itself fills in: the scope, and the hidden one where there is one.
func (j *job) fill(shape *tableShape) {
	j.fixed = slices.Clone(j.scope)
	if _, ok := shape.column(intervalColumn); ok {
		j.fixed = append(j.fixed, intervalValue(j.req.Interval))
	}
}

func (j *job) receipt(table string) Receipt {
	r := j.req
	return Receipt{
		Pipeline: r.Pipeline, Step: r.Step, Table: table, Scope: j.scopeKey(), Disposition: r.Load.Disposition, Interval: r.Interval,
		WorkflowID: r.WorkflowID, RunID: r.RunID, Attempt: r.Attempt, Fence: r.Fence, Digest: r.Digest, LoadedAt: j.w.now().UTC().Truncate(time.Microsecond),
	}
}

// checkFence turns away an attempt that a newer one has overtaken.
func (j *job) checkFence(ctx context.Context, s session, table string) error {
	fence := int64(0)
	runID := ""
	err := s.query(ctx, "select fence, run_id from "+j.w.db.ledger("receipts")+" where table_name = $1 and scope = $2 and interval_start = $3 and interval_end = $4",
		[]any{table, j.scopeKey(), j.req.Interval.Start.UTC(), j.req.Interval.End.UTC()}, func(scan func(dest ...any) error) error {
			return scan(&fence, &runID)
		})
	if err != nil {
		return err
	}
	if fence > j.req.Fence {
		return permanent(TypeFenced, "a newer attempt (run %s, fence %d) has loaded the interval: this one (fence %d) must not overwrite it", runID, fence, j.req.Fence)
	}
	return nil
}

// checkGrid refuses an interval that overlaps one that was loaded with other bounds: rows of the two
// would be deleted or kept by chance. Loads that overlap do not share a receipt's lock, so this is
// asked again, with all others kept out, when the receipt is written.
func (j *job) checkGrid(ctx context.Context, s session, table string) error {
	var other Receipt
	found := false
	start, end := j.req.Interval.Start.UTC(), j.req.Interval.End.UTC()
	err := s.query(ctx, "select interval_start, interval_end from "+j.w.db.ledger("receipts")+` where table_name = $1 and scope = $2
		and interval_start < $3 and interval_end > $4 and not (interval_start = $5 and interval_end = $6) order by interval_start limit 1`,
		[]any{table, j.scopeKey(), end, start, start, end}, func(scan func(dest ...any) error) error {
			found = true
			err := scan(&other.Interval.Start, &other.Interval.End)
			utc(&other.Interval.Start, &other.Interval.End)
			return err
		})
	if err != nil {
		return err
	}
	if found {
		return permanent(TypeGridChanged, "the interval overlaps %s, which has a receipt: the schedule's grid has changed; a new grid takes over at the old one's last tick", other.Interval)
	}
	return nil
}

// seal writes owner and receipt.
func (j *job) seal(ctx context.Context, s session, v *view, l lock, r *Receipt) error {
	if err := s.enclose(ctx, "grid|"+v.name+"|"+r.Scope, l); err != nil {
		return err
	}
	if err := j.checkGrid(ctx, s, v.name); err != nil {
		return err
	}
	_, err := s.exec(ctx, "insert into "+j.w.db.ledger("owners")+` (table_name, scope, pipeline, step, since) values ($1, $2, $3, $4, $5)
		on conflict (table_name, scope) do nothing`, v.name, r.Scope, r.Pipeline, r.Step, r.LoadedAt)
	if err != nil {
		return err
	}
	n, err := s.exec(ctx, "insert into "+j.w.db.ledger("receipts")+" as old ("+receiptColumns+`)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
		on conflict (table_name, scope, interval_start, interval_end) do update set pipeline = excluded.pipeline, step = excluded.step,
		disposition = excluded.disposition, workflow_id = excluded.workflow_id, run_id = excluded.run_id, attempt = excluded.attempt,
		fence = excluded.fence, digest = excluded.digest, rows_read = excluded.rows_read, rows_deleted = excluded.rows_deleted,
		rows_inserted = excluded.rows_inserted, rows_dropped = excluded.rows_dropped, rows_duplicate = excluded.rows_duplicate,
		rows_stale = excluded.rows_stale, rows_unchanged = excluded.rows_unchanged, checksum = excluded.checksum, loaded_at = excluded.loaded_at
		where old.fence <= excluded.fence`,
		r.Pipeline, r.Step, r.Table, r.Scope, r.Disposition, r.Interval.Start.UTC(), r.Interval.End.UTC(), r.WorkflowID, r.RunID, int64(r.Attempt), r.Fence, r.Digest,
		r.Read, r.Deleted, r.Inserted, r.Dropped, r.Duplicates, r.Stale, r.Unchanged, r.Checksum, r.LoadedAt)
	if err == nil && n != 1 {
		return permanent(TypeFenced, "a newer attempt has loaded the interval")
	}
	return err
}

// scopeWhere is the condition on the load's scope, with its parameters from number next on.
func (j *job) scopeWhere(next int) (string, []any) {
	var b strings.Builder
	var args []any
	for _, f := range j.scope {
		fmt.Fprintf(&b, " and %s = $%d", quote(f.name), next+len(args))
		args = append(args, f.argument())
	}
	return b.String(), args
}

// sliceWhere is the condition on the rows that the load owns.
func (j *job) sliceWhere() (string, []any) {
	var where string
	var args []any
	switch {
	case j.req.Load.Disposition == pipeline.DispositionReplace:
		where = "1 = 1"
	case j.time != nil:
		kind := j.time.declared.Kind
		where = fmt.Sprintf("%s >= %s and %s < %s", quote(j.time.name), j.w.db.cast("$1", kind), quote(j.time.name), j.w.db.cast("$2", kind))
		args = []any{string(appendTime(nil, kind, j.low.i)), string(appendTime(nil, kind, j.high.i))}
	default:
		where = quote(intervalColumn) + " = " + j.w.db.cast("$1", pipeline.Timestamptz)
		args = []any{intervalValue(j.req.Interval).argument()}
	}
	scope, more := j.scopeWhere(len(args) + 1)
	return where + scope, append(args, more...)
}

func (j *job) deleteSlice(ctx context.Context, s session) (int64, error) {
	where, args := j.sliceWhere()
	return s.exec(ctx, "delete from "+j.table.quoted()+" where "+where, args...)
}
