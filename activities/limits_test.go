package activities

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/retry"
)

func TestWhichLimitIsOver(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		time.Hour:       "start_to_close of 5m0s",
		5 * time.Minute: "start_to_close of 5m0s",
		time.Minute:     "schedule_to_close",
	} {
		info := activity.Info{StartedTime: started, StartToCloseTimeout: 5 * time.Minute, Deadline: started.Add(min(left, 5*time.Minute))}
		err := timeIsUp(info)
		if !strings.Contains(err.Error(), want) || retry.Classify(err) != (retry.Verdict{Class: retry.Transient, Type: retry.TypeTimeout}) {
			t.Errorf("with %s left: %v", left, err)
		}
	}
}

// TestALimitIsSaidOnce: a program is told the reason before the attempt is, so that the two are not the same error.
func TestALimitIsSaidOnce(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC)
	for _, left := range []time.Duration{time.Minute, time.Hour} {
		info := activity.Info{StartedTime: started, StartToCloseTimeout: 5 * time.Minute, Deadline: started.Add(min(left, 5*time.Minute))}
		if err := saying(timeIsUp(info), fmt.Errorf("sh was stopped: %w", timeIsUp(info))); strings.Count(err.Error(), "_to_close") != 1 {
			t.Errorf("with %s left: %v", left, err)
		}
	}
	other := saying(hasStalled(activity.Info{}), fmt.Errorf("sh was stopped: %w", errOverran))
	if !strings.Contains(other.Error(), "heartbeat") || !strings.Contains(other.Error(), "start_to_close") {
		t.Errorf("another limit is lost: %v", other)
	}
}

func TestAnAttemptEndsJustBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	late := errors.New("late")
	for left, margin := range map[time.Duration]time.Duration{time.Hour: lateMargin, time.Second: 100 * time.Millisecond} {
		whole, cancel := context.WithTimeout(t.Context(), left)
		limited, stop := inTime(whole, late)
		deadline, _ := whole.Deadline()
		if got, ok := limited.Deadline(); !ok || deadline.Sub(got) > margin || deadline.Sub(got) < margin*9/10 {
			t.Errorf("of %s the attempt leaves %s, want %s", left, deadline.Sub(got), margin)
		}
		stop()
		cancel()
	}
	limited, stop := inTime(t.Context(), late)
	defer stop()
	if _, any := limited.Deadline(); any {
		t.Error("an attempt without a limit was given one")
	}
}

// TestAStalledAttemptEndsItself: nothing moves, so heartbeats fall silent, and the attempt ends when Temporal is about to
// give it up.
func TestAStalledAttemptEndsItself(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	p := newProgress(timeout, time.Now)
	ctx, cancel := context.WithCancelCause(t.Context())
	stalled := hasStalled(activity.Info{HeartbeatTimeout: timeout})
	beats, ended := 0, time.Time{}
	beating := p.beatWith(ctx, func(Position) { beats++ }, func() { ended = time.Now(); cancel(stalled) })
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the attempt is never ended")
	}
	beating.stop()
	if silent := ended.Sub(p.moved); beats == 0 || silent < timeout {
		t.Errorf("after %d heartbeats the attempt ended when nothing had moved for %s", beats, silent)
	}
	if !errors.Is(context.Cause(ctx), stalled) || retry.Classify(stalled).Type != retry.TypeTimeout {
		t.Errorf("it ended since %v", context.Cause(ctx))
	}
}

// TestAWarehouseThatDoesNotOpenKeepsNobodyElse: the one is being opened by somebody and does not answer; others are
// opened meanwhile, and whoever waits for it waits no longer than his time.
func TestAWarehouseThatDoesNotOpenKeepsNobodyElse(t *testing.T) {
	t.Parallel()
	set, err := connection.Parse("connections.yaml", fmt.Appendf(nil, "connections:\n  slow: { sqlite: { path: %q } }\n  good: { sqlite: { path: %q } }\n",
		filepath.Join(t.TempDir(), "slow.db"), filepath.Join(t.TempDir(), "good.db")), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Connections: set})
	defer a.Close()
	_, give, err := a.warehouses.take(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.warehouse(t.Context(), "good"); err != nil {
		t.Errorf("the other warehouse: %v", err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := a.warehouse(ctx, "slow"); !errors.Is(err, late) {
		t.Errorf("somebody who has no time left is told %v", err)
	}
	give()
	if _, err := a.warehouse(t.Context(), "slow"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
