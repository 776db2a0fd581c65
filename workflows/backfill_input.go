package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// BackfillType is the workflow type of Backfill, as it stands in histories.
const BackfillType = "tranche-backfill"

// BackfillVersion is the newest version of a backfill's input that this build understands. It grows when the same
// input would lead to other commands. Since 2, a backfill that is cancelled waits for its runs before it ends.
const BackfillVersion = 2

const versionDrains = 2

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
	// FailFast starts nothing more once an interval has failed; those that are open go on.
	FailFast bool `json:"fail_fast,omitempty"`
	// Expected is what the plan has found before the start, for the progress; zero: nobody has looked.
	Expected step.PlanCounts `json:"expected,omitzero"`
	// State is how far it has come, for one that continues as new, or that retries what another one left.
	State step.WindowState `json:"state"`
	// Paused says that nothing is started until it is resumed.
	Paused bool `json:"paused,omitempty"`
	// Cancel is set when it is to end.
	Cancel *BackfillCancel `json:"cancel,omitempty"`
	// Begun is when the first of its executions began, Mark where its rate is counted from.
	Begun time.Time    `json:"begun,omitzero"`
	Mark  BackfillMark `json:"mark,omitzero"`

	unreadable error
}

// BackfillCancel says how a backfill is to end.
type BackfillCancel struct {
	// Runs says that its open runs are cancelled, too; Asked that they were told so.
	Runs  bool `json:"runs,omitempty"`
	Asked bool `json:"asked,omitempty"`
}

// BackfillMark is a point from which the rate is counted: what was run before, under other conditions, does not count.
type BackfillMark struct {
	At time.Time `json:"at"`
	// Ended is how many runs had ended by then.
	Ended int64 `json:"ended"`
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

// width is how many runs are open at a time; zero while nothing is to be started.
func (in *BackfillInput) width() int {
	switch {
	case in.Paused || in.Cancel != nil:
		return 0
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
	// FailedMore says that there were more.
	FailedRanges []step.Range `json:"failed_ranges,omitempty"`
	FailedMore   bool         `json:"failed_more,omitempty"`
	// Blocked is the interval that kept those after it from being started: it has failed, and the pipeline depends
	// on the past, or the backfill was to fail fast. Nil: none did.
	Blocked *interval.Interval `json:"blocked,omitempty"`
	// Open counts the runs that went on when the backfill was cancelled.
	Open int `json:"open,omitempty"`
	// Expected is what the plan had found before the start; NotRun how many of those it never came to.
	Expected step.PlanCounts `json:"expected,omitzero"`
	NotRun   int64           `json:"not_run,omitempty"`
	// Position is how far it came: the next interval would have started there or, newest first, ended.
	Position time.Time `json:"position,omitzero"`
	// Note says what else went wrong.
	Note string `json:"note,omitempty"`
}

// Bad reports whether an interval has failed, was cancelled, or was not come to because of one that has.
func (r BackfillResult) Bad() bool { return r.Failed+r.Cancelled > 0 || r.Blocked != nil }
