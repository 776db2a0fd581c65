package systemtest

import (
	"os"
	"testing"

	"go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// payloads returns the data of every payload inside a message.
func payloads(message protoreflect.Message) [][]byte {
	if payload, ok := message.Interface().(*common.Payload); ok {
		return [][]byte{payload.GetData()}
	}
	var found [][]byte
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, each protoreflect.Value) bool {
				found = append(found, payloads(each.Message())...)
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				found = append(found, payloads(value.List().Get(i).Message())...)
			}
		case !field.IsList() && !field.IsMap() && field.Message() != nil:
			found = append(found, payloads(value.Message())...)
		}
		return true
	})
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
