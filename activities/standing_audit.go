package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

// audited is a load whose rows can be counted interval by interval: that of a delete+insert. What an upsert wrote may
// be a later interval's by now, and a replace owns the whole table.
type audited struct {
	step         string
	load         *pipeline.Load
	columns      []pipeline.Column
	table, scope string // as receipts name them
}

// audit compares the receipts of loaded intervals with what is in the tables.
func (p *standingPage) audit(ctx context.Context, cells []step.Cell) error {
	if p.request.Audit == nil || len(cells) == 0 {
		return nil
	}
	loads, location, err := p.loads(ctx)
	if err != nil || len(loads) == 0 {
		return err
	}
	receipts, err := p.receipts(ctx, cells)
	if err != nil {
		return err
	}
	var found [][]step.Altered
	var loaded []step.Cell
	for _, cell := range cells {
		if cell.State == step.StateLoaded {
			loaded, found = append(loaded, cell), append(found, nil)
		}
	}
	failures := each(len(loaded), func(i int) (err error) {
		for _, one := range loads {
			altered, err := p.auditOne(ctx, one, loaded[i], receipts[loaded[i].Interval], location)
			if err != nil {
				return err
			}
			if altered != nil {
				found[i] = append(found[i], *altered)
			}
		}
		return nil
	})
	for i, failure := range failures {
		if failure != nil {
			return failure
		}
		p.answer.Altered = append(p.answer.Altered, found[i]...)
	}
	p.answer.Audited += len(loaded) * len(loads)
	return nil
}

// loads returns the loads of the definition that can be audited, and its time zone.
func (p *standingPage) loads(ctx context.Context) ([]audited, *time.Location, error) {
	definition := p.request.Audit
	var loads []audited
	for i := range definition.Steps {
		one := &definition.Steps[i]
		if one.Load == nil || one.Load.Disposition != pipeline.DispositionDeleteInsert {
			continue
		}
		source := definition.Step(one.Load.From)
		if source == nil {
			return nil, nil, retry.PermanentError("BadDefinition", fmt.Errorf("step %s loads from %s, which is not there", one.Name, one.Load.From))
		}
		table, scope, err := p.ledger.TableKey(ctx, one.Load)
		if err != nil {
			return nil, nil, err
		}
		loads = append(loads, audited{step: one.Name, load: one.Load, columns: source.SourceColumns(), table: table, scope: scope})
	}
	location, err := definition.Location()
	return loads, location, err
}

// auditOne returns what is wrong with the rows of an interval; nil: nothing. A load that the interval's own definition
// may not have had needs no receipt.
func (p *standingPage) auditOne(ctx context.Context, one audited, cell step.Cell, receipts []warehouse.Receipt, location *time.Location) (*step.Altered, error) {
	altered := step.Altered{Interval: cell.Interval, Step: one.step, Table: one.table, Receipt: -1}
	for _, receipt := range receipts {
		if receipt.Table == one.table && receipt.Scope == one.scope {
			altered.Receipt = receipt.Inserted
		}
	}
	if altered.Receipt < 0 && cell.Outdated {
		return nil, nil
	}
	var err error
	altered.Stored, err = p.ledger.Rows(ctx, one.table, one.columns, &warehouse.Slice{
		Interval: cell.Interval, TimeColumn: one.load.TimeColumn, Location: location, Scope: one.load.Scope,
	})
	if err != nil || altered.Stored == altered.Receipt {
		return nil, err
	}
	return &altered, nil
}

// receipts are those of the intervals of the cells.
func (p *standingPage) receipts(ctx context.Context, cells []step.Cell) (map[interval.Interval][]warehouse.Receipt, error) {
	found, err := p.ledger.Receipts(ctx, p.query(cells))
	if err != nil {
		return nil, err
	}
	receipts := map[interval.Interval][]warehouse.Receipt{}
	for _, receipt := range found {
		receipts[receipt.Interval] = append(receipts[receipt.Interval], receipt)
	}
	return receipts, nil
}

// readAtOnce bounds what is read of the ledger for the cells of a page.
const readAtOnce = 100_000

func (p *standingPage) query(cells []step.Cell) warehouse.Query {
	return warehouse.Query{
		Pipeline: p.request.Pipeline, Limit: readAtOnce,
		From: cells[0].Interval.Start, To: cells[len(cells)-1].Interval.Start.Add(time.Second),
	}
}

// detail adds what the ledger knows of the cells.
func (p *standingPage) detail(ctx context.Context, cells []step.Cell) error {
	if len(cells) == 0 {
		return nil
	}
	receipts, err := p.receipts(ctx, cells)
	if err != nil {
		return err
	}
	outcomes, err := p.ledger.Outcomes(ctx, p.query(cells))
	if err != nil {
		return err
	}
	known := make(map[interval.Interval]*warehouse.Outcome, len(outcomes))
	for i := range outcomes {
		known[outcomes[i].Interval] = &outcomes[i]
	}
	for i := range cells {
		cell := &cells[i]
		if cell.Details == nil {
			cell.Details = detailsOf(cell, known[cell.Interval])
		}
		if of := receipts[cell.Interval]; len(of) > 0 {
			var rows int64
			for _, receipt := range of {
				rows += receipt.Inserted
			}
			cell.Rows = &rows
		}
	}
	return nil
}

func detailsOf(cell *step.Cell, outcome *warehouse.Outcome) *step.Details {
	if outcome == nil || step.State(outcome.Status) != cell.State {
		return &step.Details{Since: cell.Interval.End}
	}
	details := &step.Details{
		Kind: step.Kind(outcome.Kind), Attempts: outcome.Attempts, Since: outcome.RecordedAt, Digest: outcome.Digest, Note: outcome.Note,
	}
	if len(details.Note) > step.DetailNote {
		details.Note = strings.ToValidUTF8(details.Note[:step.DetailNote], "") + "…"
	}
	if !outcome.StartedAt.IsZero() {
		details.Took = pipeline.Duration(outcome.RecordedAt.Sub(outcome.StartedAt).Round(time.Millisecond))
	}
	return details
}
