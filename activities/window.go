package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
)

const (
	// windowBeat is how often a window says how far it is. What has happened since is found out again by its
	// successor, if the worker is lost.
	windowBeat = time.Second
	// windowTime is after how long a window returns even if not enough runs have ended: only then does the
	// workflow, and whoever looks at it, hear how far it is.
	windowTime = 30 * time.Second
	// awaitRetry is how long to wait after Temporal could not be asked for a run.
	awaitRetry = time.Second
)

// Window holds the window of a backfill: it starts runs and waits for them, until a chunk of them has ended or the
// range is done. Runs that others have opened are waited for, too. How a run ends is data: what it found stands in the state.
//
// When its worker stops, or when it is cancelled, it returns its state at once, and its runs go on. A worker that
// is lost has left the state in the heartbeats. Its successor passes over what was done meanwhile: whether an
// interval needs a run is decided by the ledger.
func (a *Activities) Window(ctx context.Context, request step.WindowRequest) (step.WindowState, error) {
	w := &window{activities: a, request: request, state: request.State, stopping: activity.GetWorkerStopChannel(ctx)}
	info := activity.GetInfo(ctx)
	w.inherited, w.since = info.Attempt > 1, info.ScheduledTime
	if activity.HasHeartbeatDetails(ctx) {
		var beaten step.WindowState
		if err := activity.GetHeartbeatDetails(ctx, &beaten); err == nil {
			w.state = beaten
		}
	}
	err := w.open(ctx)
	if err == nil {
		err = w.hold(ctx)
	}
	if err == nil || ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return w.snapshot(), nil
	}
	err = fmt.Errorf("backfill %s: %w", request.Definition.Name, err)
	return w.snapshot(), a.mapped(ctx, step.Input{}, int(activity.GetInfo(ctx).Attempt), err)
}

// window is the work of one attempt.
type window struct {
	activities *Activities
	request    step.WindowRequest
	ledger     *warehouse.Warehouse
	timeline   *interval.Timeline
	// inherited says that an attempt before this one may have done more than it has told, since the window was scheduled.
	inherited bool
	since     time.Time
	// first is the first interval of the range.
	first    interval.Interval
	stopping <-chan struct{}

	mutex sync.Mutex // of the state, which the heartbeat reads
	state step.WindowState

	// walk goes through the range, again through the first of the ranges that are put in again.
	walk, again walk
	exhausted   bool
	ended       int
	settled     chan step.Flight
}

func (w *window) snapshot() step.WindowState {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	state := w.state
	state.InFlight, state.Failed, state.Again = slices.Clone(state.InFlight), slices.Clone(state.Failed), slices.Clone(state.Again)
	return state
}

// change changes the state.
func (w *window) change(change func(state *step.WindowState)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	change(&w.state)
}

// open looks up the pipeline's timeline.
func (w *window) open(ctx context.Context) error {
	definition := w.request.Definition
	var err error
	if w.ledger, err = w.activities.warehouse(ctx, definition.Warehouse); err != nil {
		return err
	}
	if w.timeline, err = timelineOf(ctx, w.ledger, definition.Name, *definition.Schedule); err != nil {
		return err
	}
	w.first, _ = first(w.timeline.Between(w.request.Range.From, w.request.Range.To))
	if definition.Schedule.DependsOnPast {
		// Each run waits for the one before, and would wait for ever after one that fails.
		w.request.Width, w.request.Newest = min(w.request.Width, 1), false
	}
	w.walk = walk{timeline: w.timeline, within: w.request.Range, newest: w.request.Newest}
	w.settled = make(chan step.Flight, max(w.request.Width, len(w.state.InFlight))+1)
	return nil
}

// hold keeps the window full until enough runs have ended.
func (w *window) hold(ctx context.Context) error {
	awaiting, cancel := context.WithCancel(ctx)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	beating := inBackground(func(quit <-chan struct{}) { w.beat(ctx, quit) })
	defer beating.stop()
	await := func(flight step.Flight) { waiters.Go(func() { w.await(awaiting, flight) }) }
	for _, flight := range w.state.InFlight {
		await(flight)
	}
	enough := time.NewTimer(windowTime)
	defer enough.Stop()
	for {
		if err := w.fill(ctx, await); err != nil {
			return err
		}
		if idle := len(w.state.InFlight) == 0; idle && w.exhausted {
			w.change(func(state *step.WindowState) { state.Done = true })
			return nil
		} else if idle && w.request.Width == 0 {
			return nil
		}
		if w.ended >= w.request.Chunk || w.stopped(ctx) {
			return nil
		}
		select {
		case flight := <-w.settled:
			if err := w.settle(ctx, flight, await); err != nil {
				return err
			}
		case <-ctx.Done():
		case <-w.stopping:
		case <-enough.C:
			return nil
		}
	}
}

func (w *window) stopped(ctx context.Context) bool {
	select {
	case <-w.stopping:
		return true
	default:
		return ctx.Err() != nil
	}
}

func (w *window) beat(ctx context.Context, quit <-chan struct{}) {
	ticker := time.NewTicker(windowBeat)
	defer ticker.Stop()
	for {
		activity.RecordHeartbeat(ctx, w.snapshot())
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
	}
}

// await waits until a run has ended, however it ends, and reports it as settled.
func (w *window) await(ctx context.Context, flight step.Flight) {
	id := step.WorkflowID(w.request.Definition.Name, flight.Interval.End)
	for {
		err := w.activities.temporal.GetWorkflow(ctx, id, flight.RunID).Get(ctx, nil)
		var ended *temporal.WorkflowExecutionError
		var unknown *serviceerror.NotFound
		if err == nil || errors.As(err, &ended) || errors.As(err, &unknown) {
			select {
			case w.settled <- flight:
			case <-ctx.Done():
			}
			return
		}
		select {
		case <-time.After(awaitRetry):
		case <-ctx.Done():
			return
		}
	}
}

// settle looks up how the interval stands whose run has ended, and passes it. A run that was reset, or followed by
// another, is waited for; what was no run of Tranche makes place for one.
func (w *window) settle(ctx context.Context, flight step.Flight, await func(step.Flight)) error {
	c, err := w.herald().closing(ctx, w.ledger, flight.Interval, true)
	if err != nil {
		// It is still in flight, and will be waited for again.
		return err
	}
	if c.open {
		flight.RunID = c.runID
		w.fly(flight)
		await(flight)
		return nil
	}
	if c.outcome == "" && flight.Again < takenAgain {
		flight.Again++
		return w.begin(ctx, flight, await)
	}
	w.ended++
	w.land(flight.Interval, c.outcome)
	return nil
}

// fly puts a flight among those that are waited for.
func (w *window) fly(flight step.Flight) {
	w.change(func(state *step.WindowState) {
		state.InFlight = append(slices.DeleteFunc(state.InFlight, func(f step.Flight) bool { return f.Interval == flight.Interval }), flight)
	})
}

// land counts an interval that was waited for.
func (w *window) land(iv interval.Interval, outcome string) {
	w.change(func(state *step.WindowState) { landed(state, iv, outcome) })
}

func landed(state *step.WindowState, iv interval.Interval, outcome string) {
	state.InFlight = slices.DeleteFunc(state.InFlight, func(f step.Flight) bool { return f.Interval == iv })
	state.Bad = nil
	switch outcome {
	case step.OutcomeLoaded, step.OutcomeAccepted:
		state.Counts.Loaded++
		return
	case step.OutcomeCancelled:
		state.Counts.Cancelled++
	default:
		state.Counts.Failed++
	}
	state.Bad = &iv
	state.AddFailed(iv)
}
