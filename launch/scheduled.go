package launch

import (
	"context"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// Scheduled returns what a pipeline's Schedule starts at each tick: the same as Start does, but for the
// interval, which the run takes from the time at which the Schedule fired. The memo gets these texts on
// top.
func (t *Temporal) Scheduled(ctx context.Context, definition *pipeline.Pipeline, memo map[string]string) (*workflow.NewWorkflowExecutionInfo, error) {
	usable, _, err := t.Usable(ctx)
	if err != nil {
		return nil, err
	}
	input, err := t.Converter.ToPayloads(Input{
		Version: Version, Kind: step.Scheduled, Definition: definition, MarkInterval: usable[AttributeInterval.GetName()],
	})
	if err != nil {
		return nil, fmt.Errorf("encode the definition of %s: %w", definition.Name, err)
	}
	metadata, err := t.metadata(fmt.Sprintf("%s (%s)", definition.Name, step.Scheduled), definition.Description)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{MemoDigest: definition.Digest, MemoKind: string(step.Scheduled)}
	for key, text := range memo {
		texts[key] = text
	}
	return &workflow.NewWorkflowExecutionInfo{
		WorkflowId:   ScheduleID(definition.Name),
		WorkflowType: &common.WorkflowType{Name: RunType},
		TaskQueue:    &taskqueue.TaskQueue{Name: definition.TaskQueue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		Input:        input,
		Memo:         memoOf(texts),
		SearchAttributes: fieldsOf(usable, map[string]any{
			AttributePipeline.GetName(): definition.Name, AttributeRunKind.GetName(): string(step.Scheduled),
		}).encoded(),
		UserMetadata: metadata,
		Priority:     &common.Priority{PriorityKey: int32(Priority(step.Scheduled))},
	}, nil
}

// ScheduleMarks returns the memo and the search attributes of a pipeline's Schedule itself, by which it is
// told from those of others.
func (t *Temporal) ScheduleMarks(ctx context.Context, pipelineName string) (*common.Memo, *common.SearchAttributes, error) {
	usable, _, err := t.Usable(ctx)
	if err != nil {
		return nil, nil, err
	}
	return memoOf(map[string]string{MemoPipeline: pipelineName}),
		fieldsOf(usable, map[string]any{AttributePipeline.GetName(): pipelineName}).encoded(), nil
}
