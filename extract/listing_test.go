package extract

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// shop is an API over a list of numbers that knows every kind of pagination.
type shop struct {
	mu       sync.Mutex
	requests []string
	total    int
}

func (s *shop) handler(t testing.TB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.URL.RequestURI())
		s.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s came without the credentials", r.URL)
		}
		query := r.URL.Query()
		number := func(name string, otherwise int) int {
			if n, err := strconv.Atoi(query.Get(name)); err == nil {
				return n
			}
			return otherwise
		}
		size := number("limit", 4)
		start := number("offset", (number("page", 1)-1)*size)
		start = number("cursor", start)
		end := min(start+size, s.total)
		var items []string
		for i := start; i < end; i++ {
			items = append(items, fmt.Sprintf(`{"id":%d,"name":"n%d"}`, i, i))
		}
		next, link := "null", "null"
		if end < s.total {
			next = fmt.Sprintf("%q", strconv.Itoa(end))
			relative := fmt.Sprintf("?cursor=%d", end)
			link = fmt.Sprintf("%q", relative)
			w.Header().Add("Link", `</orders?first>; rel="first"`)
			w.Header().Add("Link", fmt.Sprintf(`<%s>; rel="next"`, relative))
		}
		fmt.Fprintf(w, `{"meta":{"next":%s,"link":%s,"more":%t},"data":[%s]}`, next, link, end < s.total, strings.Join(items, ","))
	}
}

func TestPagination(t *testing.T) {
	t.Parallel()
	zero := 0
	for name, test := range map[string]struct {
		pagination *pipeline.Pagination
		total      int
		requests   []string
	}{
		"none":              {nil, 3, []string{"/orders?day=2026-01-15"}},
		"page, size":        {&pipeline.Pagination{Kind: "page", SizeParameter: "limit", Size: 4}, 10, []string{"/orders?day=2026-01-15&limit=4&page=1", "/orders?day=2026-01-15&limit=4&page=2", "/orders?day=2026-01-15&limit=4&page=3"}},
		"page, even":        {&pipeline.Pagination{Kind: "page", SizeParameter: "limit", Size: 5}, 5, []string{"/orders?day=2026-01-15&limit=5&page=1", "/orders?day=2026-01-15&limit=5&page=2"}},
		"page without size": {&pipeline.Pagination{Kind: "page"}, 3, []string{"/orders?day=2026-01-15&page=1", "/orders?day=2026-01-15&page=2"}},
		"page, more":        {&pipeline.Pagination{Kind: "page", More: "meta.more"}, 8, []string{"/orders?day=2026-01-15&page=1", "/orders?day=2026-01-15&page=2"}},
		"offset":            {&pipeline.Pagination{Kind: "offset", Size: 4, First: &zero}, 9, []string{"/orders?day=2026-01-15&limit=4&offset=0", "/orders?day=2026-01-15&limit=4&offset=4", "/orders?day=2026-01-15&limit=4&offset=8"}},
		"cursor":            {&pipeline.Pagination{Kind: "cursor", Next: "meta.next"}, 9, []string{"/orders?day=2026-01-15", "/orders?cursor=4&day=2026-01-15", "/orders?cursor=8&day=2026-01-15"}},
		"cursor, more":      {&pipeline.Pagination{Kind: "cursor", Next: "meta.next", More: "meta.more"}, 5, []string{"/orders?day=2026-01-15", "/orders?cursor=4&day=2026-01-15"}},
		"next link":         {&pipeline.Pagination{Kind: "next_link", Next: "meta.link"}, 9, []string{"/orders?day=2026-01-15", "/orders?cursor=4", "/orders?cursor=8"}},
		"link header":       {&pipeline.Pagination{Kind: "link_header"}, 9, []string{"/orders?day=2026-01-15", "/orders?cursor=4", "/orders?cursor=8"}},
		"nothing":           {&pipeline.Pagination{Kind: "cursor", Next: "meta.next"}, 0, []string{"/orders?day=2026-01-15"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{total: test.total}
			server := serve(t, s.handler(t))
			l := openListing(t, apiAt(t, server.URL, "timeout: 5s"), pipeline.HTTP{
				Path: "/orders", Query: map[string]pipeline.Template{"day": `{{ date .Interval.Start }}`},
				Records: "data", Pagination: test.pagination, Columns: columns("id", "name"),
			})
			// The second reading finds nothing of the first: a listing has no state.
			for range 2 {
				s.requests = nil
				rows, pages, err := readListing(t.Context(), l)
				if err != nil || len(rows) != test.total || pages != len(test.requests) {
					t.Errorf("%d rows, %d pages, %v", len(rows), pages, err)
				}
				for i, row := range rows {
					if want := fmt.Sprintf(`"%d" "n%d"`, i, i); row != want {
						t.Errorf("row %d: %s", i, row)
					}
				}
				if !slices.Equal(s.requests, test.requests) {
					t.Errorf("requests\n%s\nwant\n%s", strings.Join(s.requests, "\n"), strings.Join(test.requests, "\n"))
				}
			}
		})
	}
}

