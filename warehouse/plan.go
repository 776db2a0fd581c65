package warehouse

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// job is a load request that has been checked, in the terms of the database.
type job struct {
	w       *Warehouse
	req     LoadRequest
	columns []column
	table   tableName
	scope   []fixedColumn // in the order of their names
	key     []string      // of an upsert: scope and unique_key
	time    *column       // the time column, when the load has one
	low     value         // the interval's bounds in the time column's unit
	high    value
	version *column // of an upsert
	hidden  bool    // the load cannot do without the hidden interval column

	fixed []fixedColumn // what is filled in, known once the table is
	alive pulse
}

// plan checks what can be checked without the database.
func (w *Warehouse) plan(req LoadRequest) (*job, error) {
	j := &job{w: w, req: req}
	if err := j.checkRequest(); err != nil {
		return nil, err
	}
	var err error
	if j.columns, err = compile(req.Columns); err != nil {
		return nil, err
	}
	if j.table, err = w.db.split(req.Load.Table); err != nil {
		return nil, err
	}
	for _, step := range []func() error{j.planScope, j.planTime, j.planKey, j.planChecks} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return j, checkCase(w.db, j.columns, j.scope)
}

func (j *job) checkRequest() error {
	r := j.req
	switch {
	case r.Load == nil:
		return permanent(TypeBadRequest, "the request has no load")
	case r.Pipeline == "" || r.Step == "":
		return permanent(TypeBadRequest, "the request names no pipeline and step")
	case r.Fence <= 0:
		return permanent(TypeBadRequest, "the request has no fence: it is the attempt's start in microseconds")
	case r.Interval.IsZero() || !r.Interval.End.After(r.Interval.Start):
		return permanent(TypeBadRequest, "the interval %s is empty", r.Interval)
	case (r.Stage == nil) == (r.Rows == nil):
		return permanent(TypeBadRequest, "exactly one of stage and rows is the source of a load")
	}
	switch r.Load.Outside {
	case "", "fail", "drop":
	default:
		return permanent(TypeBadRequest, "outside: %q is not supported: write fail or drop", r.Load.Outside)
	}
	return nil
}

// checkCase refuses names that SQLite cannot tell apart.
func checkCase(db database, columns []column, scope []fixedColumn) error {
	seen := map[string]string{strings.ToLower(intervalColumn): intervalColumn, strings.ToLower(rowColumn): rowColumn}
	names := make([]string, 0, len(columns)+len(scope))
	for _, c := range columns {
		names = append(names, c.name)
	}
	for _, f := range scope {
		names = append(names, f.name)
	}
	for _, name := range names {
		folded := name
		if db.foldsCase() {
			folded = asciiLower(name)
		}
		if other, ok := seen[folded]; ok {
			return permanent(TypeBadRequest, "columns %q and %q have the same name for this database", other, name)
		}
		seen[folded] = name
	}
	return nil
}

// asciiLower folds case as SQLite does: ASCII letters only.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func (j *job) find(name string) *column {
	for i := range j.columns {
		if j.columns[i].name == name {
			return &j.columns[i]
		}
	}
	return nil
}

func (j *job) planScope() error {
	names := make([]string, 0, len(j.req.Load.Scope))
	for name := range j.req.Load.Scope {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := checkIdentifier(name); err != nil {
			return permanent(TypeBadRequest, "scope: column %q: %w", name, err)
		}
		if j.find(name) != nil {
			return permanent(TypeBadRequest, "scope: column %q is also a column of the source: the load fills it in", name)
		}
		text := []byte(j.req.Load.Scope[name])
		if reason := checkText(text, 0); reason != "" {
			return permanent(TypeBadRequest, "scope: the value of %q %s", name, reason)
		}
		j.scope = append(j.scope, fixedColumn{name, pipeline.Type{Kind: pipeline.Text}, value{b: text}})
	}
	return nil
}

// scopeKey is the scope as the ledger spells it: canonical JSON, empty for the whole table.
func (j *job) scopeKey() string {
	if len(j.req.Load.Scope) == 0 {
		return ""
	}
	text, err := json.Marshal(j.req.Load.Scope) // sorts the names
	if err != nil {
		return fmt.Sprint(j.req.Load.Scope) // strings cannot fail to marshal
	}
	return string(text)
}

