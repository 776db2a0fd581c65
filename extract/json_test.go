package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// decodeText decodes a text without a source around it.
func decodeText(t testing.TB, s decoderSettings, reader io.Reader) ([]string, decoder, error) {
	t.Helper()
	d, err := s.decoder()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	err = d.decode(reader, func(row [][]byte) bool {
		rows = append(rows, show(row))
		return true
	})
	return rows, d, err
}

func TestJSONValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		columns []pipeline.Column
		record  string
		want    string
	}{
		"numbers keep their digits": {columns("id", "n", "max", "price", "long", "e"),
			`{"id":9007199254740993,"n":-9007199254740993,"max":9223372036854775807,"price":16.4,"long":50000.0000000000000001,"e":1e3}`,
			`"9007199254740993" "-9007199254740993" "9223372036854775807" "16.4" "50000.0000000000000001" "1e3"`},
		"texts":              {columns("a", "b", "c"), `{"a":"","b":"null","c":"02134"}`, `"" "null" "02134"`},
		"escapes":            {columns("a", "b"), `{"a":"x\ny\u00e9\ud83d\ude00\\\"\/","b":"after"}`, `"x\nyé😀\\\"/" "after"`},
		"NUL":                {columns("a"), `{"a":"x\u0000y"}`, `"x\x00y"`},
		"booleans":           {columns("a", "b"), `{"a":true,"b":false}`, `"true" "false"`},
		"null and missing":   {columns("a", "b", "c"), `{"a":null,"c":1}`, `NULL NULL "1"`},
		"objects and arrays": {columns("a", "b"), "{\"a\": {\"x\" : [1, \"a b\\\"\"] }, \"b\":[ ]}", `"{\"x\":[1,\"a b\\\"\"]}" "[]"`},
		"jsonb keeps all":    {columns("a:jsonb", "b:jsonb", "c:jsonb", "d:jsonb"), `{"a":"abc","b":{"x": 1},"c":null,"d":1.0}`, `"\"abc\"" "{\"x\": 1}" NULL "1.0"`},
		"paths":              {columns("a=p.mag", "b=/p/a.b", "c=g.1", "d=/~0~1", "e=p.none.x", "f=g.9"), `{"p":{"mag":4.5,"a.b":"dot"},"g":[1,-2.5],"~/":"odd"}`, `"4.5" "dot" "-2.5" "odd" NULL NULL`},
		"a path and its own": {columns("a=p:jsonb", "b=p.x", "c=p.x"), `{"p":{"x":1}}`, `"{\"x\":1}" "1" "1"`},
		"index of an object": {columns("a=p.0", "b"), `{"p":{"0":"zero"}}`, `"zero" NULL`},
		"path into a scalar": {columns("a=p.x", "b"), `{"p":"x","b":1}`, `NULL "1"`},
		"exact names":        {columns("id", "ID"), `{"id":1,"ID":2,"Id":3}`, `"1" "2"`},
		"only the exact one": {columns("id", "b"), `{"ID":2,"id":1,"Id":3}`, `"1" NULL`},
		"escaped names":      {columns("id", "b"), `{"\u0069d":1,"b":2}`, `"1" "2"`},
		"a name with a dot":  {columns("a.b", "c"), `{"a":{"b":1},"a.b":2}`, `"2" NULL`},
		"hostile names": {columns(`x"; DROP TABLE orders; --`, "Größe", `rating ("1-5")`), `{"x\"; DROP TABLE orders; --":1,"Größe":2,"rating (\"1-5\")":3}`,
			`"1" "2" "3"`},
		"arrays as records": {columns("a=0", "b=2"), `[1,[2],"x"]`, `"1" "x"`},
		"blanks":            {columns("a", "b"), " {\n\t\"a\" :\r\n 1 , \"b\" : [ 1 , 2 ] } ", `"1" "[1,2]"`},
		"single and unset":  {columns("a"), `{"b":1}`, `NULL`},
	} {
		for _, form := range []struct{ format, text string }{
			{formatNDJSON, test.record + "\n"}, {formatJSON, "[" + test.record + "]"},
		} {
			rows, _, err := decodeText(t, decoderSettings{format: form.format, columns: test.columns}, strings.NewReader(form.text))
			if err != nil || len(rows) != 1 || rows[0] != test.want {
				t.Errorf("%s, %s: %s, %v; want %s", name, form.format, rows, err, test.want)
			}
		}
	}
}

