package schedules

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/trancheflow/tranche/launch"
)

// listing asks the server when it will fire a Schedule, after an instant and up to another one or, where it would
// not list so many, up to the last of the ticks that are expected.
//
// The start is exclusive and the end inclusive, and no more than 1,000 are listed (server v1.32.1).
func (s *Schedules) listing(ctx context.Context, name string, after time.Time, ticks []time.Time, until time.Time) ([]time.Time, error) {
	end := until
	if len(ticks) == verified {
		end = ticks[len(ticks)-1]
	}
	response, err := patiently(ctx, func(ctx context.Context) (*workflowservice.ListScheduleMatchingTimesResponse, error) {
		return s.temporal.WorkflowService().ListScheduleMatchingTimes(ctx, &workflowservice.ListScheduleMatchingTimesRequest{
			Namespace: s.temporal.Namespace, ScheduleId: launch.ScheduleID(name),
			StartTime: timestamppb.New(after), EndTime: timestamppb.New(end),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the coming ticks of the Schedule of %s: %w", name, err)
	}
	var listed []time.Time
	for _, at := range response.GetStartTime() {
		listed = append(listed, at.AsTime())
	}
	return listed, nil
}
