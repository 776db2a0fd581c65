package warehouse

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		var reports []int64
		progress := func(rows int64) { reports = append(reports, rows) }
		p.run(progress)
		time.Sleep(pulseInterval + time.Millisecond) // of the bubble's clock
		p.report(progress, 7)
		p.pause(true)
		time.Sleep(5 * pulseInterval)
		p.pause(false)
		time.Sleep(pulseInterval)
		p.stop()
		p.stop()
		time.Sleep(5 * pulseInterval)
		if len(reports) != 3 || reports[0] != 0 || reports[1] != 7 || reports[2] != 7 {
			t.Errorf("reports %v", reports)
		}
	})
}
