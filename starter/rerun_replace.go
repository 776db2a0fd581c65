package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/launch"
)

// startAgain starts a run although one may have been started before. One that is open is an error or, with
// --replace, cancelled and awaited. It replaces one run and no other: of two that replace each other at the same
// time one gives way, and what somebody else has started meanwhile is left alone.
func (p *program) startAgain(c *cli.Context, o *online, request launch.Request) (started, error) {
	report, open, err := o.startUnlessOpen(c.Context, request)
	if err != nil || open == nil {
		return report, err
	}
	if !c.Bool("replace") {
		return report, fmt.Errorf("%s: %w", describeOpen(open, request), errOpen)
	}
	if err := p.replace(c.Context, o, open, c.Duration("replace-within")); err != nil {
		return report, err
	}
	replaced := open.GetExecution().GetRunId()
	report, open, err = o.startUnlessOpen(c.Context, request)
	report.Replaced = replaced
	if err == nil && open != nil {
		err = fmt.Errorf("run %s was cancelled and has ended, but another was started before this one could be, and is left alone: %s",
			replaced, describeOpen(open, request))
	}
	return report, err
}

// startUnlessOpen starts a run, or returns the one that is open.
func (o *online) startUnlessOpen(ctx context.Context, request launch.Request) (started, *workflow.WorkflowExecutionInfo, error) {
	report := started{
		Pipeline: request.Definition.Name, Interval: request.Interval, Kind: string(request.Kind), Digest: request.Definition.Digest,
	}
	came, err := o.Start(ctx, request)
	report.WorkflowID, report.RunID = came.WorkflowID, came.RunID
	if err != nil || !came.Taken {
		return report, nil, err
	}
	described, err := o.DescribeWorkflow(ctx, came.WorkflowID, came.RunID)
	if err != nil {
		return report, nil, fmt.Errorf("look at the open run %s: %w", came.WorkflowID, err)
	}
	return report, described.RawResponse.GetWorkflowExecutionInfo(), nil
}

// describeOpen says whose an open run is.
func describeOpen(open *workflow.WorkflowExecutionInfo, request launch.Request) string {
	row, _ := runRowOf(open)
	text := fmt.Sprintf("%s, run %s: a run of this interval is open, of kind %s, started %s", row.WorkflowID, row.RunID, row.Kind, row.Started.UTC().Format(time.RFC3339))
	if campaign := launch.MemoText(open.GetMemo(), launch.MemoCampaign); campaign != "" {
		text += " by " + campaign
	}
	digest := launch.MemoText(open.GetMemo(), launch.MemoDigest)
	switch digest {
	case "":
	case request.Definition.Digest:
		text += fmt.Sprintf(", with the same definition (digest %.12s)", digest)
	default:
		text += fmt.Sprintf(", with another definition (digest %.12s, this one's is %.12s)", digest, request.Definition.Digest)
	}
	return text
}

// replace cancels an open run and waits until it has ended. Without a worker it is not even asked to: it would end
// one day, with nothing in its place.
func (p *program) replace(ctx context.Context, o *online, open *workflow.WorkflowExecutionInfo, within time.Duration) error {
	id, run, queue := open.GetExecution().GetWorkflowId(), open.GetExecution().GetRunId(), open.GetTaskQueue()
	if err := o.needWorkers(ctx, queue); err != nil {
		return fmt.Errorf("replace the open run %s: it was not cancelled, since it could not react: %w", run, err)
	}
	var gone *serviceerror.NotFound
	if err := o.CancelWorkflow(ctx, id, run); err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("cancel the open run %s of %s: %w", run, id, err)
	}
	fmt.Fprintf(p.talk, "the open run %s of %s is being cancelled\n", run, id)
	handle := o.GetWorkflow(ctx, id, run)
	soon := min(answerSoon, within)
	for i, wait := range []time.Duration{soon, within - soon} {
		err := get(ctx, wait, handle, nil)
		var ended *temporal.WorkflowExecutionError
		switch {
		case err == nil, errors.As(err, &ended):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("run %s was asked to cancel, and nothing was started in its place", run)
		case !errors.Is(err, errNotYet):
			return fmt.Errorf("wait for the end of run %s of %s: %w", run, id, err)
		}
		if i > 0 {
			break
		}
		if unserved, err := o.unserved(ctx, handle); err == nil && unserved {
			fmt.Fprintf(p.talk, "waiting for a worker on task queue %s, which ends it\n", queue)
		} else {
			fmt.Fprintf(p.talk, "waiting until it has ended, for %s at most\n", within)
		}
	}
	err := fmt.Errorf("run %s of %s was asked to cancel and has not ended within %s, so nothing was started: when it has, run this again; what it does shows its page in the Temporal UI",
		run, id, within)
	if unserved, lookErr := o.unserved(ctx, handle); lookErr == nil && unserved {
		return coded(exitUnreachable, fmt.Errorf("%w; no worker on task queue %s has answered", err, queue))
	}
	return err
}
