package warehouse

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/trancheflow/tranche/pipeline"
)

// sqlite is a database file. One process at a time can write to it: SQLite's own lock decides between
// processes, and writer between the sessions of this one, in the order in which they come.
//
// A process that is stopped inside its writing transaction holds the file's lock until it goes on or
// is killed: nobody else can take the lock away. That is why rows are gathered before the transaction
// begins, so that it waits for nothing but the disk.
type sqlite struct {
	path        string
	busyTimeout time.Duration
	writer      chan struct{} // holds a token while nobody writes
	slots       chan struct{} // bounds the sessions

	mu     sync.Mutex
	idle   []*sqlite3.Conn
	closed bool
}

func openSQLite(ctx context.Context, config Config) (database, error) {
	if config.DSN == "" || strings.HasPrefix(config.DSN, ":memory:") || strings.HasPrefix(config.DSN, "file:") {
		return nil, permanent(TypeBadRequest, "the DSN of SQLite must be the path of a file: what is in memory ends with the process")
	}
	path, err := filepath.Abs(config.DSN)
	if err != nil {
		return nil, permanent(TypeBadRequest, "the path of the SQLite file: %w", err)
	}
	db := &sqlite{
		path: path, busyTimeout: config.BusyTimeout,
		writer: make(chan struct{}, 1), slots: make(chan struct{}, config.MaxConnections),
	}
	db.writer <- struct{}{}
	session, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	session.release()
	return db, nil
}

func (d *sqlite) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, conn := range d.idle {
		conn.Close()
	}
	d.idle = nil
}

func (d *sqlite) acquire(ctx context.Context) (session, error) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, err := d.connection(ctx)
	if err != nil {
		<-d.slots
		return nil, err
	}
	conn.SetInterrupt(ctx)
	return &sqliteSession{db: d, conn: conn}, nil
}

func (d *sqlite) connection(ctx context.Context) (*sqlite3.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, permanent(TypeBadRequest, "the warehouse is closed")
	}
	if n := len(d.idle); n > 0 {
		conn := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		return conn, nil
	}
	d.mu.Unlock()
	return d.connect(ctx)
}

func (d *sqlite) connect(ctx context.Context) (*sqlite3.Conn, error) {
	if _, err := os.Stat(filepath.Dir(d.path)); err != nil {
		return nil, permanent(TypeBadRequest, "the folder of the SQLite file: %w", err)
	}
	conn, err := sqlite3.OpenContext(ctx, "file:"+escapePath(d.path))
	if err != nil {
		return nil, neutralSQLite(ctx, nil, err)
	}
	if err := conn.BusyTimeout(d.busyTimeout); err != nil {
		conn.Close()
		return nil, neutralSQLite(ctx, nil, err)
	}
	// synchronous=FULL: in WAL mode NORMAL may lose the last commits at a power failure, and with them
	// receipts that somebody has acted upon.
	for _, pragma := range []string{"journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF", walLimit, restCache} {
		if err := conn.Exec("PRAGMA " + pragma); err != nil {
			conn.Close()
			return nil, neutralSQLite(ctx, nil, err)
		}
	}
	return conn, nil
}

// walLimit keeps the write-ahead log from staying as large as the largest load, 64 MiB.
const walLimit = "journal_size_limit=67108864"

// A writer gets a larger page cache: an index whose keys come in no order is otherwise written to the log
// again and again (a million rows took nearly twice as long). There is one writer at a time; its
// memory is given back, by closing the connection when it was much.
const (
	writeCache = "cache_size=-32768" // KiB
	restCache  = "cache_size=-2048"
	manyRows   = 20_000
)

// escapePath writes a path into a file: URI (SQLite documentation, "Uniform Resource Identifiers").
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

func (d *sqlite) ledger(name string) string                         { return quote("tranche_" + name) }
func (d *sqlite) cast(parameter string, _ pipeline.TypeKind) string { return parameter }
func (d *sqlite) tableOptions() string                              { return " strict" }
func (d *sqlite) createStage() string                               { return "create table " }
func (d *sqlite) createScratch() string                             { return "create temporary table " }
func (d *sqlite) scratchSchema() string                             { return "temp." }
func (d *sqlite) foldsCase() bool                                   { return true }

func (d *sqlite) typeName(t pipeline.Type) string {
	switch t.Kind {
	case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint:
		return "INTEGER"
	case pipeline.Real, pipeline.Double:
		return "REAL"
	case pipeline.Bytea:
		return "BLOB"
	}
	return "TEXT"
}

