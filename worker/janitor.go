package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/activities"
)

// defaultSweepInterval is how often stages of ended runs are looked for. It is far below any
// retention, so that Temporal still knows the runs.
const defaultSweepInterval = 10 * time.Minute

// sweep drops the stages of ended runs every interval, until ctx ends.
func sweep(ctx context.Context, temporal client.Client, steps *activities.Activities, interval time.Duration, logger *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		dropped, err := steps.Sweep(ctx, func(ctx context.Context, workflowID, runID string) (bool, error) {
			return hasEnded(ctx, temporal, workflowID, runID)
		})
		if err != nil && ctx.Err() == nil {
			logger.Warn("staged rows of ended runs were not all dropped; it is tried again", "reason", err)
		}
		if dropped > 0 {
			logger.Info("dropped staged rows of ended runs", "stages", dropped)
		}
	}
}

// hasEnded asks Temporal whether a run is closed.
func hasEnded(ctx context.Context, temporal client.Client, workflowID, runID string) (bool, error) {
	described, err := temporal.DescribeWorkflow(ctx, workflowID, runID)
	var unknown *serviceerror.NotFound
	if errors.As(err, &unknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return described.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
