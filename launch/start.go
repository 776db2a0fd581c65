package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// Temporal is a connection to one namespace with what it takes to start runs there. It is safe for
// concurrent use; New makes one.
type Temporal struct {
	client.Client
	// Namespace is where runs are started.
	Namespace string
	// Converter encodes inputs and results, with the codec where the cluster has one.
	Converter converter.DataConverter

	attributes struct {
		sync.Mutex
		known   map[string]bool
		missing []string
		until   time.Time
	}
}

// New returns a connection over a client that was dialled for this namespace with this converter; nil is
// the SDK's own.
func New(dialled client.Client, namespace string, data converter.DataConverter) *Temporal {
	if data == nil {
		data = converter.GetDefaultDataConverter()
	}
	return &Temporal{Client: dialled, Namespace: namespace, Converter: data}
}

// Priorities of runs, 1 being the first: scheduled and manual runs overtake catchup, and catchup
// overtakes backfills. Gates come before all of them, which wait for their slots.
const (
	PriorityGate     = 1
	PriorityFirst    = 2
	PriorityCatchup  = 3
	PriorityBackfill = 4
)

// Priority returns the priority of a kind of run.
func Priority(kind step.Kind) int {
	switch kind {
	case step.Catchup, step.Lookback:
		return PriorityCatchup
	case step.Backfill:
		return PriorityBackfill
	default:
		return PriorityFirst
	}
}

// Request says which run to start.
type Request struct {
	// Definition is the effective definition that the run carries.
	Definition *pipeline.Pipeline
	// Interval is what the run owns.
	Interval interval.Interval
	// Kind is how the run comes about.
	Kind step.Kind
	// OnlyFirst starts the run only where Temporal remembers none of this interval, not even a closed one.
	OnlyFirst bool
	// RequestID makes the start repeatable: the same one returns the same run, even when that has closed,
	// as long as it is the newest of its id. Empty: every start is another.
	RequestID string
	// Campaign is the id of the workflow that has the run started, such as a backfill; it is kept in the memo.
	Campaign string
	// Exempt lets a run that depends on the past begin although the interval before was never run; it is for the
	// first one of a range.
	Exempt bool
	// FromStep is the step at which the run begins, and keeps the others; empty: all steps run.
	FromStep string
}

// Started is what came of a Request.
type Started struct {
	WorkflowID string
	// RunID is that of the run that was started or, with Taken, that of the one that is there.
	RunID string
	// Taken says that nothing was started: the interval has an open run or, with OnlyFirst, one that has
	// closed.
	Taken bool
}

// Start starts a run. An id that is taken is an answer, not an error.
func (t *Temporal) Start(ctx context.Context, r Request) (Started, error) {
	started := Started{WorkflowID: step.WorkflowID(r.Definition.Name, r.Interval.End)}
	request, err := t.request(r, started.WorkflowID)
	if err != nil {
		return started, fmt.Errorf("start %s: %w", started.WorkflowID, err)
	}
	response, err := t.start(ctx, r, request)
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &taken):
		started.RunID, started.Taken = taken.RunId, true
		return started, nil
	case err != nil:
		return started, fmt.Errorf("start %s: %w", started.WorkflowID, err)
	}
	started.RunID = response.GetRunId()
	return started, nil
}

// request is everything but the search attributes. It is written out, since the SDK has no way to say
// the request id.
func (t *Temporal) request(r Request, id string) (*workflowservice.StartWorkflowExecutionRequest, error) {
	location, err := r.Definition.Location()
	if err != nil {
		return nil, err
	}
	input, err := t.Converter.ToPayloads(Input{
		Version: Version, Kind: r.Kind, Interval: &r.Interval, Definition: r.Definition, Exempt: r.Exempt, FromStep: r.FromStep,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the definition: %w", err)
	}
	summary := Summary(r.Definition.Name, r.Interval, location, r.Kind)
	if r.FromStep != "" {
		summary += " from step " + r.FromStep
	}
	metadata, err := t.metadata(summary, r.Definition.Description)
	if err != nil {
		return nil, err
	}
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	if r.OnlyFirst {
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	}
	requestID := r.RequestID
	if requestID == "" {
		requestID = uuid.NewString()
	}
	memo := map[string]string{MemoDigest: r.Definition.Digest, MemoKind: string(r.Kind), MemoInterval: r.Interval.String()}
	if r.Campaign != "" {
		memo[MemoCampaign] = r.Campaign
	}
	return &workflowservice.StartWorkflowExecutionRequest{
		Namespace: t.Namespace, WorkflowId: id, RequestId: requestID, Input: input,
		WorkflowType:             &common.WorkflowType{Name: RunType},
		TaskQueue:                &taskqueue.TaskQueue{Name: r.Definition.TaskQueue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		WorkflowIdReusePolicy:    reuse,
		WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     memoOf(memo),
		UserMetadata:             metadata,
		Priority:                 &common.Priority{PriorityKey: int32(Priority(r.Kind))},
	}, nil
}

func (t *Temporal) metadata(summary, details string) (*sdk.UserMetadata, error) {
	metadata := &sdk.UserMetadata{}
	var err error
	if metadata.Summary, err = t.Converter.ToPayload(summary); err != nil {
		return nil, fmt.Errorf("encode the summary: %w", err)
	}
	if details == "" {
		return metadata, nil
	}
	if metadata.Details, err = t.Converter.ToPayload(details); err != nil {
		return nil, fmt.Errorf("encode the description: %w", err)
	}
	return metadata, nil
}

// start starts a run with as many search attributes as the server takes: one may keep its own to itself,
// or not know ours for the first seconds after they were registered. The run is worth more than its place
// in a list.
func (t *Temporal) start(ctx context.Context, r Request, request *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	ours, err := t.runAttributes(ctx, r)
	if err != nil {
		return nil, err
	}
	var refusal error
	for _, attributes := range []fields{ours.with(ScheduledByID.GetName(), ScheduleID(r.Definition.Name)), ours, nil} {
		request.SearchAttributes = attributes.encoded()
		response, err := t.WorkflowService().StartWorkflowExecution(ctx, request)
		var refused *serviceerror.InvalidArgument
		if !errors.As(err, &refused) {
			return response, err
		}
		if refusal == nil {
			refusal = err
		}
	}
	return nil, refusal
}

// memoOf encodes texts that are no secret: digests, kinds, bounds. They stay readable where a codec
// encrypts the rest.
func memoOf(texts map[string]string) *common.Memo {
	memo := &common.Memo{Fields: map[string]*common.Payload{}}
	for key, text := range texts {
		memo.Fields[key] = plain(text)
	}
	return memo
}

// plain encodes a text or an instant as Temporal's own JSON, which cannot fail for them.
func plain(value any) *common.Payload {
	payload, err := converter.GetDefaultDataConverter().ToPayload(value)
	if err != nil {
		panic(err)
	}
	return payload
}

// MemoText returns a text of a memo; empty when it is not there.
func MemoText(memo *common.Memo, key string) string {
	var text string
	payload := memo.GetFields()[key]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &text) != nil {
		return ""
	}
	return text
}
