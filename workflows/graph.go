package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// State is where a step stands.
type State string

// The states of a step. All but the first three are final.
const (
	StatePending   State = "pending"
	StateRunning   State = "running"
	StateWaiting   State = "waiting"
	StateDone      State = "done"
	StateFailed    State = "failed"
	StateSkipped   State = "skipped"
	StateCancelled State = "cancelled"
	// StateKept is that of a step which was done by an earlier run, and is not run again.
	StateKept State = "kept"
)

func (s State) final() bool {
	return s != StatePending && s != StateRunning && s != StateWaiting
}

// StepReport is what a run tells of one of its steps.
type StepReport struct {
	Name     string `json:"name"`
	State    State  `json:"state"`
	Attempts int    `json:"attempts,omitempty"`
	// Rows read or, for a load, written; Pages is zero for a step that reads none.
	Rows  int64 `json:"rows"`
	Pages int   `json:"pages,omitempty"`
	// Note says what operators should know: the error, what is waited for, why it was skipped.
	Note    string        `json:"note,omitempty"`
	Receipt *step.Receipt `json:"receipt,omitempty"`
	// Waited is what the step was told to wait for, which used up no attempt; nil: nothing.
	Waited *step.Waited `json:"waited,omitempty"`
}

// node is a step with where it stands in this run.
type node struct {
	definition *pipeline.Step
	needs      []string
	report     StepReport
	started    time.Time
	ended      time.Time

	// done is what the step answered. For a source, generation counts how often it was read:
	// a load that finds its source gone has it read again, once for all loads that share it.
	done       *step.Done
	generation int
	reading    workflow.Mutex
}

// run is one run in progress.
type run struct {
	input    launch.Input
	owner    step.Owner
	started  time.Time
	order    []string
	nodes    map[string]*node
	timedOut error
	// endBy is when the run's own time is over; zero: never.
	endBy time.Time
	// note says what the run as a whole waits for, or what else should be known.
	note string
	// seat is under which name the run has asked for a slot; nil: it has not.
	seat *step.Seat
	// kept says of the loads that are not run again when they were done, and keptDigest by which definition the
	// oldest of them was that another definition did; empty: none was.
	kept, keptDigest string
}

func newRun(ctx workflow.Context, input launch.Input, owned interval.Interval, order []string) *run {
	definition := input.Definition
	r := &run{
		input: input,
		owner: step.Owner{
			Pipeline: definition.Name, Warehouse: definition.Warehouse, Timezone: definition.Schedule.Timezone,
			Digest: definition.Digest, Interval: owned,
		},
		started: workflow.Now(ctx),
		order:   order,
		nodes:   make(map[string]*node, len(order)),
	}
	for _, name := range order {
		r.nodes[name] = &node{
			definition: definition.Step(name),
			needs:      definition.Needs(name),
			report:     StepReport{Name: name, State: StatePending},
			reading:    workflow.NewMutex(ctx),
		}
	}
	return r
}

// runSteps runs every step whose needs are met, in parallel, and returns when nothing runs any
// more. The error is that of the first step whose failure fails the run, of the timeout, or of the
// cancel.
func (r *run) runSteps(ctx workflow.Context) error {
	steps, stop := workflow.WithCancel(ctx)
	defer stop()
	r.bound(ctx, steps, stop)

	var failure error
	all := workflow.NewWaitGroup(ctx)
	for _, name := range r.order {
		n := r.nodes[name]
		all.Add(1)
		workflow.GoNamed(steps, name, func(ctx workflow.Context) {
			defer all.Done()
			err := r.runNode(ctx, n)
			if err != nil && failure == nil {
				failure = err
				stop()
			}
			r.show(ctx)
		})
	}
	all.Wait(ctx)
	switch {
	case r.timedOut != nil:
		return r.timedOut
	case ctx.Err() != nil && !r.complete():
		return ctx.Err()
	case failure != nil:
		return failure
	}
	return r.failedLoad()
}

// complete reports whether every step was done: a cancel that comes while the last one commits takes nothing back, and
// an interval that is loaded is not called cancelled.
func (r *run) complete() bool {
	for _, name := range r.order {
		if n := r.nodes[name]; n.report.State != StateDone && n.report.State != StateKept {
			return false
		}
	}
	return true
}

