package warehouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// source is where a load's rows are: in a table, or in a stream that goes straight to the target.
type source struct {
	reader *rowReader // nil when the rows were staged before
	rows   rowSource  // the stream; nil when they are in a table
	table  string     // quoted; empty when they are not in a table
	count  int64      // rows in the table
	sum    checksum   // of the rows in the table

	scratch  bool
	distinct string // what an upsert selects from: the table, or its newest rows
}

// scratchTable holds the rows of an upsert between the source and the transaction.
const scratchTable = "tranche_scratch"

// source makes the rows ready. What can take long or fail for reasons of the source is done here,
// before anything is locked.
func (j *job) source(ctx context.Context, s session, v *view) (*source, error) {
	if j.req.Stage != nil {
		return j.stagedSource(ctx, s)
	}
	j.markKey()
	reader := newRowReader(j.columns, j.req.Rows, 1)
	if j.req.Progress != nil {
		reader.progress = func(rows int64) { j.alive.report(j.req.Progress, rows) }
	}
	src := &source{reader: reader}
	err := j.open(ctx, s, src)
	if err != nil {
		src.close(s)
		return nil, stopped(ctx, err)
	}
	return src, nil
}

func (j *job) open(ctx context.Context, s session, src *source) (err error) {
	if j.req.Load.Disposition != pipeline.DispositionUpsert {
		src.reader.place = j.place()
		src.reader.outside = outside{drop: j.req.Load.Outside == "drop", interval: j.req.Interval}
		src.rows, err = s.gather(ctx, src.reader)
		return err
	}
	if err := src.reader.prime(); err != nil {
		return err
	}
	src.table, src.scratch = quote(scratchTable), true
	if _, err := s.exec(ctx, "drop table if exists "+j.w.db.scratchSchema()+src.table); err != nil {
		return err
	}
	if _, err := s.exec(ctx, j.w.db.createScratch()+src.table+" ("+numberedColumns(j.w.db, j.columns)+")"); err != nil {
		return err
	}
	src.table = j.w.db.scratchSchema() + src.table
	if err := s.beginScratch(); err != nil {
		return err
	}
	src.count, err = s.copyRows(ctx, src.table, src.reader, nil, true)
	if err := errors.Join(err, s.endScratch(err)); err != nil {
		return err
	}
	src.sum = src.reader.sum
	return nil
}

// close frees what the source holds in the session and elsewhere.
func (src *source) close(s session) {
	if src.rows != nil {
		src.rows.close()
	}
	if src.reader != nil {
		src.reader.close()
	}
	if src.scratch {
		s.rollback()
		s.discard(src.table)
	}
}

// markKey makes the parser refuse rows without a value in the key: NULLs are all different to a unique
// constraint, so that each run would add such a row again.
func (j *job) markKey() {
	for i := range j.columns {
		j.columns[i].inKey = slices.Contains(j.key, j.columns[i].name)
	}
}

func (j *job) stagedSource(ctx context.Context, s session) (*source, error) {
	ref := *j.req.Stage
	r, err := j.w.stageRecord(ctx, s, ref.name())
	if err != nil {
		return nil, err
	}
	switch {
	case !r.found:
		return nil, transient(TypeStagingLost, "the stage %s is not there", ref)
	case !r.done || r.rows != j.req.StagedRows:
		return nil, transient(TypeStagingLost, "the stage %s has %d rows and the extract has given %d", ref, r.rows, j.req.StagedRows)
	case r.shape != shapeOf(j.columns):
		return nil, permanent(TypeBadRequest, "the stage %s has the columns %s, and the load declares %s", ref, r.shape, shapeOf(j.columns))
	}
	table := j.w.stageTable(ref)
	shape, err := s.describe(ctx, table)
	if err != nil {
		return nil, err
	}
	if shape == nil {
		return nil, transient(TypeStagingLost, "the table of stage %s is not there", ref)
	}
	return &source{table: table.quoted(), count: r.rows, sum: checksum{r.rows, uint64(r.checksum)}}, nil
}

