package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// Location returns the pipeline's time zone, from the zone database that package interval carries.
func (p *Pipeline) Location() (*time.Location, error) {
	if p.Schedule == nil {
		return nil, errors.New("the pipeline has no schedule")
	}
	return interval.LoadLocation(p.Schedule.Timezone)
}

// Grid returns the pipeline's data intervals. The errors are those of package interval, for a
// pipeline that was not checked.
func (p *Pipeline) Grid() (*interval.Grid, error) {
	loc, err := p.Location()
	if err != nil {
		return nil, fmt.Errorf("pipeline %q: schedule.timezone: %w", p.Name, err)
	}
	spec := interval.Spec{Cron: p.Schedule.Cron, Every: p.Schedule.Every.Std(), TimeZone: p.Schedule.Timezone}
	if spec.Start, err = interval.ParseInstant(p.Schedule.StartDate, loc); err != nil {
		return nil, fmt.Errorf("pipeline %q: schedule.start_date: %w", p.Name, err)
	}
	if p.Schedule.EndDate != "" {
		if spec.End, err = interval.ParseInstant(p.Schedule.EndDate, loc); err != nil {
			return nil, fmt.Errorf("pipeline %q: schedule.end_date: %w", p.Name, err)
		}
	}
	grid, err := interval.New(spec)
	if err != nil {
		return nil, fmt.Errorf("pipeline %q: schedule: %w", p.Name, err)
	}
	return grid, nil
}
