package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/trancheflow/tranche/retry"
)

// An attempt is ended a little before Temporal would end it, so that its own error is what people see and what
// rules, delay and jitter are applied to: by lateMargin, or by a part of its time where that is less.
const (
	lateMargin = 250 * time.Millisecond
	latePart   = 10
)

// inTime ends the context with the error late just before the attempt's time is over.
func inTime(ctx context.Context, late error) (context.Context, context.CancelFunc) {
	return before(ctx, lateMargin, latePart, late)
}

// before brings the deadline forward by margin, or by a part of what is left where that is less.
func before(ctx context.Context, margin time.Duration, part int, cause error) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, deadline.Add(-min(margin, time.Until(deadline)/time.Duration(part))), cause)
}

// saying has an error say why it came about, unless it says so itself.
func saying(cause, err error) error {
	for _, limit := range []error{cause, errOverran, errNoTimeLeft} {
		if errors.Is(cause, limit) && errors.Is(err, limit) {
			return err
		}
	}
	return fmt.Errorf("%w; %w", cause, err)
}

// errOverran is what every error of an attempt over its start_to_close wraps.
var errOverran = errors.New("the attempt took longer than its start_to_close")

// errNoTimeLeft is what every error of an attempt wraps that the end of its step's time has ended.
var errNoTimeLeft = errors.New("the step's schedule_to_close was over")

// timeIsUp is the error of an attempt that has used up its time.
func timeIsUp(info activity.Info) error {
	if info.Deadline.Before(info.StartedTime.Add(info.StartToCloseTimeout)) {
		return retry.TransientError(retry.TypeTimeout, errNoTimeLeft)
	}
	return retry.TransientError(retry.TypeTimeout, fmt.Errorf("%w of %s", errOverran, info.StartToCloseTimeout))
}

// hasStalled is the error of an attempt that has made no progress.
func hasStalled(info activity.Info) error {
	return retry.TransientError(retry.TypeTimeout, fmt.Errorf("nothing has moved for longer than the step's heartbeat timeout of %s", info.HeartbeatTimeout))
}
