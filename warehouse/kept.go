package warehouse

import (
	"context"
	"fmt"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// LoadedBy returns the receipt of a step's load of an interval into the table, and the scope of it, that the load
// names; found is false when there is none, or when the table is not there any more. For a load that replaces the
// whole table the receipt of a later interval does as well: its rows are what the table should hold.
func (w *Warehouse) LoadedBy(ctx context.Context, pipelineName, step string, iv interval.Interval, load *pipeline.Load) (receipt Receipt, found bool, err error) {
	if receipt, found, err = w.loadedBy(ctx, pipelineName, step, iv, load); err != nil {
		return Receipt{}, false, fmt.Errorf("look for the receipt of %s/%s %s: %w", pipelineName, step, iv, err)
	}
	return receipt, found, nil
}

func (w *Warehouse) loadedBy(ctx context.Context, pipelineName, step string, iv interval.Interval, load *pipeline.Load) (receipt Receipt, found bool, err error) {
	j := &job{w: w, req: LoadRequest{Load: load}}
	if j.table, err = w.db.split(load.Table); err != nil {
		return Receipt{}, false, err
	}
	s, err := w.db.acquire(ctx)
	if err != nil {
		return Receipt{}, false, err
	}
	defer s.release()
	shape, err := s.describe(ctx, j.table)
	if err != nil || shape == nil {
		return Receipt{}, false, err
	}
	which := "interval_start = $5 and interval_end = $6"
	if load.Disposition == pipeline.DispositionReplace {
		which = "(" + which + " or interval_start > $5)"
	}
	err = s.query(ctx, "select "+receiptColumns+" from "+w.db.ledger("receipts")+` where pipeline = $1 and step = $2 and table_name = $3 and scope = $4
		and `+which+" order by interval_start limit 1",
		[]any{pipelineName, step, shape.name.String(), j.scopeKey(), iv.Start.UTC(), iv.End.UTC()}, func(scan func(dest ...any) error) error {
			found = true
			return receipt.scan(scan)
		})
	return receipt, found, err
}