func TestConcurrentIntervalsShareNothing(t *testing.T) {
	t.Parallel()
	s := &shop{total: 7}
	server := serve(t, s.handler(t))
	api := apiAt(t, server.URL, "timeout: 5s")
	spec := pipeline.HTTP{Path: "/orders", Query: map[string]pipeline.Template{"day": `{{ date .Interval.Start }}`}, Records: "data",
		Pagination: &pipeline.Pagination{Kind: "offset", Size: 4}, Columns: columns("id", "name")}
	var group sync.WaitGroup
	for n := 1; n <= 3; n++ {
		group.Go(func() {
			l, err := OpenHTTP(api, &spec, day(n), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if rows, _, err := readListing(t.Context(), l); err != nil || len(rows) != 7 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		})
	}
	group.Wait()
	slices.Sort(s.requests)
	var want []string
	for n := 1; n <= 3; n++ {
		want = append(want, fmt.Sprintf("/orders?day=2026-01-0%d&limit=4&offset=0", n), fmt.Sprintf("/orders?day=2026-01-0%d&limit=4&offset=4", n))
	}
	if !slices.Equal(s.requests, want) {
		t.Errorf("requests %q", s.requests)
	}
}

// TestResumeInAnotherProcess goes on from a position with a listing that was opened anew.
func TestResumeInAnotherProcess(t *testing.T) {
	t.Parallel()
	s := &shop{total: 10}
	server := serve(t, s.handler(t))
	for _, pagination := range []*pipeline.Pagination{
		{Kind: "page"}, {Kind: "offset", Size: 4}, {Kind: "cursor", Next: "meta.next"}, {Kind: "next_link", Next: "meta.link"}, {Kind: "link_header"},
	} {
		spec := pipeline.HTTP{Path: "/orders", Records: "data", Pagination: pagination, Columns: columns("id")}
		api := apiAt(t, server.URL, "timeout: 5s")
		var all []string
		for at, done := "", false; !done; {
			page, err := openListing(t, api, spec).Fetch(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := collect(page.Rows())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rows...)
			if at, done, err = page.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if len(all) != 10 || all[9] != `"9"` {
			t.Errorf("%s: %s", pagination.Kind, all)
		}
		_, err := openListing(t, api, spec).Fetch(t.Context(), `{"kind":"other","page":2}`)
		wantVerdict(t, err, retry.Permanent, TypeBadPosition)
	}
}

// script is an API that answers each request with the next of its answers, the last one for ever.
func script(t *testing.T, answers ...string) (*[]string, func(pipeline.HTTP) *Listing) {
	t.Helper()
	var requests []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer := answers[min(len(requests), len(answers)-1)]
		requests = append(requests, r.URL.RequestURI())
		if len(requests) > 50 {
			w.WriteHeader(http.StatusTeapot) // so that a listing without end fails here
			return
		}
		if status, rest, ok := strings.Cut(answer, "|"); ok {
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			answer = rest
		}
		io.WriteString(w, answer)
	})
	api := apiAt(t, server.URL, "timeout: 5s")
	return &requests, func(spec pipeline.HTTP) *Listing {
		spec.Path, spec.Columns = "/x", columns("id", "b")
		return openListing(t, api, spec)
	}
}

