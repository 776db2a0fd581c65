package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// Bounds of the query parameters.
const (
	defaultPerPage = 50
	maximumPerPage = 100
	maximumRange   = 31 * day
)

// The years that the shop knows. Ids of earlier and later ones could meet.
var (
	firstInstant = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// api answers requests. It is safe for concurrent use.
type api struct {
	token     [sha256.Size]byte // hashed, so that comparing takes the same time for every length
	catalogue catalogue
	refuse    int64 // how many requests are refused in all
	asked     atomic.Int64
}

func newAPI(token string, orders catalogue, refuse int) *api {
	return &api{token: sha256.Sum256([]byte(token)), catalogue: orders, refuse: int64(refuse)}
}

// problem is an answer that is no success.
type problem struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	// Parameter names the query parameter that is to blame, if one is.
	Parameter string `json:"parameter,omitempty"`
}

func badParameter(name, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, Code: "bad-parameter", Parameter: name, Message: name + " " + fmt.Sprintf(format, args...)}
}

// page is the answer to a listing.
type page struct {
	Data  []order `json:"data"`
	Page  int     `json:"page"`
	Pages int     `json:"pages"` // an empty list has one empty page
}

// ServeHTTP answers GET /orders and GET /health. Only the former asks for the token and is refused.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/orders" && r.URL.Path != "/health":
		answer(w, http.StatusNotFound, problem{Code: "not-found", Message: "there are /orders and /health"})
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, problem{Code: "method-not-allowed", Message: "GET only"})
	case r.URL.Path == "/health":
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	case !a.knows(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="shop"`)
		answer(w, http.StatusUnauthorized, problem{Code: "unauthorized", Message: "the header Authorization: Bearer TOKEN is missing or wrong"})
	case a.refuses(w):
	default:
		a.list(w, r)
	}
}

func (a *api) knows(r *http.Request) bool {
	const scheme = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) < len(scheme) || header[:len(scheme)] != scheme {
		return false
	}
	given := sha256.Sum256([]byte(header[len(scheme):]))
	return subtle.ConstantTimeCompare(given[:], a.token[:]) == 1
}

// refuses turns the first requests of the process away: the very first with a time to come back, the
// others without, since both are found in the field.
func (a *api) refuses(w http.ResponseWriter) bool {
	number := a.asked.Add(1)
	if number > a.refuse {
		return false
	}
	if number == 1 {
		w.Header().Set("Retry-After", "1")
	}
	answer(w, http.StatusTooManyRequests, problem{Code: "rate-limited", Message: "too many requests"})
	return true
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	wanted, wrong := parseListing(r.URL)
	if wrong != nil {
		answer(w, wrong.status, wrong)
		return
	}
	found := a.catalogue.between(wanted.from, wanted.to)
	pages := max(1, (len(found)+wanted.perPage-1)/wanted.perPage)
	result := page{Data: []order{}, Page: wanted.page, Pages: pages}
	if wanted.page <= pages {
		first := (wanted.page - 1) * wanted.perPage
		result.Data = append(result.Data, found[first:min(first+wanted.perPage, len(found))]...)
	}
	answer(w, http.StatusOK, result)
}

// listing is what a client asks for.
type listing struct {
	from, to      time.Time
	page, perPage int
}

func parseListing(u *url.URL) (listing, *problem) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return listing{}, &problem{status: http.StatusBadRequest, Code: "bad-query", Message: "the query cannot be read: " + err.Error()}
	}
	for name, values := range query {
		switch {
		case name != "from" && name != "to" && name != "page" && name != "per_page":
			return listing{}, badParameter(name, "is unknown; there are from, to, page and per_page")
		case len(values) > 1:
			return listing{}, badParameter(name, "stands there %d times", len(values))
		}
	}
	var l listing
	var wrong *problem
	if l.from, wrong = instant(query, "from"); wrong != nil {
		return l, wrong
	}
	if l.to, wrong = instant(query, "to"); wrong != nil {
		return l, wrong
	}
	switch {
	case !l.from.Before(l.to):
		return l, badParameter("to", "must be after from; it is exclusive")
	case l.to.Sub(l.from) > maximumRange:
		return l, badParameter("to", "is more than %d days after from", maximumRange/day)
	}
	if l.page, wrong = whole(query, "page", 1, 1_000_000); wrong != nil {
		return l, wrong
	}
	l.perPage, wrong = whole(query, "per_page", defaultPerPage, maximumPerPage)
	return l, wrong
}

func instant(query url.Values, name string) (time.Time, *problem) {
	if !query.Has(name) {
		return time.Time{}, badParameter(name, "is missing: an instant such as 2026-01-15T00:00:00+07:00 is wanted")
	}
	t, err := time.Parse(time.RFC3339, query.Get(name))
	switch {
	case err != nil:
		return t, badParameter(name, "is no instant such as 2026-01-15T00:00:00+07:00 (a + is written %%2B in a query)")
	case t.Before(firstInstant) || t.After(lastInstant):
		return t, badParameter(name, "is not in the years 2000 to 2099")
	}
	return t, nil
}

// whole reads a number from 1 to most.
func whole(query url.Values, name string, otherwise, most int) (int, *problem) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 1 || n > most {
		return 0, badParameter(name, "must be a whole number from 1 to %d", most)
	}
	return n, nil
}

// answer writes JSON. An error of writing means that the client has gone.
func answer(w http.ResponseWriter, status int, value any) {
	switch p := value.(type) {
	case problem:
		value = map[string]any{"error": p}
	case *problem:
		value = map[string]any{"error": p}
	}
	body, err := json.Marshal(value)
	if err != nil { // none of the values can bring this about
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
