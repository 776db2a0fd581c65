package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/schedules"
)

func (p *program) schedulesCommand() *cli.Command {
	return &cli.Command{
		Name:  "schedules",
		Usage: "Make Temporal's Schedules equal to the pipeline files, and look after them",
		Description: `A Schedule starts the run of each interval when it is over. Plan shows what an apply would
change, apply does it.`,
		Subcommands: []*cli.Command{
			p.planCommand(), p.applyCommand(), p.listCommand(), p.pauseCommand(), p.unpauseCommand(),
			p.triggerCommand(), p.reconcileCommand(), p.deleteCommand(),
		},
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return usagef("there is no command schedules %q; `starter schedules --help` lists them", name)
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

func (p *program) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "Show what an apply would change, and exit 7 if that is anything",
		ArgsUsage: "[FILE|DIR]...",
		Description: `Compares the given pipelines with the Schedules that are there. Nothing is changed.

Example: starter schedules plan pipelines`,
		Flags:  append(dial.Flags(), jsonFlag(), reconcileEveryFlag()),
		Action: p.plan,
	}
}

// planned reads the pipelines and plans their Schedules.
func (p *program) planned(c *cli.Context) (*online, *schedules.Schedules, *schedules.Plan, error) {
	every, err := reconcileEvery(c)
	if err != nil {
		return nil, nil, nil, err
	}
	paths := c.Args().Slice()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	all, problems, err := parseAll(paths)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(problems) > 0 {
		return nil, nil, nil, problems
	}
	var sources []schedules.Source
	for _, each := range all {
		sources = append(sources, schedules.Source{File: each.file, Definition: each.pipeline.Effective()})
	}
	o, err := p.connect(c)
	if err != nil {
		return nil, nil, nil, err
	}
	made := schedules.New(o.Temporal)
	plan, err := made.Plan(c.Context, sources, every)
	if err != nil {
		o.Close()
		return nil, nil, nil, err
	}
	return o, made, plan, nil
}

func (p *program) plan(c *cli.Context) error {
	o, _, plan, err := p.planned(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if c.Bool("json") {
		err = p.printJSON(plan)
	} else {
		err = p.printPlan(plan)
	}
	if err != nil {
		return err
	}
	return asPlanned(plan)
}

// asPlanned says what is left to do after a plan was shown; nil: nothing.
func asPlanned(plan *schedules.Plan) error {
	blocked := plan.Blocked()
	cannot := fmt.Sprintf("%s cannot be applied, the notes above say why", plural(blocked, "pipeline"))
	switch {
	case blocked > 0 && plan.HasChanges():
		return coded(exitChanges, errors.New("the Schedules are not as the files say: "+cannot+"; `starter schedules apply` does the rest"))
	case blocked > 0:
		return errors.New(cannot)
	case plan.HasChanges():
		return coded(exitChanges, errors.New("the Schedules are not as the files say: `starter schedules apply` makes them so"))
	default:
		return nil
	}
}

// Bounds of --reconcile-every.
const (
	leastReconcileEvery = 5 * time.Second
	mostReconcileEvery  = 24 * time.Hour
)

func (p *program) applyCommand() *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "Make the Schedules as the files say",
		ArgsUsage: "[FILE|DIR]...",
		Description: `Creates and updates the Schedules of the given pipelines, in place and one at a time; a second
apply finds nothing to do. Schedules without a file are named and left alone, a pause stays.
Needs a worker on the task queue of each pipeline that is new or whose schedule changes: the load
ledger keeps when a pipeline became active and which schedules it has had.

Example: starter schedules apply pipelines`,
		Flags:  append(dial.Flags(), jsonFlag(), reconcileEveryFlag()),
		Action: p.apply,
	}
}

func reconcileEveryFlag() cli.Flag {
	return &cli.DurationFlag{Name: "reconcile-every", EnvVars: []string{"TRANCHE_RECONCILE_EVERY"},
		Usage:       "how often missing intervals and missed deadlines are looked for",
		DefaultText: "as it is; " + schedules.DefaultReconcileEvery.String() + " for a new task queue"}
}

// reconcileEvery returns what the command line says about the reconcilers; zero: nothing.
func reconcileEvery(c *cli.Context) (time.Duration, error) {
	if !c.IsSet("reconcile-every") {
		return 0, nil
	}
	every := c.Duration("reconcile-every")
	if every < leastReconcileEvery || every > mostReconcileEvery || every%time.Second != 0 {
		return 0, usagef("--reconcile-every %s: it must be whole seconds from %s to %s", every, leastReconcileEvery, mostReconcileEvery)
	}
	return every, nil
}

func (p *program) apply(c *cli.Context) error {
	o, made, plan, err := p.planned(c)
	if err != nil {
		return err
	}
	defer o.Close()
	if !c.Bool("json") {
		if err := p.printPlan(plan); err != nil {
			return err
		}
	}
	report := p.applyAll(c.Context, o, made, plan)
	if c.Bool("json") {
		if err := p.printJSON(report); err != nil {
			return err
		}
	}
	return report.failure
}

// applyReport is the JSON of `schedules apply`.
type applyReport struct {
	Applied []schedules.Applied `json:"applied"`
	// Reconcilers says what was done with those of the task queues.
	Reconcilers []appliedReconciler `json:"reconcilers"`
	Failed      []failedApply       `json:"failed"`
	Orphans     []string            `json:"orphans,omitempty"`
	// Reconciled says how the intervals of the pipelines that changed stand.
	Reconciled []reconciled `json:"reconciled,omitempty"`

	failure error
}

