package warehouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Slice is a part of a table, as a delete+insert owns it.
type Slice struct {
	Interval interval.Interval
	// TimeColumn decides which rows are the interval's. Default: the hidden interval column.
	TimeColumn string
	// Location matters when the time column is a date. Default UTC.
	Location *time.Location
	// Scope restricts the slice to rows with these values.
	Scope map[string]string
}

// Checksum reads the rows that are stored and returns their number and the checksum of their content:
// equal on both databases, and equal to a receipt's, for equal content in the given columns. It does not depend
// on the order of the rows. A nil slice is the whole table.
//
// The sum is "xxh64sum1:<rows>:<hex>": the sum, modulo 2^64, of the 64-bit xxHash of each row in a canonical form. It tells
// mistakes, not forgery.
func (w *Warehouse) Checksum(ctx context.Context, table string, columns []pipeline.Column, slice *Slice) (rows int64, sum string, err error) {
	plain := make([]pipeline.Column, len(columns))
	for i, c := range columns {
		plain[i] = pipeline.Column{Name: c.Name, Type: c.Type} // what is stored has the standard form
	}
	j := &job{w: w, req: LoadRequest{Load: &pipeline.Load{Table: table, Disposition: pipeline.DispositionReplace}}}
	total, err := j.audit(ctx, plain, slice)
	if err != nil {
		return 0, "", fmt.Errorf("checksum of %s: %w", table, err)
	}
	return total.rows, total.String(), nil
}

// Rows returns the number of rows that are stored in a slice; a nil one is the whole table. A table that is not there
// has none.
func (w *Warehouse) Rows(ctx context.Context, table string, columns []pipeline.Column, slice *Slice) (int64, error) {
	j := &job{w: w, req: LoadRequest{Load: &pipeline.Load{Table: table, Disposition: pipeline.DispositionReplace}}}
	rows, err := j.count(ctx, columns, slice)
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", table, err)
	}
	return rows, nil
}

// TableKey returns how receipts name the part of a table that a load owns.
func (w *Warehouse) TableKey(ctx context.Context, load *pipeline.Load) (table, scope string, err error) {
	j := &job{w: w, req: LoadRequest{Load: load}}
	if j.table, err = w.db.split(load.Table); err == nil {
		err = j.locate(ctx)
	}
	if err != nil {
		return "", "", fmt.Errorf("look for table %s: %w", load.Table, err)
	}
	return j.table.String(), j.scopeKey(), nil
}

// locate gives the table its schema.
func (j *job) locate(ctx context.Context) error {
	s, err := j.w.db.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release()
	shape, err := s.describe(ctx, j.table)
	if err != nil || shape == nil {
		return errors.Join(err, j.resolve(ctx, s))
	}
	j.table = shape.name
	return nil
}

func (j *job) count(ctx context.Context, columns []pipeline.Column, slice *Slice) (rows int64, err error) {
	if err := j.planSlice(columns, slice); err != nil {
		return 0, err
	}
	s, err := j.w.db.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer s.release()
	shape, err := s.describe(ctx, j.table)
	if err != nil || shape == nil {
		return 0, err
	}
	where, args := j.sliceWhere()
	err = s.query(ctx, "select count(*) from "+j.table.quoted()+" where "+where, args, func(scan func(dest ...any) error) error {
		return scan(&rows)
	})
	return rows, err
}

func (j *job) audit(ctx context.Context, columns []pipeline.Column, slice *Slice) (checksum, error) {
	if err := j.planSlice(columns, slice); err != nil {
		return checksum{}, err
	}
	s, err := j.w.db.acquire(ctx)
	if err != nil {
		return checksum{}, err
	}
	defer s.release()
	where, args := j.sliceWhere()
	return j.sumOf(ctx, s, j.table.quoted(), where, args)
}

func (j *job) planSlice(columns []pipeline.Column, slice *Slice) error {
	var err error
	if j.columns, err = compile(columns); err != nil {
		return err
	}
	if j.table, err = j.w.db.split(j.req.Load.Table); err != nil || slice == nil {
		return err
	}
	j.req.Interval, j.req.Location = slice.Interval, slice.Location
	j.req.Load.Scope, j.req.Load.TimeColumn, j.req.Load.Disposition = slice.Scope, slice.TimeColumn, pipeline.DispositionDeleteInsert
	if err := j.planScope(); err != nil {
		return err
	}
	return j.planTime()
}

func (j *job) sumOf(ctx context.Context, s session, table, where string, args []any) (checksum, error) {
	var total checksum
	var p parser
	var line []byte
	values := make([]value, len(j.columns))
	stored := make([]column, len(j.columns))
	names := make([]string, len(j.columns))
	for i, c := range j.columns {
		stored[i] = column{name: c.name, declared: c.declared}
		names[i] = quote(c.name)
	}
	err := s.readText(ctx, "select "+strings.Join(names, ", ")+" from "+table+" where "+where, args, func(fields [][]byte) error {
		p.reset()
		for i := range stored {
			if reason := p.parse(&stored[i], fields[i], &values[i]); reason != "" {
				return permanent(TypeTableMismatch, "column %q (%s) of a stored row: the value %s", stored[i].name, stored[i].declared, reason)
			}
		}
		line = appendCanonical(line[:0], stored, values)
		total.add(line)
		return nil
	})
	return total, err
}
