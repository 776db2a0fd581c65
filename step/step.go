// Package step is what passes between a run and its steps: what a workflow tells an activity, and
// what the activity answers.
//
// It is pure data, so that workflows and the command line need not know the rooms that do the
// work. All of it is stored in Temporal's histories: references, counts and checksums, never rows
// and never secrets.
package step

import (
	"fmt"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// Names of the activity types, as they stand in histories: renaming one breaks open runs.
const (
	ActivityHTTP       = "extract-http"
	ActivityFile       = "extract-file"
	ActivityLoad       = "load"
	ActivityExec       = "exec"
	ActivityOutcome    = "record-outcome"
	ActivityDropStages = "drop-stages"
)

// Kind is how a run came about.
type Kind string

// The kinds of runs.
const (
	Scheduled Kind = "scheduled"
	Catchup   Kind = "catchup"
	Lookback  Kind = "lookback"
	Backfill  Kind = "backfill"
	Manual    Kind = "manual"
)

// Owner says which pipeline a step works for, and on which interval.
type Owner struct {
	// Pipeline is the pipeline's name.
	Pipeline string `json:"pipeline"`
	// Warehouse names the connection of the tables and the ledger.
	Warehouse string `json:"warehouse"`
	// Timezone is the pipeline's zone, in which dates are read.
	Timezone string `json:"timezone"`
	// Digest of the definition, for the ledger.
	Digest string `json:"digest"`
	// Interval is what the run owns.
	Interval interval.Interval `json:"interval"`
}

// Input is what a step is told.
type Input struct {
	Owner
	// Step is the step's effective definition.
	Step pipeline.Step `json:"step"`
	// Source is, for a load, the step whose rows it loads and what that step answered.
	Source *Source `json:"source,omitempty"`
	// Used counts the attempts that earlier executions of this step, before a wait, have failed.
	Used int `json:"used,omitempty"`
	// Throttled counts the refusals in a row that led to the last wait, so that the pauses
	// grow over a wait.
	Throttled int `json:"throttled,omitempty"`
	// Waited is what earlier executions of this step were told to wait for; nil: nothing.
	Waited *Waited `json:"waited,omitempty"`
}

// Source is a step with what it answered.
type Source struct {
	Step   pipeline.Step `json:"step"`
	Result Result        `json:"result"`
}

// Result is what a step answers. Exactly one of Wait, SourceLost and Done is set.
type Result struct {
	// Wait says that the step is to be scheduled again later; no attempt is used up by it.
	Wait *Wait `json:"wait,omitempty"`
	// SourceLost says why a load found its source gone or changed, so that the source has to be
	// read again: "StagingLost" or "SourceChanged".
	SourceLost string `json:"source_lost,omitempty"`
	// Done is set when the step did its work.
	Done *Done `json:"done,omitempty"`
}

// Done is what a step that did its work reports.
type Done struct {
	// Rows read or, for a load, written.
	Rows int64 `json:"rows"`
	// Pages read; zero for a file.
	Pages int `json:"pages,omitempty"`
	// Pin is, for a file, exactly which one is to be loaded.
	Pin *Pin `json:"pin,omitempty"`
	// Receipt is, for a load, what the ledger says of it.
	Receipt *Receipt `json:"receipt,omitempty"`
	// Note tells operators what else they should know, for example "refused as stale".
	Note string `json:"note,omitempty"`
	// Attempt is the number of attempts it took, over all executions.
	Attempt int `json:"attempt"`
	// Waited is what the step was told to wait for, over all executions; nil: nothing.
	Waited *Waited `json:"waited,omitempty"`
}

// Waited sums up the pauses that a step made because it was told to, and not because it had failed: by an API,
// by a limit or an open circuit of its connection, by a file that is not there yet. What an attempt waited for that
// failed afterwards is not in it.
type Waited struct {
	// Times is the number of pauses, Total how long they were together.
	Times int               `json:"times"`
	Total pipeline.Duration `json:"total"`
	// Shown says of the first few that differ how long each was, or why, for people.
	Shown []string `json:"shown,omitempty"`
}

// String is a line for operators: "waited 2 times, 3s: 1s as its header Retry-After asked, 2s by backoff".
func (w Waited) String() string {
	text := fmt.Sprintf("waited %d times, %s: %s", w.Times, w.Total, strings.Join(w.Shown, ", "))
	return strings.Replace(text, "waited 1 times", "waited once", 1)
}

// Pin says exactly which version of which file is to be loaded.
type Pin struct {
	// Path of the file below its connection.
	Path string `json:"path"`
	// Missing says that there is no such file, and that the step takes this for no rows.
	Missing bool `json:"missing,omitempty"`
	// Size in bytes, as stored.
	Size int64 `json:"size"`
	// ModTime is when it was last written.
	ModTime time.Time `json:"mod_time"`
	// ETag is the store's own mark of this content.
	ETag string `json:"etag,omitempty"`
	// MD5 of the content as stored; empty where the store does not keep it.
	MD5 []byte `json:"md5,omitempty"`
}

// Receipt is what the ledger says of a load.
type Receipt struct {
	// Table that was written.
	Table string `json:"table"`
	// Inserted is the number of rows written, Deleted that of the rows that were there before.
	Inserted int64 `json:"inserted"`
	Deleted  int64 `json:"deleted"`
	// Dropped rows lay outside the interval.
	Dropped int64 `json:"dropped,omitempty"`
	// Duplicates were superseded by another row of the same load, Stale rows by one in the table;
	// Unchanged ones were there already.
	Duplicates int64 `json:"duplicates,omitempty"`
	Stale      int64 `json:"stale,omitempty"`
	Unchanged  int64 `json:"unchanged,omitempty"`
	// Checksum of the rows sent.
	Checksum string `json:"checksum"`
	// Fence of the attempt that committed.
	Fence int64 `json:"fence"`
}

// Wait is a reason to come back later.
type Wait struct {
	// Until is when to try again. Zero: at once, on another worker.
	Until time.Time `json:"until"`
	// Reason is a sentence for operators.
	Reason string `json:"reason"`
	// Used counts the attempts that this execution has failed.
	Used int `json:"used,omitempty"`
	// Throttled counts the refusals in a row that led here.
	Throttled int `json:"throttled,omitempty"`
	// Waited is what was waited for so far, this wait included; nil: nothing.
	Waited *Waited `json:"waited,omitempty"`
}

// Outcome is how a run ended for its interval.
type Outcome struct {
	Owner
	// Outcome is "loaded", "failed" or "cancelled".
	Outcome string `json:"outcome"`
	// Kind of the run.
	Kind Kind `json:"kind"`
	// Reason is, for an outcome other than loaded, the type of the error and its text; for a run that began at
	// a later step, what it kept.
	Reason string `json:"reason,omitempty"`
	// Started is when the run's first step was scheduled.
	Started time.Time `json:"started"`
	// Fence orders the outcomes of an interval: the server's time at which the run had ended, in
	// microseconds. A lower one never overwrites a higher one.
	Fence int64 `json:"fence"`
	// Rows written by all loads.
	Rows int64 `json:"rows"`
	// Attempts is the greatest number that one of the steps took.
	Attempts int `json:"attempts,omitempty"`
	// Staged names the steps whose staged rows nobody will read any more.
	Staged []string `json:"staged,omitempty"`
}

// Recorded is what the ledger says when an outcome is written.
type Recorded struct {
	// Recovered says that the interval is loaded now, and had failed or missed its deadline since it was loaded the
	// last time, if it ever was. A run that writes its outcome again is told the same again.
	Recovered bool `json:"recovered,omitempty"`
}

// The outcomes that a run records.
const (
	OutcomeLoaded    = "loaded"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
)

// tickFormat is what a Temporal Schedule appends to a workflow id: RFC 3339, UTC, whole seconds.
const tickFormat = "2006-01-02T15:04:05Z"

// WorkflowID returns the id of every run for the interval that ends at tick, whatever its kind:
// two of them are never open at once.
func WorkflowID(pipelineName string, tick time.Time) string {
	return pipelineName + "-" + tick.UTC().Format(tickFormat)
}

// ParseWorkflowID is the inverse of WorkflowID.
func ParseWorkflowID(id string) (pipelineName string, tick time.Time, err error) {
	cut := len(id) - len(tickFormat) - 1
	if cut < 1 || id[cut] != '-' {
		return "", time.Time{}, fmt.Errorf("workflow id %q is not <pipeline>-<tick>, such as orders-2026-01-16T00:00:00Z", id)
	}
	tick, err = time.Parse(tickFormat, id[cut+1:])
	if err != nil {
		return "", time.Time{}, fmt.Errorf("workflow id %q is not <pipeline>-<tick>, such as orders-2026-01-16T00:00:00Z", id)
	}
	return id[:cut], tick, nil
}
