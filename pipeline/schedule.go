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

// GridSpec returns what the pipeline's data intervals follow from. The errors are those of package
// interval, for a pipeline that was not checked.
func (p *Pipeline) GridSpec() (interval.Spec, error) {
	loc, err := p.Location()
	if err != nil {
		return interval.Spec{}, fmt.Errorf("pipeline %q: schedule.timezone: %w", p.Name, err)
	}
	spec := interval.Spec{Cron: p.Schedule.Cron, Every: p.Schedule.Every.Std(), TimeZone: p.Schedule.Timezone}
	for _, bound := range []struct {
		field, text string
		at          *time.Time
	}{
		{"start_date", p.Schedule.StartDate, &spec.Start},
		{"end_date", p.Schedule.EndDate, &spec.End},
		{"since", p.Schedule.Since, &spec.Since},
	} {
		if bound.text == "" && bound.field != "start_date" {
			continue
		}
		if *bound.at, err = interval.ParseInstant(bound.text, loc); err != nil {
			return interval.Spec{}, fmt.Errorf("pipeline %q: schedule.%s: %w", p.Name, bound.field, err)
		}
	}
	return spec, nil
}

// Grid returns the pipeline's data intervals. The errors are those of package interval, for a
// pipeline that was not checked.
func (p *Pipeline) Grid() (*interval.Grid, error) {
	spec, err := p.GridSpec()
	if err != nil {
		return nil, err
	}
	grid, err := interval.New(spec)
	if err != nil {
		return nil, fmt.Errorf("pipeline %q: schedule: %w", p.Name, err)
	}
	return grid, nil
}
