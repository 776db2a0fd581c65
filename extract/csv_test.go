package extract

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

func readCSV(t testing.TB, text string, settings *pipeline.CSV, names ...string) ([]string, string, error) {
	t.Helper()
	rows, d, err := decodeText(t, decoderSettings{format: formatCSV, csv: settings, columns: columns(names...)}, strings.NewReader(text))
	return rows, d.where(), err
}

func yes() *bool          { b := true; return &b }
func no() *bool           { b := false; return &b }
func is(s string) *string { return &s }

func TestCSV(t *testing.T) {
	t.Parallel()
	headerless := &pipeline.CSV{Header: no()}
	for name, test := range map[string]struct {
		text     string
		settings *pipeline.CSV
		columns  []string
		want     []string
	}{
		"BOM, CRLF, line end in quotes, no last line end": {"\xef\xbb\xbfid,note\r\n1,\"Apple\r\nBananas\"\r\n2,\"say \"\"hi\"\", ok\"", nil, []string{"id", "note"},
			[]string{`"1" "Apple\r\nBananas"`, `"2" "say \"hi\", ok"`}},
		"BOM before a quoted header":     {"\xef\xbb\xbf\"id\",b\n1,2\n", nil, []string{"id"}, []string{`"1"`}},
		"codes that look like numbers":   {"zip\n02134\n00501\n15E2621\n1_000\n007\n", nil, []string{"zip"}, []string{`"02134"`, `"00501"`, `"15E2621"`, `"1_000"`, `"007"`}},
		"empty and quoted empty":         {"a,b\n,\"\"\n\"\",\n", nil, []string{"a", "b"}, []string{`NULL ""`, `"" NULL`}},
		"null text":                      {"a,b\nNA,\"NA\"\n,x\n", &pipeline.CSV{Null: is("NA")}, []string{"a", "b"}, []string{`NULL "NA"`, `"" "x"`}},
		"order and choice":               {"a,b,c\n1,2,3\n", nil, []string{"c", "x=a"}, []string{`"3" "1"`}},
		"one field for two columns":      {"a,b\n\"x\"\"y\",2\n", nil, []string{"p=a", "q=a"}, []string{`"x\"y" "x\"y"`}},
		"blanks stay":                    {"a, b\n 1 ,2\t\n", nil, []string{"a", " b"}, []string{`" 1 " "2\t"`}},
		"semicolons":                     {"a;b\n1,5;x\n", &pipeline.CSV{Delimiter: ";"}, []string{"a", "b"}, []string{`"1,5" "x"`}},
		"tabs":                           {"a\tb\n1\t2\n", &pipeline.CSV{Delimiter: "\t", Header: yes()}, []string{"b"}, []string{`"2"`}},
		"letters above the quote":        {"a|b\n1|2\n", &pipeline.CSV{Delimiter: "|"}, []string{"b"}, []string{`"2"`}},
		"no header":                      {"1,2\n3,4\n", headerless, []string{"a", "b"}, []string{`"1" "2"`, `"3" "4"`}},
		"no header, by number":           {"1,2\n", headerless, []string{"a=2", "b=1"}, []string{`"2" "1"`}},
		"no header, nothing":             {"", headerless, []string{"a"}, nil},
		"only a header":                  {"a,b\n", nil, []string{"a", "b"}, nil},
		"blank lines at the end":         {"a,b\n1,2\n\n\r\n\n", nil, []string{"a", "b"}, []string{`"1" "2"`}},
		"blank line in a single column":  {"a\n1\n\n2\n", nil, []string{"a"}, []string{`"1"`, `NULL`, `"2"`}},
		"carriage return inside a field": {"a,b\n1\r2,3\n", nil, []string{"a", "b"}, []string{`"1\r2" "3"`}},
		"carriage return at the end":     {"a,b\n1,2\r", nil, []string{"a", "b"}, []string{`"1" "2"`}},
		"quoted at the end":              {"a,b\n1,\"2\"\r", nil, []string{"a", "b"}, []string{`"1" "2"`}},
		"hostile header":                 {"a) VALUES (1); DELETE FROM orders; --,b\n1,2\n", nil, []string{"a) VALUES (1); DELETE FROM orders; --"}, []string{`"1"`}},
		"quotes in quotes":               {"a,b\n\"\"\"\",\"\"\"x\"\"\"\n", nil, []string{"a", "b"}, []string{`"\"" "\"x\""`}},
	} {
		for chunk, chunks := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "with EOF": iotest.DataErrReader} {
			rows, _, err := decodeText(t, decoderSettings{format: formatCSV, csv: test.settings, columns: columns(test.columns...)}, chunks(strings.NewReader(test.text)))
			if err != nil || strings.Join(rows, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("%s, %s: %s, %v; want %s", name, chunk, rows, err, test.want)
			}
		}
	}
}

