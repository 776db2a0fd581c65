package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
)

// catchupStops bounds how long a catchup that was told to stop is waited for: a cancel arrives with the answer to a
// heartbeat, some seconds later.
const catchupStops = 15 * time.Second

// StopCatchup keeps a catchup that is at work from starting more runs, and waits a moment until it is sure not to.
// Those that are open go on. It reports whether there was one.
func (t *Temporal) StopCatchup(ctx context.Context, pipelineName string) (stopped bool, err error) {
	id := CatchupID(pipelineName)
	err = t.CancelWorkflow(ctx, id, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cancel %s: %w", id, err)
	}
	waiting, cancel := context.WithTimeout(ctx, catchupStops)
	defer cancel()
	// How it ended does not matter, and one that no worker can end starts no runs either.
	_ = t.GetWorkflow(waiting, id, "").Get(waiting, nil)
	return true, ctx.Err()
}
