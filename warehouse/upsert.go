package warehouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// upsert inserts or updates by the key. Of several rows with one key the newest by version, or else
// the last in source order, is the one that counts. Rows go in in the order of their keys, so that two
// loads that touch the same keys do not wait for each other in a circle.
func (j *job) upsert(ctx context.Context, s session, src *source, r *Receipt) error {
	if err := j.checkKeyValues(ctx, s, src); err != nil {
		return err
	}
	if err := j.countDuplicates(ctx, s, src, r); err != nil {
		return err
	}
	list, args := j.selectList()
	var key []string
	for _, name := range j.key {
		key = append(key, quote(name))
	}
	sql := "insert into " + j.table.quoted() + " as t (" + strings.Join(j.targets(), ", ") + ") select " + list +
		" from " + src.distinct + " where true order by " + strings.Join(j.sourceKey(), ", ") +
		" on conflict (" + strings.Join(key, ", ") + ") " + j.conflictAction()
	n, err := s.exec(ctx, sql, args...)
	if err != nil {
		return err
	}
	r.Inserted = n
	rest := r.Read - r.Duplicates - n
	if rest < 0 {
		return transient(TypeRowsLost, "%d rows were to be written and the database wrote %d", r.Read-r.Duplicates, n)
	}
	if rest > 0 {
		if r.Stale, err = j.countStale(ctx, s, src); err != nil {
			return err
		}
		r.Unchanged = rest - r.Stale
	}
	return nil
}

// sourceKey is the part of the key that is in the source's rows, quoted.
func (j *job) sourceKey() []string { return quoteAll(j.key[len(j.scope):]) }

// checkKeyValues refuses staged rows without a value in the key.
func (j *job) checkKeyValues(ctx context.Context, s session, src *source) error {
	if src.scratch {
		return nil // the parser has looked
	}
	for _, name := range j.key[len(j.scope):] {
		row := int64(0)
		err := s.query(ctx, "select coalesce(min("+quote(rowColumn)+"), 0) from "+src.table+" where "+quote(name)+" is null", nil,
			func(scan func(dest ...any) error) error { return scan(&row) })
		if err != nil {
			return err
		}
		if row > 0 {
			return badValue(row, j.find(name), missingKey, nil)
		}
	}
	return nil
}

const missingKey = "is missing, and the column is in the unique_key"

func (j *job) countDuplicates(ctx context.Context, s session, src *source, r *Receipt) error {
	key := strings.Join(j.sourceKey(), ", ")
	err := s.query(ctx, "select cast(coalesce(sum(n - 1), 0) as bigint) from (select count(*) as n from "+src.table+" group by "+key+" having count(*) > 1) as repeated", nil,
		func(scan func(dest ...any) error) error { return scan(&r.Duplicates) })
	src.distinct = src.table
	if err != nil || r.Duplicates == 0 {
		return err
	}
	order := quote(rowColumn) + " desc"
	if j.version != nil {
		order = quote(j.version.name) + " desc nulls last, " + order
	}
	names := make([]string, len(j.columns))
	for i, c := range j.columns {
		names[i] = quote(c.name)
	}
	list := strings.Join(names, ", ")
	src.distinct = "(select " + list + " from (select " + list + ", row_number() over (partition by " + key + " order by " + order + ") as _tranche_rank from " +
		src.table + ") as ranked where _tranche_rank = 1) as newest"
	return nil
}

// conflictAction updates a row that is there already, when it is not newer and not the same.
func (j *job) conflictAction() string {
	var sets, differs []string
	for _, quoted := range j.targets() {
		if slices.ContainsFunc(j.key, func(name string) bool { return quote(name) == quoted }) {
			continue
		}
		sets = append(sets, quoted+" = excluded."+quoted)
		differs = append(differs, "t."+quoted+" is distinct from excluded."+quoted)
	}
	if len(sets) == 0 {
		return "do nothing"
	}
	version := quote(j.versionName())
	return fmt.Sprintf("do update set %s where (t.%s is null or t.%s <= excluded.%s) and (%s)",
		strings.Join(sets, ", "), version, version, version, strings.Join(differs, " or "))
}

func (j *job) versionName() string {
	if j.version != nil {
		return j.version.name
	}
	return intervalColumn
}

// countStale counts the rows that found a newer version. It is asked after the writing, and the answer
// is the same: a row that was written has the version of its source.
func (j *job) countStale(ctx context.Context, s session, src *source) (int64, error) {
	var on []string
	var args []any
	for _, f := range j.scope {
		args = append(args, f.argument())
		on = append(on, fmt.Sprintf("t.%s = %s", quote(f.name), j.w.db.cast(fmt.Sprintf("$%d", len(args)), f.declared.Kind)))
	}
	for _, quoted := range j.sourceKey() {
		on = append(on, "t."+quoted+" = s."+quoted)
	}
	var newer string
	if j.version != nil {
		v := quote(j.version.name)
		newer = fmt.Sprintf("(t.%s > s.%s or t.%s is not null and s.%s is null)", v, v, v, v)
	} else {
		f := intervalValue(j.req.Interval)
		args = append(args, f.argument())
		newer = "t." + quote(intervalColumn) + " > " + j.w.db.cast(fmt.Sprintf("$%d", len(args)), f.declared.Kind)
	}
	from := src.distinct
	if from == src.table {
		from += " as s"
	} else {
		from = strings.TrimSuffix(from, " as newest") + " as s"
	}
	n := int64(0)
	err := s.query(ctx, "select count(*) from "+from+" join "+j.table.quoted()+" as t on "+strings.Join(on, " and ")+" where "+newer, args,
		func(scan func(dest ...any) error) error { return scan(&n) })
	return n, err
}
