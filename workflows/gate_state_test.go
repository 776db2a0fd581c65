package workflows

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/step"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// asks is the signal of a run of the n-th day, by its first execution.
func asks(kind step.Kind, n, limit int) step.SlotSignal {
	start := epoch.AddDate(0, 0, n)
	return step.SlotSignal{
		Seat:  step.Seat{WorkflowID: step.WorkflowID("orders", start.AddDate(0, 0, 1)), RunID: "first"},
		Class: step.Class(kind), Start: start, Limit: limit, Began: epoch,
	}
}

func gives(asked step.SlotSignal) step.SlotSignal {
	return step.SlotSignal{Seat: asked.Seat, Release: true}
}

// days names the places by their day, those of a later execution with its name.
func days(places []step.Place) string {
	var names []string
	for _, place := range places {
		name := fmt.Sprint(int(place.Start.Sub(epoch) / (24 * time.Hour)))
		if place.RunID != "first" {
			name += "/" + place.RunID
		}
		if place.Now != "" {
			name += ">" + place.Now
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestOrder: who waits is served by class and interval, and where runs depend on the past by interval alone.
func TestOrder(t *testing.T) {
	t.Parallel()
	waiting := []step.SlotSignal{
		asks(step.Catchup, 1, 1), asks(step.Manual, 8, 1), asks(step.Lookback, 5, 1), asks(step.Scheduled, 7, 1),
		asks(step.Catchup, 0, 1), asks(step.Lookback, 4, 1), asks(step.Manual, 6, 1),
	}
	for inOrder, want := range map[bool]string{false: "6 7 8 4 5 0 1", true: "0 1 4 5 6 7 8"} {
		for range 20 {
			var g gate
			g.handle(asks(step.Manual, 9, 1), epoch)
			rand.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
			for _, signal := range waiting {
				signal.InOrder = inOrder
				g.handle(signal, epoch)
			}
			if got := days(g.state.Waiters); got != want || days(g.state.Holders) != "9" {
				t.Fatalf("in order %v: %s waits behind %s, want %s", inOrder, got, days(g.state.Holders), want)
			}
		}
	}
}

// TestLimitOfTheNewestRun decides, however late an older one asks.
func TestLimitOfTheNewestRun(t *testing.T) {
	t.Parallel()
	var g gate
	for n := range 8 {
		g.handle(asks(step.Manual, n, 2), epoch)
	}
	if got := days(g.state.Holders); got != "0 1" {
		t.Fatalf("%s have a slot of 2", got)
	}
	wider := asks(step.Manual, 8, 4)
	wider.Began = epoch.Add(time.Hour)
	g.handle(wider, epoch)
	if got := days(g.state.Holders); got != "0 1 2 3" {
		t.Errorf("%s have a slot of 4", got)
	}
	g.handle(asks(step.Manual, 9, 2), epoch)
	if g.state.Limit != 4 {
		t.Errorf("a run that began earlier turned the limit into %d", g.state.Limit)
	}
	narrower := asks(step.Manual, 10, 1)
	narrower.Began = epoch.Add(2 * time.Hour)
	g.handle(narrower, epoch)
	for n := range 3 {
		g.handle(gives(asks(step.Manual, n, 0)), epoch)
	}
	if got := days(g.state.Holders); got != "3" {
		t.Errorf("%s have a slot of 1, while another is to end first", got)
	}
	g.handle(asks(step.Manual, 3, 0), epoch)
	if g.state.Limit != 1 {
		t.Errorf("the limit is %d", g.state.Limit)
	}
}

// TestAskingTwice gives no second place, and a grant again to one that has a slot.
func TestAskingTwice(t *testing.T) {
	t.Parallel()
	var g gate
	first, second := asks(step.Manual, 0, 1), asks(step.Manual, 1, 1)
	for range 3 {
		g.handle(first, epoch)
		g.handle(second, epoch)
	}
	if len(g.grants) != 3 || g.grants[2] != first.Seat || days(g.state.Holders) != "0" || days(g.state.Waiters) != "1" {
		t.Errorf("%v are granted, %s has a slot, %s waits", g.grants, days(g.state.Holders), days(g.state.Waiters))
	}
	g.handle(gives(second), epoch)
	g.handle(gives(second), epoch)
	g.handle(gives(first), epoch)
	if !g.empty() || len(g.grants) > 0 {
		t.Errorf("left are %+v, %v", g.state, g.grants)
	}
}

// TestWhoLooksIsNotTold that it has got a slot at once, but when it gets one later.
func TestWhoLooksIsNotTold(t *testing.T) {
	t.Parallel()
	var g gate
	first, second := asks(step.Manual, 0, 1), asks(step.Manual, 1, 1)
	first.Look, second.Look = true, true
	g.handle(first, epoch)
	g.handle(second, epoch)
	if len(g.grants) > 0 || !g.standing(first.Seat).Holds || !g.standing(second.Seat).Waits {
		t.Errorf("%v are granted, %s has a slot", g.grants, days(g.state.Holders))
	}
	g.handle(gives(first), epoch)
	if !slices.Equal(g.grants, []step.Seat{second.Seat}) {
		t.Errorf("%v are granted", g.grants)
	}
}

// TestTheQueueIsBounded by its end: who was turned away asks again.
func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	var g gate
	for n := maximumWaiters + 100; n >= 0; n-- {
		g.handle(asks(step.Manual, n, 1), epoch)
	}
	if got := len(g.state.Waiters); got != maximumWaiters || !g.state.Waiters[0].Start.Equal(epoch) {
		t.Errorf("%d wait, the first for %s", got, g.state.Waiters[0].Start)
	}
}

// TestAnotherExecutionOfAnId: an ended one is looked at at once, and one that was reset goes on with its slot,
// whenever it asks.
func TestAnotherExecutionOfAnId(t *testing.T) {
	t.Parallel()
	old := asks(step.Manual, 0, 1)
	again := old
	again.RunID = "second"
	var ended, reset, resetEarlier, unasked gate
	for _, g := range []*gate{&ended, &reset} {
		g.handle(old, epoch)
		g.handle(again, epoch)
		if look := g.look(false); len(look) != 1 || look[0].Seat != old.Seat || days(g.state.Waiters) != "0/second" {
			t.Fatalf("looked at %v, %s waits", look, days(g.state.Waiters))
		}
		if look := g.look(false); len(look) > 0 {
			t.Errorf("looked at %v again", look)
		}
	}
	ended.found([]step.HolderState{{Seat: old.Seat, Closed: true}}, epoch)
	reset.found([]step.HolderState{{Seat: old.Seat, Now: "second"}}, epoch)
	resetEarlier.handle(old, epoch)
	resetEarlier.found([]step.HolderState{{Seat: old.Seat, Now: "second"}}, epoch)
	resetEarlier.handle(again, epoch)
	for name, g := range map[string]*gate{"ended": &ended, "reset": &reset, "reset earlier": &resetEarlier} {
		if days(g.state.Holders) != "0/second" || len(g.state.Waiters) > 0 || g.grants[len(g.grants)-1] != again.Seat {
			t.Errorf("%s: %s has a slot, %s waits, granted %v", name, days(g.state.Holders), days(g.state.Waiters), g.grants)
		}
		g.handle(gives(again), epoch)
		if !g.empty() {
			t.Errorf("%s: the slot did not come back", name)
		}
	}
	unasked.handle(old, epoch)
	unasked.found([]step.HolderState{{Seat: old.Seat, Now: "second"}}, epoch)
	if look := unasked.look(true); len(look) != 1 || look[0].Now != "second" {
		t.Errorf("looked at %v", look)
	}
	unasked.handle(gives(old), epoch)
	if !unasked.empty() {
		t.Error("a run that was reset after it had its slot did not give it back")
	}
}

// TestEveryHolderIsLookedAt in turn, however many there are.
func TestEveryHolderIsLookedAt(t *testing.T) {
	t.Parallel()
	var g gate
	const holders = 2*maximumLook + 50
	for n := range holders {
		g.handle(asks(step.Manual, n, holders), epoch)
	}
	seen := map[step.Seat]bool{}
	for range 3 {
		look := g.look(true)
		if len(look) > maximumLook {
			t.Fatalf("%d are looked at in one go", len(look))
		}
		for _, place := range look {
			seen[place.Seat] = true
		}
	}
	if len(seen) != holders {
		t.Errorf("%d of %d holders were looked at", len(seen), holders)
	}
}

// TestGateNeverGivesTooMany drives a gate with a random history: nobody has two places, no more than the limit
// have a slot, none is free while anybody waits, and the slots go to the first of those who wait.
func TestGateNeverGivesTooMany(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + random.IntN(4)
		kinds := []step.Kind{step.Scheduled, step.Manual, step.Lookback, step.Catchup}
		var g gate
		for range 300 {
			before, signal := slices.Clone(g.state.Holders), asks(kinds[random.IntN(4)], random.IntN(12), limit)
			signal.Class = step.Class(kinds[signal.Start.Day()%4])
			signal.RunID = []string{"first", "second"}[random.IntN(2)]
			signal.InOrder = seed%2 == 0
			switch random.IntN(4) {
			case 0:
				g.handle(signal, epoch)
			case 1:
				g.handle(gives(signal), epoch)
			case 2:
				g.found([]step.HolderState{{Seat: signal.Seat, Closed: true}}, epoch)
			default:
				g.found([]step.HolderState{{Seat: signal.Seat, Now: "second"}}, epoch)
			}
			checkGate(t, seed, &g, before, limit)
		}
	}
}

func checkGate(t *testing.T, seed uint64, g *gate, before []step.Place, limit int) {
	t.Helper()
	places := map[step.Seat]bool{}
	for _, place := range slices.Concat(g.state.Holders, g.state.Waiters) {
		if places[place.Seat] {
			t.Fatalf("seed %d: %v has two places", seed, place.Seat)
		}
		places[place.Seat] = true
	}
	if len(g.state.Holders) > limit || len(g.state.Holders) < limit && len(g.state.Waiters) > 0 {
		t.Fatalf("seed %d: %d of %d have a slot, %d wait", seed, len(g.state.Holders), limit, len(g.state.Waiters))
	}
	if !slices.IsSortedFunc(g.state.Waiters, g.compare) {
		t.Fatalf("seed %d: they wait in the wrong order: %s", seed, days(g.state.Waiters))
	}
	for _, holder := range g.state.Holders {
		had := slices.ContainsFunc(before, func(p step.Place) bool { return p.WorkflowID == holder.WorkflowID })
		if len(g.state.Waiters) > 0 && !had && g.compare(g.state.Waiters[0], holder) < 0 {
			t.Fatalf("seed %d: %v has got the slot before %v", seed, holder.Seat, g.state.Waiters[0].Seat)
		}
	}
}

func TestGateDetails(t *testing.T) {
	t.Parallel()
	g := gate{pipeline: "orders"}
	for n := range shownPlaces + 10 {
		g.handle(asks(step.Catchup, n, 2), epoch)
	}
	text := g.details()
	for _, want := range []string{"2 of 2 slots taken, 58 waiting", "slot 2", "waits 1", "orders-2026-01-03T00:00:00Z", "catchup", "and 10 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("the details lack %q:\n%s", want, text)
		}
	}
	if rows := strings.Count(text, gap+" | orders-"); rows != shownPlaces {
		t.Errorf("%d rows of %d are shown", rows, shownPlaces)
	}
	for n := range shownPlaces + 10 {
		g.handle(gives(asks(step.Catchup, n, 2)), epoch)
	}
	if text := g.details(); !strings.Contains(text, "0 of 2 slots taken, 0 waiting") || strings.Contains(text, "|") {
		t.Errorf("of an empty gate:\n%s", text)
	}
}

