// Package launch starts the runs of pipelines in Temporal: what a run is told, under which id, with which
// attributes, memo and priority, and what a run of the same interval that is there already means.
//
// Everybody who starts a run does it through here, or makes a Schedule do exactly the same: the
// command line, a Schedule, the reconciler, a backfill, a lookback.
package launch

import "go.temporal.io/sdk/temporal"

// Search attributes of Tranche, which `starter setup` registers. Each is used where the cluster
// has it.
var (
	// AttributePipeline is the name of the pipeline.
	AttributePipeline = temporal.NewSearchAttributeKeyKeyword("TranchePipeline")
	// AttributeRunKind is how the run came about: scheduled, catchup, lookback, backfill, manual.
	AttributeRunKind = temporal.NewSearchAttributeKeyKeyword("TrancheRunKind")
	// AttributeInterval is the start of the data interval.
	AttributeInterval = temporal.NewSearchAttributeKeyTime("TrancheInterval")
)

// ScheduledByID is Temporal's own attribute: the id of the Schedule that a run belongs to. Direct starts
// may set it too (server v1.32.1), so that the Schedule's page lists every kind of run.
var ScheduledByID = temporal.NewSearchAttributeKeyKeyword("TemporalScheduledById")

// ScheduledStartTime is Temporal's own attribute: the nominal time at which a Schedule started the
// run, without its jitter (server v1.32.1).
var ScheduledStartTime = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// Memo keys of a run: what an operator or the starter wants to know of an open one without reading
// its input.
const (
	MemoDigest   = "tranche.digest"
	MemoKind     = "tranche.kind"
	MemoInterval = "tranche.interval"
	// MemoPipeline marks a Schedule as that of a pipeline.
	MemoPipeline = "tranche.pipeline"
	// MemoCampaign is the id of the workflow that had the run started, such as a backfill.
	MemoCampaign = "tranche.campaign"
)
