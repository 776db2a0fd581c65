// Package server runs a Temporal server, and its web UI, inside this process, on SQLite.
//
// It is for laptops and tests: one host, one history shard, no authorization, no TLS. It promises
// that what Start returns is usable at once, that state in a file survives Stop and a killed
// process, and that a port or a file that is taken is an error which names it.
package server

import (
	"fmt"
	"net"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/searchattribute/sadefs"
)

// DefaultNamespace always exists.
const DefaultNamespace = "default"

// Options says what to start. The zero value is a server in memory on free ports with its UI.
type Options struct {
	// IP is the address the frontend listens on. Empty means 127.0.0.1. The other services listen
	// on 127.0.0.1 whatever IP says: nothing but this process needs them.
	IP string
	// Port is the frontend's gRPC port. Zero means that free ports are chosen (see Ports).
	Port int
	// UIIP is the address the UI listens on. Empty means IP.
	UIIP string
	// UIPort is the UI's port. Zero means the frontend's port plus 1000.
	UIPort int
	// Headless leaves the UI out.
	Headless bool
	// UICodecEndpoint is the URL of a codec server that the UI asks to decode payloads. Empty means none.
	UICodecEndpoint string
	// HTTPPort is the port of the frontend's HTTP API. Zero means that there is none.
	HTTPPort int
	// MetricsPort serves Prometheus metrics under /metrics on IP. Zero means that there are none.
	MetricsPort int

	// DatabaseFile is the SQLite file that holds the state; it is created when missing, its folder is
	// not. Empty means memory: the state is gone when the process ends.
	DatabaseFile string
	// Pragmas are SQLite settings by name, for example "synchronous": "full". For a file the defaults
	// are journal_mode=wal and synchronous=normal: nothing is lost when the process is killed, and
	// the last moments before a power cut may be.
	Pragmas map[string]string

	// Namespaces are created when missing; "default" need not be named. Retention is 24 hours.
	Namespaces []string
	// SearchAttributes are registered in every one of Namespaces and "default".
	SearchAttributes map[string]enumspb.IndexedValueType
	// DynamicConfig overrides single limits of this package's own (see limits.go) and adds to them.
	// The keys are Temporal's, compared without regard to case.
	DynamicConfig map[string]any

	// Logger receives the server's log. Nil means no log.
	Logger log.Logger
}

// withDefaults returns the options with every default filled in but the ports, after checking them.
func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		o.Logger = log.NewNoopLogger()
	}
	var err error
	if o.IP, err = parseIP("IP", o.IP, "127.0.0.1"); err != nil {
		return o, err
	}
	if o.UIIP, err = parseIP("UI's IP", o.UIIP, o.IP); err != nil {
		return o, err
	}
	names := []string{DefaultNamespace}
	for _, name := range o.Namespaces {
		if name == "" {
			return o, fmt.Errorf("a namespace has an empty name")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	o.Namespaces = names
	for name := range o.SearchAttributes {
		if name == "" || sadefs.IsReserved(name) {
			return o, fmt.Errorf("search attribute %q: Temporal reserves this name; choose another", name)
		}
	}
	return o, nil
}

// parseIP accepts an address in numbers, and "localhost", which Temporal's own dev server takes too.
func parseIP(what, text, otherwise string) (string, error) {
	switch text {
	case "":
		return otherwise, nil
	case "localhost":
		return "127.0.0.1", nil
	}
	ip := net.ParseIP(text)
	if ip == nil {
		return "", fmt.Errorf("%s %q is not an IP address; give it in numbers, for example 127.0.0.1 or 0.0.0.0", what, text)
	}
	return ip.String(), nil
}

// dialable returns the address under which a client on this host reaches a listener on ip.
func dialable(ip string) string {
	parsed := net.ParseIP(ip)
	switch {
	case parsed == nil || !parsed.IsUnspecified():
		return ip
	case parsed.To4() != nil:
		return "127.0.0.1"
	default:
		return "::1"
	}
}
