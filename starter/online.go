package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/trancheflow/tranche/dial"
	"github.com/trancheflow/tranche/launch"
)

// online is a connection to Temporal with what the commands need to know of it.
type online struct {
	*launch.Temporal
	settings dial.Settings
	// talk is where people are told that somebody is waited for.
	talk io.Writer
}

func (p *program) connect(c *cli.Context) (*online, error) {
	settings, err := dial.Read(c, p.environment)
	if err != nil {
		return nil, usagef("%w", err)
	}
	connected, err := dial.Dial(c.Context, settings, dial.Options{})
	if err != nil {
		return nil, err
	}
	p.connected = &online{Temporal: connected, settings: settings, talk: p.talk}
	return p.connected, nil
}

// noNamespace says that the namespace does not exist.
func (o *online) noNamespace(attempted string) error {
	return coded(exitUnreachable, fmt.Errorf("%s: the Temporal at %s has no namespace %s: choose one with --namespace or TEMPORAL_NAMESPACE, or create it with `temporal operator namespace create`",
		attempted, o.settings.Address(), o.Namespace))
}

// unknownNamespace puts an error that comes of a namespace that does not exist into words of ours, whichever command
// met it; any other error it returns as it is.
func (p *program) unknownNamespace(err error) error {
	var unknown *serviceerror.NamespaceNotFound
	if p.connected == nil || !errors.As(err, &unknown) {
		return err
	}
	attempted, _, _ := strings.Cut(err.Error(), ": "+unknown.Error())
	if attempted == err.Error() {
		attempted = "ask Temporal"
	}
	return p.connected.noNamespace(attempted)
}

// workerLookup bounds the question whether any worker polls a queue: people are told within 5 s.
const workerLookup = 4 * time.Second

// workerLookupInterval is how often the question is asked again: a worker that is just starting, or has
// just lost its connection, should count.
const workerLookupInterval = 250 * time.Millisecond

// hasWorkers says whether a worker polls a task queue for workflows; it gives one a moment to come.
func (o *online) hasWorkers(ctx context.Context, queue string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, workerLookup)
	defer cancel()
	ticker := time.NewTicker(workerLookupInterval)
	defer ticker.Stop()
	for {
		polled, err := o.Polled(ctx, queue)
		// The last question may be cut off by the deadline, and be told so before ctx is.
		var late *serviceerror.DeadlineExceeded
		if polled || err != nil && ctx.Err() == nil && !errors.As(err, &late) {
			return polled, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}

// needWorkers returns the error of noWorkers if no worker polls a task queue.
func (o *online) needWorkers(ctx context.Context, queue string) error {
	served, err := o.hasWorkers(ctx, queue)
	if err == nil && !served {
		err = noWorkers(queue, o.Namespace)
	}
	return err
}

func noWorkers(queue, namespace string) error {
	return coded(exitUnreachable, fmt.Errorf("no worker polls task queue %s in namespace %s: start one with `worker --task-queue %s --connections connections.yaml`",
		queue, namespace, queue))
}

func (p *program) setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "Register the search attributes that runs are listed by",
		Description: `Registers TranchePipeline, TrancheRunKind and TrancheInterval in the namespace, once.
Tranche works without them too, but lists of runs are then slower and poorer.

Example: starter setup --namespace default`,
		Flags:  append(dial.Flags(), jsonFlag()),
		Action: p.setup,
	}
}

// setupReport is the JSON of `setup`.
type setupReport struct {
	Namespace  string   `json:"namespace"`
	Registered []string `json:"registered"`
	Present    []string `json:"present"`
}

func (p *program) setup(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("setup takes no arguments")
	}
	o, err := p.connect(c)
	if err != nil {
		return err
	}
	defer o.Close()
	have, err := o.Registered(c.Context)
	if err != nil {
		return err
	}
	report := setupReport{Namespace: o.Namespace, Registered: []string{}, Present: []string{}}
	wanted := map[string]enums.IndexedValueType{}
	for _, name := range launch.AttributeNames() {
		switch kind := launch.AttributeTypes()[name]; have[name] {
		case kind:
			report.Present = append(report.Present, name)
		case enums.INDEXED_VALUE_TYPE_UNSPECIFIED:
			wanted[name] = kind
			report.Registered = append(report.Registered, name)
		default:
			// Adding it again with another type is answered with success and changes nothing
			// (server v1.32.1), so it has to be said here.
			return fmt.Errorf("search attribute %s of namespace %s has the type %s, and Tranche needs %s: remove or rename it there; until then runs do without it",
				name, o.Namespace, have[name], kind)
		}
	}
	if len(wanted) > 0 {
		if err := o.register(c.Context, wanted); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return p.printJSON(report)
	}
	for _, name := range report.Present {
		fmt.Fprintf(p.out, "%s is there\n", name)
	}
	for _, name := range report.Registered {
		fmt.Fprintf(p.out, "%s registered\n", name)
	}
	return nil
}

func (o *online) register(ctx context.Context, wanted map[string]enums.IndexedValueType) error {
	_, err := o.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: o.Namespace, SearchAttributes: wanted,
	})
	if err == nil {
		return nil
	}
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	hint := ""
	if errors.As(err, &denied) || errors.As(err, &unimplemented) {
		hint = "; somebody who may has to run:\n" + registerByHand(o.Namespace, wanted) +
			"\nor, in Temporal Cloud, add them to the namespace on its page or with tcld"
	}
	return fmt.Errorf("register search attributes in namespace %s: %w%s", o.Namespace, err, hint)
}

func registerByHand(namespace string, wanted map[string]enums.IndexedValueType) string {
	text := "  temporal operator search-attribute create --namespace " + namespace
	for _, name := range launch.AttributeNames() {
		if kind, is := wanted[name]; is {
			text += fmt.Sprintf(" --name %s --type %s", name, kind)
		}
	}
	return text
}
