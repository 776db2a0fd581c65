package extract

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// hangingUp is an API whose answers end with their connection and nothing else, as those of HTTP/1.0 do.
func hangingUp(t testing.TB, header, body string) *connection.HTTP {
	t.Helper()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n"+header+"\r\n"+body)
	})
	return apiAt(t, server.URL, "timeout: 5s")
}

// Of an answer that ends with its connection only the line end says that the last line is whole.
func TestAnswerThatEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	noHeader := false
	bare := &pipeline.CSV{Header: &noHeader}
	for name, test := range map[string]struct {
		format string
		csv    *pipeline.CSV
		body   string
		rows   []string // before the end
		torn   string   // what the error says; empty: none
	}{
		"csv, whole":                {"csv", nil, "id,name\n1,one\n2,two\n", []string{`"1" "one"`, `"2" "two"`}, ""},
		"csv, whole, CR LF":         {"csv", nil, "id,name\r\n1,one\r\n", []string{`"1" "one"`}, ""},
		"csv, blank lines":          {"csv", nil, "id,name\n1,one\n\n\n", []string{`"1" "one"`}, ""},
		"csv, only a header":        {"csv", nil, "id,name\n", nil, ""},
		"csv, in the last field":    {"csv", nil, "id,name\n1,one\n2,tw", []string{`"1" "one"`}, "line 3: the last line has no line end"},
		"csv, between CR and LF":    {"csv", nil, "id,name\r\n1,one\r", nil, "line 2: the last line has no line end"},
		"csv, between two fields":   {"csv", nil, "id,name\n1,one\n2", []string{`"1" "one"`}, "line 3: the last line has no line end"},
		"csv, in quotes":            {"csv", nil, "id,name\n1,one\n2,\"tw\n", []string{`"1" "one"`}, "line 3: the last line has no line end"},
		"csv, after quotes":         {"csv", nil, "id,name\n1,one\n2,\"tw\"", []string{`"1" "one"`}, "line 3: the last line has no line end"},
		"csv, in a character":       {"csv", nil, "id,name\n1,one\n2,\xc3", []string{`"1" "one"`}, "line 3: the last line has no line end"},
		"csv, in the header":        {"csv", nil, "id,na", nil, "line 1: the last line has no line end"},
		"csv, first, no header":     {"csv", bare, "1,on", nil, "line 1: the last line has no line end"},
		"ndjson, no last line end":  {"ndjson", nil, `{"id":1,"name":"one"}` + "\n" + `{"id":2,"name":"two"}`, []string{`"1" "one"`, `"2" "two"`}, ""},
		"ndjson, in the last value": {"ndjson", nil, `{"id":1,"name":"one"}` + "\n" + `{"id":2,"name":"tw`, []string{`"1" "one"`}, "its connection ended too early"},
		"json":                      {"json", nil, `[{"id":1,"name":"one"}]`, []string{`"1" "one"`}, ""},
		"json, torn":                {"json", nil, `[{"id":1,"name":"one"}`, []string{`"1" "one"`}, "its connection ended too early"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openListing(t, hangingUp(t, "", test.body), pipeline.HTTP{Path: "/x", Format: test.format, CSV: test.csv, Columns: columnsFor(test.csv)})
			page, err := l.Fetch(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			rows, err := collect(page.Rows())
			wantRows(t, rows, test.rows...)
			if test.torn == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantVerdict(t, err, retry.Transient, TypeTruncated)
			wantText(t, err, test.torn)
		})
	}
}

func columnsFor(csv *pipeline.CSV) []pipeline.Column {
	if csv != nil {
		return columns("id=1", "name=2")
	}
	return columns("id", "name")
}

// Where the answer says how long it is, or is compressed, the last line needs no line end.
func TestLastLineOfAnAnswerWithAnEnd(t *testing.T) {
	t.Parallel()
	const text = "id,name\n1,one"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	io.WriteString(w, text)
	w.Close()
	for name, api := range map[string]*connection.HTTP{
		"length":     hangingUp(t, "Content-Length: 13\r\n", text),
		"chunks":     hangingUp(t, "Transfer-Encoding: chunked\r\n", "d\r\n"+text+"\r\n0\r\n\r\n"),
		"compressed": hangingUp(t, "Content-Encoding: gzip\r\n", packed.String()),
	} {
		l := openListing(t, api, pipeline.HTTP{Path: "/x", Format: "csv", Columns: columns("id", "name")})
		rows, _, err := readListing(t.Context(), l)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantRows(t, rows, `"1" "one"`)
	}
	torn := hangingUp(t, "Content-Encoding: gzip\r\n", packed.String()[:packed.Len()-9])
	_, _, err := readListing(t.Context(), openListing(t, torn, pipeline.HTTP{Path: "/x", Format: "csv", Columns: columns("id", "name")}))
	if retry.Classify(err).Class != retry.Transient {
		t.Errorf("cut off in what is compressed: %v", err)
	}
}
