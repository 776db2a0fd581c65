package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// service answers whoever watches the process: /live as long as it runs, /ready while it polls, and
// /metrics with the SDK's and the process's own metrics.
type service struct {
	listener net.Listener
	server   *http.Server
	polling  atomic.Bool
	provider *metric.MeterProvider
}

const (
	serviceTimeout  = 10 * time.Second
	serviceStopTime = 2 * time.Second
)

// startService listens on the address; an empty one means that nobody watches.
func startService(address string, more ...prometheus.Collector) (*service, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(more...)
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	s := &service{provider: metric.NewMeterProvider(metric.WithReader(exporter))}
	if address == "" {
		return s, nil
	}
	if s.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("serve readiness and metrics: %w; give another address with --listen, or an empty one", err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "live") })
	routes.HandleFunc("GET /ready", s.answerReady)
	routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.server = &http.Server{Handler: routes, ReadHeaderTimeout: serviceTimeout, WriteTimeout: serviceTimeout}
	go func() {
		if err := s.server.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.polling.Store(false)
		}
	}()
	return s, nil
}

func (s *service) answerReady(w http.ResponseWriter, _ *http.Request) {
	if !s.polling.Load() {
		http.Error(w, "not polling", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func (s *service) ready(is bool) { s.polling.Store(is) }

// address returns where the service listens; empty when it does not.
func (s *service) address() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

func (s *service) metricsHandler() client.MetricsHandler {
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:                s.provider.Meter("temporal-sdk-go"),
		UseMonotonicCounters: true,
		OnError:              func(error) {}, // a metric that cannot be kept must not end a run
	})
}

func (s *service) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), serviceStopTime)
	defer cancel()
	if s.server != nil {
		_ = s.server.Shutdown(ctx)
	}
	_ = s.provider.Shutdown(ctx)
}
