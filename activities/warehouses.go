package activities

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/trancheflow/tranche/warehouse"
)

// warehouses are those that a worker has opened, by name. One whose database does not answer keeps nobody from
// the others, and those who want it themselves no longer than their own time.
type warehouses struct {
	mutex  sync.Mutex
	opened map[string]*opening
}

// opening is a warehouse that is open or about to be. Whoever holds the turn may open it.
type opening struct {
	turn chan struct{}
	open atomic.Pointer[warehouse.Warehouse]
}

// take waits for the turn to look at the warehouse with this name. give returns the turn.
func (w *warehouses) take(ctx context.Context, name string) (found *opening, give func(), err error) {
	w.mutex.Lock()
	if found = w.opened[name]; found == nil {
		found = &opening{turn: make(chan struct{}, 1)}
		w.opened[name] = found
	}
	w.mutex.Unlock()
	select {
	case found.turn <- struct{}{}:
		return found, func() { <-found.turn }, nil
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait until somebody else has opened warehouse %s: %w", name, context.Cause(ctx))
	}
}

// warehouse returns the warehouse with this name, opened and with its ledger up to date. A failure
// is not remembered: the database may be back at the next attempt.
func (a *Activities) warehouse(ctx context.Context, name string) (*warehouse.Warehouse, error) {
	database, err := a.connections.Database(name)
	if err != nil {
		return nil, err
	}
	found, give, err := a.warehouses.take(ctx, name)
	if err != nil {
		return nil, err
	}
	defer give()
	if open := found.open.Load(); open != nil {
		return open, nil
	}
	opened, err := warehouse.Open(ctx, warehouse.Config{Driver: database.Driver, DSN: database.DSN})
	if err != nil {
		return nil, fmt.Errorf("warehouse %s: %w", name, err)
	}
	if err := opened.Migrate(ctx); err != nil {
		opened.Close()
		return nil, fmt.Errorf("warehouse %s: %w", name, err)
	}
	found.open.Store(opened)
	return opened, nil
}

// all returns those that are open.
func (w *warehouses) all() map[string]*warehouse.Warehouse {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	open := map[string]*warehouse.Warehouse{}
	for name, found := range w.opened {
		if opened := found.open.Load(); opened != nil {
			open[name] = opened
		}
	}
	return open
}

// Close ends the sessions with all warehouses. Nothing may run any more.
func (a *Activities) Close() {
	for _, open := range a.warehouses.all() {
		open.Close()
	}
	a.warehouses.mutex.Lock()
	defer a.warehouses.mutex.Unlock()
	clear(a.warehouses.opened)
}