// write puts the rows into the table.
func (j *job) write(ctx context.Context, s session, src *source, r *Receipt) error {
	if src.table != "" {
		count := int64(-1)
		err := s.query(ctx, "select count(*) from "+src.table, nil, func(scan func(dest ...any) error) error { return scan(&count) })
		if err != nil {
			return err
		}
		if count != src.count {
			return transient(TypeStagingLost, "%d rows were staged and %d are there", src.count, count)
		}
		r.Read, r.Checksum = src.count, src.sum.String()
	}
	switch j.req.Load.Disposition {
	case pipeline.DispositionUpsert:
		return j.upsert(ctx, s, src, r)
	case pipeline.DispositionReplace:
		if err := j.checkStale(ctx, s, r.Table); err != nil {
			return err
		}
	}
	deleted, err := j.deleteSlice(ctx, s)
	if err != nil {
		return err
	}
	r.Deleted = deleted
	if src.table == "" {
		err = j.writeStream(ctx, s, src, r)
	} else {
		err = j.writeStaged(ctx, s, src, r)
	}
	if err == nil && r.Inserted == 0 && j.req.Load.Disposition == pipeline.DispositionReplace && !j.req.Load.AllowEmpty {
		return permanent(TypeEmptyReplace, "the source is empty, and replace would empty the table: set allow_empty if that is right")
	}
	return err
}

func (j *job) writeStream(ctx context.Context, s session, src *source, r *Receipt) error {
	if src.rows == rowSource(src.reader) { // the source's own pace is what counts then
		j.alive.pause(true)
		defer j.alive.pause(false)
	}
	n, err := s.copyRows(ctx, j.table.quoted(), src.rows, j.fixed, false)
	if err != nil {
		return err
	}
	r.Read, r.Inserted, r.Dropped, r.Checksum = src.reader.read, n, src.reader.outside.dropped, src.reader.sum.String()
	return nil
}

// writeStaged moves rows from one table to the other, after their places have been looked at.
func (j *job) writeStaged(ctx context.Context, s session, src *source, r *Receipt) error {
	where := ""
	var args []any
	if j.time != nil {
		dropped, err := j.countOutside(ctx, s, src)
		if err != nil {
			return err
		}
		if r.Dropped = dropped; dropped > 0 {
			where, args = j.insideWhere(1)
			sum, err := j.sumOf(ctx, s, src.table, where, args)
			if err != nil {
				return err
			}
			r.Checksum = sum.String()
		}
	}
	select_, fixed := j.selectList()
	if where != "" {
		where, args = j.insideWhere(len(fixed) + 1)
		where = " where " + where
	}
	n, err := s.exec(ctx, "insert into "+j.table.quoted()+" ("+strings.Join(j.targets(), ", ")+") select "+select_+" from "+src.table+where, append(fixed, args...)...)
	if err != nil {
		return err
	}
	r.Inserted = n
	if want := src.count - r.Dropped; n != want {
		return transient(TypeRowsLost, "%d rows were to be moved and the database moved %d", want, n)
	}
	return nil
}

// targets are the columns that a load writes, quoted.
func (j *job) targets() []string {
	names := make([]string, 0, len(j.columns)+len(j.fixed))
	for _, c := range j.columns {
		names = append(names, quote(c.name))
	}
	for _, f := range j.fixed {
		names = append(names, quote(f.name))
	}
	return names
}

// selectList is the list that fills targets, with its parameters from $1 on.
func (j *job) selectList() (string, []any) {
	var parts []string
	var args []any
	for _, c := range j.columns {
		parts = append(parts, quote(c.name))
	}
	for _, f := range j.fixed {
		args = append(args, f.argument())
		parts = append(parts, j.w.db.cast(fmt.Sprintf("$%d", len(args)), f.declared.Kind))
	}
	return strings.Join(parts, ", "), args
}

func (j *job) bounds() []any {
	kind := j.time.declared.Kind
	return []any{string(appendTime(nil, kind, j.low.i)), string(appendTime(nil, kind, j.high.i))}
}

func (j *job) insideWhere(next int) (string, []any) {
	kind, name := j.time.declared.Kind, quote(j.time.name)
	low, high := j.w.db.cast(fmt.Sprintf("$%d", next), kind), j.w.db.cast(fmt.Sprintf("$%d", next+1), kind)
	return name + " >= " + low + " and " + name + " < " + high, j.bounds()
}

