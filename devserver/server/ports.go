package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Distances of the other ports from the frontend's. They are fixed, so that a restart finds every
// service where it was: with gossip and changing ports a restarted Temporal looks for its dead
// predecessors for up to 50 s.
const (
	uiOffset       = 1000 // as in `temporal server start-dev`
	historyOffset  = 2000
	matchingOffset = 3000
	workerOffset   = 4000
	guardOffset    = 5000
)

// Free ports are chosen in blocks: the frontend's port is firstBlock + 6000·g + r with r below
// 1000, so no two blocks share a port, and all of them stay below 32768, where Linux begins to hand
// out ports for outgoing connections (net.ipv4.ip_local_port_range).
const (
	firstBlock     = 10000
	blockGroups    = 3
	blockGroupSize = 6000
	blocksPerGroup = 1000
	blockAttempts  = 200
)

const loopback = "127.0.0.1"

// Ports are the TCP ports of one server.
type Ports struct {
	Frontend int
	// UI, HTTP and Metrics are 0 when that part is not served.
	UI, HTTP, Metrics int
	// History, Matching and Worker are the inner services' gRPC ports, on 127.0.0.1 only.
	History, Matching, Worker int
}

// listener is one port of a server with the name people know it by and the flag that moves it.
type listener struct {
	name, flag string
	ip         string
	port       int
}

// choosePorts returns the ports of a server with options o, all of which were free a moment ago.
// release gives back the guard that keeps other devservers from choosing the same block; call it
// when the server listens.
func choosePorts(o Options) (ports Ports, release func(), err error) {
	if o.Port != 0 {
		ports = portsFor(o, o.Port)
		return ports, func() {}, checkFree(listenersOf(o, ports))
	}
	for range blockAttempts {
		base := firstBlock + blockGroupSize*rand.IntN(blockGroups) + rand.IntN(blocksPerGroup)
		guard, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(base+guardOffset)))
		if err != nil {
			continue
		}
		ports = portsFor(o, base)
		err = checkFree(listenersOf(o, ports))
		if err == nil {
			return ports, func() { _ = guard.Close() }, nil
		}
		_ = guard.Close()
		var taken *portError
		if !errors.As(err, &taken) || taken.chosen {
			return Ports{}, nil, err
		}
	}
	return Ports{}, nil, fmt.Errorf("no free block of ports between %d and 27999 after %d attempts; name one with --port", firstBlock, blockAttempts)
}

func portsFor(o Options, frontend int) Ports {
	ports := Ports{
		Frontend: frontend,
		HTTP:     o.HTTPPort,
		Metrics:  o.MetricsPort,
		History:  frontend + historyOffset,
		Matching: frontend + matchingOffset,
		Worker:   frontend + workerOffset,
	}
	if !o.Headless {
		ports.UI = o.UIPort
		if ports.UI == 0 {
			ports.UI = frontend + uiOffset
		}
	}
	return ports
}

func listenersOf(o Options, p Ports) []listener {
	all := []listener{
		{"frontend", "--port", o.IP, p.Frontend},
		{"history", "", loopback, p.History},
		{"matching", "", loopback, p.Matching},
		{"worker", "", loopback, p.Worker},
	}
	if p.UI != 0 {
		flag := "--ui-port"
		if o.UIPort == 0 {
			flag = ""
		}
		all = append(all, listener{"UI", flag, o.UIIP, p.UI})
	}
	if p.HTTP != 0 {
		all = append(all, listener{"HTTP API", "--http-port", o.IP, p.HTTP})
	}
	if p.Metrics != 0 {
		all = append(all, listener{"metrics", "--metrics-port", o.IP, p.Metrics})
	}
	return all
}

// portError is a port that cannot be listened on.
type portError struct {
	listener
	chosen bool // by name, not derived from the frontend's port
	err    error
}

func (e *portError) Error() string {
	where := fmt.Sprintf("port %d (%s, on %s)", e.port, e.name, e.ip)
	if errors.Is(e.err, syscall.EADDRINUSE) {
		advice := "end the program that has it, or choose another with " + e.flag
		if e.flag == "" {
			advice = "it follows from --port, so choose another --port"
			if e.name == "UI" {
				advice = "it is --port plus 1000; choose another with --ui-port, or leave the UI out with --headless"
			}
		}
		return where + " is in use: " + advice
	}
	return fmt.Sprintf("%s cannot be used: %v", where, e.err)
}

func (e *portError) Unwrap() error { return e.err }

// checkFree listens on all addresses at once, so that two of the same number are noticed too, and
// lets go of them again. Temporal and its UI listen by themselves and end the process when they
// cannot; this check is what gives a clear error instead.
func checkFree(all []listener) error {
	for _, l := range all {
		if l.port < 1 || l.port > 65535 {
			return &portError{listener: l, chosen: true, err: errors.New("outside 1 to 65535; the highest --port is 61535")}
		}
		held, err := net.Listen("tcp", net.JoinHostPort(l.ip, strconv.Itoa(l.port)))
		if err != nil {
			return &portError{listener: l, chosen: l.flag != "" && l.flag != "--port", err: err}
		}
		defer func() { _ = held.Close() }()
	}
	return nil
}