// bound stops the steps when the run's own time is over. Temporal's run timeout would also count
// the waiting before the first step, and end the run without a word.
func (r *run) bound(ctx, steps workflow.Context, stop workflow.CancelFunc) {
	limit := r.input.Definition.RunTimeout.Std()
	if limit <= 0 {
		return
	}
	r.endBy = workflow.Now(ctx).Add(limit)
	workflow.GoNamed(steps, "run timeout", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, limit, workflow.TimerOptions{Summary: "run_timeout"})
		if timer.Get(ctx, nil) != nil {
			return // the steps are done, or were cancelled
		}
		text := fmt.Sprintf("the run took longer than its run_timeout of %s", limit)
		if atWork := r.atWork(); atWork != "" {
			text += "; " + atWork
		}
		r.timedOut = temporal.NewNonRetryableApplicationError(text, ErrorRunTimeout, nil)
		stop()
	})
}

// runNode waits for what a step needs, runs it, and returns an error if that fails the run.
func (r *run) runNode(ctx workflow.Context, n *node) error {
	if n.report.State == StateKept {
		return nil
	}
	err := workflow.Await(ctx, func() bool {
		for _, need := range n.needs {
			if !r.nodes[need].report.State.final() {
				return false
			}
		}
		return true
	})
	if err != nil {
		n.report.State = StateCancelled
		return nil // whoever cancelled has the error
	}
	if need := r.unmet(n); need != "" {
		n.report.State, n.report.Note = StateSkipped, fmt.Sprintf("%s was not done", need)
		return nil
	}
	n.report.State, n.started = StateRunning, workflow.Now(ctx)
	r.show(ctx)
	done, err := r.perform(ctx, n)
	n.ended = workflow.Now(ctx)
	if err == nil {
		n.finish(done)
		return nil
	}
	if temporal.IsCanceledError(err) {
		n.report.State = StateCancelled
		return nil
	}
	n.report.State, n.report.Note = StateFailed, reason(err)+notAgain(err)
	n.report.Attempts = max(n.report.Attempts, attemptsOf(err, n.definition.Retry.MaximumAttempts))
	if n.definition.OnFailure == pipeline.OnFailureFail {
		return fmt.Errorf("step %s: %w", n.definition.Name, err)
	}
	return nil
}

// unmet returns the name of a need without which the step is skipped.
func (r *run) unmet(n *node) string {
	for _, need := range n.needs {
		of := r.nodes[need]
		failed := of.report.State == StateFailed && of.definition.OnFailure != pipeline.OnFailureContinue
		if failed || of.report.State == StateSkipped || of.report.State == StateCancelled {
			return need
		}
	}
	return ""
}

func (n *node) finish(done *step.Done) {
	n.done = done
	n.report.State = StateDone
	n.report.Rows, n.report.Pages = done.Rows, done.Pages
	n.report.Attempts = done.Attempt
	n.report.Note = done.Note
	n.report.Receipt = done.Receipt
	n.report.Waited = done.Waited
}

// failedLoad returns an error if a load was skipped or failed without failing the run by itself:
// the interval is not loaded then, and neither Temporal nor the ledger may say so.
func (r *run) failedLoad() error {
	for _, name := range r.order {
		n := r.nodes[name]
		if n.definition.Load != nil && n.report.State != StateDone && n.report.State != StateKept {
			text := fmt.Sprintf("load %s was %s: %s", name, n.report.State, n.report.Note)
			if cause := r.cause(n); cause != n {
				text += fmt.Sprintf("; step %s was %s: %s", cause.definition.Name, cause.report.State, cause.report.Note)
			}
			return temporal.NewNonRetryableApplicationError(text, ErrorLoadFailed, nil)
		}
	}
	return nil
}

// cause returns the step for whose sake a step was skipped, over those that were skipped between them.
func (r *run) cause(n *node) *node {
	for n.report.State == StateSkipped {
		need := r.unmet(n)
		if need == "" {
			break
		}
		n = r.nodes[need]
	}
	return n
}

// atWork says which steps are running or wait, and what for.
func (r *run) atWork() string {
	var texts []string
	for _, name := range r.order {
		report := &r.nodes[name].report
		if report.State != StateRunning && report.State != StateWaiting {
			continue
		}
		text := fmt.Sprintf("step %s was %s", name, report.State)
		if report.State == StateWaiting && report.Note != "" {
			text += ": " + report.Note
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func (r *run) rowsLoaded() int64 {
	var rows int64
	for _, name := range r.order {
		if n := r.nodes[name]; n.definition.Load != nil {
			rows += n.report.Rows
		}
	}
	return rows
}

// mostAttempts returns the greatest number of attempts that a step took.
func (r *run) mostAttempts() int {
	most := 0
	for _, name := range r.order {
		most = max(most, r.nodes[name].report.Attempts)
	}
	return most
}

func (r *run) reports() []StepReport {
	reports := make([]StepReport, 0, len(r.order))
	for _, name := range r.order {
		reports = append(reports, r.nodes[name].report)
	}
	return reports
}