func TestEndsOfLists(t *testing.T) {
	t.Parallel()
	cursor := &pipeline.Pagination{Kind: "cursor", Next: "next"}
	more := &pipeline.Pagination{Kind: "cursor", Next: "next", More: "has_more"}
	rows := func(from, to int) string {
		var list []string
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprintf(`{"id":%d}`, i))
		}
		return strings.Join(list, ",")
	}
	for name, test := range map[string]struct {
		pagination *pipeline.Pagination
		answers    []string
		rows       int
		requests   int
		kind, says string
	}{
		"the last cursor for ever, empty": {cursor, []string{
			`{"next":"c1","data":[{"id":1}]}`, `{"next":"c2","data":[{"id":2}]}`, `{"next":"c3","data":[{"id":3}]}`, `{"next":"c3","data":[]}`}, 3, 4, "", ""},
		"the last cursor for ever, with records": {cursor, []string{
			`{"next":"c1","data":[{"id":1}]}`, `{"next":"c2","data":[{"id":2}]}`, `{"next":"c3","data":[{"id":3}]}`, `{"next":"c3","data":[{"id":3},{"id":4}]}`},
			0, 4, TypePagination, "page 4, record 2: cursor repeated"},
		"cursors in a circle": {cursor, []string{
			`{"next":"a","data":[{"id":1}]}`, `{"next":"b","data":[{"id":2}]}`, `{"next":"a","data":[{"id":3}]}`}, 0, 4, TypePagination, "cursor repeated"},
		"null list, null token":    {cursor, []string{`{"next":"c1","data":[` + rows(0, 10) + `]}`, `{"next":"c2","data":[` + rows(10, 14) + `]}`, `{"next":null,"data":null}`}, 14, 3, "", ""},
		"null list, another token": {cursor, []string{`{"next":"c1","data":[{"id":1}]}`, `{"next":"c2","data":null}`}, 0, 2, TypePagination, "null"},
		"null list at once":        {cursor, []string{`{"next":null,"data":null}`}, 0, 1, TypeUnexpectedBody, "null where an array"},
		"empty token":              {cursor, []string{`{"next":"","data":[{"id":1}]}`}, 1, 1, "", ""},
		"a number as token":        {cursor, []string{`{"next":12,"data":[{"id":1}]}`, `{"data":[{"id":2}]}`}, 2, 2, "", ""},
		"an object as token":       {cursor, []string{`{"next":{},"data":[{"id":1}]}`}, 0, 1, TypePagination, `"next" in the answer is an object`},
		"an empty page between":    {cursor, []string{`{"next":"c1","data":[]}`, `{"next":"c2","data":[]}`, `{"data":[{"id":2}]}`}, 1, 3, "", ""},
		"more without a cursor":    {more, []string{`{"has_more":true,"data":[{"id":1}]}`}, 0, 1, TypePagination, `"has_more" says that there are more pages`},
		"no more with a cursor":    {more, []string{`{"has_more":false,"next":"c","data":[{"id":1}]}`}, 1, 1, "", ""},
		"more is missing":          {more, []string{`{"next":"c","data":[{"id":1}]}`}, 0, 1, TypePagination, `"has_more" in the answer is missing`},
		"more is a text":           {more, []string{`{"has_more":"yes","data":[{"id":1}]}`}, 0, 1, TypePagination, `"has_more" in the answer is a text`},
		"the page number is ignored": {&pipeline.Pagination{Kind: "page"}, []string{`{"data":[` + rows(0, 100) + `]}`},
			0, 2, TypePagination, `page 2, record 100: page repeated: it has the same records as the page before; the API seems to ignore the parameter "page"`},
		"the offset is ignored":         {&pipeline.Pagination{Kind: "offset", Size: 3}, []string{`{"data":[` + rows(0, 3) + `]}`}, 0, 2, TypePagination, "page repeated"},
		"page, more, and empty":         {&pipeline.Pagination{Kind: "page", More: "m"}, []string{`{"m":true,"data":[]}`}, 0, 1, TypePagination, "this one is empty"},
		"too many pages":                {&pipeline.Pagination{Kind: "page", MaximumPages: 3}, []string{`{"data":[{"id":1}]}`, `{"data":[{"id":2}]}`, `{"data":[{"id":3}]}`}, 0, 3, TypePagination, "after 3 pages, the most that maximum_pages allows"},
		"cursor rejected":               {cursor, []string{`{"next":"c1","data":[{"id":1}]}`, `400|invalid cursor`}, 0, 2, TypeCursorRejected, "page 2: the API does not accept the position"},
		"cursor gone":                   {cursor, []string{`{"next":"c1","data":[{"id":1}]}`, `410|gone`}, 0, 2, TypeCursorRejected, "410 Gone"},
		"not found is not rejected":     {cursor, []string{`{"next":"c1","data":[{"id":1}]}`, `404|none`}, 0, 2, "HTTPStatus", "404"},
		"first page refused":            {cursor, []string{`400|bad`}, 0, 1, "HTTPStatus", "400"},
		"a numbered page is not either": {&pipeline.Pagination{Kind: "page"}, []string{`{"data":[{"id":1}]}`, `400|bad`}, 0, 2, "HTTPStatus", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, open := script(t, test.answers...)
			got, _, err := readListing(t.Context(), open(pipeline.HTTP{Records: "data", Pagination: test.pagination}))
			if len(*requests) != test.requests {
				t.Errorf("%d requests: %q", len(*requests), *requests)
			}
			if test.kind != "" {
				wantVerdict(t, err, retry.Permanent, test.kind)
				wantText(t, err, test.says)
			} else if err != nil || len(got) != test.rows {
				t.Errorf("%d rows, %v", len(got), err)
			}
			for _, cursor := range []string{"c1", "c2", "c3"} {
				if err != nil && strings.Contains(err.Error(), cursor) {
					t.Errorf("the cursor stands in %v", err)
				}
			}
		})
	}
}

