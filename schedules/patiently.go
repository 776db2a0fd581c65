package schedules

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
)

// patience bounds how long a question to a busy server is asked again. A Schedule answers through a queue of
// its own that holds few questions, and not at all for some seconds after the server was restarted (server
// v1.32.1).
const patience = 20 * time.Second

// patiently asks until the server is not too busy. Only for questions: a change that may have been made must
// not be made twice.
func patiently[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		answer, err := ask(ctx)
		var busy *serviceerror.ResourceExhausted
		var unavailable *serviceerror.Unavailable
		if err == nil || !errors.As(err, &busy) && !errors.As(err, &unavailable) {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		case <-timer.C:
		}
	}
}
