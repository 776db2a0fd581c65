package launch

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// beatEvery is how often an activity that looks after runs says that its worker lives.
const beatEvery = 2 * time.Second

// Beat heartbeats for an activity until it is told to quit, or the activity's context ends. Outside of an activity it
// does nothing.
func Beat(ctx context.Context, quit <-chan struct{}) {
	if !activity.IsActivity(ctx) {
		return
	}
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		activity.RecordHeartbeat(ctx)
		select {
		case <-quit:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
