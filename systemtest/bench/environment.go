package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sqliteModule is the SQLite that this program carries; the shell has its own.
const sqliteModule = "github.com/ncruces/go-sqlite3"

// describe writes down where the figures were taken.
func describe(ctx context.Context, out io.Writer, dsn string, rows, rounds int) error {
	server, err := serverSettings(ctx, dsn)
	if err != nil {
		return err
	}
	psql, err := exec.CommandContext(ctx, "psql", "--version").Output()
	if err != nil {
		return fmt.Errorf("psql --version: %w", err)
	}
	shell, err := exec.CommandContext(ctx, "sqlite3", "--version").Output()
	if err != nil {
		return fmt.Errorf("sqlite3 --version: %w", err)
	}
	number, _, _ := strings.Cut(string(shell), " ")
	_, err = fmt.Fprintf(out, "%d rows of %d columns, %d rounds\n%d cores, %s/%s, %s, load average at the start %s\n%s\n%s; sqlite3 %s; %s %s\n\n",
		rows, len(columns()), rounds, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), loadAverage(),
		server, strings.TrimSpace(string(psql)), number, sqliteModule, moduleVersion(sqliteModule))
	return err
}

// serverSettings tells of the server what decides over its speed. Both sides of a ratio use this server.
func serverSettings(ctx context.Context, dsn string) (string, error) {
	connected, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer connected.Close(ctx)
	text := "PostgreSQL"
	for _, name := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"} {
		var value string
		if err := connected.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
			return "", fmt.Errorf("read the server's %s: %w", name, err)
		}
		if name != "server_version" {
			text += ", " + name
		}
		text += " " + value
	}
	return text, nil
}

// loadAverage is that of the last 1, 5 and 15 minutes; only Linux tells it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "of an unknown version"
}
