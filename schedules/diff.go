package schedules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/api/common/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
)

// Difference is one thing that an apply changes.
type Difference struct {
	// Path says where: in the definition as in the pipeline file, such as schedule.cron or
	// steps[load].load.table; anything else of the Schedule under its own name.
	Path string `json:"path"`
	// Was and Becomes are the values, as JSON; empty: not there.
	Was     string `json:"was,omitempty"`
	Becomes string `json:"becomes,omitempty"`
}

// differences lists in what a pipeline's Schedule is not as it should be.
func differences(current *Schedule, want *desired) ([]Difference, error) {
	definition, err := diffDefinitions(current.Definition(), want.definition)
	if err != nil {
		return nil, err
	}
	d := diffing{found: definition}
	d.triggers(current.Current, want.schedule)
	action, target := current.Current.GetAction().GetStartWorkflow(), want.schedule.GetAction().GetStartWorkflow()
	d.action(action, target)
	memoWas, memoBecomes := texts(action.GetMemo().GetFields()), texts(target.GetMemo().GetFields())
	for _, key := range slices.Sorted(maps.Keys(union(memoWas, memoBecomes))) {
		if len(definition) == 0 || key == memoCompiled {
			d.add("action memo "+key, memoWas[key], memoBecomes[key])
		}
	}
	if current.Input != nil && current.Unreadable == nil {
		d.add("action input version", current.Input.Version, launch.Version)
		d.add("action input mark_interval", current.Input.MarkInterval, want.marked)
	}
	return d.found, nil
}

// diffing collects differences.
type diffing struct{ found []Difference }

func (d *diffing) add(path string, was, becomes any) {
	if w, b := oneLine(was), oneLine(becomes); w != b {
		d.found = append(d.found, Difference{path, w, b})
	}
}

// triggers compares when two Schedules start something.
func (d *diffing) triggers(is, wanted *schedulepb.Schedule) {
	was, becomes := canonical(is.GetSpec()), canonical(wanted.GetSpec())
	d.add("start time", stamp(was.GetStartTime()), stamp(becomes.GetStartTime()))
	d.add("end time", stamp(was.GetEndTime()), stamp(becomes.GetEndTime()))
	d.add("spec jitter", was.GetJitter().AsDuration().String(), becomes.GetJitter().AsDuration().String())
	if !sameTicks(was, becomes) {
		d.found = append(d.found, Difference{"ticks", describeTicks(was), describeTicks(becomes)})
	}
	d.add("policy catchup window", is.GetPolicies().GetCatchupWindow().AsDuration().String(), wanted.GetPolicies().GetCatchupWindow().AsDuration().String())
	d.add("policy overlap", is.GetPolicies().GetOverlapPolicy().String(), wanted.GetPolicies().GetOverlapPolicy().String())
	d.add("policy pause on failure", is.GetPolicies().GetPauseOnFailure(), wanted.GetPolicies().GetPauseOnFailure())
	d.add("remaining actions", limit(is.GetState()), limit(wanted.GetState()))
}

// action compares what two Schedules start, but for the input and the memo.
func (d *diffing) action(is, wanted *workflow.NewWorkflowExecutionInfo) {
	d.add("action workflow id", is.GetWorkflowId(), wanted.GetWorkflowId())
	d.add("action workflow type", is.GetWorkflowType().GetName(), wanted.GetWorkflowType().GetName())
	d.add("action task queue", is.GetTaskQueue().GetName(), wanted.GetTaskQueue().GetName())
	d.add("action priority", is.GetPriority().GetPriorityKey(), wanted.GetPriority().GetPriorityKey())
	d.add("action search attributes", texts(is.GetSearchAttributes().GetIndexedFields()), texts(wanted.GetSearchAttributes().GetIndexedFields()))
}

// longestValue bounds a value in a difference: a reviewer wants to see that it changed, and the file has
// the rest.
const longestValue = 160

