package workflows

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// gateWorld is a gate with stand-ins for what it does outside.
type gateWorld struct {
	*testsuite.TestWorkflowEnvironment
	mutex sync.Mutex
	// granted are the days that were told that they have a slot, in order; at says when.
	granted []string
	at      []time.Time
	// ended are the seats that Temporal knows as closed. A grant to one is not taken.
	ended map[step.Seat]bool
	looks int
	// fail, when set, fails what is done outside.
	fail func(name string) error
	// earlier is what a gate that was ended knew.
	earlier map[string]step.GateState
}

func newGateWorld(t *testing.T) *gateWorld {
	t.Helper()
	w := &gateWorld{TestWorkflowEnvironment: newEnvironment(t), ended: map[step.Seat]bool{}}
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: launch.GateID("orders")})
	w.RegisterWorkflowWithOptions(Gate, workflow.RegisterOptions{Name: launch.GateType})
	register := func(name string, function any) {
		w.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	register(step.ActivityGrant, func(_ context.Context, grants []step.Seat) (gone []step.Seat, err error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if w.fail != nil && w.fail(step.ActivityGrant) != nil {
			return nil, w.fail(step.ActivityGrant)
		}
		for _, seat := range grants {
			if w.ended[seat] {
				gone = append(gone, seat)
				continue
			}
			w.granted = append(w.granted, strings.TrimSuffix(strings.TrimPrefix(seat.WorkflowID, "orders-2026-01-"), "T00:00:00Z"))
			w.at = append(w.at, w.Now())
		}
		return gone, nil
	})
	register(step.ActivityHolders, func(_ context.Context, look step.HoldersLook) (states []step.HolderState, err error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.looks++
		for _, place := range look.Places {
			if w.ended[place.Seat] {
				states = append(states, step.HolderState{Seat: place.Seat, Closed: true})
			}
		}
		return states, nil
	})
	register(step.ActivityRecoverGate, func(_ context.Context, recovery step.GateRecovery) (step.GateState, error) {
		state, known := w.earlier[recovery.RunID]
		if !known {
			return state, temporal.NewNonRetryableApplicationError("nobody answers", "Test", nil)
		}
		return state, nil
	})
	return w
}

// after sends a signal this long after the gate has begun.
func (w *gateWorld) after(d time.Duration, signal step.SlotSignal) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(step.SignalSlot, signal) }, d)
}

// end ends a run without a word, as termination does.
func (w *gateWorld) end(d time.Duration, asked step.SlotSignal) {
	w.RegisterDelayedCallback(func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.ended[asked.Seat] = true
	}, d)
}

// serve runs the gate to its end and wants these days to have got a slot, in this order.
func (w *gateWorld) serve(t *testing.T, want ...string) {
	t.Helper()
	w.ExecuteWorkflow(launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: "orders"})
	if err := w.GetWorkflowError(); !w.IsWorkflowCompleted() || err != nil {
		t.Fatalf("the gate ended with %v", err)
	}
	if !slices.Equal(w.granted, want) {
		t.Errorf("granted to %v, want %v", w.granted, want)
	}
}

// TestGateServesInOrder and ends when nobody has been there for a while.
func TestGateServesInOrder(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	signals := []step.SlotSignal{asks(step.Manual, 5, 1), asks(step.Catchup, 1, 1), asks(step.Scheduled, 7, 1), asks(step.Lookback, 2, 1), asks(step.Manual, 6, 1)}
	for i, signal := range signals {
		w.after(time.Duration(i)*time.Millisecond, signal)
	}
	for i, n := range []int{0, 4, 2, 3, 1} {
		w.after(time.Duration(i+1)*time.Second, gives(signals[n]))
	}
	begun := w.Now()
	w.serve(t, "07", "08", "09", "04", "03")
	if took := w.Now().Sub(begun); took < gateIdle || took > gateIdle+time.Minute {
		t.Errorf("it ended after %s", took)
	}
	if w.looks > 0 {
		t.Errorf("it looked at its holders %d times in %s", w.looks, 5*time.Second)
	}
}

// TestGateStaysWhileAnybodyIsThere, and for as long after the last one as after the first.
func TestGateStaysWhileAnybodyIsThere(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	first, second := asks(step.Manual, 0, 1), asks(step.Manual, 1, 1)
	w.after(time.Second, first)
	w.after(3*gateIdle, gives(first))
	w.after(3*gateIdle+gateIdle/2, second)
	w.after(3*gateIdle+gateIdle/2+time.Second, gives(second))
	begun := w.Now()
	w.serve(t, "02", "03")
	if took := w.Now().Sub(begun); took < 4*gateIdle+gateIdle/2 || took > 5*gateIdle {
		t.Errorf("it ended after %s", took)
	}
}

// TestATerminatedHolderIsFound, and a dead waiter is passed over.
func TestATerminatedHolderIsFound(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	holder, dead, next := asks(step.Manual, 0, 1), asks(step.Manual, 1, 1), asks(step.Manual, 2, 1)
	w.after(0, holder)
	w.after(time.Second, dead)
	w.after(2*time.Second, next)
	w.end(time.Minute, dead)
	w.end(time.Minute, holder)
	w.after(2*time.Minute, gives(next))
	begun := w.Now()
	w.serve(t, "02", "04")
	if waited := w.at[1].Sub(begun) - time.Minute; waited > healEvery {
		t.Errorf("the slot came back after %s", waited)
	}
}