// split takes the name as it is: SQLite has no schemas, so a dot is part of the name.
func (d *sqlite) split(name string) (tableName, error) {
	if strings.HasPrefix(name, `"`) {
		parts, err := splitName(name)
		if err != nil {
			return tableName{}, err
		}
		name = strings.Join(parts, ".")
	}
	if err := checkIdentifier(name); err != nil {
		return tableName{}, permanent(TypeBadRequest, "table %q: %w", name, err)
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "tranche_") || strings.HasPrefix(lower, "sqlite_") {
		return tableName{}, permanent(TypeBadRequest, "table %q: the name is not for loads", name)
	}
	return tableName{name: name}, nil
}

// fits goes by the affinity of the table's column (SQLite documentation, "Determination Of Column
// Affinity"): a column that would turn one value into another is refused.
func (d *sqlite) fits(c *column, t tableColumn) string {
	affinity := affinityOf(t.typeText)
	ok := false
	switch c.declared.Kind {
	case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint:
		ok = affinity == "INTEGER" || affinity == "NUMERIC"
	case pipeline.Real, pipeline.Double:
		ok = affinity == "REAL"
	case pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
		ok = affinity == "TEXT" || affinity == "NUMERIC" // an ISO time looks like no number and stays text
	case pipeline.Bytea:
		ok = affinity == "BLOB"
	default:
		ok = affinity == "TEXT"
	}
	if !ok {
		return fmt.Sprintf("is %s in the table and declared %s, which needs %s", t.typeText, c.declared, d.typeName(c.declared))
	}
	return ""
}

func affinityOf(typeText string) string {
	upper := strings.ToUpper(typeText)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(upper, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return "INTEGER"
	case has("CHAR", "CLOB", "TEXT"):
		return "TEXT"
	case has("BLOB"), upper == "":
		return "BLOB"
	case has("REAL", "FLOA", "DOUB"):
		return "REAL"
	}
	return "NUMERIC"
}

type sqliteSession struct {
	db     *sqlite
	conn   *sqlite3.Conn
	writes bool // holds the writer's token
	open   bool
	broken bool
	large  bool // has written many rows
}

func (s *sqliteSession) release() {
	s.rollback()
	s.conn.SetInterrupt(context.Background())
	s.db.mu.Lock()
	if s.broken || s.large || s.db.closed {
		s.conn.Close()
	} else {
		s.db.idle = append(s.db.idle, s.conn)
	}
	s.db.mu.Unlock()
	<-s.db.slots
}

