package pipeline

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"retry", "retry", 0}, {"rerty", "retry", 1}, {"retires", "retry", 3},
		{"timezon", "timezone", 1}, {"kitten", "sitting", 3}, {"abcd", "badc", 2},
	} {
		if got := distance(c.a, c.b, 100); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if back := distance(c.b, c.a, 100); back != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, back, c.want)
		}
	}
	if got := distance(strings.Repeat("a", 1<<20), "abc", 3); got != 3 {
		t.Errorf("a long word is %d away", got)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	options := []string{"steps", "schedule", "sql", "max_active_runs"}
	for word, want := range map[string]string{
		"step": "steps", "Schedule": "schedule", "scheduel": "schedule", "url": "", "sq": "sql", "max_active_run": "max_active_runs",
		"zebra": "", "": "",
	} {
		if got := suggest(word, options); got != want {
			t.Errorf("suggest(%q) = %q, want %q", word, got, want)
		}
	}
}

// Paths in the document come apart again as they were put together.
func TestPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ parent, key, path, last string }{
		{"", "steps", "steps", "steps"},
		{"steps[2].http", "path", "steps[2].http.path", "path"},
		{"steps[2].http.query", "a.b", `steps[2].http.query["a.b"]`, `query["a.b"]`},
		{"q", "", `q[""]`, `q[""]`},
		{"q", `a"["b`, `q["a\"[\"b"]`, ""},
	} {
		path := join(c.parent, c.key)
		if path != c.path {
			t.Errorf("join(%q, %q) = %q, want %q", c.parent, c.key, path, c.path)
		}
		if c.last != "" && (parentOf(path) != c.parent || lastOf(path) != c.last) {
			t.Errorf("%q comes apart as %q and %q", path, parentOf(path), lastOf(path))
		}
	}
	if got := parentOf(index("steps", 12)); got != "steps" {
		t.Errorf("got %q", got)
	}
	if got := lastOf(index("steps", 12)); got != "steps[12]" {
		t.Errorf("got %q", got)
	}
}
