package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// BackfillType is the workflow type of Backfill, as it stands in histories.
const BackfillType = "tranche-backfill"

// BackfillVersion is the newest version of a backfill's input that this build understands. It grows when the same
// input would lead to other commands.
const BackfillVersion = 1

// Bounds of the window of a backfill, and of one that catches up, whose width is the pipeline's max_active_runs: its
// runs wait at the gate, and more of them would only wait there.
const (
	DefaultBackfillWindow = 4
	MaximumBackfillWindow = 500

	minimumCatchupWindow = 2
	maximumCatchupWindow = 50
)

// BackfillInput is what a backfill is started with.
type BackfillInput struct {
	// Version of the backfill that is asked for; BackfillVersion.
	Version int `json:"version"`
	// Definition is the effective definition that the runs carry.
	Definition *pipeline.Pipeline `json:"definition"`
	// Kind of the runs: backfill or catchup.
	Kind step.Kind `json:"kind"`
	// Range of the intervals, by their starts. Those that are not over yet are left out.
	Range step.Range `json:"range"`
	// Window is how many runs are open at a time; zero is DefaultBackfillWindow. It is not used for catchup.
	Window int `json:"window,omitempty"`
	// Newest runs the newest interval first. A pipeline that depends on the past is run oldest first all the same.
	Newest bool `json:"newest,omitempty"`
	// Reprocess says which intervals are run; empty is missing.
	Reprocess step.Reprocess `json:"reprocess,omitempty"`
	// State is how far it has come, for one that continues as new.
	State step.WindowState `json:"state"`

	unreadable error
}

// UnmarshalJSON decodes strictly, and keeps what this build cannot read as an error, as that of launch.Input does: a
// backfill that a newer build has started waits for a newer worker.
func (in *BackfillInput) UnmarshalJSON(data []byte) error {
	type plain BackfillInput
	wire := struct {
		*plain
		Definition json.RawMessage `json:"definition"`
	}{plain: (*plain)(in)}
	if in.unreadable = launch.Strictly(data, &wire); in.unreadable != nil {
		return nil
	}
	if in.Version > BackfillVersion {
		in.unreadable = fmt.Errorf("its version is %d, and this worker knows none above %d", in.Version, BackfillVersion)
		return nil
	}
	in.Definition, in.unreadable = pipeline.Decode(wire.Definition)
	return nil
}

// Unreadable says why this build cannot read the input, and nil if it can.
func (in *BackfillInput) Unreadable() error { return in.unreadable }

// check refuses what cannot be done, and fills in defaults.
func (in *BackfillInput) check() error {
	if in.Reprocess == "" {
		in.Reprocess = step.ReprocessMissing
	}
	switch {
	case in.Definition == nil || in.Definition.Schedule == nil:
		return errors.New("a backfill needs the definition of a pipeline with a schedule")
	case in.Kind != step.Backfill && in.Kind != step.Catchup:
		return fmt.Errorf("the kind %q is none of a backfill: it is %s or %s", in.Kind, step.Backfill, step.Catchup)
	case !in.Range.To.After(in.Range.From):
		return fmt.Errorf("the range %s to %s is empty", in.Range.From.UTC().Format(time.RFC3339), in.Range.To.UTC().Format(time.RFC3339))
	case in.Window < 0 || in.Window > MaximumBackfillWindow:
		return fmt.Errorf("a window of %d is none: it is 1 to %d", in.Window, MaximumBackfillWindow)
	}
	switch in.Reprocess {
	case step.ReprocessMissing, step.ReprocessFailed, step.ReprocessAll:
		return nil
	}
	return fmt.Errorf("reprocess %q is none of %s, %s and %s", in.Reprocess, step.ReprocessMissing, step.ReprocessFailed, step.ReprocessAll)
}

// width is how many runs are open at a time.
func (in *BackfillInput) width() int {
	switch {
	case in.Kind == step.Catchup:
		return min(max(in.Definition.Schedule.MaxActiveRuns, minimumCatchupWindow), maximumCatchupWindow)
	case in.Window == 0:
		return DefaultBackfillWindow
	default:
		return in.Window
	}
}

// BackfillResult is what a backfill answers: counts and ranges, however many intervals there were.
type BackfillResult struct {
	Pipeline  string         `json:"pipeline"`
	Kind      step.Kind      `json:"kind"`
	Range     step.Range     `json:"range"`
	Reprocess step.Reprocess `json:"reprocess"`
	step.WindowCounts
	// FailedRanges bound, by their starts, the intervals that ended failed or cancelled; at most step.FailedRanges.
	FailedRanges []step.Range `json:"failed_ranges,omitempty"`
	// Blocked is the interval that kept those after it from being started: it has failed, and the pipeline depends
	// on the past. Nil: none did.
	Blocked *interval.Interval `json:"blocked,omitempty"`
	// Open counts the runs that went on when the backfill was cancelled.
	Open int `json:"open,omitempty"`
}

// show sets what an operator sees in the UI.
func (b *backfill) show(ctx workflow.Context) {
	state, counts := b.input.State, b.input.State.Counts
	format := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	text := fmt.Sprintf("**%s** %s → %s · %s · %d at a time\n\n", b.input.Definition.Name, format(b.input.Range.From), format(b.input.Range.To), b.input.Kind, b.width)
	if !state.Position.IsZero() {
		text += fmt.Sprintf("Came to %s\n\n", format(state.Position))
	}
	if state.Blocked != nil {
		text += fmt.Sprintf("Nothing is started after %s: it has failed, and the pipeline depends on the past\n\n", state.Blocked)
	}
	text += fmt.Sprintf("| started%[1]s | loaded%[1]s | failed%[1]s | cancelled%[1]s | left as they were%[1]s | open |\n| --- | --- | --- | --- | --- | --- |\n", gap)
	text += fmt.Sprintf("| %d | %d | %d | %d | %d | %d |\n", counts.Started, counts.Loaded, counts.Failed, counts.Cancelled, counts.Left, len(state.InFlight))
	workflow.SetCurrentDetails(ctx, text)
}