// oneLine writes a value for a difference.
func oneLine(value any) string {
	text, is := value.(string)
	if !is {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		text = string(encoded)
	}
	text = strings.ReplaceAll(text, "\n", "\\n")
	if runes := []rune(text); len(runes) > longestValue {
		text = fmt.Sprintf("%s… (%d characters)", string(runes[:longestValue]), len(runes))
	}
	return text
}

// diffDefinitions compares two effective definitions, key by key.
func diffDefinitions(was, becomes *pipeline.Pipeline) ([]Difference, error) {
	before, err := generic(was)
	if err != nil {
		return nil, err
	}
	after, err := generic(becomes)
	if err != nil {
		return nil, err
	}
	var found []Difference
	walk("", before, after, &found)
	// The digest follows from the rest, and says nothing to a reader unless it is all that changed.
	if rest := slices.DeleteFunc(slices.Clone(found), func(d Difference) bool { return d.Path == "digest" }); len(rest) > 0 {
		found = rest
	}
	return found, nil
}

func generic(definition *pipeline.Pipeline) (any, error) {
	if definition == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(definition)
	if err != nil {
		return nil, fmt.Errorf("compare the definition of %s: %w", definition.Name, err)
	}
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}

// walk compares two JSON values and collects where they differ.
func walk(path string, was, becomes any, found *[]Difference) {
	before, isMap := was.(map[string]any)
	after, areMaps := becomes.(map[string]any)
	if isMap && areMaps {
		for _, key := range slices.Sorted(maps.Keys(union(before, after))) {
			walk(strings.TrimPrefix(path+"."+key, "."), before[key], after[key], found)
		}
		return
	}
	listWas, isList := named(was)
	listBecomes, areLists := named(becomes)
	if isList && areLists {
		for _, name := range slices.Sorted(maps.Keys(union(listWas, listBecomes))) {
			walk(path+"["+name+"]", listWas[name], listBecomes[name], found)
		}
		return
	}
	w, b := value(was), value(becomes)
	if w == b {
		return
	}
	*found = append(*found, Difference{path, oneLine(w), oneLine(b)})
}

// value writes a JSON value; nothing for one that is not there.
func value(v any) string {
	if v == nil {
		return ""
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(encoded)
}

// named turns a list of objects with names, such as steps and columns, into a map; ok is false for any
// other value. So a step that moves in the file is no difference.
func named(v any) (byName map[string]any, ok bool) {
	list, is := v.([]any)
	if !is || len(list) == 0 {
		return nil, false
	}
	byName = map[string]any{}
	for _, each := range list {
		object, is := each.(map[string]any)
		name, has := object["name"].(string)
		if !is || !has {
			return nil, false
		}
		byName[name] = each
	}
	return byName, len(byName) == len(list)
}

func union[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]V{}
	}
	maps.Copy(both, b)
	return both
}

// texts decodes payloads that hold texts, as memos and search attributes of Tranche do.
func texts(payloads map[string]*common.Payload) map[string]string {
	decoded := map[string]string{}
	for key, payload := range payloads {
		var text string
		if converter.GetDefaultDataConverter().FromPayload(payload, &text) != nil {
			text = string(payload.GetData())
		}
		decoded[key] = text
	}
	return decoded
}

func limit(state *schedulepb.ScheduleState) string {
	if !state.GetLimitedActions() {
		return ""
	}
	return fmt.Sprint(state.GetRemainingActions())
}

func sameTicks(a, b *schedulepb.ScheduleSpec) bool {
	return a.GetTimezoneName() == b.GetTimezoneName() &&
		slices.EqualFunc(a.GetStructuredCalendar(), b.GetStructuredCalendar(), func(a, b *schedulepb.StructuredCalendarSpec) bool { return proto.Equal(a, b) }) &&
		slices.EqualFunc(a.GetInterval(), b.GetInterval(), func(a, b *schedulepb.IntervalSpec) bool { return proto.Equal(a, b) }) &&
		len(a.GetExcludeStructuredCalendar()) == len(b.GetExcludeStructuredCalendar())
}
