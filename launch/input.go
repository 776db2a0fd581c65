package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// RunType is the workflow type of a run, as it stands in histories.
const RunType = "tranche-run"

// Version is the newest version of the interpreter's input that this build understands. It
// grows when the same definition would lead to other commands. Since 2, runs wait for their delay, for the
// interval before and for a slot, and hand over what their Schedule started at no tick.
const Version = 2

// Input is what a run is started with. It carries the run's own definition, so that editing a
// file changes no run that has started.
type Input struct {
	// Version of the interpreter that the starter asks for; Version.
	Version int `json:"version"`
	// Kind says how the run came about.
	Kind step.Kind `json:"kind"`
	// Interval is what the run owns. Nil: it follows from the time at which a Schedule fired.
	Interval *interval.Interval `json:"interval,omitempty"`
	// Definition is the effective definition, with its digest and the text of the SQL it names.
	Definition *pipeline.Pipeline `json:"definition"`
	// MarkInterval says that the namespace has the search attribute TrancheInterval, so that a run which
	// finds its interval out for itself can bear it.
	MarkInterval bool `json:"mark_interval,omitempty"`
	// Exempt lets a run that depends on the past begin although the interval before was never run: it is the
	// first of those that were asked for.
	Exempt bool `json:"exempt,omitempty"`
	// FromStep is the step at which the run begins: the steps of pipeline.StepsFrom run, and the others, which
	// were done before, are kept as they are. Empty: all steps run. A build that does not know it refuses the
	// input, as it does any field that it does not know.
	FromStep string `json:"from_step,omitempty"`

	unreadable error
}

// UnmarshalJSON decodes strictly. What this build cannot read is kept as an error instead of being
// returned: a returned one would fail the workflow, but an input written by a newer build has to
// wait for a newer worker.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	wire := struct {
		*plain
		Definition json.RawMessage `json:"definition"`
	}{plain: (*plain)(in)}
	if in.unreadable = Strictly(data, &wire); in.unreadable != nil {
		return nil
	}
	if in.Version > Version {
		in.unreadable = fmt.Errorf("its version is %d, and this worker knows none above %d", in.Version, Version)
		return nil
	}
	in.Definition, in.unreadable = pipeline.Decode(wire.Definition)
	return nil
}

// Unreadable says why this build cannot read the input, and nil if it can.
func (in *Input) Unreadable() error { return in.unreadable }

// Strictly decodes the input of a workflow, which is one JSON value without unknown fields: what this build does not
// know must not be passed over.
func Strictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the input")
	}
	return nil
}
