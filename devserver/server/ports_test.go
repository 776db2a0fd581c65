package server

import (
	"net"
	"strconv"
	"testing"
)

// TestBlocksShareNoPort is what makes the guard enough: who holds a block's guard has all its ports.
func TestBlocksShareNoPort(t *testing.T) {
	t.Parallel()
	const firstPortForOutgoing = 32768
	owner := map[int]int{}
	for group := range blockGroups {
		for r := range blocksPerGroup {
			base := firstBlock + blockGroupSize*group + r
			p := portsFor(Options{}, base)
			for _, port := range []int{p.Frontend, p.UI, p.History, p.Matching, p.Worker, base + guardOffset} {
				if other, taken := owner[port]; taken {
					t.Fatalf("port %d belongs to the blocks at %d and %d", port, other, base)
				}
				if port >= firstPortForOutgoing {
					t.Fatalf("block at %d: port %d may be handed out to an outgoing connection", base, port)
				}
				owner[port] = base
			}
		}
	}
}

// TestChosenPortsAreHeld chooses for two servers at once: neither listens yet, still no port is given twice.
func TestChosenPortsAreHeld(t *testing.T) {
	t.Parallel()
	options, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for range 50 {
		ports, release, err := choosePorts(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		for _, l := range listenersOf(options, ports) {
			if seen[l.port] {
				t.Fatalf("port %d given twice", l.port)
			}
			seen[l.port] = true
		}
	}
}

func TestPortZeroPassesOverTakenBlocks(t *testing.T) {
	t.Parallel()
	options, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ports, release, err := choosePorts(options)
	if err != nil {
		t.Fatal(err)
	}
	release()
	// Somebody else has the history service's port of a block.
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(ports.History)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	if err := checkFree(listenersOf(options, ports)); err == nil {
		t.Errorf("history port %d is taken, the block counts as free", ports.History)
	}
	if _, release, err := choosePorts(options); err != nil {
		t.Errorf("choose with one block taken: %v", err)
	} else {
		release()
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ ip, listens, reached string }{
		{"", "127.0.0.1", "127.0.0.1"},
		{"localhost", "127.0.0.1", "127.0.0.1"},
		{"0.0.0.0", "0.0.0.0", "127.0.0.1"},
		{"::", "::", "::1"},
		{"192.0.2.7", "192.0.2.7", "192.0.2.7"},
	} {
		listens, err := parseIP("IP", test.ip, "127.0.0.1")
		if err != nil || listens != test.listens || dialable(listens) != test.reached {
			t.Errorf("%q: listens on %s, reached at %s, %v; want %s, %s", test.ip, listens, dialable(listens), err, test.listens, test.reached)
		}
	}
}
