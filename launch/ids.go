package launch

import "strings"

// ScheduleID returns the id of a pipeline's Schedule: its name. Runs bear it in TemporalScheduledById,
// whoever started them, so that the Schedule's page in the Temporal UI lists them all. The ids of the
// Schedule's own runs begin with it, too.
func ScheduleID(pipelineName string) string { return pipelineName }

// prefix begins the ids of all workflows and Schedules of Tranche that are neither a run nor a
// pipeline's Schedule. A pipeline's name has no slash in it, so that none of them is taken for a run.
const prefix = "tranche/"

// GateID returns the id of the workflow that hands out a pipeline's max_active_runs.
func GateID(pipelineName string) string { return prefix + "gate/" + pipelineName }

// CatchupID returns the id of the workflow that runs the intervals of a pipeline that Temporal did not start.
func CatchupID(pipelineName string) string { return prefix + "catchup/" + pipelineName }

// BackfillID returns the id of a backfill's workflow; with an empty short id, what begins the ids of all backfills of
// a pipeline.
func BackfillID(pipelineName, short string) string {
	return prefix + "backfill/" + pipelineName + "/" + short
}

// ParseBackfillID is the inverse of BackfillID.
func ParseBackfillID(id string) (pipelineName, short string, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix+"backfill/")
	if !ok {
		return "", "", false
	}
	pipelineName, short, ok = strings.Cut(rest, "/")
	return pipelineName, short, ok && pipelineName != "" && short != "" && !strings.Contains(short, "/")
}

// PlanID begins the ids of the workflows that say what a backfill of a pipeline would run.
func PlanID(pipelineName string) string { return prefix + "plan/" + pipelineName }

// ReconcileID returns the id of the Schedule that reconciles the pipelines of a task queue, and begins
// the ids of its workflows.
func ReconcileID(taskQueue string) string { return prefix + "reconcile/" + taskQueue }

// LedgerID returns the id of the workflow that tells and changes what the ledger knows of a pipeline's
// grids.
func LedgerID(pipelineName string) string { return prefix + "ledger/" + pipelineName }

// IsOurs reports whether the id of a workflow or a Schedule is one of those that this package makes for
// anything but runs.
func IsOurs(id string) bool { return strings.HasPrefix(id, prefix) }

// ControlQueue returns the task queue, served by the same workers, for activities that move no data:
// they start and await runs for hours, and must not take the places of the steps that they wait for.
func ControlQueue(taskQueue string) string { return taskQueue + "/control" }
