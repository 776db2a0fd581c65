package schedules

import (
	"fmt"
	"strings"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// canonical returns a spec in one form, however much of what is meant anyway was written: the server fills in
// some of it, and other clients leave out other parts.
func canonical(spec *schedulepb.ScheduleSpec) *schedulepb.ScheduleSpec {
	full := proto.CloneOf(spec)
	if full == nil {
		full = &schedulepb.ScheduleSpec{}
	}
	if full.TimezoneName == "" {
		full.TimezoneName = "UTC"
	}
	for _, c := range full.GetStructuredCalendar() {
		c.Second = ranges(c.GetSecond(), 0, 0)
		c.Minute = ranges(c.GetMinute(), 0, 0)
		c.Hour = ranges(c.GetHour(), 0, 0)
		c.DayOfMonth = ranges(c.GetDayOfMonth(), 1, 31)
		c.Month = ranges(c.GetMonth(), 1, 12)
		c.Year = ranges(c.GetYear(), -1, -1)
		c.DayOfWeek = ranges(c.GetDayOfWeek(), 0, 6)
	}
	for _, each := range full.GetInterval() {
		if each.GetPhase().AsDuration() == 0 {
			each.Phase = nil
		}
	}
	return full
}

// ranges fills in what Temporal's documentation of a range says is meant where nothing is written: the end is
// the start, and the step is 1. An empty list means first to last; -1: it stays empty.
func ranges(list []*schedulepb.Range, first, last int32) []*schedulepb.Range {
	if len(list) == 0 {
		if first < 0 {
			return nil
		}
		list = []*schedulepb.Range{{Start: first, End: last}}
	}
	for _, r := range list {
		r.End = max(r.End, r.Start)
		r.Step = max(r.Step, 1)
	}
	return list
}

func stamp(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().UTC().Format(time.RFC3339)
}

// describeTicks says in a line what a spec fires at.
func describeTicks(spec *schedulepb.ScheduleSpec) string {
	var parts []string
	for _, each := range spec.GetInterval() {
		parts = append(parts, fmt.Sprintf("every %s, phase %s", each.GetInterval().AsDuration(), each.GetPhase().AsDuration()))
	}
	if calendars := spec.GetStructuredCalendar(); len(calendars) > 0 {
		text := fmt.Sprintf("%d calendars in %s", len(calendars), spec.GetTimezoneName())
		if len(calendars) == 1 {
			text = "1 calendar in " + spec.GetTimezoneName()
		}
		if comment := calendars[0].GetComment(); comment != "" {
			text += " for " + comment
		}
		parts = append(parts, text)
	}
	if n := len(spec.GetExcludeStructuredCalendar()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d excluded", n))
	}
	return strings.Join(parts, "; ")
}
