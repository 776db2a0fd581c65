package step

import (
	"time"

	"github.com/trancheflow/tranche/pipeline"
)

// ActivityKept is the name of the activity that looks up the loads that a run keeps, as it stands in histories.
const ActivityKept = "look-at-kept"

// Types of the errors of a run that was refused before it changed anything: it has written no outcome, and what
// the ledger says of its interval still holds.
const (
	// ErrorUnknownStep is that of a run that was to begin at a step which its definition does not have.
	ErrorUnknownStep = "UnknownStep"
	// ErrorNotLoaded is that of a run that was to keep a load of which the ledger has no receipt.
	ErrorNotLoaded = "NotLoaded"
)

// KeptRequest asks whether the loads that a run does not run again have loaded its interval.
type KeptRequest struct {
	Owner
	Loads []KeptLoad `json:"loads"`
}

// KeptLoad is a load that is not run again, as the run's definition has it.
type KeptLoad struct {
	Step string        `json:"step"`
	Load pipeline.Load `json:"load"`
}

// KeptAnswer says of each load that was asked for, in order, what the ledger knows of it.
type KeptAnswer struct {
	Loads []KeptReceipt `json:"loads"`
}

// KeptReceipt is the receipt of a load that is not run again.
type KeptReceipt struct {
	Step string `json:"step"`
	// Found says that there is one, for the table and the scope that the definition names; the fields below are
	// set then.
	Found bool `json:"found,omitempty"`
	// Table that was written.
	Table string `json:"table,omitempty"`
	// Digest of the definition it was loaded by.
	Digest string `json:"digest,omitempty"`
	// LoadedAt is when.
	LoadedAt time.Time `json:"loaded_at,omitzero"`
	// Later says that the receipt is of a later interval, whose rows have replaced the whole table.
	Later bool `json:"later,omitempty"`
}
