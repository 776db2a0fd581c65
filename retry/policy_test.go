package retry

import (
	"math"
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	policy := Policy{Initial: 500 * time.Millisecond, Coefficient: 2, Maximum: 30 * time.Second}
	seconds := []float64{0.5, 1, 2, 4, 8, 16, 30, 30, 30}
	for i, want := range seconds {
		if got := policy.Delay(i+1, 0.7).Seconds(); got != want {
			t.Errorf("Delay(%d) = %gs, want %gs", i+1, got, want)
		}
	}
	long := Policy{Initial: 300 * time.Second, Coefficient: 2, Maximum: time.Hour}
	for _, n := range []int{1000, 1100, math.MaxInt} {
		if got := long.Delay(n, 0); got != time.Hour {
			t.Errorf("Delay(%d) = %v, want 1h", n, got)
		}
	}
	if got := (Policy{Initial: time.Second, Coefficient: 2}).Delay(50, 0); got != 100*time.Second {
		t.Errorf("without a maximum: %v, want 100s", got)
	}
	if got := (Policy{Initial: math.MaxInt64, Coefficient: 2, Maximum: math.MaxInt64, Jitter: 1}).Delay(2, 0.99); got <= 0 {
		t.Errorf("the largest policy overflows to %v", got)
	}
}

// Both kinds of jitter stay within what is documented, reach both ends of it, and differ from draw to draw.
func TestJitter(t *testing.T) {
	t.Parallel()
	const draws = 1000
	for name, test := range map[string]struct {
		spread      bool
		jitter      float64
		least, most float64
	}{
		"add":                {false, 0.25, 1, 1.25},
		"spread":             {true, 0.25, 0.75, 1.25},
		"spread over all":    {true, 1, 0, 2},
		"add, none":          {false, 0, 1, 1},
		"spread, none":       {true, 0, 1, 1},
		"add, too much":      {false, 3, 1, 2},
		"spread, too much":   {true, 3, 0, 2},
		"add, less than 0":   {false, -1, 1, 1},
		"add, no number":     {false, math.NaN(), 1, 1},
		"spread, no number":  {true, math.NaN(), 1, 1},
		"spread, infinitely": {true, math.Inf(1), 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{1, 3, 20, 1000} {
				policy := Policy{Initial: time.Second, Coefficient: 2, Maximum: 30 * time.Second, Jitter: test.jitter, Spread: test.spread}
				bare := Policy{Initial: time.Second, Coefficient: 2, Maximum: 30 * time.Second}.Delay(n, 0).Seconds()
				seen := map[time.Duration]bool{}
				least, most := math.Inf(1), 0.0
				for i := range draws {
					got := policy.Delay(n, float64(i)/draws)
					seen[got] = true
					least, most = min(least, got.Seconds()/bare), max(most, got.Seconds()/bare)
				}
				if math.Abs(least-test.least) > 0.01 || math.Abs(most-test.most) > 0.01 || most > test.most {
					t.Errorf("attempt %d: from %g to %g times the pause, want %g to %g", n, least, most, test.least, test.most)
				}
				if differ := test.least < test.most; differ && len(seen) < draws*9/10 || !differ && len(seen) != 1 {
					t.Errorf("attempt %d: %d different pauses", n, len(seen))
				}
			}
		})
	}
}

// No policy, attempt or draw makes a pause that is negative or above the documented bound.
func FuzzDelay(f *testing.F) {
	f.Add(int64(5e8), 2.0, int64(3e10), 0.25, false, 3, 0.5)
	f.Add(int64(1), 1e300, int64(math.MaxInt64), 1.0, true, 1<<40, 0.999)
	f.Add(int64(0), math.Inf(1), int64(1e9), 0.5, false, 9, 0.1)
	f.Add(int64(1e9), math.NaN(), int64(0), math.NaN(), true, -4, math.NaN())
	f.Add(int64(-5), -3.0, int64(-1), -2.0, true, 1000, 7.0)
	f.Fuzz(func(t *testing.T, initial int64, coefficient float64, maximum int64, jitter float64, spread bool, n int, random float64) {
		policy := Policy{time.Duration(initial), coefficient, time.Duration(maximum), jitter, spread}
		limit := float64(maximum)
		if maximum <= 0 {
			limit = defaultMaximumFactor * float64(max(initial, 0))
		}
		got := policy.Delay(n, random)
		if got < 0 || float64(got) > limit*(1+fraction(jitter))*(1+1e-9) {
			t.Errorf("%+v.Delay(%d, %g) = %v, outside [0, %g]", policy, n, random, got, limit*(1+fraction(jitter)))
		}
		if initial > 0 && !spread && got < min(policy.Initial, time.Duration(min(limit, math.MaxInt64))) {
			t.Errorf("%+v.Delay(%d, %g) = %v, less than the first pause", policy, n, random, got)
		}
	})
}
