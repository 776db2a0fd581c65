package server

import (
	"maps"

	"go.temporal.io/server/common/dynamicconfig"
)

// Temporal's defaults protect a shared cluster with hundreds of shards. On a server with one shard
// and one user they only add latency, so rates are raised. Limits on sizes and counts (limit.*,
// history.maxInFlightUpdates and their kind) stay as they are: what passes here must pass on a real
// cluster. The defaults named are those of server v1.32.1, common/dynamicconfig/constants.go.
const (
	// pollRPS: 20 per shard by default, which makes every hop of a workflow wait up to 50 ms.
	pollRPS = 2000
	// visibilityRPS: 10 per namespace by default; the eleventh list, count or UI refresh within a
	// second fails with ResourceExhausted.
	visibilityRPS = 1000
	// requestRPS: 2400 (frontend), 3000 (history), 1200 (matching) by default.
	requestRPS = 20_000
	// persistenceQPS: 2000 (frontend), 9000 (history), 3000 (matching), 500 (worker) by default.
	persistenceQPS = 50_000
	// scheduleStartRPS: schedules of one namespace start 30 workflows a second by default.
	scheduleStartRPS = 500.0
	// batchRPS: a batch operation, for example terminating by query, handles 50 workflows a second by default.
	batchRPS = 500
	// cachedWorkflows: 128,000 by default, which is memory for a data centre, not for a laptop.
	cachedWorkflows = 8192
)

// dynamicConfig returns the limits of this package with the overrides laid over them.
func dynamicConfig(overrides map[string]any) dynamicconfig.StaticClient {
	values := dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   pollRPS,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      pollRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): pollRPS,

		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): visibilityRPS,

		dynamicconfig.FrontendRPS.Key():                        requestRPS,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(): requestRPS,
		dynamicconfig.HistoryRPS.Key():                         requestRPS,
		dynamicconfig.MatchingRPS.Key():                        requestRPS,

		dynamicconfig.FrontendPersistenceMaxQPS.Key(): persistenceQPS,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():  persistenceQPS,
		dynamicconfig.MatchingPersistenceMaxQPS.Key(): persistenceQPS,
		dynamicconfig.WorkerPersistenceMaxQPS.Key():   persistenceQPS,

		dynamicconfig.SchedulerNamespaceStartWorkflowRPS.Key(): scheduleStartRPS,
		dynamicconfig.BatcherRPS.Key():                         batchRPS,

		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): cachedWorkflows,

		// A server for tests asks no one on the internet whether it is up to date.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
	byKey := make(dynamicconfig.StaticClient, len(overrides))
	for key, value := range overrides {
		byKey[dynamicconfig.MakeKey(key)] = value
	}
	maps.Copy(values, byKey)
	return values
}
