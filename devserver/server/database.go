package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// setupTimeout bounds the creation of the tables, which takes some ten milliseconds.
const setupTimeout = 30 * time.Second

// prepareDatabase creates the file, its tables and the namespaces as far as they are missing and
// returns how the server reaches them.
func prepareDatabase(ctx context.Context, o Options) (*config.SQL, error) {
	c := &config.SQL{PluginName: sqlite.PluginName, ConnectAttributes: map[string]string{}}
	if o.DatabaseFile == "" {
		// The plugin creates the tables of a database in memory by itself. The name keeps two
		// servers in one process apart.
		c.DatabaseName = "devserver-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		c.ConnectAttributes["mode"] = "memory"
		c.ConnectAttributes["cache"] = "shared"
	} else {
		c.DatabaseName = escapePath(o.DatabaseFile)
		c.ConnectAttributes["mode"] = "rwc"
		c.ConnectAttributes["journal_mode"] = "wal"
		c.ConnectAttributes["synchronous"] = "normal"
		if err := ensureSchema(ctx, o.DatabaseFile); err != nil {
			return nil, err
		}
	}
	maps.Copy(c.ConnectAttributes, o.Pragmas)
	return c, createNamespaces(o, c)
}

// createNamespaces writes the namespaces straight into the database, search attributes included, so
// that a new server knows both from its first moment on. A namespace that exists stays as it is.
func createNamespaces(o Options, c *config.SQL) error {
	all := make([]*sqliteschema.NamespaceConfig, 0, len(o.Namespaces))
	for _, name := range o.Namespaces {
		namespace, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, o.SearchAttributes)
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		all = append(all, namespace)
	}
	if err := sqliteschema.CreateNamespaces(c, all...); err != nil {
		return fmt.Errorf("create namespaces in %s: %w", databaseName(o), err)
	}
	return nil
}

func databaseName(o Options) string {
	if o.DatabaseFile == "" {
		return "memory"
	}
	return o.DatabaseFile
}

// escapePath makes a path fit for the file: URI that the plugin builds, in which ?, # and % mean
// something.
func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// ensureSchema creates Temporal's tables in a new or empty file, in one transaction: a process killed
// in the middle leaves an empty file, not half a schema. A file with other tables is refused.
func ensureSchema(ctx context.Context, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if err := checkFolder(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+escapePath(path)+"?mode=rwc&_pragma=journal_mode=wal")
	if err != nil {
		return fmt.Errorf("open database file %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	have, err := columnsOf(ctx, db)
	if err != nil {
		return fmt.Errorf("read database file %s: %w", path, err)
	}
	if len(have) == 0 {
		if err := createSchema(ctx, db); err != nil {
			return fmt.Errorf("create Temporal's tables in %s: %w", path, err)
		}
		return nil
	}
	return checkSchema(ctx, path, have)
}

func checkFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("database file %s: the folder %s does not exist; create it first", path, folder)
	}
	if err != nil {
		return fmt.Errorf("database file %s: %w", path, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("database file %s: %s is not a folder", path, folder)
	}
	return nil
}

// checkSchema refuses a file that is not Temporal's or was written by a server of another schema:
// Temporal does not migrate SQLite and would fail later, query by query.
func checkSchema(ctx context.Context, path string, have []string) error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return fmt.Errorf("open a database in memory: %w", err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("create Temporal's tables in memory: %w", err)
	}
	want, err := columnsOf(ctx, db)
	if err != nil {
		return fmt.Errorf("read Temporal's tables in memory: %w", err)
	}
	missing := slices.DeleteFunc(want, func(column string) bool { return slices.Contains(have, column) })
	switch {
	case len(missing) == 0:
		return nil
	case !slices.ContainsFunc(have, func(column string) bool { return strings.HasPrefix(column, "current_executions.") }):
		return fmt.Errorf("database file %s is an SQLite database, but not one of Temporal's; name another file", path)
	default:
		return fmt.Errorf("database file %s was written by another version of Temporal: it lacks %s; start with a new file, or use the program that wrote it",
			path, strings.Join(missing[:min(len(missing), 3)], ", "))
	}
}

// checkpoint empties the write-ahead log of a database that nobody writes to any more. Without such a
// log it does nothing.
func checkpoint(path string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	db, err := sql.Open("sqlite", "file:"+escapePath(path)+"?mode=rw")
	if err != nil {
		return fmt.Errorf("open database file %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "pragma wal_checkpoint(truncate)"); err != nil {
		return fmt.Errorf("move the log of database file %s into it: %w", path, err)
	}
	return nil
}

// columnsOf lists the columns of all tables as table.column.
func columnsOf(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `select t.name || '.' || c.name
		from sqlite_master t, pragma_table_info(t.name) c where t.type = 'table' order by 1`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var columns []string
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return columns, rows.Err()
}

func createSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := sqliteschema.SetupSchemaOnDB(schemaTx{ctx: ctx, tx: tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// schemaTx lends a transaction to Temporal's schema setup, which calls Exec and nothing else.
type schemaTx struct {
	sqlplugin.AdminDB
	ctx context.Context //nolint:containedctx // AdminDB.Exec takes none
	tx  *sql.Tx
}

func (s schemaTx) Exec(statement string, args ...any) error {
	_, err := s.tx.ExecContext(s.ctx, statement, args...)
	return err
}
