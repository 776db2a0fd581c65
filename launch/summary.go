package launch

import (
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/step"
)

// Summary is the line that a run started by Tranche bears in lists, such as
// `orders 2026-01-15 (backfill)`: the start of the interval in the pipeline's zone, with the time
// where it is not midnight.
func Summary(pipelineName string, owned interval.Interval, location *time.Location, kind step.Kind) string {
	return fmt.Sprintf("%s %s (%s)", pipelineName, IntervalName(owned, location), kind)
}

// IntervalName names an interval for people: its start in the pipeline's zone, with the time where it is not
// midnight.
func IntervalName(owned interval.Interval, location *time.Location) string {
	start := owned.Start.In(location)
	layout := "2006-01-02 15:04"
	if start.Second() != 0 {
		layout = "2006-01-02 15:04:05"
	} else if start.Hour() == 0 && start.Minute() == 0 {
		layout = "2006-01-02"
	}
	return start.Format(layout)
}
