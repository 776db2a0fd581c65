package step

import (
	"strings"
	"testing"
	"time"
)

func TestWorkflowID(t *testing.T) {
	t.Parallel()
	tick := time.Date(2026, 1, 16, 7, 0, 0, 0, time.FixedZone("WIB", 7*3600))
	// A Schedule appends the nominal time in UTC, RFC 3339, whole seconds (server v1.32.1).
	if got, want := WorkflowID("orders", tick), "orders-2026-01-16T00:00:00Z"; got != want {
		t.Errorf("WorkflowID = %s, want %s", got, want)
	}
	for _, bad := range []string{"", "orders", "-2026-01-16T00:00:00Z", "orders2026-01-16T00:00:00Z", "orders-2026-01-16T00:00:00+", "orders-2026-13-16T00:00:00Z", "tranche/gate/orders"} {
		if name, at, err := ParseWorkflowID(bad); err == nil {
			t.Errorf("ParseWorkflowID(%q) = %s, %s", bad, name, at)
		}
	}
}

func FuzzWorkflowID(f *testing.F) {
	f.Add("orders", int64(1768521600))
	f.Add("orders-2026-01-16T00:00:00Z", int64(0))
	f.Fuzz(func(t *testing.T, name string, seconds int64) {
		const farthest = 253_402_300_799 // the last second of the year 9999
		if name == "" || seconds < 0 || seconds > farthest {
			t.Skip("outside the documented domain")
		}
		tick := time.Unix(seconds, 0)
		id := WorkflowID(name, tick)
		gotName, gotTick, err := ParseWorkflowID(id)
		if err != nil || gotName != name || !gotTick.Equal(tick) {
			t.Errorf("ParseWorkflowID(%q) = %q, %s, %v", id, gotName, gotTick, err)
		}
		if _, _, err := ParseWorkflowID(strings.TrimSuffix(id, "Z")); err == nil && !strings.HasSuffix(name, "Z") {
			t.Errorf("an id without its end is read: %q", id)
		}
	})
}
