package extract

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// complaintNames are the names at the top of a document under which APIs put an error, some of them with the
// status 200 and an empty list beside it: GraphQL always does. They are in lower case, and compared without regard
// to it.
var complaintNames = map[string]bool{"error": true, "errors": true}

// noComplaints are texts that APIs put there when nothing is wrong.
var noComplaints = map[string]bool{"": true, "0": true, "false": true, "no": true, "none": true, "null": true, "ok": true, "success": true}

// complains says whether what stands under such a name is an error: anything but nothing, zero, false, and
// texts that say that all is well. An object with a code is judged by the code.
func complains(value jsontext.Value) bool {
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case 'n', 'f':
		return false
	case 't':
		return true
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return err != nil || !noComplaints[strings.ToLower(strings.TrimSpace(string(text)))]
	case '{':
		return objectComplains(value)
	case '[':
		return anyComplains(value)
	default:
		number, err := strconv.ParseFloat(string(value), 64)
		return err != nil || number != 0
	}
}

func objectComplains(value jsontext.Value) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(value))
	if _, err := decoder.ReadToken(); err != nil {
		return true
	}
	members := 0
	for ; decoder.PeekKind() == '"'; members++ {
		name, err := decoder.ReadToken()
		if err != nil {
			return true
		}
		isCode := name.String() == "code"
		member, err := decoder.ReadValue()
		if err != nil {
			return true
		}
		if isCode {
			return complains(member)
		}
	}
	return members > 0
}

func anyComplains(value jsontext.Value) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(value))
	if _, err := decoder.ReadToken(); err != nil {
		return true
	}
	for kind := decoder.PeekKind(); kind != ']' && kind != 0; kind = decoder.PeekKind() {
		element, err := decoder.ReadValue()
		if err != nil || complains(element) {
			return true
		}
	}
	return false
}
