package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Closed says whether a run has ended, as Temporal knows it. A run that Temporal does not know is
// not said to have ended: it may belong to another namespace that shares the warehouse.
type Closed func(ctx context.Context, workflowID, runID string) (bool, error)

// Sweep drops the stages of runs that have ended without dropping them, because they were
// terminated: only Temporal's word counts, never a stage's age. It looks at the warehouses that steps
// of this process have used, and returns how many stages it dropped. What fails is passed over and
// reported together.
func (a *Activities) Sweep(ctx context.Context, closed Closed) (dropped int, err error) {
	opened := a.warehouses.all()
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(opened)) {
		stages, err := opened[name].OpenStages(ctx)
		if err != nil {
			failures = append(failures, fmt.Errorf("sweep warehouse %s: %w", name, err))
			continue
		}
		for _, stage := range stages {
			ended, err := closed(ctx, stage.WorkflowID, stage.RunID)
			if err == nil && ended {
				if err = opened[name].DropStage(ctx, stage); err == nil {
					dropped++
				}
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("sweep stage %s of warehouse %s: %w", stage, name, err))
			}
		}
	}
	if err := errors.Join(failures...); err != nil {
		return dropped, errors.New(a.connections.Mask(err.Error()))
	}
	return dropped, nil
}
