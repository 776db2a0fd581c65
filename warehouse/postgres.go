package warehouse

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// lockPatience is how long a session waits for a lock of ours before it looks whether the holder has
// lost its right to it.
const lockPatience = 2 * time.Second

// overdueGrace is how long after its deadline a session is left alone: its own client ends it first.
const overdueGrace = 5 * time.Second

// cancelGrace is how long a server has to react to a cancel request before its connection is cut.
const cancelGrace = 3 * time.Second

// pingPatience is how long a session that nobody has used for a second has to show that it is still there. The peer may
// be gone without a word, as after a failover or behind a firewall that has forgotten the connection; its silence would
// take all the time that an attempt has.
const pingPatience = 5 * time.Second

type postgres struct {
	pool *pgxpool.Pool
}

func openPostgres(ctx context.Context, config Config) (database, error) {
	settings, err := pgxpool.ParseConfig(config.DSN)
	if err != nil {
		// The parser's own words may quote the password.
		return nil, permanent(TypeBadRequest, "the DSN of PostgreSQL cannot be read: write postgres://user:password@host:5432/database, with %%XX for special characters of the password, or key=value settings")
	}
	settings.MaxConns = int32(config.MaxConnections)
	if settings.PingTimeout <= 0 {
		settings.PingTimeout = pingPatience
	}
	connection := settings.ConnConfig
	for name, setting := range map[string]string{
		"timezone": "UTC", "datestyle": "ISO, MDY", "bytea_output": "hex", "extra_float_digits": "1",
		"application_name": "tranche",
	} {
		connection.RuntimeParams[name] = setting
	}
	// Unnamed statements: tables of stages come and go, and a pooler may stand in between.
	connection.DefaultQueryExecMode = pgx.QueryExecModeExec
	connection.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelGrace}
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, neutral(ctx, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, neutral(ctx, err)
	}
	return &postgres{pool: pool}, nil
}

func (p *postgres) close() { p.pool.Close() }

func (p *postgres) acquire(ctx context.Context) (session, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, neutral(ctx, err)
	}
	return &postgresSession{pool: p.pool, pooled: conn, conn: conn.Conn()}, nil
}

func (p *postgres) ledger(name string) string { return "tranche." + quote(name) }

func (p *postgres) cast(parameter string, kind pipeline.TypeKind) string {
	return parameter + "::" + kind.String()
}

func (p *postgres) typeName(t pipeline.Type) string { return t.String() }
func (p *postgres) tableOptions() string            { return "" }
func (p *postgres) createStage() string             { return "create unlogged table " }
func (p *postgres) createScratch() string           { return "create temporary table " }
func (p *postgres) scratchSchema() string           { return "pg_temp." }
func (p *postgres) foldsCase() bool                 { return false }

// split reads table or schema.table; a part in double quotes may hold dots.
func (p *postgres) split(name string) (tableName, error) {
	parts, err := splitName(name)
	if err != nil {
		return tableName{}, err
	}
	t := tableName{name: parts[len(parts)-1]}
	switch len(parts) {
	case 1:
	case 2:
		t.schema = parts[0]
	default:
		return t, permanent(TypeBadRequest, "table %q: write table or schema.table; a name with a dot stands in double quotes", name)
	}
	if t.schema == "tranche" || t.schema == "pg_catalog" || t.schema == "information_schema" {
		return t, permanent(TypeBadRequest, "table %q: the schema is not for loads", name)
	}
	return t, nil
}

func (p *postgres) fits(c *column, t tableColumn) string {
	want, have := c.declared, t.declared
	switch {
	case have.Kind != want.Kind:
		return fmt.Sprintf("is %s in the table and declared %s", t.typeText, want)
	case want.Kind != pipeline.Numeric || have.Precision == 0:
		return ""
	case want.Precision == 0 || want.Scale > have.Scale || want.Precision-want.Scale > have.Precision-have.Scale:
		return fmt.Sprintf("is %s in the table, which would round or refuse values of the declared %s", t.typeText, want)
	}
	return ""
}

type postgresSession struct {
	pool   *pgxpool.Pool
	pooled *pgxpool.Conn
	conn   *pgx.Conn
	open   bool
	// unwatch ends the watch over what the transaction waits for; nil when there is none.
	unwatch func()
}

func (s *postgresSession) release() {
	s.rollback()
	s.pooled.Release()
}

func (s *postgresSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := s.conn.Exec(ctx, sql, args...)
	return tag.RowsAffected(), neutral(ctx, err)
}