func TestJSONThatIsRefused(t *testing.T) {
	t.Parallel()
	const good = `{"a":1,"b":2}`
	for name, test := range map[string]struct {
		record string
		says   string
	}{
		"repeated name":         {`{"a":1,"a":2}`, `repeats the name "a"`},
		"repeated, escaped":     {`{"a":1,"\u0061":2}`, `repeats the name "a"`},
		"repeated, deep":        {`{"a":1,"x":{"y":1,"y":2}}`, `repeats the name "y"`},
		"not UTF-8":             {"{\"a\":\"\xff\"}", "not JSON"},
		"name not UTF-8":        {"{\"\xff\":1}", "not JSON"},
		"lone surrogate":        {`{"a":"\ud800"}`, "not JSON"},
		"leading zero":          {`{"a":01}`, "not JSON"},
		"plus":                  {`{"a":+1}`, "not JSON"},
		"bare point":            {`{"a":1.}`, "not JSON"},
		"NaN":                   {`{"a":NaN}`, "not JSON"},
		"control character":     {"{\"a\":\"\x01\"}", "not JSON"},
		"single quotes":         {`{'a':1}`, "not JSON"},
		"comment":               {`{"a":1 /* x */}`, "not JSON"},
		"trailing comma":        {`{"a":1,}`, "not JSON"},
		"no colon":              {`{"a" 1}`, "not JSON"},
		"too deep":              {`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "not JSON"},
		"a text":                {`"abc"`, "this is a text"},
		"a number":              {`12`, "this is a number"},
		"null":                  {`null`, "this is null"},
		"none of the columns":   {`{"error":"quota","code":"x\ny"}`, `none of the declared columns; it has the names "error", "code"`},
		"an empty record":       {`{}`, "none of the declared columns; it has the names (none)"},
		"larger than a record":  {`{"a":"` + strings.Repeat("x", maximumRecord+10) + `"}`, "larger than 16 MiB"},
		"much larger, unending": {`{"a":"` + strings.Repeat("x", 2*maximumRecord), "larger than 16 MiB"},
	} {
		for _, form := range []struct{ format, text string }{
			{formatNDJSON, good + "\n" + test.record + "\n" + good + "\n"}, {formatJSON, "[" + good + "," + test.record + "," + good + "]"},
		} {
			rows, d, err := decodeText(t, decoderSettings{format: form.format, columns: columns("a", "b")}, strings.NewReader(form.text))
			if len(rows) != 1 || d.where() != "record 2" {
				t.Errorf("%s, %s: %d rows before the error, which is at %s", name, form.format, len(rows), d.where())
			}
			wantVerdict(t, err, retry.Permanent, TypeBadRecord)
			wantText(t, err, test.says)
			if len(err.Error()) > 400 {
				t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
			}
		}
	}
}

func TestJSONThatEndsTooEarly(t *testing.T) {
	t.Parallel()
	const text = `{"meta":{"n":1},"data":[{"a":1,"b":"x"},{"a":2,"b":"y"}],"next":"c"}`
	for cut := 1; cut < len(text); cut++ {
		_, _, err := decodeText(t, decoderSettings{format: formatJSON, records: "data", columns: columns("a", "b")}, strings.NewReader(text[:cut]))
		if !errors.Is(err, errTruncated) {
			t.Errorf("%s: %v", text[:cut], err)
		}
	}
	for _, tail := range []string{`{`, `{"a`, `{"a":1`, `[`, `"x`, `tru`} {
		rows, _, err := decodeText(t, decoderSettings{format: formatNDJSON, columns: columns("a", "b")}, strings.NewReader("{\"a\":1}\n"+tail))
		if !errors.Is(err, errTruncated) || len(rows) != 1 {
			t.Errorf("%s: %v, %v", tail, rows, err)
		}
	}
	for _, text := range []string{`[{"a":1}] x`, `[{"a":1}]]`, `[{"a":1}][]`, `{"data":[]}{}`} {
		records := ""
		if text[0] == '{' {
			records = "data"
		}
		_, _, err := decodeText(t, decoderSettings{format: formatJSON, records: records, columns: columns("a")}, strings.NewReader(text))
		wantVerdict(t, err, retry.Permanent, TypeBadRecord)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	skipped := `"included":[` + strings.Repeat(`{"big":"`+strings.Repeat("x", 1000)+`"},`, 40_000) + `{}]` // 40 MB
	for name, test := range map[string]struct {
		text, records string
		captures      []string
		want          string // rows, captured
		says          string
	}{
		"root":                 {`[{"a":1},{"a":2}]`, "", nil, `"1"|"2"`, ""},
		"empty":                {`[]`, "", nil, ``, ""},
		"path":                 {`{"x":1,"data":{"items":[{"a":1}],"y":[2]}}`, "data.items", nil, `"1"`, ""},
		"pointer":              {`{"a.b":[{"a":1}]}`, "/a.b", nil, `"1"`, ""},
		"through an array":     {`[{"n":1},{"data":[{"a":1}]}]`, "1.data", nil, `"1"`, ""},
		"cursor before":        {`{"next":"c1","data":[{"a":1}]}`, "data", []string{"next"}, `"1"/"c1"`, ""},
		"cursor after":         {`{"data":[{"a":1}],"meta":{"x":{},"next":"c1","more":true}}`, "data", []string{"meta.next", "meta.more"}, `"1"/"c1"/true`, ""},
		"cursor missing":       {`{"data":[{"a":1}]}`, "data", []string{"meta.next"}, `"1"/`, ""},
		"large things beside":  {`{` + skipped + `,"data":[{"a":1}]}`, "data", nil, `"1"`, ""},
		"no such path":         {`{"error":"quota","message":"no"}`, "data", nil, "", `records "data" is not in the answer, an object with the names "error", "message"`},
		"path breaks off":      {`{"data":"none"}`, "data.items", nil, "", `records "data.items" is not in the answer`},
		"other case":           {`{"Data":[]}`, "data", nil, "", `with the names "Data"`},
		"an array":             {`[{"a":1}]`, "data", nil, "", `records "data" is not in the answer, which is an array`},
		"an object for a list": {`{"error":{"code":1}}`, "", nil, "", `an object with the names "error" where an array of records is wanted: say in records`},
		"text for a list":      {`{"data":"x"}`, "data", nil, "", `records "data" is a text where an array of records is wanted`},
		"null for a list":      {`{"data":null}`, "data", nil, "", `records "data" is null where an array of records is wanted`},
		"object for a list":    {`{"data":{"a":1}}`, "data", nil, "", `records "data" is an object where`},
		"a number":             {`12`, "", nil, "", `the answer is a number where an array`},
		"many names": {`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`, "data", nil, "",
			`"a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and more`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := make([]jsontext.Value, len(test.captures))
			captures := map[string]*jsontext.Value{}
			for i, path := range test.captures {
				captures[path] = &values[i]
			}
			rows, _, err := decodeText(t, decoderSettings{format: formatJSON, records: test.records, columns: columns("a"), captures: captures}, strings.NewReader(test.text))
			if test.says != "" {
				wantVerdict(t, err, retry.Permanent, TypeUnexpectedBody)
				wantText(t, err, test.says)
				return
			}
			got := strings.Join(rows, "|")
			for _, value := range values {
				got += "/" + string(value)
			}
			if err != nil || got != test.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestPathsThatOverlap(t *testing.T) {
	t.Parallel()
	f, _ := newFields(columns("a"))
	for _, test := range [][2]string{{"data", "data.next"}, {"data.items", "data"}, {"data", "data"}, {"", "next"}, {"a..b", "n"}, {"/~2", "n"}, {"a", ""}} {
		var value jsontext.Value
		_, err := newJSONDecoder(f, test[0], map[string]*jsontext.Value{test[1]: &value})
		wantVerdict(t, err, retry.Permanent, TypeBadSource)
	}
}

// TestRecordThatIsAnArray: what it has are places, not names.
func TestRecordThatIsAnArray(t *testing.T) {
	t.Parallel()
	_, _, err := decodeText(t, decoderSettings{format: formatJSON, columns: columns("a", "b")}, strings.NewReader(`[[1,2]]`))
	wantVerdict(t, err, retry.Permanent, TypeBadRecord)
	wantText(t, err, "the record is an array, and the path of no column leads to a place in it")
}

// TestReadErrorIsNotHidden: a body that breaks is not JSON that is wrong.
func TestReadErrorIsNotHidden(t *testing.T) {
	t.Parallel()
	broken := retry.TransientError(retry.TypeNetwork, errors.New("reset"))
	for format, texts := range map[string][]string{
		formatJSON:   {"", `[`, `[{"a":1`, `[{"a":1},`, `[{"a":1}]`, `{"x`, `[{"a":"x`},
		formatNDJSON: {"", "{", `{"a":1`, "{\"a\":1}\n", "{\"a\":1}\n{\"a\""},
		formatCSV:    {"", "a", "a\n", "a\n1\n", "a\n\"1", "a\n1\n\"2\""},
	} {
		for _, text := range texts {
			for _, chunks := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
				reader := chunks(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))
				_, _, err := decodeText(t, decoderSettings{format: format, columns: columns("a")}, reader)
				if !errors.Is(err, broken) || strings.Contains(err.Error(), "jsontext") {
					t.Errorf("%s %q: %v", format, text, err)
				}
			}
		}
	}
}

// FuzzJSONFields compares the fields with what the standard library decodes.
func FuzzJSONFields(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":{"c":[1,{"d":"x\u0041"}]}}`, `{"a":[],"b":{"c":"\\\""}}`, `{"b":{"c":[[],[2]]},"a":null}`, `{"\u0061":-0.0e+1}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cols := columns("a", "b=b.c.1.d", "c=b.c", "d:jsonb")
		rows, _, err := decodeText(t, decoderSettings{format: formatNDJSON, columns: cols}, strings.NewReader(text))
		if err != nil || len(rows) != 1 {
			return
		}
		var document any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&document); err != nil {
			t.Fatalf("accepted %q, which is not JSON: %v", text, err)
		}
		want := fmt.Sprint(oracle(document, false, "a"), " ", oracle(document, false, "b", "c", "1", "d"), " ", oracle(document, false, "b", "c"), " ", oracle(document, true, "d"))
		if got := rows[0]; !strings.ContainsAny(text, "{[") || got != want && !spacingDiffers(document) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	})
}

