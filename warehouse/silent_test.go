package warehouse_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/warehouse/pgtest"
)

// idleBefore is how long a session is trusted without a look (pgx v5.13.0: more than a second).
const idleBefore = 1100 * time.Millisecond

// TestSessionsThatDiedInSilence: the server's host is gone and another has its address, or a firewall has forgotten the
// connections. What was sent there gets no answer, and no refusal either. It must not cost an attempt.
func TestSessionsThatDiedInSilence(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Postgres(t)
	relay, via := newRelay(t, dsn)
	w := open(t, warehouse.Config{Driver: warehouse.DriverPostgres, DSN: via})
	if err := w.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	idle := time.NewTimer(idleBefore)
	defer idle.Stop()
	select {
	case <-idle.C:
	case <-t.Context().Done():
	}
	before := relay.sessions.Load()
	relay.silent.Store(before)
	begun := make(chan error, 1)
	go func() {
		_, err := w.OpenStages(t.Context())
		begun <- err
	}()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	select {
	case err := <-begun:
		if err != nil {
			t.Error(err)
		}
	case <-deadline.C:
		t.Fatal("the silent session is still waited for")
	}
	if relay.swallowed.Load() == 0 || relay.sessions.Load() == before {
		t.Errorf("%d bytes were sent into silence, and there are %d sessions after %d: the test shows nothing",
			relay.swallowed.Load(), relay.sessions.Load(), before)
	}
}

// relay stands between a warehouse and its PostgreSQL. The first sessions, as many as silent says, go on without a word
// from either side to the other.
type relay struct {
	sessions, silent, swallowed atomic.Int64
}

func newRelay(t *testing.T, dsn string) (*relay, string) {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server := &relay{}, address.Host
	address.Host = listener.Addr().String()
	var ends sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		ends.Wait()
	})
	ends.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			database, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			number := r.sessions.Add(1)
			ends.Go(func() { r.pass(number, database, client) })
			ends.Go(func() { r.pass(number, client, database) })
			ends.Go(func() {
				<-t.Context().Done() // before the cleanups
				client.Close()
				database.Close()
			})
		}
	})
	return r, address.String()
}

func (r *relay) pass(number int64, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if number <= r.silent.Load() {
			if r.swallowed.Add(int64(n)); err != nil {
				return
			}
			continue
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			if err == io.EOF {
				to.Close()
			}
			return
		}
	}
}