func (s *postgresSession) query(ctx context.Context, sql string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return neutral(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return neutral(ctx, rows.Err())
}

// begin takes the locks of the receipt and then of the table, in this order everywhere. Every
// lockPatience it looks whether somebody who holds them has lost his right to them.
func (s *postgresSession) begin(ctx context.Context, l lock) error {
	for {
		err := s.tryBegin(ctx, l)
		if err == nil {
			s.watch(ctx)
			return nil
		}
		s.rollback()
		if !lockTimeout(err) || ctx.Err() != nil {
			return err
		}
		if err := s.endHolders(ctx, l); err != nil {
			return err
		}
	}
}

func (s *postgresSession) tryBegin(ctx context.Context, l lock) error {
	if _, err := s.exec(ctx, "begin isolation level read committed read write"); err != nil {
		return err
	}
	s.open = true
	remaining := int64(0)
	if deadline, ok := ctx.Deadline(); ok {
		remaining = int64(time.Until(deadline).Seconds()) + 1
	}
	if _, err := s.exec(ctx, `select set_config('application_name', $1 || case when $2 = 0 then '0' else
		(extract(epoch from clock_timestamp())::bigint + $2)::text end, true), set_config('lock_timeout', $3, true)`,
		holderPrefix(l), remaining, strconv.FormatInt(lockPatience.Milliseconds(), 10)); err != nil {
		return err
	}
	if _, err := s.exec(ctx, "select pg_advisory_xact_lock($1)", lockNumber("key", l.key)); err != nil {
		return err
	}
	if l.table != "" {
		function := "pg_advisory_xact_lock_shared"
		if l.exclusive {
			function = "pg_advisory_xact_lock"
		}
		if _, err := s.exec(ctx, "select "+function+"($1)", lockNumber("table", l.table)); err != nil {
			return err
		}
	}
	_, err := s.exec(ctx, "set local lock_timeout = 0")
	return err
}

// lockNumber is the advisory lock of a name. Two names with one number only wait for each other.
func lockNumber(kind, name string) int64 {
	return int64(xxhash.Sum64String("tranche " + kind + " " + name))
}

// holderPrefix begins the application_name of a session that holds or wants the lock: which receipt,
// which table, which fence; the deadline follows, in seconds since 1970 by the server's clock or 0.
// PostgreSQL cuts the name after 63 bytes; this has at most 58.
func holderPrefix(l lock) string {
	return fmt.Sprintf("tranche:%016x:%08x:%x:", uint64(lockNumber("key", l.key)), uint32(lockNumber("table", l.table)), l.fence)
}

// holder is what a session's application_name says.
type holder struct {
	key      uint64
	table    uint32
	fence    int64
	deadline int64
}

func parseHolder(name string) (holder, bool) {
	parts := strings.Split(name, ":")
	if len(parts) != 5 || parts[0] != "tranche" {
		return holder{}, false
	}
	key, err1 := strconv.ParseUint(parts[1], 16, 64)
	table, err2 := strconv.ParseUint(parts[2], 16, 32)
	fence, err3 := strconv.ParseInt(parts[3], 16, 64)
	deadline, err4 := strconv.ParseInt(parts[4], 10, 64)
	return holder{key, uint32(table), fence, deadline}, errors.Join(err1, err2, err3, err4) == nil
}

// lost reports whether the holder has no right to what l wants: a newer attempt of the same has come,
// or its own time is over.
func (h holder) lost(l lock, now int64) bool {
	sameKey := h.key == uint64(lockNumber("key", l.key))
	sameTable := l.table != "" && h.table == uint32(lockNumber("table", l.table))
	if sameKey && h.fence < l.fence {
		return true
	}
	return (sameKey || sameTable) && h.deadline > 0 && now > h.deadline+int64(overdueGrace.Seconds())
}

// endHolders ends the sessions that have lost their right to the lock. A process that was stopped
// holds its session open for as long as it is stopped; nobody else can end it. Ending a session needs
// the same role, or pg_signal_backend; without it the wait goes on.
func (s *postgresSession) endHolders(ctx context.Context, l lock) error {
	type candidate struct {
		pid  int64
		name string
	}
	var lost []candidate
	err := s.query(ctx, `select pid::bigint, application_name, extract(epoch from clock_timestamp())::bigint
		from pg_stat_activity where application_name like 'tranche:%' and datname = current_database()
		and pid <> pg_backend_pid()`, nil, func(scan func(dest ...any) error) error {
		var c candidate
		var now int64
		if err := scan(&c.pid, &c.name, &now); err != nil {
			return err
		}
		if h, ok := parseHolder(c.name); ok && h.lost(l, now) {
			lost = append(lost, c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range lost {
		_, err := s.exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
			where pid = $1 and application_name = $2`, c.pid, c.name)
		var state interface{ SQLState() string }
		if err != nil && !(errors.As(err, &state) && state.SQLState() == "42501") {
			return err
		}
	}
	return nil
}

// enclose waits at most lockPatience at a time, as begin does, but within the transaction.
func (s *postgresSession) enclose(ctx context.Context, key string, l lock) error {
	if _, err := s.exec(ctx, "select set_config('lock_timeout', $1, true)", strconv.FormatInt(lockPatience.Milliseconds(), 10)); err != nil {
		return err
	}
	for {
		if _, err := s.exec(ctx, "savepoint enclose"); err != nil {
			return err
		}
		_, err := s.exec(ctx, "select pg_advisory_xact_lock($1)", lockNumber("enclose", key))
		if err == nil {
			_, err = s.exec(ctx, "release savepoint enclose; set local lock_timeout = 0")
			return err
		}
		if !lockTimeout(err) || ctx.Err() != nil {
			return err
		}
		if _, err := s.exec(ctx, "rollback to savepoint enclose"); err != nil {
			return err
		}
		if err := s.endHolders(ctx, l); err != nil {
			return err
		}
	}
}

// watch looks, every lockPatience while the transaction is open, whether it waits for rows or tables that an
// overdue session of ours holds, and ends that session: such waits know no timeout, and a process that was
// stopped in the middle of its load would make all others of its table wait for as long as it is.
func (s *postgresSession) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	pid := int64(s.conn.PgConn().PID())
	go func() {
		defer close(done)
		ticker := time.NewTicker(lockPatience)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.endOverdue(ctx, pid)
			}
		}
	}()
	s.unwatch = func() {
		cancel()
		<-done
	}
}

func (s *postgresSession) endWatch() {
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
}

// endOverdue ends the sessions of ours that block the one with this pid and are out of time. It needs a
// session of its own, and does without when the pool has none to spare: the next look may have. What
// fails is left to the next look, too; the step's own timeout bounds the wait.
func (s *postgresSession) endOverdue(ctx context.Context, pid int64) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	_, _ = conn.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
		where pid = any(pg_blocking_pids($1::int)) and application_name ~ '^tranche:[0-9a-f]+:[0-9a-f]+:[0-9a-f]+:[1-9][0-9]*$'
		and extract(epoch from clock_timestamp())::bigint > split_part(application_name, ':', 5)::bigint + $2`,
		pid, int64(overdueGrace.Seconds()))
}

func lockTimeout(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "55P03"
}

func (s *postgresSession) beginScratch() error    { return nil }
func (s *postgresSession) endScratch(error) error { return nil }

func (s *postgresSession) discard(table string) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelGrace)
	defer cancel()
	if !s.conn.IsClosed() {
		if _, err := s.conn.Exec(ctx, "drop table if exists "+table); err != nil {
			s.conn.Close(ctx)
		}
	}
}

func (s *postgresSession) commit(ctx context.Context) error {
	defer s.endWatch()
	tag, err := s.conn.Exec(ctx, "commit")
	if err != nil {
		return neutral(ctx, err)
	}
	s.open = false
	if tag.String() != "COMMIT" {
		return transient(TypeRowsLost, "the transaction ended with %s instead of COMMIT", tag)
	}
	return nil
}

func (s *postgresSession) rollback() {
	s.endWatch()
	if !s.open || s.conn.IsClosed() {
		s.open = false
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelGrace)
	defer cancel()
	if _, err := s.conn.Exec(ctx, "rollback"); err != nil {
		s.conn.Close(ctx)
	}
	s.open = false
}

// gather waits for the first row only: the rest streams into the transaction.
func (s *postgresSession) gather(_ context.Context, rows *rowReader) (rowSource, error) {
	if err := rows.prime(); err != nil {
		return nil, err
	}
	return rows, nil
}

func (s *postgresSession) copyRows(ctx context.Context, into string, rows rowSource, fixed []fixedColumn, numbered bool) (int64, error) {
	names := make([]string, 0, len(rows.shape())+len(fixed)+1)
	if numbered {
		names = append(names, quote(rowColumn))
	}
	for _, c := range rows.shape() {
		names = append(names, quote(c.name))
	}
	for _, f := range fixed {
		names = append(names, quote(f.name))
	}
	stream := newCopyStream(rows, fixed, numbered)
	tag, err := s.conn.PgConn().CopyFrom(ctx, stream, "copy "+into+" ("+strings.Join(names, ", ")+") from stdin (format binary)")
	stream.end()
	if stream.err != nil {
		return 0, stopped(ctx, stream.err)
	}
	if err != nil {
		return 0, neutral(ctx, err)
	}
	if !stream.done || tag.RowsAffected() != stream.sent {
		return 0, transient(TypeRowsLost, "%d rows were sent and the database took %d", stream.sent, tag.RowsAffected())
	}
	return stream.sent, nil
}

func (s *postgresSession) readText(ctx context.Context, sql string, args []any, each func(fields [][]byte) error) error {
	values := make([][]byte, len(args))
	for i, arg := range args {
		if arg != nil {
			values[i] = []byte(fmt.Sprint(arg))
		}
	}
	reader := s.conn.PgConn().ExecParams(ctx, sql, values, nil, nil, nil)
	var failed error
	for failed == nil && reader.NextRow() {
		failed = each(reader.Values())
	}
	_, err := reader.Close()
	if failed != nil {
		return failed
	}
	return neutral(ctx, err)
}

func (s *postgresSession) describe(ctx context.Context, t tableName) (*tableShape, error) {
	var id int64
	var kind string
	shape := &tableShape{name: t}
	err := s.query(ctx, `select c.oid::bigint, c.relkind::text, n.nspname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.oid = to_regclass($1)`, []any{t.quoted()}, func(scan func(dest ...any) error) error {
		return scan(&id, &kind, &shape.name.schema)
	})
	if err != nil || id == 0 {
		return nil, err
	}
	if kind != "r" && kind != "p" {
		return nil, permanent(TypeTableMismatch, "%s is not a table: a load cannot write to it", t)
	}
	if err := s.describeColumns(ctx, id, shape); err != nil {
		return nil, err
	}
	err = s.query(ctx, `select string_agg(a.attname::text, chr(31)) from pg_index i
		cross join unnest(i.indkey::int2[]) with ordinality as k(number, place)
		join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
		where i.indrelid = $1::oid and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null and i.indexprs is null
		and k.place <= i.indnkeyatts group by i.indexrelid`, []any{id}, func(scan func(dest ...any) error) error {
		var names string
		err := scan(&names)
		shape.unique = append(shape.unique, strings.Split(names, "\x1f"))
		return err
	})
	return shape, err
}

func (s *postgresSession) describeColumns(ctx context.Context, id int64, shape *tableShape) error {
	return s.query(ctx, `select attname::text, format_type(atttypid, atttypmod), attnotnull, atthasdef or attidentity <> '', attgenerated <> '' or attidentity = 'a'
		from pg_attribute where attrelid = $1::oid and attnum > 0 and not attisdropped order by attnum`, []any{id}, func(scan func(dest ...any) error) error {
		var c tableColumn
		if err := scan(&c.name, &c.typeText, &c.notNull, &c.filled, &c.generated); err != nil {
			return err
		}
		c.declared, c.maxChars = postgresType(c.typeText)
		shape.columns = append(shape.columns, c)
		return nil
	})
}

// postgresType reads what format_type writes. character varying holds what text does, up to a length.
func postgresType(text string) (pipeline.Type, int) {
	if rest, ok := strings.CutPrefix(text, "character varying"); ok {
		if rest == "" {
			return pipeline.Type{Kind: pipeline.Text}, 0
		}
		n, err := strconv.Atoi(strings.Trim(rest, "()"))
		if err != nil {
			return pipeline.Type{}, 0
		}
		return pipeline.Type{Kind: pipeline.Text}, n
	}
	parsed, err := pipeline.ParseType(text)
	if err != nil {
		return pipeline.Type{}, 0
	}
	return parsed, 0
}

// neutral turns an error of the driver into one that holds no row, and prefers the context's reason.
func neutral(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return lostSession(ctx, stopped(ctx, err))
	}
	// A cancel request is our own doing when the context has ended.
	if refused.Code == "57014" && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &DatabaseError{State: refused.Code, Message: meaning(refused.Code, refused.Message) + namesOf(refused)}
}

// lostSession marks what the server did not say and nobody knows: in a session that was open, that is its
// loss, found out before or in the middle of an answer. The driver has several errors for it, and marks
// only some. An error while connecting is none: a wrong certificate stays wrong.
func lostSession(ctx context.Context, err error) error {
	var connecting *pgconn.ConnectError
	known := retry.Classify(err).Type != retry.TypeUnclassified
	if ctx.Err() != nil || known || errors.As(err, &connecting) && !pgconn.SafeToRetry(err) {
		return err
	}
	return retry.TransientError(retry.TypeNetwork, fmt.Errorf("the session with PostgreSQL was lost: %w", err))
}

// namesOf adds the names that the server gave; names are not rows.
func namesOf(refused *pgconn.PgError) string {
	var b strings.Builder
	for _, part := range [...]struct{ kind, name string }{
		{"table", refused.TableName}, {"column", refused.ColumnName}, {"constraint", refused.ConstraintName},
	} {
		if part.name != "" {
			fmt.Fprintf(&b, ", %s %q", part.kind, part.name)
		}
	}
	return b.String()
}

func uuidText(raw []byte) string {
	h := hex.EncodeToString(raw)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
