package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// day is the interval of a day of January 2026.
func day(n int) interval.Interval {
	start := time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
	return interval.Interval{Start: start, End: start.AddDate(0, 0, 1)}
}

const token = "TOKEN-abc123"

func parseConnections(t testing.TB, text string) *connection.Set {
	t.Helper()
	set, err := connection.Parse("connections.yaml", []byte(text), func(name string) (string, bool) { return token, name == "TOKEN" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return set
}

// apiAt is a connection to an API; settings are added to it.
func apiAt(t testing.TB, base, settings string) *connection.HTTP {
	t.Helper()
	set := parseConnections(t, fmt.Sprintf("connections: { api: { http: { base_url: %q, bearer: \"${TOKEN}\", %s } } }", base, settings))
	api, err := set.HTTP("api")
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func filesAt(t testing.TB, folder string) *connection.Files {
	t.Helper()
	files, err := parseConnections(t, fmt.Sprintf("connections: { local: { files: { url: %q } } }", folder)).Files("local")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func serve(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// answering is an API that gives one answer to everything.
func answering(t testing.TB, contentType, body string) *connection.HTTP {
	t.Helper()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
	return apiAt(t, server.URL, "timeout: 5s")
}

func columns(names ...string) []pipeline.Column {
	list := make([]pipeline.Column, len(names))
	for i, name := range names {
		kind := "text"
		if rest, ok := strings.CutSuffix(name, ":jsonb"); ok {
			name, kind = rest, "jsonb"
		}
		name, path, _ := strings.Cut(name, "=")
		list[i] = pipeline.Column{Name: name, Type: kind, Path: path}
	}
	return list
}

// show writes a row so that NULL, "" and "NULL" can be told apart.
func show(row [][]byte) string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = "NULL"
		if cell != nil {
			cells[i] = fmt.Sprintf("%q", cell)
		}
	}
	return strings.Join(cells, " ")
}

func collect(rows Rows) ([]string, error) {
	var list []string
	for row, err := range rows {
		if err != nil {
			return list, err
		}
		list = append(list, show(row))
	}
	return list, nil
}

// readListing reads all pages as a step does: what a page brings counts when it has been read whole.
func readListing(ctx context.Context, l *Listing) (rows []string, pages int, err error) {
	for at := ""; ; {
		page, err := l.Fetch(ctx, at)
		if err != nil {
			return rows, pages, err
		}
		list, err := collect(page.Rows())
		page.Close()
		if err != nil {
			return rows, pages, err
		}
		rows = append(rows, list...)
		pages++
		next, done, err := page.Next()
		if err != nil || done {
			return rows, pages, err
		}
		at = next
	}
}

func openListing(t testing.TB, api *connection.HTTP, spec pipeline.HTTP) *Listing {
	t.Helper()
	l, err := OpenHTTP(api, &spec, day(15), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantVerdict(t *testing.T, err error, class retry.Class, kind string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v %s", class, kind)
	}
	if v := retry.Classify(err); v.Class != class || v.Type != kind {
		t.Errorf("%v %s; want %v %s: %v", v.Class, v.Type, class, kind, err)
	}
	if strings.Contains(err.Error(), token) {
		t.Errorf("the token stands in %v", err)
	}
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		err = errors.New("(none)")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in the error: %v", part, err)
		}
	}
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
