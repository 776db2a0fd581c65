package pipeline

import (
	"maps"
	"slices"
	"strings"
)

// loadOwner is a load with the scope of the rows it owns.
type loadOwner struct {
	step  string
	scope map[string]string
}

// load checks a load against the columns of its source.
func (c *checker) load(at string, s *Step, owners map[string][]loadOwner) {
	l := s.Load
	c.table(join(at, "table"), l.Table)
	c.scope(at, l)
	c.owner(at, s, owners)
	c.disposition(at, l)
	source := c.source(at, s)
	if source == nil {
		return
	}
	c.feeds(source)
	columns := c.columnsOf(source)
	if columns == nil {
		return
	}
	c.timeColumn(at, l, columns)
	c.versionColumn(at, l, columns)
	c.eachColumn(join(at, "unique_key"), l.UniqueKey, l, columns)
	c.scopeColumns(at, l, columns)
	for i := range l.Checks {
		c.checkColumns(index(join(at, "checks"), i), &l.Checks[i], l, columns)
	}
}

// source returns the step that the load takes its rows from, or nil after a problem.
func (c *checker) source(at string, s *Step) *Step {
	from := s.Load.From
	if from == "" {
		return nil
	}
	source := c.p.Step(from)
	switch {
	case from == s.Name:
		c.fail(join(at, "from"), codeCycle, "a load cannot load from itself: name the source")
	case source == nil:
		c.unknownStep(join(at, "from"), from, s.Name)
	case !source.IsSource() && source.Kind() != "":
		c.fail(join(at, "from"), codeNotASource, "step %q is of the kind %s and brings no rows: name an http, file or query step", clip(from), source.Kind())
	case source.IsSource():
		return source
	}
	return nil
}

// feeds refuses a source that may fail and still let its load run: the load would have no rows.
func (c *checker) feeds(source *Step) {
	if source.OnFailure == OnFailureContinue {
		c.fail(join(c.pathOfStep(source.Name), "on_failure"), codeContinueLoad, "step %q feeds a load, which cannot go on without its rows: write skip or fail", clip(source.Name))
	}
}

// columnsOf returns the columns by name, or nil when not every name is known.
func (c *checker) columnsOf(source *Step) map[string]Column {
	at := join(join(c.pathOfStep(source.Name), source.Kind()), "columns")
	columns := map[string]Column{}
	for _, column := range source.SourceColumns() {
		columns[column.Name] = column
	}
	if _, unnamed := columns[""]; unnamed || c.failed[at] || len(columns) == 0 {
		return nil
	}
	return columns
}

// column looks a name up as it is written: the database will see it quoted.
func (c *checker) column(at, name string, columns map[string]Column) (Column, Type, bool) {
	column, known := columns[name]
	if !known {
		names := sortedNames(columns)
		c.fail(at, codeUnknownColumn, "the source has no column %q%s: it has %s", clip(name), didYouMean(name, names), clip(strings.Join(names, ", ")))
		return column, Type{}, false
	}
	t, err := ParseType(column.Type)
	return column, t, err == nil
}

func (c *checker) timeColumn(at string, l *Load, columns map[string]Column) {
	if l.TimeColumn == "" {
		return
	}
	at = join(at, "time_column")
	_, t, ok := c.column(at, l.TimeColumn, columns)
	switch {
	case !ok:
	case !t.Kind.IsTime():
		c.fail(at, codeColumnType, "column %q is %s: the time column is a date, timestamp or timestamptz", clip(l.TimeColumn), t)
	case t.Kind == Date && c.grid != nil && !c.grid.MidnightOnly():
		c.fail(at, codeDateColumn, "column %q is a date, but not every interval of this schedule begins and ends at local midnight, so a date can belong to two of them: use a timestamp column", clip(l.TimeColumn))
	}
}

func (c *checker) versionColumn(at string, l *Load, columns map[string]Column) {
	if l.VersionColumn == "" {
		return
	}
	at = join(at, "version_column")
	_, t, ok := c.column(at, l.VersionColumn, columns)
	if !ok {
		return
	}
	switch t.Kind {
	case Text, Boolean, UUID, JSONB, Bytea:
		c.fail(at, codeColumnType, "column %q is %s, which has no order in which versions follow each other: use a number, a date or a time", clip(l.VersionColumn), t)
	}
}

// eachColumn checks a list of columns of the source or of the scope, each named once.
func (c *checker) eachColumn(at string, names []string, l *Load, columns map[string]Column) {
	seen := map[string]bool{}
	for i, name := range names {
		if seen[name] {
			c.fail(index(at, i), codeDuplicateName, "%q stands twice in the list", clip(name))
		}
		seen[name] = true
		if _, inScope := l.Scope[name]; !inScope && name != "" {
			c.column(index(at, i), name, columns)
		}
	}
}

func (c *checker) checkColumns(at string, check *Check, l *Load, columns map[string]Column) {
	c.eachColumn(join(at, "unique"), check.Unique, l, columns)
	if _, inScope := l.Scope[check.NotNull]; !inScope && check.NotNull != "" {
		c.column(join(at, "not_null"), check.NotNull, columns)
	}
}

