package warehouse

import (
	"context"
	"time"

	"github.com/trancheflow/tranche/pipeline"
)

// database is what a load needs of PostgreSQL or SQLite. What is the same for both is written once,
// above it.
type database interface {
	acquire(ctx context.Context) (session, error)
	close()

	// ledger is the quoted name of a table of the ledger; stage that of a table of staged rows.
	ledger(name string) string
	// cast marks a parameter as a value of the kind.
	cast(parameter string, kind pipeline.TypeKind) string
	// typeName is the type with which a column of a new table is declared.
	typeName(t pipeline.Type) string
	// tableOptions stand behind the columns of a new table.
	tableOptions() string
	// createStage and createScratch begin the statement for a table of staged or passing rows.
	createStage() string
	createScratch() string
	// stageName is the table of a stage.
	stageName(name string) tableName
	// split takes a table's name apart.
	split(name string) (tableName, error)
	// timeForm is the GLOB pattern of the one form of times in tables; empty when times have a type.
	timeForm(kind pipeline.TypeKind) string
	// indexName is what stands between "create index" and "on", with a space after it.
	indexName(t tableName) string
	// scratchSchema stands before the name of a scratch table.
	scratchSchema() string
	// fits says why rows of the column cannot be kept in the table's column; empty when they can.
	fits(c *column, t tableColumn) string
	// foldsCase reports whether names that differ only in case are the same.
	foldsCase() bool
	// migrations are the numbered steps of the ledger's tables.
	migrations() ([]migration, error)
	// prepareLedger are the statements, good to repeat, that make the place for them.
	prepareLedger() []string
}

// querier runs statements. Parameters are written $1, $2 and so on, each number first used in order.
// Arguments are int64, string, bool, time.Time or nil; what is scanned into are pointers to them or, for a
// time that may be null, to a pointer.
type querier interface {
	exec(ctx context.Context, sql string, args ...any) (int64, error)
	query(ctx context.Context, sql string, args []any, each func(scan func(dest ...any) error) error) error
}

// session is one connection, with at most one transaction.
type session interface {
	querier
	// begin opens a writing transaction and takes the lock.
	begin(ctx context.Context, l lock) error
	commit(ctx context.Context) error
	// rollback ends the transaction, if there is one, whatever the state of the context.
	rollback()
	// enclose takes a lock, until the transaction's end, under which receipts are written.
	enclose(ctx context.Context, key string, l lock) error
	// beginScratch and endScratch enclose the filling of a scratch table.
	beginScratch() error
	endScratch(failed error) error
	// discard drops a scratch table.
	discard(table string)
	// describe returns the shape of the table, or nil when there is none.
	describe(ctx context.Context, t tableName) (*tableShape, error)
	// gather makes a source ready to be written in a transaction: the first row is had, or all are.
	gather(ctx context.Context, rows *rowReader) (rowSource, error)
	// copyRows writes rows into a table whose quoted name is given.
	copyRows(ctx context.Context, into string, rows rowSource, fixed []fixedColumn, numbered bool) (int64, error)
	// readText runs a query and gives each row as text in the forms that the parser reads; nil is NULL.
	readText(ctx context.Context, sql string, args []any, each func(fields [][]byte) error) error
	// release gives the session back, after a rollback if a transaction is open.
	release()
}

// rowSource gives checked rows.
type rowSource interface {
	// row returns the next row, valid until the next call; nil at the end.
	row() ([]value, error)
	// number is that row's number in the source.
	number() int64
	// shape returns the columns of a row.
	shape() []column
	// close frees what the source holds.
	close()
}

// lock is what a transaction holds against others.
type lock struct {
	key       string // of what is written: a receipt or a stage
	table     string // in the ledger's spelling; empty for a stage
	exclusive bool   // over the table
	fence     int64
}

// tableName is a table's name, taken apart.
type tableName struct {
	schema, name string
}

func (t tableName) quoted() string {
	if t.schema == "" {
		return quote(t.name)
	}
	return quote(t.schema) + "." + quote(t.name)
}

// String is the name as it stands in the ledger and in messages.
func (t tableName) String() string {
	if t.schema == "" {
		return spell(t.name)
	}
	return spell(t.schema) + "." + spell(t.name)
}

// tableShape is an existing table.
type tableShape struct {
	name    tableName // with its schema
	columns []tableColumn
	unique  [][]string // sets of columns that a unique constraint covers
	folds   bool       // names that differ only in case are the same
}

func (t *tableShape) same(a, b string) bool {
	if t.folds {
		return asciiLower(a) == asciiLower(b)
	}
	return a == b
}

func (t *tableShape) column(name string) (tableColumn, bool) {
	for _, c := range t.columns {
		if t.same(c.name, name) {
			return c, true
		}
	}
	return tableColumn{}, false
}

// tableColumn is a column of an existing table.
type tableColumn struct {
	name, typeText string
	declared       pipeline.Type // zero when it is none of ours
	maxChars       int
	notNull        bool
	filled         bool // by a default, an identity or a rowid
	generated      bool
}

// fixedColumn is a column that the load itself fills in, with one value for all rows.
type fixedColumn struct {
	name     string
	declared pipeline.Type
	value    value
}

// argument returns the value as a parameter.
func (f fixedColumn) argument() any {
	if f.declared.Kind.IsTime() {
		return string(appendTime(nil, f.declared.Kind, f.value.i))
	}
	return string(f.value.b)
}

func micros(t time.Time) int64 { return t.Unix()*microsPerSecond + int64(t.Nanosecond()/1000) }
