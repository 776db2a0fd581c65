package retry

import (
	"math"
	"time"
)

// Policy is how long to pause between attempts.
type Policy struct {
	// Initial is the pause before the second attempt; below 0 counts as 0.
	Initial time.Duration
	// Coefficient multiplies the pause from attempt to attempt; below 1 counts as 1.
	Coefficient float64
	// Maximum caps the pause before jitter. Zero or less: 100 times Initial, as in Temporal.
	Maximum time.Duration
	// Jitter is the fraction, from 0 to 1, by which the pause varies. What is outside counts as the
	// nearer bound.
	Jitter float64
	// Spread makes jitter go both ways: the pause times 1−Jitter to 1+Jitter. Otherwise it only
	// adds: the pause times 1 to 1+Jitter.
	Spread bool
}

// defaultMaximumFactor is Temporal's default for the cap of a retry policy, in initial intervals.
const defaultMaximumFactor = 100

// Delay returns the pause after the failed attempt n, counted from 1:
// min(initial × coefficient^(n−1), maximum), then jitter. random is drawn from [0, 1) by the caller.
// Whatever the policy, n and random are, the result is never negative and never above
// maximum × (1 + jitter).
func (p Policy) Delay(n int, random float64) time.Duration {
	initial := float64(max(p.Initial, 0))
	maximum := float64(p.Maximum)
	if p.Maximum <= 0 {
		maximum = initial * defaultMaximumFactor
	}
	delay := initial * math.Pow(atLeastOne(p.Coefficient), float64(max(n, 1)-1))
	if !(delay < maximum) { // also when the power is infinite, and when 0 times infinity is no number
		delay = min(initial, 1) * maximum
	}
	jitter := fraction(p.Jitter)
	if p.Spread {
		delay *= 1 - jitter + 2*jitter*fraction(random)
	} else {
		delay *= 1 + jitter*fraction(random)
	}
	if !(delay < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(delay)
}

func atLeastOne(x float64) float64 {
	if !(x > 1) { // also when it is no number
		return 1
	}
	return x
}

// fraction brings x into [0, 1]. What is no number becomes 0.
func fraction(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}
