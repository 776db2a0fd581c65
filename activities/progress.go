package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// An attempt tells Temporal every 2 s that it is alive, and more often where the heartbeat timeout
// is short. A cancel arrives with the answer, so this is also how long a cancel may take, beside
// the SDK's own throttling.
const (
	heartbeatInterval   = 2 * time.Second
	heartbeatsInTimeout = 4
)

// Position is what a heartbeat carries, for people who look at a pending activity.
type Position struct {
	Pages int   `json:"pages,omitempty"`
	Rows  int64 `json:"rows"`
	// Note says what the attempt waits for at the moment.
	Note string `json:"note,omitempty"`
}

// progress is how far an attempt has come. Heartbeats fall silent when nothing has moved for the heartbeat timeout, and
// Temporal gives the attempt up when it has heard nothing for as long again. The attempt is ended just before that: it
// would hold its place on the worker, and its connections, until its start_to_close.
type progress struct {
	timeout time.Duration
	now     func() time.Time
	// throttle obeys the refusals that the attempt meets.
	throttle *throttle

	mutex    sync.Mutex
	position Position
	moved    time.Time
	holds    int
}

func newProgress(timeout time.Duration, now func() time.Time) *progress {
	return &progress{timeout: timeout, now: now, moved: now()}
}

// rows reports how many rows were read so far.
func (p *progress) rows(n int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.position.Rows, p.moved = n, p.now()
}

// page reports a page that is committed.
func (p *progress) page(pages int, rows int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.position.Pages, p.position.Rows, p.moved = pages, rows, p.now()
}

// hold keeps the heartbeats going, whatever moves, until the returned function is called: for a
// statement of the database, which shows nothing until it is done and which start_to_close bounds,
// and for a wait, which is no hang.
func (p *progress) hold(note string) (release func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.holds++
	p.position.Note = note
	return func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.holds--
		p.position.Note = ""
		p.moved = p.now()
	}
}

// alive returns the position, and whether a heartbeat is due.
func (p *progress) alive() (Position, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.position, p.holds > 0 || p.timeout <= 0 || p.now().Sub(p.moved) < p.timeout
}

// beat sends heartbeats until it is stopped, and calls stalled when Temporal is about to give the attempt up.
func (p *progress) beat(ctx context.Context, stalled func()) background {
	return p.beatWith(ctx, func(position Position) { activity.RecordHeartbeat(ctx, position) }, stalled)
}

func (p *progress) beatWith(ctx context.Context, record func(Position), stalled func()) background {
	return inBackground(func(quit <-chan struct{}) {
		interval := heartbeatInterval
		if p.timeout > 0 {
			interval = min(interval, p.timeout/heartbeatsInTimeout)
		}
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		last := p.now()
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				position, alive := p.alive()
				switch now := p.now(); {
				case alive:
					last = now
					record(position)
				case now.Sub(last) >= p.timeout-interval:
					stalled()
				}
			}
		}
	})
}
