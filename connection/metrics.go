package connection

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	circuitStateMetric = prometheus.NewDesc("tranche_circuit_state",
		"Whether the circuit of a connection is in this state (1) or not (0), in this worker process.", []string{"connection", "state"}, nil)
	circuitOpenedMetric = prometheus.NewDesc("tranche_circuit_opened_total",
		"How often the circuit of a connection has opened in this worker process.", []string{"connection"}, nil)
	circuitRefusedMetric = prometheus.NewDesc("tranche_circuit_refused_total",
		"Requests that were not sent, and wait, because the circuit of their connection was open or half-open.", []string{"connection"}, nil)
	pauseMetric = prometheus.NewDesc("tranche_connection_pause_seconds",
		"For how long nothing is sent still, because an API asked for it or its quota is used up.", []string{"connection"}, nil)
)

// Collector returns the metrics of the connections for a Prometheus registry: the state of each circuit, how often
// it opened and refused, and how long an API is left alone.
func (s *Set) Collector() prometheus.Collector { return collector{s} }

type collector struct{ set *Set }

// Describe implements prometheus.Collector.
func (c collector) Describe(into chan<- *prometheus.Desc) {
	for _, metric := range []*prometheus.Desc{circuitStateMetric, circuitOpenedMetric, circuitRefusedMetric, pauseMetric} {
		into <- metric
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(into chan<- prometheus.Metric) {
	for _, name := range slices.Sorted(maps.Keys(c.set.http)) {
		api := c.set.http[name]
		paused, _ := api.permits.held()
		into <- prometheus.MustNewConstMetric(pauseMetric, prometheus.GaugeValue, max(paused, 0).Seconds(), name)
		if api.circuit == nil {
			continue
		}
		state := api.circuit.state()
		for _, possible := range []CircuitState{CircuitClosed, CircuitHalfOpen, CircuitOpen} {
			value := 0.0
			if possible == state {
				value = 1
			}
			into <- prometheus.MustNewConstMetric(circuitStateMetric, prometheus.GaugeValue, value, name, string(possible))
		}
		into <- prometheus.MustNewConstMetric(circuitOpenedMetric, prometheus.CounterValue, float64(api.circuit.opened.Load()), name)
		into <- prometheus.MustNewConstMetric(circuitRefusedMetric, prometheus.CounterValue, float64(api.circuit.refused.Load()), name)
	}
}

// Circuit returns the state of the connection's circuit in this process. One that is switched off is closed.
func (c *HTTP) Circuit() CircuitState {
	if c.circuit == nil {
		return CircuitClosed
	}
	return c.circuit.state()
}
