package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
)

// backfillFiles reads the pipelines of the arguments that are files or folders, and returns the others, which are
// names.
func backfillFiles(args []string) (definitions []*pipeline.Pipeline, names []string, err error) {
	var paths []string
	seen := map[string]bool{}
	for _, arg := range args {
		switch {
		case named(arg):
			if !seen[arg] {
				names = append(names, arg)
			}
			seen[arg] = true
		default:
			paths = append(paths, arg)
		}
	}
	all, problems, err := parseAll(paths)
	if err != nil {
		return nil, nil, err
	}
	if len(problems) > 0 {
		return nil, nil, problems
	}
	for _, each := range all {
		if seen[each.pipeline.Name] {
			return nil, nil, usagef("%s is named, and is the pipeline of %s: give one of them", each.pipeline.Name, each.file)
		}
		definition := each.pipeline.Effective()
		if definition.Schedule == nil {
			return nil, nil, usagef("%s has no schedule, and so no intervals to go through", definition.Name)
		}
		definitions = append(definitions, definition)
	}
	return definitions, names, nil
}

// named reports whether an argument is the name of a pipeline, since there is no such file.
func named(arg string) bool {
	_, err := os.Stat(arg)
	return errors.Is(err, fs.ErrNotExist) && isName(arg)
}

// isName tells the name of a pipeline from a file that is not there.
func isName(arg string) bool {
	return arg != "" && strings.Trim(arg, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// scheduled returns the Schedule of a pipeline whose definition can be read.
func (o *online) scheduled(ctx context.Context, name string) (*schedules.Schedule, error) {
	found, err := schedules.New(o.Temporal).Get(ctx, launch.ScheduleID(name))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, usagef("%s is no file, and no pipeline of this name has a Schedule in namespace %s: give its file, or `starter schedules apply` it", name, o.Namespace)
	}
	if err := o.pipelines(found, name); err != nil {
		return nil, err
	}
	if found.Definition() == nil {
		return nil, fmt.Errorf("the Schedule of %s cannot be read: %w; use a newer starter", name, found.Unreadable)
	}
	return found, nil
}

// rangeOf reads --from and --to in the pipeline's zone.
func rangeOf(definition *pipeline.Pipeline, from, to string) (step.Range, error) {
	location, err := definition.Location()
	if err != nil {
		return step.Range{}, err
	}
	var within step.Range
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"from", from, &within.From}, {"to", to, &within.To}} {
		if *bound.at, err = interval.ParseInstant(bound.text, location); err != nil {
			return step.Range{}, usagef("--%s: %w", bound.flag, err)
		}
	}
	switch {
	case within.From.Equal(within.To):
		return within, usagef("--from and --to are both %s: the range is half-open, and there is no interval in it; give the end of the last interval as --to", within.From.Format(time.RFC3339))
	case within.From.After(within.To):
		return within, usagef("--from %s is after --to %s: exchange them", within.From.Format(time.RFC3339), within.To.Format(time.RFC3339))
	}
	return within, nil
}