func TestBodiesThatAreNotTheListing(t *testing.T) {
	t.Parallel()
	csv := &pipeline.CSV{}
	for name, test := range map[string]struct {
		format, media, body string
		says                string // "": an honest empty
	}{
		"HTML by type":            {"json", "text/html; charset=utf-8", "Sign in", `HTML page, not json: "Sign in"`},
		"HTML by its beginning":   {"json", "application/json", "  <!DOCTYPE html><html>", "HTML page"},
		"XML":                     {"json", "application/xml", "<error/>", "markup, not json"},
		"HTML for ndjson":         {"ndjson", "text/html", "<html>", "HTML page"},
		"HTML for csv":            {"csv", "text/csv", "<html>\nx", "HTML page"},
		"JSON for csv":            {"csv", "application/json", `{"error":1}`, `"application/json", not csv: "{"error":1}"`},
		"problem JSON for csv":    {"csv", "application/problem+json", `{}`, "not csv"},
		"nothing":                 {"json", "application/json", "", "empty body where json is wanted"},
		"blanks":                  {"json", "application/json", " \r\n ", "empty body"},
		"nothing for ndjson":      {"ndjson", "application/json", "", "empty body"},
		"no lines, and it is so":  {"ndjson", "application/x-ndjson", "", ""},
		"no lines, JSON Lines":    {"ndjson", "application/jsonl", "\n", ""},
		"nothing for csv":         {"csv", "text/csv", "", "empty body"},
		"error object":            {"json", "application/json", `{"error":"quota exceeded"}`, `the answer is an object with the names "error"`},
		"error record":            {"ndjson", "application/x-ndjson", `{"error":"quota exceeded"}`, `none of the declared columns`},
		"null":                    {"json", "application/json", "null", "the answer is null"},
		"an honest empty":         {"json", "application/json", "[]", ""},
		"an honest empty, BOM":    {"json", "application/json", "\xef\xbb\xbf[]", ""},
		"only a header":           {"csv", "text/csv", "id,b\n", ""},
		"html in the middle":      {"json", "text/plain", `[{"id":1},<html>`, "not JSON"},
		"a secret in the snippet": {"json", "text/html", "<p>" + token + "</p>", `"<p>***</p>"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openListing(t, answering(t, test.media, test.body), pipeline.HTTP{Path: "/x", Format: test.format, CSV: csv, Columns: columns("id", "b")})
			rows, _, err := readListing(t.Context(), l)
			if test.says == "" {
				if err != nil || len(rows) != 0 {
					t.Errorf("%q, %v", rows, err)
				}
				return
			}
			wantText(t, err, test.says, "page 1, ")
			if v := retry.Classify(err); v.Class != retry.Permanent || (v.Type != TypeUnexpectedBody && v.Type != TypeBadRecord) {
				t.Errorf("%+v: %v", v, err)
			}
			if strings.Contains(err.Error(), token) {
				t.Error(err)
			}
		})
	}
}

// An error beside an empty list is no empty interval; what some APIs put there when all is well is.
func TestErrorBesideAnEmptyList(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		`{"data":[],"error":"quota exceeded"}`:                   `names an error: ""quota exceeded""`,
		`{"errors":[{"message":"denied"}],"data":[]}`:            `names an error: "[{"message":"denied"}]"`,
		`{"data":[],"error":{"code":17,"message":"no"}}`:         `names an error`,
		`{"data":[],"error":{"message":"no"}}`:                   `names an error`,
		`{"data":[],"error":true}`:                               `names an error`,
		`{"data":[],"error":503}`:                                `names an error`,
		`{"data":[],"errors":[null,"bad"]}`:                      `names an error`,
		`{"data":[],"error":"quota exceeded","errors":[]}`:       `names an error: ""quota exceeded""`,
		`{"errors":[],"error":"quota exceeded","data":[]}`:       `names an error: ""quota exceeded""`,
		`{"data":[],"Error":"quota exceeded"}`:                   `names an error: ""quota exceeded""`,
		`{"data":[],"ERRORS":["denied"],"Error":null}`:           `names an error: "["denied"]"`,
		`{"data":[],"error":"` + token + `"}`:                    `names an error: ""***""`,
		`{"data":[],"fault":{"faultstring":"no quota"}}`:         `names an error: "{"faultstring":"no quota"}"`,
		`{"data":[],"Fault":"no quota"}`:                         `names an error`,
		`{"ok":false,"data":[]}`:                                 `says that it is none: ok is false`,
		`{"data":[],"OK":"False"}`:                               `says that it is none: OK is "False"`,
		`{"data":[],"success":false,"message":"no quota"}`:       `says that it is none: success is false`,
		`{"status":"ERROR","data":[],"code":17}`:                 `says that it is none: status is "ERROR"`,
		`{"status":"fail","data":[]}`:                            `says that it is none: status is "fail"`,
		`{"data":[],"Status":" Failed "}`:                        `says that it is none`,
		`{"data":[],"status":"failure","errors":[]}`:             `says that it is none: status is "failure"`,
		`{"data":[],"success":false,"error":"denied"}`:           `names an error: ""denied""`,
		`{"data":[],"fault":null,"ok":true,"success":true}`:      "",
		`{"data":[],"success":0,"failed":0}`:                     "",
		`{"data":[],"ok":null,"success":"yes","status":null}`:    "",
		`{"data":[],"status":"ok","message":"error"}`:            "",
		`{"data":[],"status":200,"code":"fail"}`:                 "",
		`{"data":[],"status":{"state":"fail"}}`:                  "",
		`{"data":[],"message":"nothing found","code":4}`:         "",
		`{"data":[{"id":1}],"ok":false,"status":"failed"}`:       "",
		`{"data":[],"error":null}`:                               "",
		`{"data":[],"error":false,"errors":[]}`:                  "",
		`{"data":[],"error":0}`:                                  "",
		`{"data":[],"error":"-0.0e1"}`:                           `names an error`,
		`{"data":[],"error":-0.0e1}`:                             "",
		`{"data":[],"error":""}`:                                 "",
		`{"data":[],"error":" OK "}`:                             "",
		`{"data":[],"errors":{}}`:                                "",
		`{"data":[],"errors":[{}]}`:                              "",
		`{"data":[],"error":{"code":0,"message":"all is well"}}`: "",
		`{"data":[],"meta":{"error":"in another place"}}`:        "",
		`{"data":[{"id":1}],"errors":["a warning"]}`:             "",
	} {
		l := openListing(t, answering(t, "application/json", body), pipeline.HTTP{Path: "/x", Records: "data", Columns: columns("id")})
		_, _, err := readListing(t.Context(), l)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		wantVerdict(t, err, retry.Permanent, TypeUnexpectedBody)
		wantText(t, err, says)
		if strings.Contains(err.Error(), token) {
			t.Error(err)
		}
	}
}

func FuzzComplains(f *testing.F) {
	for _, seed := range []string{`null`, `"ok"`, `{"code":0}`, `[{"code":"x"}]`, `-1e5`, `[[[]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value := jsontext.Value(data)
		if !value.IsValid() {
			t.Skip("only what was read as JSON is asked")
		}
		if err := value.Compact(); err != nil {
			t.Fatal(err)
		}
		inArray := jsontext.Value("[" + string(value) + "]")
		if complains(value) != complains(inArray) && value[0] != '[' {
			t.Errorf("%s and %s are judged differently", value, inArray)
		}
	})
}

func TestNoContentIsNoListing(t *testing.T) {
	t.Parallel()
	_, open := script(t, "204|")
	_, _, err := readListing(t.Context(), open(pipeline.HTTP{}))
	wantVerdict(t, err, retry.Permanent, TypeUnexpectedBody)
	wantText(t, err, "(204)")
}

// TestForeignLinks: a link of the answer decides nothing about where credentials go.
func TestForeignLinks(t *testing.T) {
	t.Parallel()
	var asked []string
	foreign := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		io.WriteString(w, `{"data":[{"id":2}]}`)
	})
	host := strings.TrimPrefix(foreign.URL, "http://")
	for _, test := range []struct{ link, host, allowed string }{
		{foreign.URL + "/steal", host, ""},
		{"//" + host + "/steal", host, ""},
		{"http://169.254.169.254/latest/", "169.254.169.254", ""},
		{"file:///etc/passwd", "file:", ""},
		{foreign.URL + "/more", "", host},
	} {
		for _, kind := range []string{"next_link", "link_header"} {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, test.link))
				fmt.Fprintf(w, `{"next":%q,"data":[{"id":1}]}`, test.link)
			})
			settings := "timeout: 5s"
			if test.allowed != "" {
				settings += fmt.Sprintf(", allowed_hosts: [%q]", test.allowed)
			}
			pagination := &pipeline.Pagination{Kind: kind}
			if kind == "next_link" {
				pagination.Next = "next"
			}
			asked = nil
			l := openListing(t, apiAt(t, server.URL, settings), pipeline.HTTP{Path: "/x", Records: "data", Pagination: pagination, Columns: columns("id")})
			rows, _, err := readListing(t.Context(), l)
			if test.host == "" {
				if err != nil || len(rows) != 2 || !slices.Equal(asked, []string{""}) {
					t.Errorf("%s: %q, asked with %q, %v", test.link, rows, asked, err)
				}
				continue
			}
			wantVerdict(t, err, retry.Permanent, "HostNotAllowed")
			wantText(t, err, test.host)
			if len(asked) != 0 {
				t.Errorf("%s: the foreign host was asked", test.link)
			}
		}
	}
}

