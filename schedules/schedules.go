// Package schedules makes Temporal's Schedules equal to the pipeline files.
//
// A Schedule only triggers: which intervals there are follows from the pipeline file, which were
// run from the load ledger. So far the package knows the id of a pipeline's Schedule; planning and
// applying come next.
package schedules

// ID returns the id of a pipeline's Schedule. Runs bear it in TemporalScheduledById, whoever
// started them, so that the Schedule's page in the Temporal UI lists them all.
func ID(pipelineName string) string { return pipelineName }
