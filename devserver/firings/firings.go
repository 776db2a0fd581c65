// Package firings computes when Temporal fires a schedule, with the code of Temporal's own scheduler
// (service/worker/scheduler of the server that this module names). It is an oracle: it has no opinion
// on what would be right, and repeats Temporal's mistakes around clock changes faithfully.
package firings

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/service/worker/scheduler"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxLine bounds one line of input. A spec of 1,000 calendars takes some 200 KiB.
const maxLine = 16 << 20

// Query is one line of input.
type Query struct {
	// Name is copied to the answer.
	Name string `json:"name"`
	// Cron are cron strings in Temporal's dialect.
	Cron []string `json:"cron"`
	// Calendars are StructuredCalendarSpec and Intervals are IntervalSpec messages, in proto JSON.
	Calendars []json.RawMessage `json:"calendars"`
	Intervals []json.RawMessage `json:"intervals"`
	// Spec is a ScheduleSpec message in proto JSON; the other fields are added to it.
	Spec json.RawMessage `json:"spec"`
	// Timezone is an IANA name. Empty means that of Spec, or UTC.
	Timezone string `json:"timezone"`
	// From is the instant after which firings are listed; a firing at From is not.
	From time.Time `json:"from"`
	// To is the last instant at which a firing is listed. Nil means no end, and Limit must be set.
	To *time.Time `json:"to"`
	// Limit is the greatest number of firings listed. Zero means no limit, and To must be set.
	Limit int `json:"limit"`
}

// Answer is one line of output: Times or Error.
type Answer struct {
	Name string `json:"name"`
	// Times are the nominal times, without jitter, in UTC. An empty list says that the schedule does
	// not fire within the bounds; nil says that there is an Error.
	Times []time.Time `json:"times,omitzero"`
	// Error is the reason for which Temporal refuses the spec.
	Error string `json:"error,omitempty"`
}

// Print answers the queries of in, one JSON object a line, on out. A line that is not a query is an
// error with its number, and ends the work; answers before it have been written. Empty lines are
// passed over.
func Print(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	w := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, w.Flush()) }()
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	builder := newBuilder()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		query, err := Parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		answer, err := answerTo(ctx, builder, query)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	return nil
}

// Parse reads one query and refuses unknown fields and bounds that would never end.
func Parse(line []byte) (Query, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var q Query
	if err := decoder.Decode(&q); err != nil {
		return Query{}, fmt.Errorf("not a query: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Query{}, errors.New("not a query: more text after the object")
	}
	switch {
	case q.From.IsZero():
		return Query{}, fmt.Errorf("query %q: from is missing", q.Name)
	case q.Limit < 0:
		return Query{}, fmt.Errorf("query %q: limit %d is negative", q.Name, q.Limit)
	case q.To == nil && q.Limit == 0:
		return Query{}, fmt.Errorf("query %q: give to, or limit, or both", q.Name)
	}
	return q, nil
}

func newBuilder() *scheduler.SpecBuilder {
	// Zero leaves both bounds as Temporal has them by default: a warning nobody sees here, no limit.
	unbounded := func() int { return 0 }
	return scheduler.NewSpecBuilder(unbounded, unbounded)
}

// answerTo computes one answer. A refusal by Temporal is an answer; an error is a spec that is not a
// message of Temporal's at all, or ctx ending.
func answerTo(ctx context.Context, builder *scheduler.SpecBuilder, q Query) (Answer, error) {
	spec, err := specOf(q)
	if err != nil {
		return Answer{}, fmt.Errorf("query %q: %w", q.Name, err)
	}
	compiled, err := builder.NewCompiledSpec(spec)
	if err != nil {
		return Answer{Name: q.Name, Error: err.Error()}, nil
	}
	answer := Answer{Name: q.Name, Times: []time.Time{}}
	for at := q.From; q.Limit == 0 || len(answer.Times) < q.Limit; {
		if len(answer.Times)%1024 == 0 && ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
		next, err := compiled.GetNextTime("", at)
		if err != nil {
			return Answer{Name: q.Name, Error: err.Error()}, nil
		}
		if next.Nominal.IsZero() || q.To != nil && next.Nominal.After(*q.To) {
			break
		}
		answer.Times = append(answer.Times, next.Nominal)
		at = next.Nominal
	}
	return answer, nil
}

func specOf(q Query) (*schedulepb.ScheduleSpec, error) {
	spec := &schedulepb.ScheduleSpec{}
	if len(q.Spec) > 0 {
		if err := unmarshal("spec", q.Spec, spec); err != nil {
			return nil, err
		}
	}
	spec.CronString = append(spec.CronString, q.Cron...)
	for _, raw := range q.Calendars {
		calendar := &schedulepb.StructuredCalendarSpec{}
		if err := unmarshal("calendars", raw, calendar); err != nil {
			return nil, err
		}
		spec.StructuredCalendar = append(spec.StructuredCalendar, calendar)
	}
	for _, raw := range q.Intervals {
		interval := &schedulepb.IntervalSpec{}
		if err := unmarshal("intervals", raw, interval); err != nil {
			return nil, err
		}
		spec.Interval = append(spec.Interval, interval)
	}
	if q.Timezone != "" {
		if spec.GetTimezoneName() != "" && spec.GetTimezoneName() != q.Timezone {
			return nil, fmt.Errorf("timezone %q contradicts the spec's %q", q.Timezone, spec.GetTimezoneName())
		}
		spec.TimezoneName = q.Timezone
	}
	return spec, nil
}

func unmarshal(field string, raw json.RawMessage, into proto.Message) error {
	if err := protojson.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}
