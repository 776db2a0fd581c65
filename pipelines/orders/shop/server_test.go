package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const testToken = "a-token-for-tests"

// ask sends a request to an API and returns the answer.
func ask(a *api, method, target, authorization string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	a.ServeHTTP(recorder, request)
	return recorder
}

func target(values ...string) string {
	query := url.Values{}
	for i := 0; i < len(values); i += 2 {
		query.Add(values[i], values[i+1])
	}
	return "/orders?" + query.Encode()
}

const (
	testFrom = "2026-01-15T00:00:00+07:00"
	testTo   = "2026-01-16T00:00:00+07:00"
)

func TestPagesHoldEveryOrderOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(testToken, catalogue{}, 0)
	want := a.catalogue.on(jakarta(t, "2026-01-15"))
	for _, size := range []int{1, 7, 10, len(want), maximumPerPage} {
		var got []json.RawMessage
		for number, pages := 1, 1; number <= pages; number++ {
			recorder := ask(a, http.MethodGet, target("from", testFrom, "to", testTo, "page", fmt.Sprint(number), "per_page", fmt.Sprint(size)), "Bearer "+testToken)
			var answered struct {
				Data        []json.RawMessage
				Page, Pages int
			}
			if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil || recorder.Code != http.StatusOK {
				t.Fatalf("page %d: %d %s", number, recorder.Code, recorder.Body)
			}
			if number < answered.Pages && len(answered.Data) != size || answered.Page != number {
				t.Fatalf("page %d of %d has number %d and %d orders of %d", number, answered.Pages, answered.Page, len(answered.Data), size)
			}
			pages = answered.Pages
			got = append(got, answered.Data...)
		}
		if len(got) != len(want) {
			t.Fatalf("in pages of %d there are %d orders, want %d", size, len(got), len(want))
		}
		for i, each := range want {
			if text, _ := json.Marshal(each); string(got[i]) != string(text) {
				t.Fatalf("order %d is %s, want %s", i, got[i], text)
			}
		}
	}
}

func TestSpecialPages(t *testing.T) {
	t.Parallel()
	a := newAPI(testToken, catalogue{closed: map[string]bool{"2026-01-18": true}}, 0)
	for name, test := range map[string]struct{ target, want string }{
		"an empty day":        {target("from", "2026-01-17T17:00:00Z", "to", "2026-01-18T17:00:00Z"), `{"data":[],"page":1,"pages":1}`},
		"behind the last one": {target("from", testFrom, "to", testTo, "page", "99"), `{"data":[],"page":99,"pages":1}`},
		"health":              {"/health", `{"status":"ok"}`},
	} {
		recorder := ask(a, http.MethodGet, test.target, "Bearer "+testToken)
		if got := strings.TrimSpace(recorder.Body.String()); recorder.Code != http.StatusOK || got != test.want {
			t.Errorf("%s: %d %s, want %s", name, recorder.Code, got, test.want)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	a := newAPI(testToken, catalogue{}, 0)
	for _, test := range []struct {
		name, method, target string
		status               int
		code, parameter      string
	}{
		{"no bounds", "GET", "/orders", 400, "bad-parameter", "from"},
		{"no end", "GET", target("from", testFrom), 400, "bad-parameter", "to"},
		{"no offset", "GET", target("from", "2026-01-15T00:00:00", "to", testTo), 400, "bad-parameter", "from"},
		{"a bare +", "GET", "/orders?from=" + testFrom + "&to=" + testTo, 400, "bad-parameter", "from"},
		{"an empty range", "GET", target("from", testFrom, "to", testFrom), 400, "bad-parameter", "to"},
		{"backwards", "GET", target("from", testTo, "to", testFrom), 400, "bad-parameter", "to"},
		{"too long", "GET", target("from", testFrom, "to", "2026-02-15T00:00:01+07:00"), 400, "bad-parameter", "to"},
		{"too early", "GET", target("from", "1999-12-31T00:00:00Z", "to", "2000-01-02T00:00:00Z"), 400, "bad-parameter", "from"},
		{"too late", "GET", target("from", "2099-12-31T00:00:00Z", "to", "2100-01-02T00:00:00Z"), 400, "bad-parameter", "to"},
		{"page 0", "GET", target("from", testFrom, "to", testTo, "page", "0"), 400, "bad-parameter", "page"},
		{"page one", "GET", target("from", testFrom, "to", testTo, "page", "one"), 400, "bad-parameter", "page"},
		{"an overlong page", "GET", target("from", testFrom, "to", testTo, "per_page", "101"), 400, "bad-parameter", "per_page"},
		{"a huge number", "GET", target("from", testFrom, "to", testTo, "page", "99999999999999999999"), 400, "bad-parameter", "page"},
		{"twice", "GET", target("from", testFrom, "to", testTo, "from", testFrom), 400, "bad-parameter", "from"},
		{"unknown", "GET", target("from", testFrom, "to", testTo, "limit", "5"), 400, "bad-parameter", "limit"},
		{"a broken escape", "GET", "/orders?from=%zz", 400, "bad-query", ""},
		{"another path", "GET", "/order", 404, "not-found", ""},
		{"another method", "POST", target("from", testFrom, "to", testTo), 405, "method-not-allowed", ""},
	} {
		recorder := ask(a, test.method, test.target, "Bearer "+testToken)
		var answered struct {
			Error struct{ Code, Message, Parameter string }
		}
		if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil {
			t.Errorf("%s: %v in %s", test.name, err, recorder.Body)
		}
		got := answered.Error
		if recorder.Code != test.status || got.Code != test.code || got.Parameter != test.parameter || got.Message == "" {
			t.Errorf("%s: %d %+v", test.name, recorder.Code, got)
		}
		if kind := recorder.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s: Content-Type %q", test.name, kind)
		}
	}
}

func TestTokenIsAskedFor(t *testing.T) {
	t.Parallel()
	a := newAPI(testToken, catalogue{}, 1)
	for _, header := range []string{"", testToken, "Bearer", "Bearer ", "Bearer " + testToken + "x", "Basic " + testToken} {
		recorder := ask(a, http.MethodGet, target("from", testFrom, "to", testTo), header)
		if recorder.Code != http.StatusUnauthorized || recorder.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("Authorization %q: %d", header, recorder.Code)
		}
		if strings.Contains(recorder.Body.String(), testToken) {
			t.Errorf("Authorization %q: the answer holds the token", header)
		}
	}
	if code := ask(a, http.MethodGet, "/health", "").Code; code != http.StatusOK {
		t.Errorf("health without a token: %d", code)
	}
	if asked := a.asked.Load(); asked != 0 {
		t.Errorf("%d requests were counted that were none of a client's", asked)
	}
}

func TestFirstRequestsAreRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(testToken, catalogue{}, 2)
	for i, want := range []struct {
		status     int
		retryAfter []string
	}{{429, []string{"1"}}, {429, nil}, {200, nil}, {200, nil}} {
		recorder := ask(a, http.MethodGet, target("from", testFrom, "to", testTo), "Bearer "+testToken)
		got := recorder.Header().Values("Retry-After")
		if recorder.Code != want.status || fmt.Sprint(got) != fmt.Sprint(want.retryAfter) {
			t.Errorf("request %d: %d with Retry-After %v, want %d with %v", i+1, recorder.Code, got, want.status, want.retryAfter)
		}
	}
}

func TestRefusalsOfConcurrentRequests(t *testing.T) {
	t.Parallel()
	const clients, refusals = 50, 20
	a := newAPI(testToken, catalogue{}, refusals)
	codes := make(chan int, clients)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			codes <- ask(a, http.MethodGet, target("from", testFrom, "to", testTo), "Bearer "+testToken).Code
		})
	}
	all.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[http.StatusTooManyRequests] != refusals || count[http.StatusOK] != clients-refusals {
		t.Errorf("got %v", count)
	}
}

// Whatever the query, it is either refused with a sentence or within the bounds.
func FuzzParseListing(f *testing.F) {
	f.Add("from=2026-01-15T00:00:00Z&to=2026-01-16T00:00:00Z&page=2&per_page=10")
	f.Add("from=2026-01-15T00:00:00%2B07:00&to=2026-01-16T00:00:00%2B07:00")
	f.Add("from=;&to=%")
	f.Add("page=-1")
	f.Fuzz(func(t *testing.T, query string) {
		l, wrong := parseListing(&url.URL{Path: "/orders", RawQuery: query})
		if wrong != nil {
			if wrong.status != http.StatusBadRequest || wrong.Message == "" {
				t.Errorf("%q: %+v", query, wrong)
			}
			return
		}
		if !l.from.Before(l.to) || l.to.Sub(l.from) > maximumRange || l.page < 1 || l.perPage < 1 || l.perPage > maximumPerPage {
			t.Errorf("%q was read as %+v", query, l)
		}
	})
}
