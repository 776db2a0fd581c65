package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
)

// The rhythm of a gate.
const (
	// healEvery is how often, while anybody waits, holders are looked at that may have ended without a word.
	healEvery = 15 * time.Second
	// gateIdle is how long a gate in which nobody is stays open. A gate that ends is nothing lost: the next run
	// that asks starts another, on its own task queue and by the build that is then the newest.
	gateIdle = time.Hour
	// gateSignals is how many signals a gate takes in before it continues as new.
	gateSignals = 500
	// gateAct bounds what a gate has done outside, one go of it with all tries. A grant that is not sent by
	// then is asked for again by its run, and a look is taken again.
	gateAct = 30 * time.Second
)

// Gate hands out the max_active_runs of a pipeline: to scheduled and manual runs first, then to lookbacks, then
// to catchups, oldest interval first within each; where runs depend on the past, oldest first over all. Runs ask and
// give back by SignalSlot and are told by SignalGranted; whatever gets lost on the way is asked for again. A
// holder that has ended without giving its slot back is found while anybody waits.
//
// It ends when nobody has been there for gateIdle. That is safe: Temporal does not complete a workflow to which a
// signal has come that it has not seen, and runs ask by starting a gate where none is open.
func Gate(ctx workflow.Context, input step.GateInput) error {
	if input.Version > step.GateVersion {
		// A panic fails the workflow task, not the gate: it waits for a worker that knows better.
		panic(fmt.Sprintf("this gate needs a newer worker: its version is %d, and this one knows none above %d", input.Version, step.GateVersion))
	}
	g := &gate{pipeline: input.Pipeline, state: input.State}
	if err := g.answer(ctx); err != nil {
		return err
	}
	g.show(ctx)
	for g.state.Recover != "" && ctx.Err() == nil {
		g.recover(ctx)
	}
	return g.serve(ctx)
}

// answer lets others ask how the gate stands.
func (g *gate) answer(ctx workflow.Context) error {
	err := workflow.SetQueryHandler(ctx, step.QueryGate, func() (step.GateState, error) { return g.state, nil })
	if err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, step.QueryStanding, func(seat step.Seat) (step.Standing, error) { return g.standing(seat), nil })
}

// recover takes over what an earlier gate of the pipeline knew, which was ended before its time: its holders
// still work. Where that cannot be found out, runs that are at work are not counted.
func (g *gate) recover(ctx workflow.Context) {
	var earlier step.GateState
	err := workflow.ExecuteLocalActivity(gateOptions(ctx, "take over from "+g.state.Recover), step.ActivityRecoverGate,
		step.GateRecovery{Pipeline: g.pipeline, RunID: g.state.Recover}).Get(ctx, &earlier)
	if temporal.IsCanceledError(err) {
		return // the next gate recovers through this one
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("the slots that an earlier gate had handed out are not known", "gate", g.state.Recover, "reason", err)
		g.state.Recover = ""
		return
	}
	g.adopt(earlier, workflow.Now(ctx))
}

// serve takes signals in until there is a reason to end.
func (g *gate) serve(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, step.SignalSlot)
	handled, active := 0, workflow.Now(ctx)
	var healing, idle workflow.Future
	for {
		var signal step.SlotSignal
		for signals.ReceiveAsync(&signal) {
			g.handle(signal, workflow.Now(ctx))
			signal = step.SlotSignal{}
			handled++
			active = workflow.Now(ctx)
		}
		healDue := ready(healing)
		if healDue {
			healing = nil
		}
		if g.act(ctx, healDue) {
			continue // signals may have come meanwhile
		}
		g.show(ctx)
		if idle = g.idling(ctx, idle, active); g.empty() && ready(idle) {
			return nil
		}
		if handled >= gateSignals || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, launch.GateType, step.GateInput{Version: step.GateVersion, Pipeline: g.pipeline, State: g.state})
		}
		if healing == nil && len(g.state.Waiters) > 0 {
			healing = workflow.NewTimerWithOptions(ctx, healEvery, workflow.TimerOptions{Summary: "look at those that have a slot"})
		}
		err := workflow.Await(ctx, func() bool { return signals.Len() > 0 || ready(healing) || ready(idle) })
		if err != nil {
			return err
		}
	}
}

// idling keeps a timer for an empty gate. It is not stopped when somebody comes, which would cost an event for
// each run; instead it is wound up again for the rest when it has rung too early.
func (g *gate) idling(ctx workflow.Context, timer workflow.Future, active time.Time) workflow.Future {
	left := active.Add(gateIdle).Sub(workflow.Now(ctx))
	switch {
	case timer != nil && !timer.IsReady(), timer != nil && left <= 0 && g.empty():
		return timer
	case !g.empty():
		return nil
	default:
		return workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "nobody has a slot or waits"})
	}
}

func ready(future workflow.Future) bool { return future != nil && future.IsReady() }

// act does what has been decided: sends grants, looks at holders. It reports whether there was anything to do.
func (g *gate) act(ctx workflow.Context, healDue bool) bool {
	if len(g.grants) > 0 {
		g.grant(ctx)
		return true
	}
	if look := g.look(healDue && len(g.state.Waiters) > 0); len(look) > 0 {
		g.heal(ctx, look)
		return true
	}
	return false
}

// grant tells those who have got a slot, all in one go. Those who cannot be told any more give it back.
func (g *gate) grant(ctx workflow.Context) {
	grants := g.grants
	g.grants = nil
	var gone []step.Seat
	err := workflow.ExecuteLocalActivity(gateOptions(ctx, "grant slots"), step.ActivityGrant, grants).Get(ctx, &gone)
	if err != nil {
		workflow.GetLogger(ctx).Warn("grants were not sent; their runs ask again", "reason", err)
	}
	for _, seat := range gone {
		g.free(seat)
	}
	g.fill(workflow.Now(ctx))
}

// heal frees the slots of holders that have ended.
func (g *gate) heal(ctx workflow.Context, places []step.Place) {
	var states []step.HolderState
	err := workflow.ExecuteLocalActivity(gateOptions(ctx, "look at those that have a slot"), step.ActivityHolders, step.HoldersLook{Places: places}).Get(ctx, &states)
	if err != nil {
		workflow.GetLogger(ctx).Warn("those that have a slot were not looked at; it is tried again", "reason", err)
	}
	g.found(states, workflow.Now(ctx))
}

func gateOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: gateAct,
		StartToCloseTimeout:    gateAct,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second},
		Summary:                summary,
	})
}
