package workflows

import (
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// testPatience is what a busy machine may take. The SDK's own limits, one second for a workflow to yield and three
// for anything to happen, fail tests there that have nothing wrong.
const testPatience = time.Minute

// newEnvironment is where a workflow is tested.
func newEnvironment(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testPatience})
	env.SetTestTimeout(testPatience)
	return env
}