func TestCSVThatIsRefused(t *testing.T) {
	t.Parallel()
	headerless := &pipeline.CSV{Header: no()}
	for name, test := range map[string]struct {
		text     string
		settings *pipeline.CSV
		columns  []string
		kind     string
		where    string
		says     string
	}{
		"too few fields":         {"a,b,c\n1,2,3\n1,2\n", nil, []string{"a"}, TypeBadRecord, "line 3", "the record has 2 fields, the header has 3"},
		"too many fields":        {"a,b,c\n1,2,3,4\n", nil, []string{"a"}, TypeBadRecord, "line 2", "the record has 4 fields, the header has 3"},
		"after a line in quotes": {"a,b\n\"1\n2\n\",3\n1\n", nil, []string{"a"}, TypeBadRecord, "line 5", "the record has 1 field, the header has 2"},
		"repeated name":          {"id,amount,amount\n1,2,3\n", nil, []string{"id"}, TypeBadRecord, "line 1", `the header names "amount" twice, as field 2 and field 3`},
		"missing name":           {"id,Amount\n1,2\n", nil, []string{"id", "amount"}, TypeBadRecord, "line 1", `the header does not name "amount", which column "amount" is taken from; its line has 2 fields: names are compared exactly`},
		"lines that end in CR":   {"id,amount\r1,2\r", nil, []string{"id", "amount"}, TypeBadRecord, "line 1", `carriage return only`},
		"stray quote":            {"a,b,c\n1,5\" pipe,x\n", nil, []string{"a"}, TypeBadRecord, "line 2", "a quote stands inside a field"},
		"text after a quote":     {"a,b\n\"x\"y,2\n", nil, []string{"a"}, TypeBadRecord, "line 2", "text follows the closing quote"},
		"blank after a quote":    {"a,b\n\"x\" ,2\n", nil, []string{"a"}, TypeBadRecord, "line 2", "text follows the closing quote"},
		"quote never closed":     {"a,b\n1,2\n\"x,2\n3,4\n", nil, []string{"a"}, TypeBadRecord, "line 3", "never closed"},
		"fault in a later line":  {"a,b\n\"x\n\n\"y,2\n", nil, []string{"a"}, TypeBadRecord, "line 4", "text follows the closing quote"},
		"not UTF-8":              {"a,b\n1,caf\xe9\n", nil, []string{"a"}, TypeBadRecord, "line 2", "not UTF-8"},
		"UTF-16":                 {"\xff\xfea\x00,\x00b\x00", nil, []string{"a"}, TypeBadRecord, "line 1", "UTF-16"},
		"blank line between":     {"a,b\n1,2\n\n3,4\n", nil, []string{"a"}, TypeBadRecord, "line 3", "blank line"},
		"empty":                  {"", nil, []string{"a"}, TypeUnexpectedBody, "line 1", "no header line"},
		"only a BOM":             {"\xef\xbb\xbf", nil, []string{"a"}, TypeUnexpectedBody, "line 1", "no header line"},
		"no such field":          {"1,2\n", headerless, []string{"a=3"}, TypeBadRecord, "line 1", "the record has 2 fields, and a column is taken from field 3"},
		"ragged, no header":      {"1,2\n1\n", headerless, []string{"a", "b"}, TypeBadRecord, "line 2", "the first record has 2"},
		"unending record":        {"a\n\"" + strings.Repeat("x", 3*maximumRecord), nil, []string{"a"}, TypeBadRecord, "line 2", "larger than 16 MiB; perhaps a quote is missing"},
	} {
		rows, where, err := readCSV(t, test.text, test.settings, test.columns...)
		t.Run(name, func(t *testing.T) {
			wantVerdict(t, err, retry.Permanent, test.kind)
			wantText(t, err, test.says)
			if where != test.where {
				t.Errorf("%s after %d rows: %v", where, len(rows), err)
			}
		})
	}
}

func TestCSVSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, settings := range []*pipeline.CSV{{Delimiter: "||"}, {Delimiter: `"`}, {Delimiter: "\n"}, {Delimiter: "é"}} {
		_, err := newCSVDecoder(settings, columns("a"))
		wantVerdict(t, err, retry.Permanent, TypeBadSource)
	}
	for _, path := range []string{"0", "x", "-1", "1.5"} {
		_, err := newCSVDecoder(&pipeline.CSV{Header: no()}, columns("a="+path))
		wantVerdict(t, err, retry.Permanent, TypeBadSource)
	}
}

// FuzzCSV holds the reader to what encoding/csv reads, where both mean the same. They differ in blank
// lines, in \r\n inside quotes, and in \r before a quote, where encoding/csv keeps to the line.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\"a\"\"\",b\r\n\"x\ny\",\n", "a\r", "\"", "\"\"", ",", "a,\"b", "\"a\"b", "a\"b", "\r\n", "\"a\"\r", "é,\xff"} {
		f.Add(seed, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		got, gotErr := ours(text, int(size))
		want, wantErr := standard(text)
		if (gotErr == nil) != (wantErr == nil) {
			if text == strings.ToValidUTF8(text, "?") && !hasBlankLine(text) {
				t.Fatalf("%q: we say %v, encoding/csv says %v", text, gotErr, wantErr)
			}
			return
		}
		if gotErr != nil || hasBlankLine(text) {
			return
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	})
}

func hasBlankLine(text string) bool {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.HasPrefix(text, "\n") || strings.Contains(text, "\n\n") || text == "\r" || strings.HasSuffix(text, "\n\r")
}

// ours reads with a small buffer, so that records are cut everywhere.
func ours(text string, size int) (string, error) {
	reader := newCSVReader(strings.NewReader(text), ',')
	reader.source = iotest.OneByteReader(strings.NewReader(text))
	reader.buf = make([]byte, size)
	var out strings.Builder
	for {
		_, err := reader.read()
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		reader.unquote()
		for _, field := range reader.fields {
			fmt.Fprintf(&out, "%q ", strings.ReplaceAll(string(field.text), "\r\n", "\n"))
		}
		out.WriteByte('\n')
	}
}

func standard(text string) (string, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	var out strings.Builder
	for {
		record, err := reader.Read()
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		for _, field := range record {
			fmt.Fprintf(&out, "%q ", field)
		}
		out.WriteByte('\n')
	}
}
