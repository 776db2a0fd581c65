package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := fmt.Sprint(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
		if after := fmt.Sprint(c.values); after != before {
			t.Errorf("median turned %s into %s", before, after)
		}
	}
}

func generated(t *testing.T, form string, n int) string {
	t.Helper()
	var text bytes.Buffer
	if err := writeRows(&text, form, n); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestRowsAreTheSame: of every call, and in both forms; a longer file begins with the shorter one.
func TestRowsAreTheSame(t *testing.T) {
	t.Parallel()
	const n = 500
	text := generated(t, csvRow, n)
	if again := generated(t, csvRow, 2*n); !strings.HasPrefix(again, text) || len(again) == len(text) {
		t.Error("a second call does not begin with the rows of the first")
	}
	records, err := csv.NewReader(strings.NewReader(csvHeader + text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(generated(t, jsonRow, n), "\n"), "\n")
	if len(records) != n+1 || len(lines) != n {
		t.Fatalf("%d rows as CSV and %d as JSON, want %d", len(records)-1, len(lines), n)
	}
	for i, line := range lines {
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		var object map[string]any
		if err := decoder.Decode(&object); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		compareRow(t, records[0], records[i+1], object)
	}
}

func compareRow(t *testing.T, header, record []string, object map[string]any) {
	t.Helper()
	if len(header) != len(columns()) || len(object) != len(columns()) {
		t.Fatalf("%d columns as CSV and %d as JSON, want %d", len(header), len(object), len(columns()))
	}
	for i, column := range columns() {
		want := fmt.Sprint(object[column.Name])
		if column.Type == "boolean" {
			want = map[string]string{"true": "1", "false": "0"}[want]
		}
		if header[i] != column.Name || record[i] != want {
			t.Errorf("%s is %q as CSV and %q as JSON, of %s", header[i], record[i], want, column.Name)
		}
	}
	at, err := time.Parse(time.RFC3339Nano, record[1])
	if err != nil || !day.Contains(at) {
		t.Errorf("ordered_at %s is not of the interval: %v", record[1], err)
	}
}

func TestDatabaseURL(t *testing.T) {
	t.Parallel()
	for _, server := range []string{
		"postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
		"postgres://me:p%40ss%2Fword@[::1]:6000/other?sslmode=disable",
		"host=127.0.0.1 port=6001 user=me password='a b' dbname=x sslmode=disable",
	} {
		want, err := pgx.ParseConfig(server)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.ParseConfig(databaseURL(want, "bench_1"))
		if err != nil {
			t.Fatal(err)
		}
		if got.Host != want.Host || got.Port != want.Port || got.User != want.User || got.Password != want.Password || got.Database != "bench_1" || got.TLSConfig != nil {
			t.Errorf("%s became %s", server, databaseURL(want, "bench_1"))
		}
	}
}

// TestHighWaterMark: memory that is touched shows, in MiB.
func TestHighWaterMark(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skipf("skipped: the system tells no peak memory: %v", err)
	}
	const size = 64
	block := bytes.Repeat([]byte{1}, size<<20)
	got, err := highWaterMark(os.Getpid())
	if err != nil || got < size {
		t.Errorf("%v MiB after %d MiB were filled, %v", got, len(block)>>20, err)
	}
	if _, err := highWaterMark(-1); err == nil {
		t.Error("a process that cannot be has a peak memory")
	}
}