// TestACancelledWaiterIsPassedOver, since it gave its place back.
func TestACancelledWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	for n := range 3 {
		w.after(0, asks(step.Manual, n, 1))
	}
	w.after(time.Second, gives(asks(step.Manual, 1, 1)))
	w.after(2*time.Second, gives(asks(step.Manual, 0, 1)))
	w.after(3*time.Second, gives(asks(step.Manual, 2, 1)))
	w.serve(t, "02", "04")
}

// TestAGrantThatFailed is repeated when its run asks again, and takes no second slot.
func TestAGrantThatFailed(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	failing := true
	w.fail = func(string) error {
		if failing {
			return temporal.NewNonRetryableApplicationError("no Temporal", "Test", nil)
		}
		return nil
	}
	w.after(0, asks(step.Manual, 0, 1))
	w.after(time.Second, asks(step.Manual, 1, 1))
	w.RegisterDelayedCallback(func() { w.mutex.Lock(); failing = false; w.mutex.Unlock() }, 30*time.Second)
	w.after(time.Minute, asks(step.Manual, 0, 1))
	w.after(2*time.Minute, gives(asks(step.Manual, 0, 1)))
	w.after(3*time.Minute, gives(asks(step.Manual, 1, 1)))
	w.serve(t, "02", "03")
}

// TestGateContinuesAsNew with everybody who is there.
func TestGateContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	for n := range gateSignals {
		w.after(0, asks(step.Manual, n%100, 2))
	}
	w.ExecuteWorkflow(launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: "orders"})
	var again *workflow.ContinueAsNewError
	if err := w.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("the gate ended with %v", err)
	}
	var input step.GateInput
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &input); err != nil {
		t.Fatal(err)
	}
	if len(input.State.Holders) != 2 || len(input.State.Waiters) != 98 || input.State.Limit != 2 || input.Pipeline != "orders" {
		t.Errorf("it goes on with %d holders, %d waiters and %+v", len(input.State.Holders), len(input.State.Waiters), input)
	}
	next := newGateWorld(t)
	for n := range 100 {
		next.after(time.Second+time.Duration(n)*time.Millisecond, gives(asks(step.Manual, n, 2)))
	}
	next.ExecuteWorkflow(launch.GateType, input)
	if err := next.GetWorkflowError(); err != nil || len(next.granted) != 98 {
		t.Errorf("%d of 98 got a slot from the next one, %v", len(next.granted), err)
	}
}

// TestGateTakesOver from one that was ended: its holders still work, and nobody gets their slots.
func TestGateTakesOver(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	var earlier gate
	for n := range 4 {
		earlier.handle(asks(step.Manual, n, 2), epoch)
	}
	before := earlier.state
	before.Recover = "oldest"
	w.earlier = map[string]step.GateState{"old": before, "oldest": earlier.state}
	w.after(0, asks(step.Manual, 4, 2))
	for n := range 5 {
		w.after(time.Duration(n+1)*time.Second, gives(asks(step.Manual, n, 2)))
	}
	w.ExecuteWorkflow(launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: "orders", State: step.GateState{Recover: "old"}})
	if err := w.GetWorkflowError(); err != nil || !slices.Equal(w.granted, []string{"04", "05", "06"}) {
		t.Errorf("granted to %v, %v", w.granted, err)
	}
}

// TestGateGoesOnWithoutTheOneBefore where nobody answers for that.
func TestGateGoesOnWithoutTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.after(0, asks(step.Manual, 4, 2))
	w.after(time.Second, gives(asks(step.Manual, 4, 2)))
	w.ExecuteWorkflow(launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: "orders", State: step.GateState{Recover: "old"}})
	if err := w.GetWorkflowError(); err != nil || !slices.Equal(w.granted, []string{"06"}) {
		t.Errorf("granted to %v, %v", w.granted, err)
	}
}

func TestGateSaysWhereARunStands(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	for n := range 6 {
		w.after(0, asks(step.Manual, n, 2))
	}
	ask := func(signal step.SlotSignal) (standing step.Standing) {
		value, err := w.QueryWorkflow(step.QueryStanding, signal.Seat)
		if err == nil {
			err = value.Get(&standing)
		}
		if err != nil {
			t.Error(err)
		}
		return standing
	}
	w.RegisterDelayedCallback(func() {
		if got := ask(asks(step.Manual, 1, 0)); !got.Holds || got.Waits {
			t.Errorf("a holder: %+v", got)
		}
		if got := ask(asks(step.Manual, 9, 0)); got.Holds || got.Waits {
			t.Errorf("a stranger: %+v", got)
		}
		got := ask(asks(step.Manual, 4, 0))
		want := "waits for a slot: 2 of 2 are taken, by orders-2026-01-02T00:00:00Z, orders-2026-01-03T00:00:00Z; 2 wait before it"
		if text := waitsForSlot(got); text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		value, err := w.QueryWorkflow(step.QueryGate)
		var state step.GateState
		if err != nil || value.Get(&state) != nil || len(state.Holders) != 2 || len(state.Waiters) != 4 {
			t.Errorf("%+v, %v", state, err)
		}
		w.CancelWorkflow()
	}, time.Second)
	w.ExecuteWorkflow(launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: "orders"})
	if err := w.GetWorkflowError(); !temporal.IsCanceledError(err) {
		t.Errorf("the gate ended with %v", err)
	}
}
