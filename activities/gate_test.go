package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// gateServer is a Temporal with one gate, or none, that writes down what is done to it.
type gateServer struct {
	// status of the newest gate, whose run id is "old"; zero: there never was one. It is on this queue, which was
	// polled last at that time.
	status enums.WorkflowExecutionStatus
	queue  string
	polled time.Time
	// answers are what it says of where the run stands, one after the other; a nil one is that it is busy, and
	// after the last one it says nothing.
	answers []*step.Standing
	done    []string
}

func (g *gateServer) did(format string, args ...any) {
	g.done = append(g.done, fmt.Sprintf(format, args...))
}

func (g *gateServer) open() bool { return isOpen(g.status) }

type gateClient struct {
	client.Client
	*gateServer
}

func (g gateClient) WorkflowService() workflowservice.WorkflowServiceClient {
	return gateService{gateServer: g.gateServer}
}

func (g gateClient) SignalWorkflow(_ context.Context, _, _, signal string, arg any) error {
	if !g.open() {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	g.did("%s, look %v", signal, arg.(step.SlotSignal).Look)
	return nil
}

func (g gateClient) SignalWithStartWorkflow(_ context.Context, id, _ string, arg any, options client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	g.did("start %s on %s, recover %q, look %v", id, options.TaskQueue, args[0].(step.GateInput).State.Recover, arg.(step.SlotSignal).Look)
	g.status, g.queue = enums.WORKFLOW_EXECUTION_STATUS_RUNNING, options.TaskQueue
	return nil, nil
}

func (g gateClient) TerminateWorkflow(_ context.Context, _, runID, _ string, _ ...any) error {
	g.did("terminate %s", runID)
	g.status = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
	return nil
}

type gateService struct {
	workflowservice.WorkflowServiceClient
	*gateServer
}

func (g gateService) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if g.status == 0 {
		return nil, serviceerror.NewNotFound("no such execution")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		ExecutionConfig:       &workflow.WorkflowExecutionConfig{TaskQueue: &taskqueue.TaskQueue{Name: g.queue}},
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: g.status, Execution: &common.WorkflowExecution{RunId: "old"}},
	}, nil
}

func (g gateService) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueue.PollerInfo{{LastAccessTime: timestamppb.New(g.polled)}}}, nil
}

func (g gateService) QueryWorkflow(ctx context.Context, _ *workflowservice.QueryWorkflowRequest, _ ...grpc.CallOption) (*workflowservice.QueryWorkflowResponse, error) {
	switch {
	case !g.open():
		return &workflowservice.QueryWorkflowResponse{QueryRejected: &query.QueryRejected{Status: g.status}}, nil
	case len(g.answers) == 0:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer := g.answers[0]
	g.gateServer.answers = g.answers[1:]
	if answer == nil {
		return nil, serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "consistent query buffer is full")
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(*answer)
	return &workflowservice.QueryWorkflowResponse{QueryResult: payloads}, err
}

// asker is the seat of an activity of the SDK's test environment.
var asker = step.Seat{WorkflowID: "default-test-workflow-id", RunID: "default-test-run-id"}

func TestAskGate(t *testing.T) {
	t.Parallel()
	holds, waits, unknown := &step.Standing{Seat: asker, Holds: true}, &step.Standing{Seat: asker, Waits: true, Before: 3}, &step.Standing{Seat: asker}
	const open, ended = enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
	for name, c := range map[string]struct {
		server gateServer
		again  bool
		want   string
		done   string
	}{
		"the first run of all":       {server: gateServer{answers: []*step.Standing{holds}}, want: "holds", done: `start tranche/gate/orders on here, recover "", look true`},
		"after a gate that was idle": {server: gateServer{status: enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, answers: []*step.Standing{holds}}, want: "holds", done: `start tranche/gate/orders on here, recover "", look true`},
		"after a gate that was ended": {server: gateServer{status: ended, answers: []*step.Standing{waits}}, want: "waits",
			done: `start tranche/gate/orders on here, recover "old", look true`},
		"a gate that is open":            {server: gateServer{status: open, answers: []*step.Standing{holds}}, want: "holds", done: "slot, look true"},
		"a gate that is busy":            {server: gateServer{status: open, answers: []*step.Standing{nil, nil, waits}}, want: "waits", done: "slot, look true"},
		"a gate that says nothing":       {server: gateServer{status: open, queue: "here"}, want: "unknown", done: "slot, look true"},
		"again, and it waits":            {again: true, server: gateServer{status: open, answers: []*step.Standing{waits}}, want: "waits"},
		"again, and its grant was lost":  {again: true, server: gateServer{status: open, answers: []*step.Standing{holds}}, want: "holds"},
		"again, and it is not known":     {again: true, server: gateServer{status: open, queue: "here", answers: []*step.Standing{unknown}}, want: "unknown", done: "slot, look false"},
		"again, and nothing is said":     {again: true, server: gateServer{status: open, queue: "here"}, want: "unknown", done: "slot, look false"},
		"again, after a gate was ended":  {again: true, server: gateServer{status: ended, queue: "here"}, want: "unknown", done: `start tranche/gate/orders on here, recover "old", look false`},
		"again, on a queue that is left": {again: true, server: gateServer{status: open, queue: "there", polled: time.Now().Add(-2 * time.Minute)}, want: "unknown", done: `terminate old; start tranche/gate/orders on here, recover "old", look false`},
		"again, on another served queue": {again: true, server: gateServer{status: open, queue: "there", polled: time.Now()}, want: "unknown", done: "slot, look false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := withWarehouse(t)
			a.temporal = launch.New(gateClient{gateServer: &c.server}, "default", nil)
			ask := step.GateAsk{Pipeline: "orders", TaskQueue: "here"}
			if c.again {
				ask.Seat = &asker
			}
			got, err := perform(t, a.AskGate, ask)
			if err != nil || got.Seat != asker {
				t.Fatalf("%+v, %v", got, err)
			}
			if got.Holds != (c.want == "holds") || got.Waits != (c.want == "waits") {
				t.Errorf("it %+v, want that it %s", got, c.want)
			}
			if did := strings.Join(c.server.done, "; "); did != c.done {
				t.Errorf("it did %s\nwant %s", did, c.done)
			}
		})
	}
}

func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	got := make([]int, 100)
	failures := each(len(got), func(i int) error {
		if got[i] = i; i%7 == 0 {
			return serviceerror.NewNotFound("gone")
		}
		return nil
	})
	for i, err := range failures {
		if got[i] != i || gone(err) != (i%7 == 0) {
			t.Errorf("%d: %d, %v", i, got[i], err)
		}
	}
}

// TestHolders: an ended one, one that Temporal does not know, and one that is open.
func TestHolders(t *testing.T) {
	t.Parallel()
	a := withWarehouse(t)
	a.temporal = runs{"open": running, "ended": failedRun}.temporal()
	var look step.HoldersLook
	for _, id := range []string{"open", "ended", "unknown"} {
		look.Places = append(look.Places, step.Place{Seat: step.Seat{WorkflowID: id, RunID: "r"}})
	}
	got, err := perform(t, a.Holders, look)
	if err != nil {
		t.Fatal(err)
	}
	var closed []string
	for _, state := range got {
		if state.Closed {
			closed = append(closed, state.Seat.WorkflowID)
		}
	}
	if !slices.Equal(closed, []string{"ended", "unknown"}) || len(got) != 2 {
		t.Errorf("%+v", got)
	}
}
