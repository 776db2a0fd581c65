package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trancheflow/tranche/retry"
)

func testCircuit() *circuit {
	return newCircuit("shop", 5, 3*time.Second, &atomic.Pointer[slog.Logger]{})
}

// report sends one request through the circuit.
func report(t *testing.T, c *circuit, letter rune) {
	t.Helper()
	pass, err := c.enter(t.Context(), newTurn())
	if err != nil {
		t.Fatal(err)
	}
	pass.end(map[rune]outcome{'F': failure, 'S': success, 'C': neutral}[letter], errors.New("answered 503"))
}

func wantOpen(t *testing.T, c *circuit, after time.Duration) {
	t.Helper()
	pass, err := c.enter(t.Context(), newTurn())
	if err == nil {
		pass.end(neutral, nil)
		t.Fatal("a request was let through")
	}
	wantVerdict(t, err, retry.Throttled, TypeCircuitOpen)
	if got := retry.Classify(err).After; got != after {
		t.Errorf("to come back after %s, want %s", got, after)
	}
	until := time.Now().Add(after).UTC().Format(time.RFC3339)
	for _, part := range []string{"connection shop", until, "answered 503"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// Letters are outcomes: F an answer 503, S one 200, C one 404.
func TestCircuitOpensByFailuresInARow(t *testing.T) {
	t.Parallel()
	for sequence, want := range map[string]CircuitState{
		"FFFFSFFFF": CircuitClosed, "FFFFF": CircuitOpen, "CCCCCCCCCC": CircuitClosed, "FFFFCF": CircuitOpen, "FCFCFCFCF": CircuitOpen,
		"FFFFCS": CircuitClosed, "FFFFSCFFFF": CircuitClosed, "FFFF": CircuitClosed,
	} {
		c := testCircuit()
		for _, letter := range sequence {
			report(t, c, letter)
		}
		if got := c.state(); got != want {
			t.Errorf("%s: %s, want %s", sequence, got, want)
		}
	}
}

func TestCircuitLetsOneRequestThroughAfterCoolingDown(t *testing.T) {
	t.Parallel()
	for sequence, want := range map[string]CircuitState{"S": CircuitClosed, "F": CircuitOpen, "C": CircuitHalfOpen, "CCC": CircuitHalfOpen, "CS": CircuitClosed, "CF": CircuitOpen} {
		synctest.Test(t, func(t *testing.T) {
			c := testCircuit()
			for range 5 {
				report(t, c, 'F')
			}
			wantOpen(t, c, 3*time.Second)
			time.Sleep(2 * time.Second)
			wantOpen(t, c, time.Second)
			time.Sleep(time.Second + time.Nanosecond)
			for _, letter := range sequence {
				report(t, c, letter)
			}
			if got := c.state(); got != want {
				t.Errorf("%s: %s, want %s", sequence, got, want)
			}
			if want == CircuitOpen {
				wantOpen(t, c, 3*time.Second)
			}
		})
	}
}

// Whoever finds the one request of a half-open circuit without an answer waits for it, and not for ever.
func TestCircuitWithAHangingRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCircuit()
		for range 5 {
			report(t, c, 'F')
		}
		time.Sleep(3*time.Second + time.Nanosecond)
		probe, err := c.enter(t.Context(), newTurn())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.enter(t.Context(), newTurn())
		wantVerdict(t, err, retry.Throttled, TypeCircuitOpen)
		if took := time.Since(began); took != maximumSatOut || retry.Classify(err).After != 3*time.Second {
			t.Errorf("after %s: %+v", took, retry.Classify(err))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.enter(ctx, newTurn()); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
		probe.end(success, nil)
		if c.state() != CircuitClosed {
			t.Error(c.state())
		}
	})
}

func TestCircuitIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	s := &shop{}
	server := serve(t, s.ServeHTTP)
	set := mustParse(t, fmt.Sprintf("connections: { shop: { http: { base_url: %q, bearer: \"${TOKEN}\", circuit_breaker: { cool_down: 200ms } } }, local: { sqlite: { path: x } } }", server.URL), map[string]string{"TOKEN": token})
	var lines bytes.Buffer
	set.LogTo(slog.New(slog.NewTextHandler(&lines, nil)))
	registry := prometheus.NewRegistry()
	if err := registry.Register(set.Collector()); err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, registry, `state="closed"} 1`, `state="open"} 0`, `opened_total{connection="shop"} 0`)
	c, err := set.HTTP("shop")
	if err != nil {
		t.Fatal(err)
	}
	s.set(http.StatusServiceUnavailable, nil)
	for range 5 {
		_, _ = get(t, c, "/x")
	}
	_, err = get(t, c, "/x")
	wantMetrics(t, registry, `state="closed"} 0`, `state="open"} 1`, `opened_total{connection="shop"} 1`, `refused_total{connection="shop"} 1`)
	time.Sleep(retry.Classify(err).After)
	s.set(http.StatusOK, nil)
	if _, err := get(t, c, "/x"); err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, registry, `state="closed"} 1`, `state="half_open"} 0`)
	for _, part := range []string{"level=WARN msg=\"circuit opened", "connection=shop", "answered 503", "circuit half-open", "circuit closed"} {
		if !strings.Contains(lines.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, lines.String())
		}
	}
	if strings.Contains(lines.String(), token) {
		t.Error("the token is logged")
	}
}

func wantMetrics(t *testing.T, registry *prometheus.Registry, want ...string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, label := range metric.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			fmt.Fprintf(&text, "%s{%s} %g\n", family.GetName(), strings.Join(labels, ","), metric.GetGauge().GetValue()+metric.GetCounter().GetValue())
		}
	}
	for _, part := range want {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %s in\n%s", part, text.String())
		}
	}
}