// countOutside counts the staged rows that are not the interval's, and fails when they may not be dropped.
func (j *job) countOutside(ctx context.Context, s session, src *source) (int64, error) {
	kind, name := j.time.declared.Kind, quote(j.time.name)
	low, high := j.w.db.cast("$1", kind), j.w.db.cast("$2", kind)
	var total, missing, atEnd, first int64
	err := s.query(ctx, "select count(*), coalesce(sum(case when "+name+" is null then 1 else 0 end), 0), coalesce(sum(case when "+name+" = "+high+" then 1 else 0 end), 0), coalesce(min("+quote(rowColumn)+"), 0) from "+
		src.table+" where "+name+" is null or "+name+" < "+low+" or "+name+" >= "+high, j.bounds(),
		func(scan func(dest ...any) error) error { return scan(&total, &missing, &atEnd, &first) })
	if err != nil || total == 0 || j.req.Load.Outside == "drop" {
		return total, err
	}
	var parts []string
	if missing > 0 {
		parts = append(parts, fmt.Sprintf("%d of them have no time", missing))
	}
	if atEnd > 0 {
		parts = append(parts, fmt.Sprintf("%d of them lie %s", atEnd, endHint))
	}
	detail := ""
	if len(parts) > 0 {
		detail = "; " + strings.Join(parts, "; ")
	}
	return 0, permanent(TypeOutsideInterval, "%d of %d rows are outside the interval, the first is row %d%s; %s", total, src.count, first, detail, dropHint)
}

const (
	endHint = "exactly on the interval's end, which belongs to the next interval: if the API's end is inclusive, ask it with last_instant"
	// dropHint says what may be done about rows that are in the wrong place.
	dropHint = "set outside: drop to leave such rows out"
)

// outsideError is the error of the first row that is outside.
func outsideError(row int64, iv interval.Interval, where placement) error {
	what := "is outside the interval"
	switch where {
	case atEnd:
		what = "lies " + endHint
	case timeless:
		what = "has no time"
	}
	return permanent(TypeOutsideInterval, "row %d %s (%s to %s); %s", row, what, iv.Start.UTC().Format(time.RFC3339), iv.End.UTC().Format(time.RFC3339), dropHint)
}

// checkStale refuses a snapshot that is older than the one in the table.
func (j *job) checkStale(ctx context.Context, s session, table string) error {
	var newest interval.Interval
	found := false
	err := s.query(ctx, "select interval_start, interval_end from "+j.w.db.ledger("receipts")+` where table_name = $1 and scope = $2 and interval_start > $3
		order by interval_start desc limit 1`, []any{table, j.scopeKey(), j.req.Interval.Start.UTC()}, func(scan func(dest ...any) error) error {
		found = true
		err := scan(&newest.Start, &newest.End)
		utc(&newest.Start, &newest.End)
		return err
	})
	if err == nil && found {
		return permanent(TypeStale, "the table holds the newer snapshot of %s", newest)
	}
	return err
}

// runChecks makes the load's checks over what it has written.
func (j *job) runChecks(ctx context.Context, s session, src *source, r *Receipt) error {
	rows, from, args := r.Inserted, j.table.quoted(), []any(nil)
	if j.req.Load.Disposition == pipeline.DispositionUpsert {
		rows, from = r.Read-r.Duplicates, src.distinct
	} else {
		var where string
		where, args = j.sliceWhere()
		from = "(select * from " + from + " where " + where + ") as slice"
	}
	for i, check := range j.req.Load.Checks {
		problem, err := j.runCheck(ctx, s, check, rows, from, args)
		if err != nil {
			return err
		}
		if problem != "" {
			return permanent(TypeCheckFailed, "check %d does not hold: %s; the table is as it was", i+1, problem)
		}
	}
	return nil
}

func (j *job) runCheck(ctx context.Context, s session, check pipeline.Check, rows int64, from string, args []any) (problem string, err error) {
	count := func(sql string) (n int64, err error) {
		err = s.query(ctx, sql, args, func(scan func(dest ...any) error) error { return scan(&n) })
		return n, err
	}
	switch {
	case check.MinimumRows != nil:
		if rows < *check.MinimumRows {
			return fmt.Sprintf("minimum_rows is %d, and the load has %d rows", *check.MinimumRows, rows), nil
		}
	case check.MaximumRows != nil:
		if rows > *check.MaximumRows {
			return fmt.Sprintf("maximum_rows is %d, and the load has %d rows", *check.MaximumRows, rows), nil
		}
	case len(check.Unique) > 0:
		names := strings.Join(quoteAll(check.Unique), ", ")
		n, err := count("select count(*) from (select 1 as one from " + from + " group by " + names + " having count(*) > 1) as repeated")
		if err != nil || n > 0 {
			return fmt.Sprintf("unique (%s): %d combinations occur more than once", strings.Join(check.Unique, ", "), n), err
		}
	case check.NotNull != "":
		n, err := count("select count(*) from " + from + " where " + quote(check.NotNull) + " is null")
		if err != nil || n > 0 {
			return fmt.Sprintf("not_null %s: %d rows have no value", check.NotNull, n), err
		}
	}
	return "", nil
}
