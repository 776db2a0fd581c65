package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

type sqlError string

func (e sqlError) Error() string    { return "database says " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

func TestClassify(t *testing.T) {
	t.Parallel()
	throttled := ThrottledError("RateLimited", 3*time.Second, errors.New("429"))
	for name, test := range map[string]struct {
		err  error
		want Verdict
	}{
		"nothing":                   {nil, Verdict{}},
		"unknown":                   {errors.New("odd"), Verdict{Permanent, TypeUnclassified, 0}},
		"marked permanent":          {fmt.Errorf("load: %w", Permanentf("CheckFailed", "no rows")), Verdict{Permanent, "CheckFailed", 0}},
		"marked transient":          {TransientError("StagingLost", io.EOF), Verdict{Transient, "StagingLost", 0}},
		"marked wins over cause":    {PermanentError("BadValue", context.DeadlineExceeded), Verdict{Permanent, "BadValue", 0}},
		"throttled":                 {fmt.Errorf("get: %w", throttled), Verdict{Throttled, "RateLimited", 3 * time.Second}},
		"canceled":                  {fmt.Errorf("x: %w", context.Canceled), Verdict{Canceled, TypeCanceled, 0}},
		"deadline":                  {context.DeadlineExceeded, Verdict{Transient, TypeTimeout, 0}},
		"file deadline":             {os.ErrDeadlineExceeded, Verdict{Transient, TypeTimeout, 0}},
		"reset":                     {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, Verdict{Transient, TypeNetwork, 0}},
		"refused":                   {syscall.ECONNREFUSED, Verdict{Transient, TypeNetwork, 0}},
		"short body":                {fmt.Errorf("page 3: %w", io.ErrUnexpectedEOF), Verdict{Transient, TypeNetwork, 0}},
		"no such host":              {&net.DNSError{IsNotFound: true}, Verdict{Permanent, TypeNetwork, 0}},
		"name server away":          {&net.DNSError{IsTemporary: true}, Verdict{Transient, TypeNetwork, 0}},
		"serialization":             {sqlError("40001"), Verdict{Transient, TypeDatabase, 0}},
		"deadlock":                  {sqlError("40P01"), Verdict{Transient, TypeDatabase, 0}},
		"connection class":          {sqlError("08006"), Verdict{Transient, TypeDatabase, 0}},
		"shutdown":                  {sqlError("57P01"), Verdict{Transient, TypeDatabase, 0}},
		"not null":                  {sqlError("23502"), Verdict{Permanent, TypeDatabase, 0}},
		"undefined column":          {sqlError("42703"), Verdict{Permanent, TypeDatabase, 0}},
		"not an SQLSTATE":           {sqlError("8"), Verdict{Permanent, TypeDatabase, 0}},
		"end of file is not broken": {io.EOF, Verdict{Permanent, TypeUnclassified, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(test.err); got != test.want {
				t.Errorf("Classify(%v) = %+v, want %+v", test.err, got, test.want)
			}
		})
	}
}

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

func FuzzDelay(f *testing.F) {
	f.Add(int64(5e8), 2.0, int64(3e10), 0.25, false, 3, 0.5)
	f.Add(int64(1), 1e300, int64(math.MaxInt64), 1.0, true, 1<<40, 0.999)
	f.Fuzz(func(t *testing.T, initial int64, coefficient float64, maximum int64, jitter float64, spread bool, n int, random float64) {
		if !(jitter >= 0 && jitter <= 1 && random >= 0 && random < 1) || math.IsNaN(coefficient) || maximum <= 0 || initial < 0 {
			t.Skip("outside the documented domain")
		}
		policy := Policy{time.Duration(initial), coefficient, time.Duration(maximum), jitter, spread}
		got := policy.Delay(n, random)
		if limit := float64(maximum) * (1 + jitter); got < 0 || float64(got) > limit*(1+1e-9) {
			t.Errorf("%+v.Delay(%d, %g) = %v, outside [0, %g]", policy, n, random, got, limit)
		}
	})
}