func (j *job) planTime() error {
	load := j.req.Load
	if load.TimeColumn == "" {
		j.hidden = load.Disposition == pipeline.DispositionDeleteInsert
		return nil
	}
	if load.Disposition != pipeline.DispositionDeleteInsert {
		return nil // it says nothing to the other dispositions
	}
	c := j.find(load.TimeColumn)
	if c == nil {
		return permanent(TypeBadRequest, "time_column %q is none of the source's columns: %s", load.TimeColumn, j.names())
	}
	if !c.declared.Kind.IsTime() {
		return permanent(TypeBadRequest, "time_column %q is %s: it must be date, timestamp or timestamptz", c.name, c.declared)
	}
	j.time = c
	var err error
	if j.low, err = bound(c, j.req.Interval.Start, j.req.Location); err != nil {
		return err
	}
	j.high, err = bound(c, j.req.Interval.End, j.req.Location)
	return err
}

// bound is an instant in the unit of the column. A date stands for its local midnight.
func bound(c *column, at time.Time, location *time.Location) (value, error) {
	if c.declared.Kind != pipeline.Date {
		return value{i: micros(at)}, nil
	}
	if location == nil {
		location = time.UTC
	}
	local := at.In(location)
	// A day whose midnight a clock change skips begins at the first instant that exists.
	y, m, d := local.Date()
	if first := time.Date(y, m, d, 0, 0, 0, 0, location); !first.Equal(at) && !startsDay(local) {
		return value{}, permanent(TypeBadRequest, "time_column %q is a date, and the interval's bound %s is not midnight in %s: use a timestamp",
			c.name, at.UTC().Format(time.RFC3339), location)
	}
	return value{i: daysOf(local)}, nil
}

// startsDay reports whether the instant before local was on another day.
func startsDay(local time.Time) bool {
	return local.Add(-time.Nanosecond).Day() != local.Day()
}

func (j *job) names() string {
	names := make([]string, len(j.columns))
	for i, c := range j.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func (j *job) planKey() error {
	load := j.req.Load
	switch load.Disposition {
	case pipeline.DispositionDeleteInsert, pipeline.DispositionReplace:
		return nil
	case pipeline.DispositionUpsert:
	default:
		return permanent(TypeBadRequest, "disposition %q is not supported: write delete+insert, upsert or replace", load.Disposition)
	}
	if len(load.UniqueKey) == 0 {
		return permanent(TypeBadRequest, "an upsert needs a unique_key: without one each run would add all rows again")
	}
	for _, f := range j.scope {
		j.key = append(j.key, f.name)
	}
	for _, name := range load.UniqueKey {
		c := j.find(name)
		if c == nil {
			return permanent(TypeBadRequest, "unique_key: %q is none of the source's columns: %s", name, j.names())
		}
		if slices.Contains(j.key, name) {
			return permanent(TypeBadRequest, "unique_key: %q is named twice", name)
		}
		j.key = append(j.key, name)
	}
	return j.planVersion()
}

func (j *job) planVersion() error {
	name := j.req.Load.VersionColumn
	if name == "" {
		j.hidden = true
		return nil
	}
	c := j.find(name)
	if c == nil {
		return permanent(TypeBadRequest, "version_column %q is none of the source's columns: %s", name, j.names())
	}
	switch c.declared.Kind {
	case pipeline.Smallint, pipeline.Integer, pipeline.Bigint, pipeline.Real, pipeline.Double,
		pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
	default:
		return permanent(TypeBadRequest, "version_column %q is %s: only integers, floats, dates and times have the same order in every database", name, c.declared)
	}
	if slices.Contains(j.key, name) {
		return permanent(TypeBadRequest, "version_column %q is in the unique_key: then no row could have two versions", name)
	}
	j.version = c
	return nil
}

func (j *job) planChecks() error {
	for i, check := range j.req.Load.Checks {
		names := check.Unique
		if check.NotNull != "" {
			names = append(slices.Clone(names), check.NotNull)
		}
		for _, name := range names {
			if j.find(name) == nil {
				return permanent(TypeBadRequest, "check %d: %q is none of the source's columns: %s", i+1, name, j.names())
			}
		}
	}
	return nil
}

// place says where a row of a delete+insert lies; nil when its place is not in the row.
func (j *job) place() func(values []value) placement {
	if j.time == nil {
		return nil
	}
	at := slices.IndexFunc(j.columns, func(c column) bool { return c.name == j.time.name })
	low, high := j.low.i, j.high.i
	return func(values []value) placement {
		v := &values[at]
		switch {
		case v.null:
			return timeless
		case v.i >= low && v.i < high:
			return inside
		case v.i == high:
			return atEnd
		}
		return beyond
	}
}

// intervalValue is the hidden column's value.
func intervalValue(iv interval.Interval) fixedColumn {
	return fixedColumn{intervalColumn, pipeline.Type{Kind: pipeline.Timestamptz}, value{i: micros(iv.Start)}}
}

// receiptKey names the slice that the load writes.
func (j *job) receiptKey(table string) string {
	return strings.Join([]string{"receipt", table, j.scopeKey(), j.req.Interval.String()}, "|")
}
