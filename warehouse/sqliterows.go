package warehouse

import (
	"context"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ncruces/go-sqlite3"

	"github.com/trancheflow/tranche/pipeline"
)

const (
	// rowsPerInsert is where more rows per statement gained nothing more when it was measured.
	rowsPerInsert = 20
	// sqliteParameters is the greatest number of parameters of a statement (SQLite documentation,
	// "Limits": SQLITE_MAX_VARIABLE_NUMBER, 32766 since 3.32).
	sqliteParameters = 32766
)

// gather reads the source to its end: the file's lock must not be held while a source is waited for.
func (s *sqliteSession) gather(_ context.Context, rows *rowReader) (rowSource, error) {
	held, err := fillSpool(rows)
	if err != nil {
		return nil, err // not held: a nil *spool would be a rowSource that is not nil
	}
	return held, nil
}

func (s *sqliteSession) copyRows(ctx context.Context, into string, rows rowSource, fixed []fixedColumn, numbered bool) (int64, error) {
	s.conn.SetInterrupt(ctx)
	w := newSQLiteWriter(s.conn, into, rows.shape(), fixed, numbered)
	defer w.close()
	before := s.conn.TotalChanges()
	var sent int64
	for {
		values, err := rows.row()
		if err != nil {
			return 0, stopped(ctx, err)
		}
		if values == nil {
			break
		}
		sent++
		if err := w.add(values, rows.number()); err != nil {
			return 0, neutralSQLite(ctx, s.conn, err)
		}
	}
	if err := w.flush(); err != nil {
		return 0, neutralSQLite(ctx, s.conn, err)
	}
	if took := s.conn.TotalChanges() - before; took < sent {
		return 0, transient(TypeRowsLost, "%d rows were sent and the database took %d", sent, took)
	}
	return sent, nil
}

// sqliteWriter inserts rows, several per statement. Rows that wait for the statement to be full are
// bound to it already: SQLite keeps a copy.
type sqliteWriter struct {
	conn     *sqlite3.Conn
	into     string // up to VALUES
	columns  []column
	fixed    []fixedColumn
	numbered bool
	width    int // parameters per row
	capacity int // rows per statement

	stmt    *sqlite3.Stmt
	rows    int // bound
	scratch []byte
	held    []heldRow // for the last, shorter statement
	lines   []byte
}

type heldRow struct {
	number   int64
	from, to int
}

func newSQLiteWriter(conn *sqlite3.Conn, into string, columns []column, fixed []fixedColumn, numbered bool) *sqliteWriter {
	names := make([]string, 0, len(columns)+len(fixed)+1)
	if numbered {
		names = append(names, quote(rowColumn))
	}
	for _, c := range columns {
		names = append(names, quote(c.name))
	}
	width := len(names)
	for _, f := range fixed {
		names = append(names, quote(f.name))
	}
	return &sqliteWriter{
		conn: conn, into: "insert into " + into + " (" + strings.Join(names, ", ") + ") values ",
		columns: columns, fixed: fixed, numbered: numbered, width: width,
		capacity: max(1, min(rowsPerInsert, (sqliteParameters-len(fixed))/max(width, 1))),
	}
}

// prepare compiles the statement for a number of rows. The columns that the load fills in are the
// first parameters, bound once.
func (w *sqliteWriter) prepare(rows int) (*sqlite3.Stmt, error) {
	var sql strings.Builder
	sql.WriteString(w.into)
	parameter := len(w.fixed)
	for r := range rows {
		if r > 0 {
			sql.WriteByte(',')
		}
		sql.WriteByte('(')
		for i := range w.width {
			if i > 0 {
				sql.WriteByte(',')
			}
			parameter++
			sql.WriteByte('?')
			sql.WriteString(strconv.Itoa(parameter))
		}
		for i := range w.fixed {
			sql.WriteString(",?")
			sql.WriteString(strconv.Itoa(i + 1))
		}
		sql.WriteByte(')')
	}
	stmt, _, err := w.conn.PrepareFlags(sql.String(), sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	for i, f := range w.fixed {
		if err := bindSQLite(stmt, i+1, f.argument()); err != nil {
			stmt.Close()
			return nil, err
		}
	}
	return stmt, nil
}

func (w *sqliteWriter) add(values []value, number int64) error {
	if w.stmt == nil {
		stmt, err := w.prepare(w.capacity)
		if err != nil {
			return err
		}
		w.stmt = stmt
	}
	if err := w.bind(w.stmt, w.rows, values, number); err != nil {
		return err
	}
	from := len(w.lines)
	w.lines = appendCanonical(w.lines, w.columns, values)
	w.held = append(w.held, heldRow{number, from, len(w.lines)})
	w.rows++
	if w.rows < w.capacity {
		return nil
	}
	if err := step(w.stmt); err != nil {
		return err
	}
	w.rows, w.held, w.lines = 0, w.held[:0], w.lines[:0]
	return nil
}

func step(stmt *sqlite3.Stmt) error {
	stmt.Step()
	if err := stmt.Err(); err != nil {
		return err
	}
	return stmt.Reset()
}

// flush writes the rows that did not fill a statement.
func (w *sqliteWriter) flush() error {
	if w.rows == 0 {
		return nil
	}
	stmt, err := w.prepare(w.rows)
	if err != nil {
		return err
	}
	defer stmt.Close()
	values := make([]value, len(w.columns))
	for i, held := range w.held {
		if err := readCanonical(w.lines[held.from:held.to], w.columns, values); err != nil {
			return err
		}
		if err := w.bind(stmt, i, values, held.number); err != nil {
			return err
		}
	}
	w.rows = 0
	return step(stmt)
}

func (w *sqliteWriter) bind(stmt *sqlite3.Stmt, row int, values []value, number int64) error {
	parameter := len(w.fixed) + row*w.width + 1
	if w.numbered {
		if err := stmt.BindInt64(parameter, number); err != nil {
			return err
		}
		parameter++
	}
	for i := range values {
		if err := w.bindValue(stmt, parameter+i, w.columns[i].declared.Kind, &values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *sqliteWriter) bindValue(stmt *sqlite3.Stmt, parameter int, kind pipeline.TypeKind, v *value) error {
	if v.null {
		return stmt.BindNull(parameter)
	}
	text := v.b
	switch kind {
	case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint:
		return stmt.BindInt64(parameter, v.i)
	case pipeline.Real, pipeline.Double:
		return stmt.BindFloat(parameter, v.f)
	case pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
		w.scratch = appendTime(w.scratch[:0], kind, v.i)
		text = w.scratch
	case pipeline.UUID:
		return stmt.BindText(parameter, uuidText(v.b))
	case pipeline.Bytea:
		if v.b == nil {
			return stmt.BindZeroBlob(parameter, 0)
		}
		return stmt.BindBlob(parameter, v.b)
	}
	// SQLite copies the text before this returns.
	return stmt.BindText(parameter, unsafe.String(unsafe.SliceData(text), len(text)))
}

func (w *sqliteWriter) close() {
	if w.stmt != nil {
		w.stmt.Close()
	}
}