func TestRefusedOnTheSecondPage(t *testing.T) {
	t.Parallel()
	_, open := script(t, `{"next":"/x?p=2","data":[{"id":1}]}`, "401|who are you")
	_, pages, err := readListing(t.Context(), open(pipeline.HTTP{Records: "data", Pagination: &pipeline.Pagination{Kind: "next_link", Next: "next"}}))
	wantVerdict(t, err, retry.Permanent, "HTTPStatus")
	wantText(t, err, "page 2: GET http://", "/x: answered 401 Unauthorized: who are you")
	if pages != 1 {
		t.Error(pages)
	}
}

// TestBodiesThatBreakOff cuts bodies on the wire, also where what has come is whole in itself.
func TestBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	const rows = `[{"id":1,"b":1},{"id":2,"b":2}]`
	for name, test := range map[string]struct{ format, answer, kind string }{
		"short of its length":              {"json", "Content-Length: 1000\r\n\r\n" + rows[:20], retry.TypeNetwork},
		"short, and whole in itself":       {"json", "Content-Length: 1000\r\n\r\n" + rows, retry.TypeNetwork},
		"ndjson cut after a record":        {"ndjson", "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"id\":1,\"b\":12}\n\r\n", retry.TypeNetwork},
		"csv cut after a record":           {"csv", "Transfer-Encoding: chunked\r\n\r\n9\r\nid,b\n1,2\n\r\n", retry.TypeNetwork},
		"said to be whole, and is not":     {"json", "Content-Length: 20\r\n\r\n" + rows[:20], TypeTruncated},
		"without a length, and is not":     {"json", "\r\n" + rows[:20], TypeTruncated},
		"ndjson, whole, cut in its record": {"ndjson", "Content-Length: 10\r\n\r\n{\"id\":1,\"b", TypeTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := wire(t, "HTTP/1.1 200 OK\r\nConnection: close\r\n"+test.answer, false)
			l := openListing(t, apiAt(t, base, "timeout: 5s"), pipeline.HTTP{Path: "/x", Format: test.format, Columns: columns("id", "b")})
			_, pages, err := readListing(t.Context(), l)
			wantVerdict(t, err, retry.Transient, test.kind)
			if pages != 0 {
				t.Error("the page counts as read")
			}
		})
	}
}

