package step

import (
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Names of the activity types that pass between runs, and between a run and its pipeline's gate, beside those of
// control.go.
const (
	ActivityWakeNext    = "wake-next"
	ActivityHolders     = "look-at-holders"
	ActivityRecoverGate = "recover-gate"
)

// Signals, as they stand in histories.
const (
	// SignalSlot tells the gate that a run asks for a slot or gives one back: a SlotSignal.
	SignalSlot = "slot"
	// SignalGranted tells a run that it has a slot: its Seat.
	SignalGranted = "granted"
	// SignalPast tells a run that the run of the interval before it has ended; it carries nothing.
	SignalPast = "past"
)

// Queries of the gate.
const (
	// QueryGate answers the GateState.
	QueryGate = "gate"
	// QueryStanding takes a Seat and answers its Standing.
	QueryStanding = "standing"
)

// GateVersion is the newest version of the gate's input that this build understands. It grows when the same
// signals would lead to other commands.
const GateVersion = 1

// Classes of runs, in the order in which they get slots.
const (
	ClassFirst = iota
	ClassLookback
	ClassCatchup
)

// Class returns the class of a kind of run.
func Class(kind Kind) int {
	switch kind {
	case Lookback:
		return ClassLookback
	case Catchup:
		return ClassCatchup
	default:
		return ClassFirst
	}
}

// Seat names the execution that asks for a slot, holds one or gives it back. It is the execution that asked: a
// run that is reset goes on with its seat.
type Seat struct {
	WorkflowID string `json:"id"`
	RunID      string `json:"run"`
}

// SlotSignal is what a run tells the gate. Telling it twice changes nothing.
type SlotSignal struct {
	Seat
	// Release gives the slot back, or the place in the queue; the other fields are not set then.
	Release bool `json:"release,omitempty"`
	// Look says that the run looks by itself whether it has got a slot at once: it need not be told.
	Look bool `json:"look,omitempty"`
	// Class and Start, the start of the run's interval, decide the place in the queue.
	Class int       `json:"class,omitempty"`
	Start time.Time `json:"start,omitzero"`
	// Limit is the number of slots by the run's own definition, InOrder says that it lets runs begin oldest
	// first whatever their class. The newest run that has asked decides; Began is when that began. A signal
	// without a Seat says just that: the definition was applied then.
	Limit   int       `json:"limit,omitempty"`
	InOrder bool      `json:"in_order,omitempty"`
	Began   time.Time `json:"began,omitzero"`
}

// Place is a run in the gate: one that waits or one that works.
type Place struct {
	Seat
	Class int       `json:"class,omitempty"`
	Start time.Time `json:"start"`
	// Since is when it began to wait or, with a slot, when it got that.
	Since time.Time `json:"since"`
	// Now is the execution that goes on with the seat, after a reset; empty: the one that asked.
	Now string `json:"now,omitempty"`
}

// GateState is what a gate knows.
type GateState struct {
	// Limit is the number of slots; zero before anybody has asked. Decided is when the run began that said so.
	Limit   int       `json:"limit"`
	InOrder bool      `json:"in_order,omitempty"`
	Decided time.Time `json:"decided,omitzero"`
	// Holders have a slot, in the order in which they got it; Waiters have none, the next one first.
	Holders []Place `json:"holders,omitempty"`
	Waiters []Place `json:"waiters,omitempty"`
	// Recover is the run id of an earlier gate of the pipeline whose state is still to be taken over.
	Recover string `json:"recover,omitempty"`
}

// GateInput is what a gate is started with.
type GateInput struct {
	// Version of the gate that is asked for; GateVersion.
	Version  int       `json:"version"`
	Pipeline string    `json:"pipeline"`
	State    GateState `json:"state"`
}

// GateAsk is what a run tells its worker to tell the gate.
type GateAsk struct {
	Pipeline string `json:"pipeline"`
	// TaskQueue is where a gate is started if none is open.
	TaskQueue string `json:"task_queue"`
	// Signal is the request; its seat is filled in with the execution that really asks.
	Signal SlotSignal `json:"signal"`
	// Seat is where the run stands by what it was told last; nil: it asks for the first time.
	Seat *Seat `json:"seat,omitempty"`
}

// Standing is where a run stands in the gate.
type Standing struct {
	Seat Seat `json:"seat"`
	// Holds and Waits say where the seat is; with neither, the gate does not know it or was not asked.
	Holds bool `json:"holds,omitempty"`
	Waits bool `json:"waits,omitempty"`
	// Before counts those that wait and are first.
	Before int `json:"before,omitempty"`
	// Limit is the number of slots, Taken how many are taken, By the workflow ids of some of those that have them.
	Limit int      `json:"limit,omitempty"`
	Taken int      `json:"taken,omitempty"`
	By    []string `json:"by,omitempty"`
}

// GateRelease gives a slot, or a place in the queue, back.
type GateRelease struct {
	Pipeline string `json:"pipeline"`
	// Seat that asked; an empty run id means the execution that gives it back.
	Seat Seat `json:"seat"`
}

// HoldersLook asks whether executions are closed, those that have a slot.
type HoldersLook struct {
	Places []Place `json:"places"`
}

// HolderState is what was found of one of them, where that is not simply open.
type HolderState struct {
	Seat Seat `json:"seat"`
	// Closed says that it has ended and nothing goes on with its seat.
	Closed bool `json:"closed,omitempty"`
	// Now is the execution that goes on with the seat, after a reset.
	Now string `json:"now,omitempty"`
}

// GateRecovery asks for the state of a gate that was ended.
type GateRecovery struct {
	Pipeline string `json:"pipeline"`
	RunID    string `json:"run_id"`
}

// PastRequest asks whether a run that depends on the interval before its own may begin.
type PastRequest struct {
	Owner
	Kind     Kind              `json:"kind"`
	Schedule pipeline.Schedule `json:"schedule"`
	// Exempt says that nobody is going to run the interval before, if it was never run.
	Exempt bool `json:"exempt,omitempty"`
}

// PastAnswer says whether it may.
type PastAnswer struct {
	Go bool `json:"go,omitempty"`
	// Note says what is waited for.
	Note string `json:"note,omitempty"`
}

// Neighbours names a run whose neighbours are to be woken or started again.
type Neighbours struct {
	// Definition is the effective definition of the run.
	Definition *pipeline.Pipeline `json:"definition"`
	// Interval that the run owns.
	Interval interval.Interval `json:"interval"`
}

// HandOverRequest asks to start the run of an interval for one that owns none, or to join it.
type HandOverRequest struct {
	Definition *pipeline.Pipeline `json:"definition"`
	Interval   interval.Interval  `json:"interval"`
}

// RunState is how an execution stands.
type RunState struct {
	Seat
	// Open says that it has not ended; Status is Temporal's word for how it stands, such as "Failed".
	Open   bool   `json:"open,omitempty"`
	Status string `json:"status,omitempty"`
	// Reason is the error of one that failed.
	Reason string `json:"reason,omitempty"`
}

// Loaded reports whether it has ended without an error.
func (s RunState) Loaded() bool { return s.Status == "Completed" }
