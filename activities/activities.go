// Package activities makes each kind of step a Temporal activity: heartbeats, waits, hand-backs and
// the mapping of errors. What a step does is done by the packages extract and warehouse.
package activities

import (
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

// Activities holds what steps work with. It is safe for concurrent use; New makes one.
type Activities struct {
	connections *connection.Set
	temporal    *launch.Temporal
	stopGrace   time.Duration
	exec        *Exec
	now         func() time.Time
	random      func() float64

	warehouses warehouses
}

// Options of New.
type Options struct {
	// Connections are the outside systems by name. Required.
	Connections *connection.Set
	// Temporal is where the activities that look after runs start, describe and signal them. Nil: those
	// activities cannot be used.
	Temporal *launch.Temporal
	// StopGrace is how long a step may go on after its worker was asked to stop, before it is
	// handed back: scheduled again on another worker, without using up an attempt. It must be
	// shorter than the worker's own stop timeout. Zero hands steps back at once.
	StopGrace time.Duration
	// Exec lets steps of the kind exec run programs. Nil: they fail.
	Exec *Exec
}

// New returns activities over the given connections. Warehouses are opened when a step first names
// them.
func New(options Options) *Activities {
	return &Activities{
		connections: options.Connections,
		temporal:    options.Temporal,
		stopGrace:   options.StopGrace,
		exec:        options.Exec,
		now:         time.Now,
		random:      rand.Float64,
		warehouses:  warehouses{opened: map[string]*opening{}},
	}
}

// Register registers, under their stable names, the activities of runs: the steps, and the short ones
// that workflows call locally.
func (a *Activities) Register(registry worker.ActivityRegistry) {
	for name, function := range map[string]any{
		step.ActivityHTTP:    a.ExtractHTTP,
		step.ActivityFile:    a.ExtractFile,
		step.ActivityLoad:    a.Load,
		step.ActivityExec:    a.RunCommand,
		step.ActivityOutcome: a.RecordOutcome,

		step.ActivityStartNotification: a.StartNotification,

		step.ActivityAskGate:     a.AskGate,
		step.ActivityReleaseGate: a.ReleaseGate,
		step.ActivityPast:        a.Past,
		step.ActivityKept:        a.Kept,
		step.ActivityWakeNext:    a.WakeNext,
		step.ActivityLookback:    a.Lookback,
		step.ActivityHandOver:    a.HandOver,
		step.ActivityRunState:    a.RunState,
		step.ActivityGrant:       a.Grant,
		step.ActivityHolders:     a.Holders,
		step.ActivityRecoverGate: a.RecoverGate,
	} {
		registry.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
}

// RegisterHTTP registers what a connection's own task queue is for: the steps that read an HTTP API.
func (a *Activities) RegisterHTTP(registry worker.ActivityRegistry) {
	registry.RegisterActivityWithOptions(a.ExtractHTTP, activity.RegisterOptions{Name: step.ActivityHTTP})
}

// RegisterControl registers, under their stable names, the activities of the control queue: they move no
// data, and may last as long as the runs that they look after.
func (a *Activities) RegisterControl(registry worker.ActivityRegistry) {
	for name, function := range map[string]any{
		step.ActivityNotify:    a.Notify,
		step.ActivityGrid:      a.Grid,
		step.ActivityReconcile: a.Reconcile,
		step.ActivityWindow:    a.Window,
		step.ActivityStanding:  a.Standing,

		step.ActivityPlan:       a.Plan,
		step.ActivityCancelRuns: a.CancelRuns,
	} {
		registry.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
}

// retryPolicy is the step's policy as package retry sees it.
func retryPolicy(in step.Input) retry.Policy {
	declared := in.Step.Retry
	policy := retry.Policy{
		Initial: declared.InitialInterval.Std(), Coefficient: declared.BackoffCoefficient,
		Maximum: declared.MaximumInterval.Std(), Spread: declared.JitterKind == "spread",
	}
	if declared.Jitter != nil {
		policy.Jitter = *declared.Jitter
	}
	return policy
}
