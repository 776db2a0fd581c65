package warehouse

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations
var migrationFiles embed.FS

// migration is one numbered step of the ledger's tables. Steps only add; what is released is never changed.
type migration struct {
	version int64
	name    string
	sql     string
	digest  string
}

func (p *postgres) migrations() ([]migration, error) { return readMigrations("migrations/postgres") }
func (d *sqlite) migrations() ([]migration, error)   { return readMigrations("migrations/sqlite") }

func readMigrations(folder string) ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, folder)
	if err != nil {
		return nil, err
	}
	steps := make([]migration, 0, len(entries))
	for i, entry := range entries { // in the order of their names
		text, err := migrationFiles.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version != int64(i+1) {
			return nil, fmt.Errorf("migration %s/%s: its number should be %d", folder, entry.Name(), i+1)
		}
		sum := sha256.Sum256(text)
		steps = append(steps, migration{version, entry.Name(), string(text), hex.EncodeToString(sum[:])})
	}
	return steps, nil
}

// Migrate brings the ledger's tables up to date, in one transaction, and checks that what is there was
// written by this version or an older one. It is safe to call at each start and from many processes at
// a time. On PostgreSQL the role must be allowed to create the schema "tranche", or own it.
func (w *Warehouse) Migrate(ctx context.Context) error {
	steps, err := w.db.migrations()
	if err != nil {
		return err
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return fmt.Errorf("migrate the ledger: %w", err)
	}
	defer s.release()
	applied, err := w.applied(ctx, s)
	if err == nil && len(applied) == len(steps) {
		return checkApplied(steps, applied)
	}
	if err := w.migrate(ctx, s, steps); err != nil {
		return fmt.Errorf("migrate the ledger: %w", err)
	}
	return nil
}

func (w *Warehouse) migrate(ctx context.Context, s session, steps []migration) error {
	if err := s.begin(ctx, lock{key: "migrate"}); err != nil {
		return err
	}
	for _, sql := range w.db.prepareLedger() {
		if _, err := s.exec(ctx, sql); err != nil {
			return err
		}
	}
	applied, err := w.applied(ctx, s)
	if err != nil {
		return err
	}
	if err := checkApplied(steps, applied); err != nil {
		return err
	}
	for _, step := range steps[len(applied):] {
		for _, sql := range splitStatements(step.sql) {
			if _, err := s.exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		_, err := s.exec(ctx, "insert into "+w.db.ledger("migrations")+" (version, name, digest, applied_at) values ($1, $2, $3, $4)",
			step.version, step.name, step.digest, w.now().UTC())
		if err != nil {
			return err
		}
	}
	return s.commit(ctx)
}

// prepareLedger makes the place for the ledger.
func (p *postgres) prepareLedger() []string {
	return []string{
		// Not "create schema if not exists": that asks for the right to create one even when it is there.
		"do $$ begin if to_regnamespace('tranche') is null then create schema tranche; end if; end $$",
		"create table if not exists tranche.migrations (version bigint primary key, name text not null, digest text not null, applied_at timestamptz not null)",
	}
}

func (d *sqlite) prepareLedger() []string {
	return []string{
		"create table if not exists tranche_migrations (version integer primary key, name text not null, digest text not null, applied_at text not null) strict",
	}
}

func (w *Warehouse) applied(ctx context.Context, s session) ([]migration, error) {
	var applied []migration
	err := s.query(ctx, "select version, name, digest from "+w.db.ledger("migrations")+" order by version", nil,
		func(scan func(dest ...any) error) error {
			var m migration
			err := scan(&m.version, &m.name, &m.digest)
			applied = append(applied, m)
			return err
		})
	return applied, err
}

func checkApplied(steps, applied []migration) error {
	if len(applied) > len(steps) {
		return permanent(TypeNewerLedger, "the ledger has version %d and this program knows %d: upgrade the program", len(applied), len(steps))
	}
	for i, m := range applied {
		if m.version != steps[i].version || m.digest != steps[i].digest {
			return permanent(TypeNewerLedger, "migration %s of the ledger is not the one that this program knows: it was written by another program", m.name)
		}
	}
	return nil
}

// splitStatements cuts a migration at the semicolons that end a line: the files are ours.
func splitStatements(sql string) []string {
	var statements []string
	for _, statement := range strings.Split(sql, ";\n") {
		if strings.TrimSpace(statement) != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// splitName takes a dotted name apart; a part in double quotes may hold dots, and "" for a quote.
func splitName(name string) ([]string, error) {
	var parts []string
	rest := name
	for {
		part, after, err := cutPart(rest)
		if err != nil {
			return nil, permanent(TypeBadRequest, "table %q: %w", name, err)
		}
		if err := checkIdentifier(part); err != nil {
			return nil, permanent(TypeBadRequest, "table %q: %w", name, err)
		}
		parts = append(parts, part)
		if after == "" {
			return parts, nil
		}
		rest = after[1:]
	}
}

// cutPart returns the first part of a dotted name and what follows it, from the dot on.
func cutPart(text string) (part, after string, err error) {
	if !strings.HasPrefix(text, `"`) {
		i := strings.IndexByte(text, '.')
		if i < 0 {
			return text, "", nil
		}
		return text[:i], text[i:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		after = text[i+1:]
		if after != "" && after[0] != '.' {
			return "", "", errors.New("text follows a closing quote")
		}
		return b.String(), after, nil
	}
	return "", "", errors.New("a quote is not closed")
}

// spell writes a part of a name as splitName reads it.
func spell(part string) string {
	if strings.ContainsAny(part, `."`) {
		return quote(part)
	}
	return part
}
