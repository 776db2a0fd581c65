package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/workflows"
)

// ownID is an id that stands for one backfill.
func ownID(text string) (string, bool) {
	if _, _, ok := launch.ParseBackfillID(text); ok {
		return text, true
	}
	name, short, ok := strings.Cut(text, "/")
	if !ok || name == "" || short == "" || strings.Contains(short, "/") {
		return "", false
	}
	return launch.BackfillID(name, short), true
}

// find returns the workflow id of the backfill that a text means.
func (o *online) find(ctx context.Context, text string) (string, error) {
	if id, ok := ownID(text); ok {
		return id, nil
	}
	if !isName(text) {
		return "", usagef("%q is no id of a backfill: it looks like orders/jan15-kxmpt; `starter backfill list` shows them", text)
	}
	all, err := o.listed(ctx, "", false, 1000)
	if err != nil {
		return "", err
	}
	var open, last []string
	for _, view := range all {
		name, short, _ := launch.ParseBackfillID(view.WorkflowID)
		switch {
		case short == text:
			return view.WorkflowID, nil
		case name == text && view.open:
			open = append(open, view.ID)
		case name == text:
			last = append(last, view.ID)
		}
	}
	switch {
	case len(open) == 1:
		return launch.BackfillID(text, strings.TrimPrefix(open[0], text+"/")), nil
	case len(open) > 1:
		return "", usagef("%s has %d open backfills: say which of %s", text, len(open), strings.Join(open[:min(len(open), 10)], ", "))
	case len(last) > 0:
		return "", usagef("%s has no open backfill; the last one was %s", text, last[0])
	default:
		return "", usagef("there is no backfill %s; `starter backfill list` shows which there are", text)
	}
}

// listed returns backfills, newest first.
func (o *online) listed(ctx context.Context, pipelineName string, open bool, limit int) ([]*backfillView, error) {
	prefix := strings.TrimSuffix(launch.BackfillID("", ""), "/")
	if pipelineName != "" {
		if !isName(pipelineName) {
			return nil, usagef("%q is not the name of a pipeline", pipelineName)
		}
		prefix = launch.BackfillID(pipelineName, "")
	}
	// An execution that continued as new is listed beside the next one.
	query := fmt.Sprintf("WorkflowType = %q AND WorkflowId STARTS_WITH %q AND ExecutionStatus != \"ContinuedAsNew\"", workflows.BackfillType, prefix)
	if open {
		query += ` AND ExecutionStatus = "Running"`
	}
	var found []*backfillView
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: int32(min(limit, 1000))}
	for len(found) < limit {
		page, err := o.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list backfills: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if _, _, ok := launch.ParseBackfillID(info.GetExecution().GetWorkflowId()); ok {
				found = append(found, o.viewOf(info))
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	return found[:min(limit, len(found))], nil
}

func (p *program) listBackfills(c *cli.Context) error {
	if c.NArg() > 1 {
		return usagef("list takes at most one PIPELINE")
	}
	if c.Int("limit") < 1 {
		return usagef("--limit must be at least 1")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	found, err := o.listed(c.Context, c.Args().First(), c.Bool("open"), c.Int("limit"))
	if err != nil {
		return err
	}
	for i, view := range found {
		// What does not answer is listed all the same, as it was last known.
		if latest, _ := o.view(c.Context, view.WorkflowID); latest != nil {
			found[i] = latest
		}
	}
	if c.Bool("json") {
		if found == nil {
			found = []*backfillView{}
		}
		return p.printJSON(found)
	}
	if len(found) == 0 {
		fmt.Fprintln(p.talk, "no backfills")
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tFROM\tTO\tREPROCESS\tPASSED\tOF\tFAILED\tSTARTED")
	for _, view := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", view.ID, view.State, view.Range.From.UTC().Format(time.RFC3339), view.Range.To.UTC().Format(time.RFC3339),
			view.Reprocess, view.Counts.Passed(), view.Expected.Total(), view.Counts.Failed+view.Counts.Cancelled, view.Started.UTC().Format(time.RFC3339))
	}
	return table.Flush()
}
