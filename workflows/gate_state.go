package workflows

import (
	"cmp"
	"slices"
	"time"

	"github.com/trancheflow/tranche/step"
)

// Bounds of a gate's state, which is handed over whole when it continues as new.
const (
	// maximumWaiters is how many places the queue has. A run that finds none is not lost: it asks again, and
	// has a place when the queue is shorter or others come after it.
	maximumWaiters = 1000
	// maximumLook is how many holders are looked at in one go.
	maximumLook = 100
)

// gate hands out the slots of one pipeline.
//
// A run that asks looks at once, by a query, whether it has got a slot: in most cases it has, and nobody needs to be
// told. Those that have to wait are told by a signal when they get one.
//
// What it decides follows from the signals in their order, one after the other, and not from how many of them
// come together: when a worker dies with grants on their way, the next one decides the same, and nobody gets a
// slot who was not meant to.
type gate struct {
	pipeline string
	state    step.GateState
	// grants are decided and not sent.
	grants []step.Seat
	// suspects are holders whose workflow id has asked anew, so that they have probably ended.
	suspects []step.Seat
	// next is the holder at which the next look begins.
	next int
}

// handle takes one signal in.
func (g *gate) handle(s step.SlotSignal, now time.Time) {
	switch {
	case s.Release:
		g.free(s.Seat)
	case s.Seat == step.Seat{}:
		g.hear(s)
	default:
		g.ask(s, now)
	}
	g.fill(now)
	if s.Look {
		g.grants = slices.DeleteFunc(g.grants, func(granted step.Seat) bool { return granted == s.Seat })
	}
}

// hear takes over limit and order, unless a newer run or a newer apply has decided them.
func (g *gate) hear(s step.SlotSignal) {
	if g.state.Limit == 0 || !s.Began.Before(g.state.Decided) {
		g.decide(s)
	}
}

func (g *gate) ask(s step.SlotSignal, now time.Time) {
	g.hear(s)
	if of(g.state.Holders, s.Seat) >= 0 {
		g.grants = append(g.grants, s.Seat) // the grant was lost
		return
	}
	for i, holder := range g.state.Holders {
		switch {
		case holder.WorkflowID != s.WorkflowID:
		case holder.Now == s.RunID:
			g.takeOver(i, s.Seat)
			return
		default:
			g.suspects = append(g.suspects, holder.Seat)
		}
	}
	if of(g.state.Waiters, s.Seat) >= 0 {
		return
	}
	place := step.Place{Seat: s.Seat, Class: s.Class, Start: s.Start.UTC(), Since: now.UTC()}
	at, _ := slices.BinarySearchFunc(g.state.Waiters, place, g.compare)
	g.state.Waiters = slices.Insert(g.state.Waiters, at, place)
	if len(g.state.Waiters) > maximumWaiters {
		g.state.Waiters = g.state.Waiters[:maximumWaiters]
	}
}

// takeOver gives the slot of a holder that was reset to what goes on with it, and has asked anew.
func (g *gate) takeOver(holder int, seat step.Seat) {
	g.free(seat)
	g.state.Holders[holder].Seat, g.state.Holders[holder].Now = seat, ""
	g.grants = append(g.grants, seat)
}

// decide takes over what the newest run, or a newer apply, says of limit and order.
func (g *gate) decide(s step.SlotSignal) {
	g.state.Limit, g.state.Decided = max(1, s.Limit), s.Began
	if g.state.InOrder != s.InOrder {
		g.state.InOrder = s.InOrder
		slices.SortFunc(g.state.Waiters, g.compare)
	}
}

// compare orders the waiters: oldest interval first, within each class or, where runs depend on the past, over
// all.
func (g *gate) compare(a, b step.Place) int {
	class := cmp.Compare(a.Class, b.Class)
	if g.state.InOrder {
		class = 0
	}
	return cmp.Or(class, a.Start.Compare(b.Start), cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.RunID, b.RunID))
}

// free takes a seat out of the gate. A seat that is not in it is none.
//
// A run that was reset after it had got its slot gives back the seat of the run that it was, which asked for it.
func (g *gate) free(seat step.Seat) {
	is := func(p step.Place) bool { return p.Seat == seat }
	g.state.Holders = slices.DeleteFunc(g.state.Holders, is)
	g.state.Waiters = slices.DeleteFunc(g.state.Waiters, is)
	g.grants = slices.DeleteFunc(g.grants, func(granted step.Seat) bool { return granted == seat })
}

// fill gives the free slots to those who wait.
func (g *gate) fill(now time.Time) {
	for len(g.state.Waiters) > 0 && len(g.state.Holders) < g.state.Limit {
		first := g.state.Waiters[0]
		g.state.Waiters = slices.Delete(g.state.Waiters, 0, 1)
		first.Since = now.UTC()
		g.state.Holders = append(g.state.Holders, first)
		g.grants = append(g.grants, first.Seat)
	}
}

// look returns the holders to be looked at: those that have probably ended or, if everyone is due, as many as
// fit, beginning after those of the last time.
func (g *gate) look(everyone bool) []step.Place {
	var places []step.Place
	for _, seat := range g.suspects {
		if at := of(g.state.Holders, seat); at >= 0 && of(places, seat) < 0 {
			places = append(places, g.state.Holders[at])
		}
	}
	g.suspects = nil
	if !everyone {
		return places
	}
	for range min(len(g.state.Holders), maximumLook) {
		g.next %= len(g.state.Holders)
		if holder := g.state.Holders[g.next]; of(places, holder.Seat) < 0 {
			places = append(places, holder)
		}
		g.next++
	}
	return places
}

// found takes in what was found of holders.
func (g *gate) found(states []step.HolderState, now time.Time) {
	for _, found := range states {
		at := of(g.state.Holders, found.Seat)
		goesOn := step.Seat{WorkflowID: found.Seat.WorkflowID, RunID: found.Now}
		switch {
		case at < 0:
		case found.Closed:
			g.free(found.Seat)
		case of(g.state.Waiters, goesOn) >= 0:
			g.takeOver(at, goesOn)
		default:
			g.state.Holders[at].Now = found.Now
		}
	}
	g.fill(now)
}

// adopt takes over the state of a gate that was ended. Grants that it did not send are asked for again.
func (g *gate) adopt(earlier step.GateState, now time.Time) {
	g.state = earlier
	g.fill(now)
}

// empty reports whether nobody is in the gate.
func (g *gate) empty() bool { return len(g.state.Holders)+len(g.state.Waiters) == 0 }

// standing says where a seat is.
func (g *gate) standing(seat step.Seat) step.Standing {
	const named = 3
	standing := step.Standing{Seat: seat, Limit: g.state.Limit, Taken: len(g.state.Holders)}
	standing.Holds = of(g.state.Holders, seat) >= 0
	if at := of(g.state.Waiters, seat); at >= 0 {
		standing.Waits, standing.Before = true, at
	}
	for _, holder := range g.state.Holders[:min(named, len(g.state.Holders))] {
		standing.By = append(standing.By, holder.WorkflowID)
	}
	return standing
}

// of returns where a seat is among places; negative if it is not.
func of(places []step.Place, seat step.Seat) int {
	return slices.IndexFunc(places, func(p step.Place) bool { return p.Seat == seat })
}
