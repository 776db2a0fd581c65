package connection

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lookup is an environment for Parse.
func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// mustParse parses a file that is right, and closes it at the end of the test.
func mustParse(t *testing.T, text string, env map[string]string) *Set {
	t.Helper()
	set, err := Parse("connections.yaml", []byte(text), lookup(env))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return set
}
