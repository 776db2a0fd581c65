package retry

import (
	"math"
	"time"
)

// Policy is how long to pause between attempts.
type Policy struct {
	// Initial is the pause before the second attempt.
	Initial time.Duration
	// Coefficient multiplies the pause from attempt to attempt; below 1 counts as 1.
	Coefficient float64
	// Maximum caps the pause before jitter. Zero: 100 times Initial, as in Temporal.
	Maximum time.Duration
	// Jitter is the fraction, from 0 to 1, by which the pause varies.
	Jitter float64
	// Spread makes jitter go both ways: the pause times 1−Jitter to 1+Jitter. Otherwise it only
	// adds: the pause times 1 to 1+Jitter.
	Spread bool
}

// defaultMaximumFactor is Temporal's default for the cap of a retry policy, in initial intervals.
const defaultMaximumFactor = 100

// Delay returns the pause after the failed attempt n, counted from 1:
// min(initial × coefficient^(n−1), maximum), then jitter. random is drawn from [0, 1) by the caller.
// The result is never negative and never above maximum × (1 + jitter), whatever n is.
func (p Policy) Delay(n int, random float64) time.Duration {
	initial := float64(max(p.Initial, 0))
	maximum := float64(p.Maximum)
	if p.Maximum <= 0 {
		maximum = initial * defaultMaximumFactor
	}
	delay := initial * math.Pow(max(p.Coefficient, 1), float64(max(n, 1)-1))
	if !(delay < maximum) { // also when the power is infinite
		delay = maximum
	}
	if p.Spread {
		delay *= 1 - p.Jitter + 2*p.Jitter*random
	} else {
		delay *= 1 + p.Jitter*random
	}
	if !(delay < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(delay)
}
