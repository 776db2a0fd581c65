// Package pgtest gives tests a PostgreSQL database of their own.
//
// It starts no server: `make test` does, with scripts/postgres, and names it in TRANCHE_TEST_POSTGRES.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable is the environment variable with the DSN of a superuser on a running server.
const Variable = "TRANCHE_TEST_POSTGRES"

const patience = 30 * time.Second

// Postgres makes a database for this test, drops it when the test ends, and returns its DSN. Without a
// server the test is skipped, and where CI=true it fails: there the server must be.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set: CI must test against a real PostgreSQL; scripts/postgres start DIR prints its value", Variable)
		}
		t.Skipf("skipped: needs PostgreSQL; set %s to what `scripts/postgres start DIR` prints", Variable)
	}
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	name := "test_" + randomHex(t)
	run(t, config, "create database "+name)
	t.Cleanup(func() { run(t, config, "drop database "+name+" with (force)") })
	return databaseDSN(config, name)
}

// databaseDSN is the server's address with another database, as a URL.
func databaseDSN(config *pgx.ConnConfig, name string) string {
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), Path: "/" + name,
	}
	if config.Password == "" {
		dsn.User = url.User(config.User)
	}
	if config.TLSConfig == nil {
		dsn.RawQuery = "sslmode=disable"
	}
	return dsn.String()
}

func run(t testing.TB, config *pgx.ConnConfig, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatalf("connect to the server of %s: %v", Variable, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func randomHex(t testing.TB) string {
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw[:])
}