// TestAnApplyDecidesTheLimit: it holds at once, and a run that began before the apply does not turn it back.
func TestAnApplyDecidesTheLimit(t *testing.T) {
	t.Parallel()
	var g gate
	for n := range 4 {
		g.handle(asks(step.Catchup, n, 3), epoch)
	}
	g.handle(step.SlotSignal{Limit: 1, Began: epoch.Add(time.Hour)}, epoch)
	g.handle(asks(step.Catchup, 4, 3), epoch)
	g.handle(gives(asks(step.Catchup, 0, 3)), epoch)
	g.handle(gives(asks(step.Catchup, 1, 3)), epoch)
	if holders, waiters := days(g.state.Holders), days(g.state.Waiters); holders != "2" || waiters != "3 4" {
		t.Errorf("%s have a slot and %s wait, want 2, and 3 4", holders, waiters)
	}
	g.handle(step.SlotSignal{Limit: 3, Began: epoch.Add(2 * time.Hour)}, epoch)
	if holders := days(g.state.Holders); holders != "2 3 4" {
		t.Errorf("with three slots again %s have one, want 2 3 4", holders)
	}
	g.handle(step.SlotSignal{Limit: 1, Began: epoch}, epoch)
	if g.state.Limit != 3 {
		t.Errorf("an older apply sets the limit to %d", g.state.Limit)
	}
}
