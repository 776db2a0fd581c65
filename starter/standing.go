package main

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/schedules"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/workflows"
)

// subject is a pipeline whose intervals a command is about.
type subject struct {
	*online
	// definition is that of the file or, where the pipeline's name was given, of the Schedule.
	definition *pipeline.Pipeline
	// applied is the definition of the Schedule, found the Schedule itself; nil: there is none.
	applied  *pipeline.Pipeline
	found    *schedules.Schedule
	location *time.Location
}

// subjectOf connects and looks up the pipeline that the one argument names, or that the file holds.
func (p *program) subjectOf(c *cli.Context) (*subject, error) {
	argument, err := oneArgument(c, "PIPELINE or FILE")
	if err != nil {
		return nil, err
	}
	s, name := &subject{}, argument
	if !named(argument) {
		parsed, err := parseFile(filepath.Clean(argument))
		if err != nil {
			return nil, err
		}
		s.definition, name = parsed.Effective(), parsed.Name
	}
	if s.online, err = p.connect(c); err != nil {
		return nil, err
	}
	if err := s.look(c.Context, p, name); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// look finds the Schedule. A file can do without.
func (s *subject) look(ctx context.Context, p *program, name string) error {
	found, err := schedules.New(s.Temporal).Get(ctx, launch.ScheduleID(name))
	if err != nil {
		return err
	}
	switch {
	case found == nil && s.definition != nil:
		fmt.Fprintf(p.talk, "%s has no Schedule: its intervals are those of the file, and all that are over are expected\n", name)
	case found == nil:
		return fmt.Errorf("pipeline %s has no Schedule in namespace %s: give its file instead, or `starter schedules apply` it; `starter schedules list` shows which there are", name, s.Namespace)
	default:
		if err := s.pipelines(found, name); err != nil {
			return err
		}
		if found.Definition() == nil {
			return fmt.Errorf("the Schedule of %s cannot be read: %w; use a newer starter", found.Pipeline, found.Unreadable)
		}
		s.found, s.applied = found, found.Definition()
	}
	if s.definition == nil {
		s.definition = s.applied
	}
	if s.applied != nil && s.applied.Digest != s.definition.Digest {
		fmt.Fprintf(p.talk, "the file of %s is not what was applied: loads are compared with the file, intervals are those of the Schedule\n", name)
	}
	s.location, err = s.schedule().Location()
	return err
}

// schedule is the definition that says which intervals there are, and where the ledger is.
func (s *subject) schedule() *pipeline.Pipeline {
	if s.applied != nil {
		return s.applied
	}
	return s.definition
}

// request asks for the intervals from the beginning.
func (s *subject) request() step.StandingRequest {
	of := s.schedule()
	request := step.StandingRequest{Pipeline: of.Name, Warehouse: of.Warehouse, Schedule: *of.Schedule, Digest: s.definition.Digest}
	if s.found != nil {
		request.Created, request.Updated = s.found.Written()
	}
	return request
}

// page has a worker answer one page.
func (s *subject) page(ctx context.Context, request step.StandingRequest) (step.StandingAnswer, error) {
	var answer step.StandingAnswer
	queue := s.schedule().TaskQueue
	handle, err := s.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: launch.LedgerID(request.Pipeline) + "/" + uuid.NewString(), TaskQueue: queue, WorkflowExecutionTimeout: answerWithin,
		Priority:      temporal.Priority{PriorityKey: launch.PriorityGate}, // somebody waits at a terminal
		StaticSummary: "intervals of " + request.Pipeline,
	}, workflows.StandingType, request)
	if err == nil {
		err = s.answer(ctx, queue, handle, &answer)
	}
	if err != nil {
		return answer, fmt.Errorf("look at the intervals of %s: %w", request.Pipeline, err)
	}
	return answer, nil
}

// pages asks for one page after another; an error ends them.
func (s *subject) pages(ctx context.Context, request step.StandingRequest) iter.Seq2[step.StandingAnswer, error] {
	return func(yield func(step.StandingAnswer, error) bool) {
		for {
			answer, err := s.page(ctx, request)
			if !yield(answer, err) || err != nil || answer.Next.IsZero() {
				return
			}
			request.From, request.Newest = answer.Next, 0
		}
	}
}

// name is how people call an interval that starts at an instant.
func (s *subject) name(start time.Time) string {
	return launch.IntervalName(interval.Interval{Start: start}, s.location)
}

// within reads --from and --to into a request.
func (s *subject) within(c *cli.Context, request *step.StandingRequest) error {
	for _, bound := range []struct {
		flag string
		at   *time.Time
	}{{"from", &request.From}, {"to", &request.To}} {
		if !c.IsSet(bound.flag) {
			continue
		}
		at, err := interval.ParseInstant(c.String(bound.flag), s.location)
		if err != nil {
			return usagef("--%s: %w", bound.flag, err)
		}
		*bound.at = at
	}
	if c.IsSet("from") && c.IsSet("to") && !request.From.Before(request.To) {
		return usagef("--from %s is not before --to %s: the range is half-open and would hold no interval",
			request.From.Format(time.RFC3339), request.To.Format(time.RFC3339))
	}
	return nil
}

func rangeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "only intervals that start at or after this `TIME`, a date or time in the pipeline's zone, or an instant with an offset"},
		&cli.StringFlag{Name: "to", Usage: "only intervals that start before this `TIME`"},
		&cli.BoolFlag{Name: "all", Usage: "expect every interval since start_date, whatever the pipeline's catchup says"},
	}
}

// tally counts intervals by how they stand.
type tally struct {
	states   map[step.State]int64
	outdated int64
	total    int64
}

func newTally() *tally { return &tally{states: map[step.State]int64{}} }

func (t *tally) add(mark step.Mark, count int64) {
	t.states[mark.State] += count
	t.total += count
	if mark.Outdated {
		t.outdated += count
	}
}

// gaps counts those that are neither loaded nor accepted, and that nothing is under way for.
func (t *tally) gaps() int64 {
	var count int64
	for state, n := range t.states {
		if state.IsGap() {
			count += n
		}
	}
	return count
}

// expected counts those that somebody expects.
func (t *tally) expected() int64 { return t.total - t.states[step.StateUnexpected] }