// spacingDiffers says whether the oracle can have written a nested value otherwise: it sorts names,
// and the raw ones keep their blanks.
func spacingDiffers(document any) bool {
	object, ok := document.(map[string]any)
	if !ok {
		return true
	}
	for _, name := range []string{"a", "b", "d"} {
		switch object[name].(type) {
		case map[string]any, []any:
			return true
		}
	}
	if text, isText := object["d"].(string); isText && text != "" {
		return true // escapes
	}
	return false
}

func oracle(value any, raw bool, path ...string) string {
	for _, name := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			value = nil
			for i := range at {
				if fmt.Sprint(i) == name {
					value = at[i]
				}
			}
		default:
			return "NULL"
		}
	}
	switch at := value.(type) {
	case nil:
		return "NULL"
	case string:
		if !raw {
			return fmt.Sprintf("%q", at)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return fmt.Sprintf("%q", strings.TrimSuffix(out.String(), "\n"))
}

func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"meta":{"next":"c"},"data":{"items":[{"a":1}]}}`, `{"data":{"items":null}}`, `{"data":[]}`, `{"data":{"items":[{}]}} `} {
		f.Add(seed, "data.items", "meta.next")
	}
	f.Fuzz(func(t *testing.T, text, records, next string) {
		fields, err := newFields(columns("a", "b=x.0"))
		if err != nil {
			t.Fatal(err)
		}
		var value jsontext.Value
		d, err := newJSONDecoder(fields, records, map[string]*jsontext.Value{next: &value})
		if err != nil {
			return
		}
		err = d.decode(iotest.OneByteReader(strings.NewReader(text)), func([][]byte) bool { return true })
		if err == nil && !json.Valid([]byte(text)) {
			t.Errorf("accepted %q", text)
		}
		if err == nil && !d.found {
			t.Errorf("no records in %q, and no error", text)
		}
	})
}
