package extract

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/connection"
)

// complaintNames are the names at the top of a document under which APIs say that it is no answer, some of them with
// the status 200 and an empty list beside it: GraphQL always does. Each has the test of its value. They are in lower
// case, and compared without regard to it. A message or a code alone is none: many APIs send one always.
var complaintNames = map[string]func(jsontext.Value) bool{
	"error": complains, "errors": complains, "fault": complains,
	"ok": denies, "success": denies,
	"status": isStatusOfFailure,
}

// complaint is what an answer says of an error.
type complaint struct {
	name  string // as it stands in the answer; "" for none
	value jsontext.Value
}

// asComplaint judges what stands under a name at the top of a document.
func asComplaint(name string, value jsontext.Value) complaint {
	if test := complaintNames[strings.ToLower(name)]; test == nil || !test(value) {
		return complaint{}
	}
	return complaint{name, value.Clone()}
}

// names says whether it names the error, and does not only say that there is one.
func (c complaint) names() bool {
	switch strings.ToLower(c.name) {
	case "error", "errors", "fault":
		return true
	}
	return false
}

// said repeats what the answer says, in the words of the answer.
func (c complaint) said(mask func(string) string) string {
	if !c.names() {
		return fmt.Sprintf("says that it is none: %s is %s", connection.Snippet(c.name), connection.Snippet(string(c.value)))
	}
	return "names an error: " + quote(mask(string(c.value)))
}

// denies says whether a value is false, also as a text. A number there may be a count.
func denies(value jsontext.Value) bool {
	return value.Kind() == 'f' || isText(value, "false", "no")
}

func isStatusOfFailure(value jsontext.Value) bool {
	return isText(value, "error", "fail", "failed", "failure")
}

// isText says whether a value is one of some texts, without regard to case and blanks around.
func isText(value jsontext.Value, texts ...string) bool {
	if value.Kind() != '"' {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return err == nil && slices.Contains(texts, strings.ToLower(strings.TrimSpace(string(text))))
}

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
