// Package gaps says which intervals of a pipeline need a run: what its grids expect, less what the ledger has an
// outcome of, less what is open.
//
// It is pure: the grids, the outcomes and the open runs are given to it, and it reads no clock.
package gaps
