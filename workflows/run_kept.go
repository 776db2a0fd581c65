package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/step"
)

// keep has a run begin at a step: the others are kept as they are. It returns an error, before anything has
// changed, unless the ledger has a receipt of each load among them: the interval would count as loaded without
// its rows.
func (r *run) keep(ctx workflow.Context) error {
	if r.input.FromStep == "" {
		return nil
	}
	again, err := r.input.Definition.StepsFrom(r.input.FromStep)
	if err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), step.ErrorUnknownStep, nil)
	}
	for _, name := range r.order {
		r.nodes[name].report.State = StateKept
	}
	for _, name := range again {
		r.nodes[name].report.State = StatePending
	}
	request := step.KeptRequest{Owner: r.owner}
	for _, name := range r.order {
		if n := r.nodes[name]; n.definition.Load != nil && n.report.State == StateKept {
			request.Loads = append(request.Loads, step.KeptLoad{Step: name, Load: *n.definition.Load})
		}
	}
	if len(request.Loads) == 0 {
		return nil
	}
	answer, err := r.lookAtKept(ctx, request)
	if err != nil {
		return err
	}
	return r.takeKept(answer)
}

// lookAtKept asks the ledger, as long as it takes.
func (r *run) lookAtKept(ctx workflow.Context, request step.KeptRequest) (step.KeptAnswer, error) {
	r.await(ctx, "looks up in the ledger what was loaded by the steps that it keeps")
	for look := 0; ; look++ {
		var answer step.KeptAnswer
		err := workflow.ExecuteLocalActivity(turnOptions(ctx, "look up the loads that are kept"), step.ActivityKept, request).Get(ctx, &answer)
		var application *temporal.ApplicationError
		if err == nil || temporal.IsCanceledError(err) || errors.As(err, &application) && application.NonRetryable() {
			return answer, err
		}
		r.await(ctx, "cannot look up yet what was loaded by the steps that it keeps: "+reason(err))
		if _, err := pause(ctx, patience(10*time.Second, look), r.note, func() bool { return false }); err != nil {
			return answer, err
		}
	}
}

// takeKept notes what the ledger says of the loads that are kept.
func (r *run) takeKept(answer step.KeptAnswer) error {
	var missing, kept []string
	var oldest time.Time
	for _, load := range answer.Loads {
		if !load.Found {
			missing = append(missing, load.Step)
			continue
		}
		note := "loaded " + load.LoadedAt.UTC().Format(time.RFC3339)
		if load.Later {
			note = "the table was replaced for a later interval " + load.LoadedAt.UTC().Format(time.RFC3339)
		}
		if load.Digest != r.owner.Digest {
			note += fmt.Sprintf(" by another definition (digest %.12s)", load.Digest)
			if oldest.IsZero() || load.LoadedAt.Before(oldest) {
				oldest, r.keptDigest = load.LoadedAt, load.Digest
			}
		}
		r.nodes[load.Step].report.Note = note
		kept = append(kept, load.Step+", "+note)
	}
	if len(missing) > 0 {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
			"the run was to begin at step %s and to keep %s, of which the ledger has no receipt for %s in the table that the definition names: run the interval without --from-step, or from a step that loads it",
			r.input.FromStep, strings.Join(missing, ", "), r.owner.Interval), step.ErrorNotLoaded, nil)
	}
	r.note, r.kept = "", strings.Join(kept, "; ")
	return nil
}

// partly says which steps were run, for the outcome of the interval.
func (r *run) partly() string {
	text := "from step " + r.input.FromStep + " on"
	if r.kept != "" {
		text += "; kept " + r.kept
	}
	return text
}