// begin waits for its turn in this process and then for the other ones. A transaction that would read
// first and write later could be refused however long it waits; IMMEDIATE takes the lock at once.
func (s *sqliteSession) begin(ctx context.Context, _ lock) error {
	select {
	case <-s.db.writer:
		s.writes = true
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.conn.SetInterrupt(ctx)
	if err := s.conn.Exec("pragma " + writeCache + "; begin immediate"); err != nil {
		s.yield()
		return neutralSQLite(ctx, s.conn, err)
	}
	s.open = true
	return nil
}

func (s *sqliteSession) yield() {
	if s.writes {
		s.writes = false
		s.db.writer <- struct{}{}
	}
}

func (s *sqliteSession) commit(ctx context.Context) error {
	if err := s.conn.Exec("commit"); err != nil {
		return neutralSQLite(ctx, s.conn, err)
	}
	s.open = false
	s.rest()
	s.yield()
	return nil
}

// rest gives the writer's cache back.
func (s *sqliteSession) rest() {
	s.large = s.large || s.conn.TotalChanges() > manyRows
	if s.conn.Exec("pragma "+restCache) != nil {
		s.broken = true
	}
}

func (s *sqliteSession) rollback() {
	if s.open {
		s.conn.SetInterrupt(context.Background())
		// SQLite rolls back by itself after some errors; then there is nothing left to end.
		if !s.conn.GetAutocommit() && s.conn.Exec("rollback") != nil {
			s.broken = true
		}
		s.open = false
		s.rest()
	}
	s.yield()
}

// enclose has nothing to do: there is one writer at a time.
func (s *sqliteSession) enclose(context.Context, string, lock) error { return nil }

// beginScratch spares a transaction per statement. It locks nothing but the temporary database.
func (s *sqliteSession) beginScratch() error {
	return neutralSQLite(context.Background(), s.conn, s.conn.Exec("begin deferred"))
}

func (s *sqliteSession) endScratch(failed error) error {
	if failed != nil {
		s.open = true // for rollback to end
		s.rollback()
		return nil
	}
	return neutralSQLite(context.Background(), s.conn, s.conn.Exec("commit"))
}

func (s *sqliteSession) discard(table string) {
	s.conn.SetInterrupt(context.Background())
	if s.conn.Exec("drop table if exists "+table) != nil {
		s.broken = true
	}
}

func (s *sqliteSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	s.conn.SetInterrupt(ctx)
	before := s.conn.TotalChanges()
	err := s.run(sql, args, func(*sqlite3.Stmt) error { return nil })
	if err != nil {
		return 0, neutralSQLite(ctx, s.conn, err)
	}
	if s.conn.TotalChanges() == before {
		return 0, nil // Changes keeps the count of the last statement that had one
	}
	return s.conn.Changes(), nil
}

func (s *sqliteSession) query(ctx context.Context, sql string, args []any, each func(scan func(dest ...any) error) error) error {
	s.conn.SetInterrupt(ctx)
	err := s.run(sql, args, func(stmt *sqlite3.Stmt) error {
		return each(func(dest ...any) error { return scanSQLite(stmt, dest) })
	})
	return neutralSQLite(ctx, s.conn, err)
}

// run executes all statements of sql; arguments go to the first.
func (s *sqliteSession) run(sql string, args []any, each func(*sqlite3.Stmt) error) error {
	for strings.TrimSpace(sql) != "" {
		stmt, tail, err := s.conn.Prepare(sql)
		if err != nil {
			return err
		}
		sql = tail
		if stmt == nil {
			continue
		}
		err = runStatement(stmt, args, each)
		args = nil
		if err != nil {
			return err
		}
	}
	return nil
}

func runStatement(stmt *sqlite3.Stmt, args []any, each func(*sqlite3.Stmt) error) error {
	defer stmt.Close()
	for i, arg := range args {
		parameter := stmt.BindIndex("$" + strconv.Itoa(i+1))
		if parameter == 0 {
			continue
		}
		if err := bindSQLite(stmt, parameter, arg); err != nil {
			return err
		}
	}
	for stmt.Step() {
		if err := each(stmt); err != nil {
			return err
		}
	}
	return stmt.Err()
}

func bindSQLite(stmt *sqlite3.Stmt, parameter int, arg any) error {
	switch arg := arg.(type) {
	case nil:
		return stmt.BindNull(parameter)
	case int64:
		return stmt.BindInt64(parameter, arg)
	case int:
		return stmt.BindInt64(parameter, int64(arg))
	case bool:
		return stmt.BindBool(parameter, arg)
	case string:
		return stmt.BindText(parameter, arg)
	case time.Time:
		return stmt.BindText(parameter, string(appendTime(nil, pipeline.Timestamptz, micros(arg))))
	}
	return fmt.Errorf("a parameter of type %T", arg)
}

func scanSQLite(stmt *sqlite3.Stmt, dest []any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = stmt.ColumnInt64(i)
		case *int:
			*d = stmt.ColumnInt(i)
		case *bool:
			*d = stmt.ColumnBool(i)
		case *string:
			*d = stmt.ColumnText(i)
		case *time.Time:
			if err := scanSQLiteTime(stmt, i, d); err != nil {
				return err
			}
		case **time.Time:
			if *d = nil; stmt.ColumnType(i) == sqlite3.NULL {
				continue
			}
			*d = new(time.Time)
			if err := scanSQLiteTime(stmt, i, *d); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a result of type %T", d)
		}
	}
	return nil
}

func scanSQLiteTime(stmt *sqlite3.Stmt, column int, into *time.Time) error {
	at, reason := isoInstant(stmt.ColumnRawText(column))
	if reason != "" {
		return fmt.Errorf("a time of the ledger %s", reason)
	}
	*into = time.UnixMicro(at).UTC()
	return nil
}

func (s *sqliteSession) readText(ctx context.Context, sql string, args []any, each func(fields [][]byte) error) error {
	s.conn.SetInterrupt(ctx)
	var fields [][]byte
	var scratch []byte
	err := s.run(sql, args, func(stmt *sqlite3.Stmt) error {
		fields, scratch = fields[:0], scratch[:0]
		for i := range stmt.ColumnCount() {
			from := len(scratch)
			switch stmt.ColumnType(i) {
			case sqlite3.NULL:
				fields = append(fields, nil)
				continue
			case sqlite3.INTEGER:
				scratch = strconv.AppendInt(scratch, stmt.ColumnInt64(i), 10)
			case sqlite3.FLOAT:
				scratch = strconv.AppendFloat(scratch, stmt.ColumnFloat(i), 'g', -1, 64)
			case sqlite3.BLOB:
				scratch = append(scratch, `\x`...)
				scratch = hex.AppendEncode(scratch, stmt.ColumnRawBlob(i))
			default:
				scratch = append(scratch, stmt.ColumnRawText(i)...)
			}
			if len(scratch) == from {
				fields = append(fields, []byte{})
			} else {
				fields = append(fields, scratch[from:len(scratch):len(scratch)])
			}
		}
		return each(fields)
	})
	return neutralSQLite(ctx, s.conn, err)
}

