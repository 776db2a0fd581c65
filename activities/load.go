package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/extract"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// ExtractFile pins the file of the interval: the load that follows streams exactly this version of
// it. Nothing is staged.
func (a *Activities) ExtractFile(ctx context.Context, in step.Input) (step.Result, error) {
	return a.attempt(ctx, in, func(ctx context.Context, _ *progress) (*step.Done, error) {
		files, err := a.connections.Files(in.Step.File.Connection)
		if err != nil {
			return nil, err
		}
		location, err := interval.LoadLocation(in.Timezone)
		if err != nil {
			return nil, err
		}
		file, err := extract.OpenFile(ctx, files, in.Step.File, in.Interval, location)
		if err != nil {
			return nil, fmt.Errorf("look up the file of %s: %w", in.Step.File.Connection, err)
		}
		defer file.Close()
		pin := file.Pin()
		done := &step.Done{
			Pin: &step.Pin{
				Path: pin.Path, Missing: pin.Missing, Size: pin.Size, ModTime: pin.ModTime, ETag: pin.ETag, MD5: pin.MD5,
			},
			Note: fmt.Sprintf("%s, %d bytes", pin.Path, pin.Size),
		}
		if pin.Missing {
			done.Note = pin.Path + " is missing: no rows"
		}
		return done, nil
	})
}

// Load writes the interval's rows into its table, in one transaction.
func (a *Activities) Load(ctx context.Context, in step.Input) (step.Result, error) {
	lost := ""
	result, err := a.attempt(ctx, in, func(ctx context.Context, p *progress) (*step.Done, error) {
		done, err := a.load(ctx, in, p)
		if kind := retry.Classify(err).Type; kind == warehouse.TypeStagingLost || kind == connection.TypeSourceChanged {
			// The workflow has the source read again, which is no failure of this step.
			activity.GetLogger(ctx).Info("the source has to be read again", "reason", a.connections.Mask(err.Error()))
			lost = kind
			return &step.Done{}, nil
		}
		return done, err
	})
	if err == nil && lost != "" {
		return step.Result{SourceLost: lost}, nil
	}
	return result, err
}

func (a *Activities) load(ctx context.Context, in step.Input, p *progress) (*step.Done, error) {
	if in.Source == nil || in.Source.Result.Done == nil {
		return nil, retry.Permanentf("BadInput", "load %s was given no source", in.Step.Name)
	}
	opened, err := a.warehouse(ctx, in.Warehouse)
	if err != nil {
		return nil, err
	}
	request, err := loadRequest(ctx, in, p)
	if err != nil {
		return nil, err
	}
	// What the database does is one statement after the other that show nothing until they are done;
	// start_to_close bounds them.
	defer p.hold("")()
	if in.Source.Step.File != nil {
		return a.loadFile(ctx, in, opened, request)
	}
	ref := stageRef(ctx, in.Owner, in.Source.Step, in.Source.Step)
	request.Stage, request.StagedRows = &ref, in.Source.Result.Done.Rows
	return loaded(opened.Load(ctx, request))
}

func loadRequest(ctx context.Context, in step.Input, p *progress) (warehouse.LoadRequest, error) {
	location, err := interval.LoadLocation(in.Timezone)
	if err != nil {
		return warehouse.LoadRequest{}, err
	}
	info := activity.GetInfo(ctx)
	return warehouse.LoadRequest{
		Pipeline: in.Pipeline, Step: in.Step.Name,
		WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, Attempt: int(info.Attempt) + in.Used,
		Fence: fence(info), Digest: in.Digest, Interval: in.Interval, Location: location,
		Load: in.Step.Load, Columns: in.Source.Step.SourceColumns(), Progress: p.rows,
	}, nil
}

// loadFile streams the pinned file into the table.
func (a *Activities) loadFile(ctx context.Context, in step.Input, opened *warehouse.Warehouse, request warehouse.LoadRequest) (*step.Done, error) {
	spec, pinned := in.Source.Step.File, in.Source.Result.Done.Pin
	if pinned == nil {
		return nil, retry.Permanentf("BadInput", "load %s was given no file", in.Step.Name)
	}
	files, err := a.connections.Files(spec.Connection)
	if err != nil {
		return nil, err
	}
	file, err := extract.OpenPinned(ctx, files, spec, extract.Pin{
		Object: connection.Object{
			Path: pinned.Path, Size: pinned.Size, ModTime: pinned.ModTime, ETag: pinned.ETag, MD5: pinned.MD5,
		},
		Missing: pinned.Missing,
	})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	request.Rows = file.Rows()
	done, err := loaded(opened.Load(ctx, request))
	return done, located(err, file)
}

// located adds to a refused value where in the file it stands.
func located(err error, file *extract.File) error {
	var value *warehouse.ValueError
	if errors.As(err, &value) {
		return fmt.Errorf("%s: %w", file.Where(), err)
	}
	return err
}

// loaded turns a receipt into what the step answers. A snapshot that is older than what the table
// holds is a success with nothing to do.
func loaded(receipt warehouse.Receipt, err error) (*step.Done, error) {
	if retry.Classify(err).Type == warehouse.TypeStale {
		return &step.Done{Note: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &step.Done{
		Rows: receipt.Inserted,
		Receipt: &step.Receipt{
			Table: receipt.Table, Inserted: receipt.Inserted, Deleted: receipt.Deleted, Dropped: receipt.Dropped,
			Duplicates: receipt.Duplicates, Stale: receipt.Stale, Unchanged: receipt.Unchanged,
			Checksum: receipt.Checksum, Fence: receipt.Fence,
		},
	}, nil
}

// RecordOutcome writes how the run ended into the ledger, and drops the run's stages: nobody reads
// them any more. It may run twice, changes nothing the second time, and answers the same.
func (a *Activities) RecordOutcome(ctx context.Context, outcome step.Outcome) (step.Recorded, error) {
	recorded, err := a.recordOutcome(ctx, outcome)
	if err == nil {
		return recorded, nil
	}
	return recorded, a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
}

func (a *Activities) recordOutcome(ctx context.Context, outcome step.Outcome) (step.Recorded, error) {
	opened, err := a.warehouse(ctx, outcome.Warehouse)
	if err != nil {
		return step.Recorded{}, err
	}
	execution := activity.GetInfo(ctx).WorkflowExecution
	recorded, err := opened.RecordOutcome(ctx, warehouse.Outcome{
		Pipeline: outcome.Pipeline, Interval: outcome.Interval, Status: outcome.Outcome, Kind: string(outcome.Kind),
		WorkflowID: execution.ID, RunID: execution.RunID, Fence: outcome.Fence,
		Digest: outcome.Digest, Note: outcome.Reason, StartedAt: outcome.Started, Attempts: outcome.Attempts,
	})
	if err != nil {
		return step.Recorded{}, err
	}
	for _, source := range outcome.Staged {
		if err := opened.DropStage(ctx, warehouse.StageRef{Pipeline: outcome.Pipeline, RunID: execution.RunID, Step: source}); err != nil {
			// The janitor drops it later; the interval is loaded all the same.
			activity.GetLogger(ctx).Warn("a stage was not dropped", "step", source, "reason", a.connections.Mask(err.Error()))
		}
	}
	return step.Recorded{Recovered: recorded.Recovered}, nil
}