// wire serves bytes on raw TCP; with hold it then keeps silent until the test ends.
func wire(t *testing.T, answer string, hold bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			peer, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer peer.Close()
				peer.Read(make([]byte, 4096))
				io.WriteString(peer, answer)
				if hold {
					<-ended
				}
			})
		}
	})
	t.Cleanup(func() {
		close(ended)
		listener.Close()
		group.Wait()
	})
	return "http://" + listener.Addr().String()
}

// TestSilenceAfterSomeRows: ten rows, then nothing more, neither a byte nor an end.
func TestSilenceAfterSomeRows(t *testing.T) {
	t.Parallel()
	base := wire(t, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("{\"id\":1,\"b\":2}\n", 10), true)
	spec := pipeline.HTTP{Path: "/x", Format: "ndjson", Columns: columns("id", "b")}
	_, _, err := readListing(t.Context(), openListing(t, apiAt(t, base, "idle_timeout: 200ms"), spec))
	wantVerdict(t, err, retry.Transient, retry.TypeTimeout)
	wantText(t, err, "stalled after 150 bytes")

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err = readListing(ctx, openListing(t, apiAt(t, base, "timeout: 1m"), spec))
	wantVerdict(t, err, retry.Transient, retry.TypeTimeout)
}

func TestPost(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Day") != "15" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		fmt.Fprintf(w, `[{"id":%q}]`, body)
	})
	l := openListing(t, apiAt(t, server.URL, "timeout: 5s"), pipeline.HTTP{
		Method: "POST", Path: "/search", Body: `{{ date .Interval.Start }}`, Columns: columns("id"),
		Headers: map[string]pipeline.Template{"X-Day": `{{ format "02" .Interval.Start }}`},
	})
	rows, _, err := readListing(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, rows, `"2026-01-15"`)
}

func TestStepsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	api := apiAt(t, "http://127.0.0.1:1", "timeout: 1s")
	for name, spec := range map[string]pipeline.HTTP{
		"no columns":        {Path: "/x"},
		"type":              {Path: "/x", Columns: []pipeline.Column{{Name: "a", Type: "string"}}},
		"column path":       {Path: "/x", Columns: columns("a=b..c")},
		"format":            {Path: "/x", Format: "xml", Columns: columns("a")},
		"template":          {Path: "/{{ .Now }}", Columns: columns("a")},
		"query template":    {Path: "/x", Query: map[string]pipeline.Template{"a": "{{"}, Columns: columns("a")},
		"pagination kind":   {Path: "/x", Pagination: &pipeline.Pagination{Kind: "magic"}, Columns: columns("a")},
		"offset, no size":   {Path: "/x", Pagination: &pipeline.Pagination{Kind: "offset"}, Columns: columns("a")},
		"cursor, no next":   {Path: "/x", Pagination: &pipeline.Pagination{Kind: "cursor"}, Columns: columns("a")},
		"cursor in ndjson":  {Path: "/x", Format: "ndjson", Pagination: &pipeline.Pagination{Kind: "cursor", Next: "n"}, Columns: columns("a")},
		"overlapping paths": {Path: "/x", Records: "a", Pagination: &pipeline.Pagination{Kind: "cursor", Next: "a.b"}, Columns: columns("a")},
		"foreign path":      {Path: "https://evil.example/", Columns: columns("a")},
	} {
		if _, err := OpenHTTP(api, &spec, day(15), nil); err == nil || retry.Classify(err).Class != retry.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPageIsReadOnce(t *testing.T) {
	t.Parallel()
	l := openListing(t, answering(t, "application/json", `[{"id":1},{"id":2}]`), pipeline.HTTP{Path: "/x", Columns: columns("id")})
	page, err := l.Fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if _, _, err := page.Next(); err == nil {
		t.Error("what comes next is known before the page is read")
	}
	for range page.Rows() {
		break
	}
	if _, _, err := page.Next(); err == nil {
		t.Error("what comes next is known although the page was not read whole")
	}
	if rows, err := collect(page.Rows()); err == nil || len(rows) != 0 {
		t.Error("the rows were read twice")
	}
	if page.Where() != "page 1, record 1" || page.Number() != 1 {
		t.Error(page.Where())
	}
}

func TestPositionHoldsNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	_, open := script(t, `{"next":"secret-cursor","data":[{"id":1}]}`)
	page, err := open(pipeline.HTTP{Records: "data", Pagination: &pipeline.Pagination{Kind: "cursor", Next: "next"}}).Fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(page.Rows()); err != nil {
		t.Fatal(err)
	}
	position, done, err := page.Next()
	if err != nil || done || len(position) > 200 || !strings.Contains(position, url.QueryEscape("secret-cursor")) {
		t.Errorf("%q, %v, %v", position, done, err)
	}
}