// disposition checks the settings that only some ways of writing have.
func (c *checker) disposition(at string, l *Load) {
	isUpsert := l.Disposition == DispositionUpsert
	if isUpsert && len(l.UniqueKey) == 0 && !c.broken(join(at, "unique_key")) {
		c.fail(join(at, "unique_key"), codeMissingKey, "an upsert finds the rows to update by unique_key: write at least one column")
	}
	if l.Disposition != "" && !isUpsert && !c.broken(join(at, "disposition")) {
		if len(l.UniqueKey) > 0 {
			c.fail(join(at, "unique_key"), codeNoEffect, "%s finds its rows without a key: to refuse repeated rows write checks: [{ unique: [%s] }]", l.Disposition, clip(strings.Join(l.UniqueKey, ", ")))
		}
		if l.VersionColumn != "" {
			c.fail(join(at, "version_column"), codeNoEffect, "only an upsert compares versions")
		}
	}
	if l.AllowEmpty && l.Disposition != DispositionReplace {
		c.fail(join(at, "allow_empty"), codeNoEffect, "only replace can empty the whole table")
	}
	if l.Outside == OutsideDrop && l.TimeColumn == "" {
		c.fail(join(at, "outside"), codeNoEffect, "without time_column no row has a time that could be outside of the interval")
	}
	for i := range l.Checks {
		c.oneCondition(index(join(at, "checks"), i), &l.Checks[i])
	}
	c.rowBounds(at, l.Checks)
}

func (c *checker) oneCondition(at string, check *Check) {
	count := 0
	for _, set := range []bool{check.MinimumRows != nil, check.MaximumRows != nil, len(check.Unique) > 0, check.NotNull != ""} {
		if set {
			count++
		}
	}
	switch {
	case count > 1:
		c.fail(at, codeConflict, "a check has one condition: make an entry of each")
	case count == 0 && !c.broken(at):
		c.fail(at, codeMissingField, "the check has no condition: write one of minimum_rows, maximum_rows, unique, not_null")
	}
}

// rowBounds refuses bounds that no number of rows can meet.
func (c *checker) rowBounds(at string, checks []Check) {
	least, most := int64(0), int64(-1)
	for _, check := range checks {
		if check.MinimumRows != nil {
			least = max(least, *check.MinimumRows)
		}
		if check.MaximumRows != nil && (most < 0 || *check.MaximumRows < most) {
			most = *check.MaximumRows
		}
	}
	if most >= 0 && least > most {
		c.fail(join(at, "checks"), codeConflict, "minimum_rows (%d) is above maximum_rows (%d), so no load could pass", least, most)
	}
}

// table checks `table` and `schema.table`.
func (c *checker) table(at, table string) {
	if table == "" {
		return
	}
	schema, name := (&Load{Table: table}).TableName()
	switch {
	case name == "" || strings.Contains(name, ".") || strings.HasPrefix(table, "."):
		c.fail(at, codeBadName, "%q is no table: write table or schema.table", clip(table))
		return
	case strings.ContainsAny(table, `"`):
		c.fail(at, codeBadName, "write the name without quotes: it is quoted for you")
		return
	}
	if owner := reservedTable(strings.ToLower(schema), strings.ToLower(name)); owner != "" {
		c.fail(at, codeReservedName, "%q is reserved: tables of that name are %s own", clip(table), owner)
		return
	}
	c.identifier(at, name, "a table")
	if schema != "" {
		c.identifier(at, schema, "a schema")
	}
}

// reservedTable says whose table it would be, or "". The load ledger lives in the schema tranche, and
// in a database without schemas in tables that begin with tranche_.
func reservedTable(schema, table string) (owner string) {
	switch {
	case schema == "tranche" || schema == "" && strings.HasPrefix(table, "tranche_"):
		return "the load ledger's"
	case strings.HasPrefix(table, "sqlite_") || strings.HasPrefix(schema, "pg_") || schema == "information_schema":
		return "the database's"
	}
	return ""
}

// TableName returns the two parts of Table; schema is "" when it is not written.
func (l *Load) TableName() (schema, table string) {
	schema, table, found := strings.Cut(l.Table, ".")
	if !found {
		return "", l.Table
	}
	return schema, table
}

func (c *checker) scope(at string, l *Load) {
	seen := map[string]string{}
	for _, name := range sortedNames(l.Scope) {
		here := join(join(at, "scope"), name)
		c.identifier(here, name, "a column")
		if other, twice := seen[strings.ToLower(name)]; twice {
			c.fail(here, codeDuplicateName, "%q and %q are the same column", clip(other), clip(name))
		}
		seen[strings.ToLower(name)] = name
		if l.Scope[name] == "" {
			c.fail(here, codeMissingValue, "the scope has no value: write the text that marks this load's rows")
		}
	}
}

// scopeColumns refuses a column that both the source and the load would fill in.
func (c *checker) scopeColumns(at string, l *Load, columns map[string]Column) {
	for _, name := range sortedNames(l.Scope) {
		for _, column := range sortedNames(columns) {
			if strings.EqualFold(name, column) {
				c.fail(join(join(at, "scope"), name), codeConflict, "%q is a column of the source too, and the load fills the scope's columns in: rename one of them", clip(column))
			}
		}
	}
}

// owner refuses a second load of the pipeline that would own rows of the first.
func (c *checker) owner(at string, s *Step, owners map[string][]loadOwner) {
	table := strings.ToLower(s.Load.Table)
	if table == "" {
		return
	}
	for _, other := range owners[table] {
		if !sameKeys(other.scope, s.Load.Scope) {
			c.fail(join(at, "table"), codeSharedTable, "step %q loads into this table with another scope: give both the same columns of scope, with different values", clip(other.step))
		} else if maps.Equal(other.scope, s.Load.Scope) {
			c.fail(join(at, "table"), codeSharedTable, "step %q loads into this table already: to share it give each load a scope of its own, such as scope: { source: %s }", clip(other.step), clip(s.Name))
		}
	}
	owners[table] = append(owners[table], loadOwner{s.Name, s.Load.Scope})
}

func sameKeys(a, b map[string]string) bool {
	return slices.Equal(sortedNames(a), sortedNames(b))
}

// sortedNames lists the keys in an order that does not depend on that of the map.
//
//workflowcheck:ignore
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
