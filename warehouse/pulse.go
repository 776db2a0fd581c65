package warehouse

import (
	"sync"
	"time"
)

// pulseInterval is how often a load that waits for the database gives a sign of life. A statement over
// millions of rows can take longer than an attempt may be silent.
const pulseInterval = time.Second

// pulse repeats the last report of progress while it is running and not paused.
type pulse struct {
	mu     sync.Mutex // also keeps reports from overlapping
	rows   int64
	paused bool

	done  chan struct{}
	group sync.WaitGroup
}

func (p *pulse) run(progress func(rows int64)) {
	if progress == nil {
		return
	}
	p.done = make(chan struct{})
	p.group.Go(func() {
		ticker := time.NewTicker(pulseInterval)
		defer ticker.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-ticker.C:
			}
			p.repeat(progress)
		}
	})
}

func (p *pulse) repeat(progress func(rows int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		progress(p.rows)
	}
}

func (p *pulse) report(progress func(rows int64), rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = rows
	progress(rows)
}

func (p *pulse) pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
}

// stop returns when no report is under way.
func (p *pulse) stop() {
	if p.done != nil {
		close(p.done)
		p.group.Wait()
		p.done = nil
	}
}
