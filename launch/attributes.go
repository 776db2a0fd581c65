package launch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/converter"
)

// AttributeTypes returns the search attributes of Tranche with their types.
func AttributeTypes() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		AttributePipeline.GetName(): enums.INDEXED_VALUE_TYPE_KEYWORD,
		AttributeRunKind.GetName():  enums.INDEXED_VALUE_TYPE_KEYWORD,
		AttributeInterval.GetName(): enums.INDEXED_VALUE_TYPE_DATETIME,
	}
}

// AttributeNames lists them in a fixed order, for messages.
func AttributeNames() []string {
	return []string{AttributePipeline.GetName(), AttributeRunKind.GetName(), AttributeInterval.GetName()}
}

// Registered returns the custom search attributes of the namespace. On clusters whose operator
// service is closed, such as Temporal Cloud, the general listing answers instead.
func (t *Temporal) Registered(ctx context.Context) (map[string]enums.IndexedValueType, error) {
	listed, err := t.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: t.Namespace})
	if err == nil {
		return listed.GetCustomAttributes(), nil
	}
	known, fallbackErr := t.GetSearchAttributes(ctx)
	if fallbackErr != nil {
		return nil, fmt.Errorf("list the search attributes of namespace %s: %w", t.Namespace, err)
	}
	return known.GetKeys(), nil
}

// attributesAge is how long the answer is believed: a backfill starts many runs, and attributes are
// registered once in the life of a namespace.
const attributesAge = time.Minute

// Usable returns which of our attributes the namespace has with the right type, and the names of the
// others. The answer may be a minute old.
func (t *Temporal) Usable(ctx context.Context) (usable map[string]bool, missing []string, err error) {
	t.attributes.Lock()
	defer t.attributes.Unlock()
	if time.Now().Before(t.attributes.until) {
		return maps.Clone(t.attributes.known), t.attributes.missing, nil
	}
	have, err := t.Registered(ctx)
	if err != nil {
		return nil, nil, err
	}
	usable = map[string]bool{}
	for _, name := range AttributeNames() {
		if have[name] == AttributeTypes()[name] {
			usable[name] = true
		} else {
			missing = append(missing, name)
		}
	}
	t.attributes.known, t.attributes.missing, t.attributes.until = usable, missing, time.Now().Add(attributesAge)
	return maps.Clone(usable), missing, nil
}

// fields are search attributes with their values: texts and instants.
type fields map[string]any

func (f fields) with(name string, value any) fields {
	more := maps.Clone(f)
	if more == nil {
		more = fields{}
	}
	more[name] = value
	return more
}

// encoded returns the attributes as Temporal takes them, with their types beside the values.
func (f fields) encoded() *common.SearchAttributes {
	if len(f) == 0 {
		return nil
	}
	encoded := &common.SearchAttributes{IndexedFields: map[string]*common.Payload{}}
	for name, value := range f {
		payload := plain(value)
		payload.Metadata["type"] = []byte("Keyword")
		if _, is := value.(time.Time); is {
			payload.Metadata["type"] = []byte("Datetime")
		}
		encoded.IndexedFields[name] = payload
	}
	return encoded
}

// IntervalOf returns the start of the interval from the search attributes of a run; ok is false when they do
// not have it.
func IntervalOf(attributes *common.SearchAttributes) (start time.Time, ok bool) {
	payload := attributes.GetIndexedFields()[AttributeInterval.GetName()]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &start) != nil {
		return time.Time{}, false
	}
	return start.UTC(), true
}

func (t *Temporal) runAttributes(ctx context.Context, r Request) (fields, error) {
	usable, _, err := t.Usable(ctx)
	if err != nil {
		return nil, err
	}
	return fieldsOf(usable, map[string]any{
		AttributePipeline.GetName(): r.Definition.Name, AttributeRunKind.GetName(): string(r.Kind), AttributeInterval.GetName(): r.Interval.Start.UTC(),
	}), nil
}

func fieldsOf(usable map[string]bool, values map[string]any) fields {
	maps.DeleteFunc(values, func(name string, _ any) bool { return !usable[name] })
	return values
}