func (s *sqliteSession) describe(ctx context.Context, t tableName) (*tableShape, error) {
	shape := &tableShape{name: t, folds: true}
	var kind string
	err := s.query(ctx, `select type from sqlite_schema where name = $1 collate nocase and type in ('table', 'view')`, []any{t.name},
		func(scan func(dest ...any) error) error { return scan(&kind) })
	if err != nil || kind == "" {
		return nil, err
	}
	if kind != "table" {
		return nil, permanent(TypeTableMismatch, "%s is not a table: a load cannot write to it", t)
	}
	primary := map[int]string{}
	err = s.query(ctx, `select name, type, "notnull", dflt_value is not null, pk, hidden from pragma_table_xinfo($1)`, []any{t.name},
		func(scan func(dest ...any) error) error {
			var c tableColumn
			var key, hidden int
			if err := scan(&c.name, &c.typeText, &c.notNull, &c.filled, &key, &hidden); err != nil {
				return err
			}
			c.generated = hidden != 0
			if key > 0 {
				primary[key] = c.name
			}
			shape.columns = append(shape.columns, c)
			return nil
		})
	if err != nil {
		return nil, err
	}
	if len(primary) > 0 {
		names := make([]string, 0, len(primary))
		for i := 1; i <= len(primary); i++ {
			names = append(names, primary[i])
		}
		shape.unique = append(shape.unique, names)
		s.markRowid(shape, names)
	}
	err = s.query(ctx, `select group_concat(i.name, char(31)) from pragma_index_list($1) as l, pragma_index_info(l.name) as i
		where l."unique" = 1 and l.partial = 0 group by l.name having count(*) = count(i.name)`, []any{t.name},
		func(scan func(dest ...any) error) error {
			var names string
			err := scan(&names)
			shape.unique = append(shape.unique, strings.Split(names, "\x1f"))
			return err
		})
	return shape, err
}

// markRowid notes that an INTEGER PRIMARY KEY is filled by SQLite when nothing is given.
func (s *sqliteSession) markRowid(shape *tableShape, primary []string) {
	for i := range shape.columns {
		c := &shape.columns[i]
		if len(primary) == 1 && c.name == primary[0] && strings.EqualFold(c.typeText, "INTEGER") {
			c.filled = true
		}
	}
}

// sqliteStates maps SQLite's result codes to the SQLSTATE that PostgreSQL would give.
var sqliteStates = map[sqlite3.ErrorCode]string{
	sqlite3.BUSY: "55P03", sqlite3.LOCKED: "55P03", sqlite3.PROTOCOL: "55P03", sqlite3.NOMEM: "53200",
	sqlite3.FULL: "53100", sqlite3.IOERR: "58030", sqlite3.CANTOPEN: "58P01", sqlite3.INTERRUPT: "57014",
	sqlite3.CONSTRAINT: "23000", sqlite3.MISMATCH: "22P02", sqlite3.TOOBIG: "22001", sqlite3.READONLY: "25006",
	sqlite3.ERROR: "42000", sqlite3.SCHEMA: "40001",
}

// neutralSQLite turns an error of SQLite into one with a state. SQLite's messages name tables and
// columns, not values; but a trigger's RAISE may say anything.
func neutralSQLite(ctx context.Context, conn *sqlite3.Conn, err error) error {
	if err == nil {
		return nil
	}
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return stopped(ctx, err)
	}
	if code == sqlite3.INTERRUPT && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	state, ok := sqliteStates[code]
	if !ok {
		state = "XX000"
	}
	message := err.Error()
	var extended sqlite3.ExtendedErrorCode
	if errors.As(err, &extended) && extended == sqlite3.CONSTRAINT_TRIGGER {
		message = "a trigger refused"
	}
	if code == sqlite3.BUSY {
		message = "another process is writing to the SQLite file, and has not ended in the time allowed"
	}
	return &DatabaseError{State: state, Message: message}
}
