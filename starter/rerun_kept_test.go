package main

import (
	"testing"

	"github.com/trancheflow/tranche/pipeline"
)

// TestWhatARunSaysOfAStepThatIsKept: it was done, or the run went on without it and so may the next.
func TestWhatARunSaysOfAStepThatIsKept(t *testing.T) {
	t.Parallel()
	// b needs a, and runs again; c and a are kept.
	definition := func(policy string) *pipeline.Pipeline {
		activity := &pipeline.Activity{Type: "A"}
		return &pipeline.Pipeline{Name: "p", Steps: []pipeline.Step{
			{Name: "a", Activity: activity, OnFailure: policy}, {Name: "b", Activity: activity, Needs: []string{"a"}}, {Name: "c", Activity: activity, OnFailure: policy},
		}}
	}
	done, failed := map[string]bool{"a": true, "c": true}, map[string]bool{"a": false, "c": false}
	for name, c := range map[string]struct {
		policy   string
		past     pastRun
		wantA, c bool // whether it may be kept
	}{
		"done":                          {pipeline.OnFailureFail, pastRun{ended: done}, true, true},
		"done in a run that completed":  {pipeline.OnFailureFail, pastRun{ended: done, completed: true}, true, true},
		"failed":                        {pipeline.OnFailureFail, pastRun{ended: failed}, false, false},
		"never begun":                   {pipeline.OnFailureFail, pastRun{}, false, false},
		"never begun, may be skipped":   {pipeline.OnFailureSkip, pastRun{}, false, false},
		"never begun, and completed":    {pipeline.OnFailureSkip, pastRun{completed: true}, false, true},
		"failed, to be skipped":         {pipeline.OnFailureSkip, pastRun{ended: failed}, false, true},
		"failed, and the rest goes on":  {pipeline.OnFailureContinue, pastRun{ended: failed}, true, true},
		"kept by that run, too":         {pipeline.OnFailureFail, pastRun{kept: []string{"a", "c"}}, true, true},
		"not known to the run":          {pipeline.OnFailureFail, pastRun{completed: true, definition: &pipeline.Pipeline{}}, false, false},
		"not known, but by an odd name": {pipeline.OnFailureContinue, pastRun{definition: &pipeline.Pipeline{}}, false, false},
	} {
		what := again{definition: definition(c.policy), kept: []string{"a", "c"}}
		if c.past.definition == nil {
			c.past.definition = what.definition
		}
		for step, want := range map[string]bool{"a": c.wantA, "c": c.c} {
			if got := c.past.refuses(what, step); (got == "") != want {
				t.Errorf("%s: %s is refused: %q", name, step, got)
			}
		}
	}
}