type appliedReconciler struct {
	TaskQueue string         `json:"task_queue"`
	Verb      schedules.Verb `json:"verb"`
}

type failedApply struct {
	Pipeline string `json:"pipeline"`
	Error    string `json:"error"`
}

// applyAll goes through the plan. What fails for one pipeline does not keep the others from theirs.
func (p *program) applyAll(ctx context.Context, o *online, made *schedules.Schedules, plan *schedules.Plan) *applyReport {
	report := &applyReport{Applied: []schedules.Applied{}, Reconcilers: []appliedReconciler{}, Failed: []failedApply{}, Orphans: plan.Orphans}
	queues := &queues{online: o, served: map[string]error{}}
	touched, left := map[string][]string{}, map[string]bool{}
	for _, change := range plan.Changes {
		applied, err := p.applyOne(ctx, o, made, change, queues)
		if err != nil {
			report.Failed = append(report.Failed, failedApply{change.Pipeline, err.Error()})
			report.failure = errors.Join(report.failure, err)
			continue
		}
		report.Applied = append(report.Applied, applied)
		queue := change.TaskQueue()
		if _, known := touched[queue]; !known {
			touched[queue] = nil
		}
		if queue := change.Leaves(); queue != "" {
			left[queue] = true
		}
		if applied.Verb != schedules.Unchanged {
			touched[queue] = append(touched[queue], change.Pipeline)
			fmt.Fprintf(p.talk, "%s: %sd, %s compared with the server's listing\n", change.Pipeline, applied.Verb, plural(applied.Checked, "coming tick"))
		}
	}
	p.applyReconcilers(ctx, made, plan, touched, report)
	for _, queue := range sortedKeys(left) {
		report.failure = errors.Join(report.failure, p.releaseReconciler(ctx, made, queue))
	}
	for _, queue := range sortedKeys(touched) {
		if len(touched[queue]) == 0 || queues.serves(ctx, queue) != nil {
			continue
		}
		found, err := o.reconcile(ctx, queue, touched[queue])
		report.failure = errors.Join(report.failure, err)
		report.Reconciled = append(report.Reconciled, found...)
		p.talkReconciled(found)
	}
	return report
}

// applyReconcilers sees to the reconcilers of the task queues on which a pipeline has its Schedule now.
func (p *program) applyReconcilers(ctx context.Context, made *schedules.Schedules, plan *schedules.Plan, touched map[string][]string, report *applyReport) {
	for _, change := range plan.Reconcilers {
		if _, is := touched[change.TaskQueue]; !is {
			continue
		}
		done, err := made.ApplyReconciler(ctx, change)
		if err != nil {
			report.failure = errors.Join(report.failure, err)
			continue
		}
		report.Reconcilers = append(report.Reconcilers, appliedReconciler{change.TaskQueue, done})
		if done != schedules.Unchanged {
			fmt.Fprintf(p.talk, "reconciler of task queue %s: %sd, looks every %s\n", change.TaskQueue, done, change.Every)
		}
	}
}

func (p *program) applyOne(ctx context.Context, o *online, made *schedules.Schedules, change schedules.Change, queues *queues) (schedules.Applied, error) {
	if change.NeedsLedger() {
		if err := queues.serves(ctx, change.TaskQueue()); err != nil {
			return schedules.Applied{}, fmt.Errorf("apply the Schedule of %s: %w", change.Pipeline, err)
		}
	}
	applied, err := made.Apply(ctx, change, o.ledger(change.TaskQueue()))
	queues.heed(change.TaskQueue(), err)
	return applied, err
}

// queues remembers which task queues have workers, so that each is asked for once.
type queues struct {
	online *online
	served map[string]error
}

// serves returns an error if no worker polls a queue.
func (q *queues) serves(ctx context.Context, queue string) error {
	if err, known := q.served[queue]; known {
		return err
	}
	err := q.online.needWorkers(ctx, queue)
	q.served[queue] = err
	return err
}

// heed remembers a queue whose worker turned out to be gone, so that it is waited for once.
func (q *queues) heed(queue string, err error) {
	var withCode *codedError
	if errors.As(err, &withCode) && withCode.code == exitUnreachable {
		q.served[queue] = withCode
	}
}

// pipelineSchedule connects and returns the Schedule of the pipeline that the one argument names.
func (p *program) pipelineSchedule(c *cli.Context) (*online, *schedules.Schedules, *schedules.Schedule, error) {
	name, err := oneArgument(c, "PIPELINE")
	if err != nil {
		return nil, nil, nil, err
	}
	o, err := p.connect(c)
	if err != nil {
		return nil, nil, nil, err
	}
	made := schedules.New(o.Temporal)
	found, err := made.Get(c.Context, launch.ScheduleID(name))
	if err == nil {
		err = o.pipelines(found, name)
	}
	if err != nil {
		o.Close()
		return nil, nil, nil, err
	}
	return o, made, found, nil
}

// pipelines returns an error if a Schedule is not there, or is not that of a pipeline.
func (o *online) pipelines(found *schedules.Schedule, name string) error {
	switch {
	case found == nil:
		return fmt.Errorf("pipeline %s has no Schedule in namespace %s: `starter schedules apply` makes one, `starter schedules list` shows which there are", name, o.Namespace)
	case found.Pipeline != name:
		return fmt.Errorf("the Schedule %s in namespace %s was not made by Tranche and is left alone", name, o.Namespace)
	default:
		return nil
	}
}
