package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// readyTimeout is generous for a laptop under load; a start takes about a second.
	readyTimeout = 90 * time.Second
	// probeInterval is how often a condition that does not hold yet is looked at again.
	probeInterval = 10 * time.Millisecond
	// probeTimeout bounds one look.
	probeTimeout = 10 * time.Second
)

// probe asks the server, as any client would, whether it is usable.
type probe struct {
	options  Options
	workflow workflowservice.WorkflowServiceClient
	operator operatorservice.OperatorServiceClient
}

func (s *Server) awaitReady(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	connection, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Address(), err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	p := probe{s.options, workflowservice.NewWorkflowServiceClient(connection), operatorservice.NewOperatorServiceClient(connection)}
	for _, namespace := range s.options.Namespaces {
		if err := p.awaitNamespace(ctx, namespace); err != nil {
			return fmt.Errorf("namespace %q: %w", namespace, err)
		}
	}
	if s.ports.UI != 0 {
		return until(ctx, "the UI answers", func(ctx context.Context) error { return get(ctx, s.UI()) })
	}
	return nil
}

func (p probe) awaitNamespace(ctx context.Context, namespace string) error {
	err := until(ctx, "it can be described", func(ctx context.Context) error {
		_, err := p.workflow.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		return err
	})
	if err != nil {
		return err
	}
	if err := p.ensureSearchAttributes(ctx, namespace); err != nil {
		return err
	}
	return until(ctx, "its system worker polls", func(ctx context.Context) error {
		return p.systemWorkerPolls(ctx, namespace)
	})
}

// ensureSearchAttributes adds the attributes that a namespace of an older file lacks, and waits until
// queries may name all of them.
func (p probe) ensureSearchAttributes(ctx context.Context, namespace string) error {
	if len(p.options.SearchAttributes) == 0 {
		return nil
	}
	missing, err := p.missingSearchAttributes(ctx, namespace)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		_, err := p.operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: missing,
		})
		if err != nil {
			return fmt.Errorf("add search attributes: %w", err)
		}
		if err := p.awaitCaches(ctx); err != nil {
			return err
		}
	}
	return until(ctx, "its search attributes can be queried", func(ctx context.Context) error {
		return p.querySearchAttributes(ctx, namespace)
	})
}

// awaitCaches waits until every service has read the namespaces again. Each caches them by itself,
// nothing tells when it has, and only the frontend can be asked by a query.
func (p probe) awaitCaches(ctx context.Context) error {
	collection := dynamicconfig.NewCollection(dynamicConfig(p.options.DynamicConfig), p.options.Logger)
	refresh := dynamicconfig.NamespaceCacheRefreshInterval.Get(collection)()
	select {
	case <-time.After(refresh + refresh/4):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p probe) missingSearchAttributes(ctx context.Context, namespace string) (map[string]enumspb.IndexedValueType, error) {
	response, err := p.operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, want := range p.options.SearchAttributes {
		have, found := response.GetCustomAttributes()[name]
		if found && have != want {
			return nil, fmt.Errorf("search attribute %s has type %s in %s, not %s; Temporal cannot change a type: remove the attribute, or start with a new file",
				name, have, databaseName(p.options), want)
		}
		if !found {
			missing[name] = want
		}
	}
	return missing, nil
}

func (p probe) querySearchAttributes(ctx context.Context, namespace string) error {
	for _, name := range slices.Sorted(maps.Keys(p.options.SearchAttributes)) {
		_, err := p.workflow.CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: namespace, Query: "`" + name + "` IS NULL AND WorkflowId = ''",
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// systemWorkerPolls looks for the worker that runs schedules and batch operations. Until it polls,
// describing a schedule, which is a query to one of its workflows, blocks.
func (p probe) systemWorkerPolls(ctx context.Context, namespace string) error {
	response, err := p.workflow.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace:     namespace,
		TaskQueue:     &taskqueuepb.TaskQueue{Name: primitives.PerNSWorkerTaskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return err
	}
	if len(response.GetPollers()) == 0 {
		return fmt.Errorf("task queue %s has no pollers", primitives.PerNSWorkerTaskQueue)
	}
	return nil
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// until looks again and again until condition returns nil. When time runs out, it tells what was
// waited for and the last reason why it did not hold.
func until(ctx context.Context, what string, condition func(context.Context) error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, probeTimeout)
		err := condition(look)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w (last: %w)", what, ctx.Err(), err)
		}
	}
}
