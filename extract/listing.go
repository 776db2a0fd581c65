package extract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// defaultMaximumPages is pipeline.Pagination's default.
const defaultMaximumPages = 100_000

// Listing is an HTTP step for one interval. It remembers nothing between pages: where it stands is the
// position that the caller keeps. It is safe for concurrent use.
type Listing struct {
	connection *connection.HTTP
	spec       *pipeline.HTTP
	pagination pipeline.Pagination
	path       string
	query      url.Values
	header     http.Header
	body       []byte
}

// OpenHTTP prepares the listing of an interval. Nothing is asked yet. loc is the pipeline's zone for its
// templates; nil means UTC.
func OpenHTTP(conn *connection.HTTP, spec *pipeline.HTTP, iv interval.Interval, loc *time.Location) (*Listing, error) {
	l := &Listing{connection: conn, spec: spec, query: url.Values{}, header: http.Header{}}
	if err := l.paginate(spec.Pagination); err != nil {
		return nil, err
	}
	if err := l.render(iv, loc); err != nil {
		return nil, err
	}
	_, err := l.newDecoder(&Page{}) // what is wrong with columns and paths shows before a request is sent
	if err != nil {
		return nil, err
	}
	if _, err := conn.URL(l.path, l.query); err != nil {
		return nil, err
	}
	return l, nil
}

// paginate fills in the defaults of the pagination, so that a definition without them works, too.
func (l *Listing) paginate(p *pipeline.Pagination) error {
	l.pagination = pipeline.Pagination{Kind: pipeline.PaginationNone}
	if p != nil {
		l.pagination = *p
	}
	q := &l.pagination
	if q.MaximumPages <= 0 {
		q.MaximumPages = defaultMaximumPages
	}
	switch q.Kind {
	case pipeline.PaginationNone, pipeline.PaginationLinkHeader:
	case pipeline.PaginationPage:
		q.Parameter = orDefault(q.Parameter, "page")
	case pipeline.PaginationOffset:
		q.Parameter, q.SizeParameter = orDefault(q.Parameter, "offset"), orDefault(q.SizeParameter, "limit")
		if q.Size <= 0 {
			return retry.Permanentf(TypeBadSource, "pagination by offset needs a size")
		}
	case pipeline.PaginationCursor, pipeline.PaginationNextLink:
		q.Parameter = orDefault(q.Parameter, "cursor")
		if q.Next == "" {
			return retry.Permanentf(TypeBadSource, "pagination %s needs next, the path of what leads to the next page", q.Kind)
		}
	default:
		return retry.Permanentf(TypeBadSource, "pagination kind %q is not known", q.Kind)
	}
	if l.spec.Format != "" && l.spec.Format != formatJSON && (q.Next != "" || q.More != "") {
		return retry.Permanentf(TypeBadSource, "pagination.next and pagination.more are read from JSON answers, and the format is %s", l.spec.Format)
	}
	return nil
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (l *Listing) render(iv interval.Interval, loc *time.Location) error {
	fill := func(what string, t pipeline.Template) (string, error) {
		text, err := t.Execute(iv, loc)
		if err != nil {
			return "", retry.Permanentf(TypeBadSource, "%s of an http step: %w", what, err)
		}
		return text, nil
	}
	var err error
	if l.path, err = fill("path", l.spec.Path); err != nil {
		return err
	}
	for name, template := range l.spec.Query {
		text, err := fill("query "+name, template)
		if err != nil {
			return err
		}
		l.query.Set(name, text)
	}
	for name, template := range l.spec.Headers {
		text, err := fill("header "+name, template)
		if err != nil {
			return err
		}
		l.header.Set(name, text)
	}
	if l.spec.Body == "" {
		return nil
	}
	text, err := fill("body", l.spec.Body)
	if err != nil {
		return err
	}
	l.body = []byte(text)
	if l.header.Get("Content-Type") == "" {
		l.header.Set("Content-Type", "application/json")
	}
	return nil
}

// Fetch asks for the page at a position: "" is the first page, and the others are what [Page.Next]
// returned, perhaps in another process. A position can hold tokens of the API: keep it where secrets
// may be kept, and never log it. The page must be closed.
//
// An answer to a later page that says 400 or 410 is an error of the type CursorRejected, where the
// page is named by a cursor or link: the API has forgotten it, and only a listing from the start helps.
func (l *Listing) Fetch(ctx context.Context, at string) (*Page, error) {
	where, err := parsePosition(at, l.pagination.Kind)
	if err != nil {
		return nil, err
	}
	request, err := l.request(where)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", where.Page, err)
	}
	response, err := l.connection.Do(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", where.Page, l.rejected(where, err))
	}
	page := &Page{listing: l, position: where, response: response}
	if page.decoder, err = l.newDecoder(page); err != nil {
		page.Close()
		return nil, err
	}
	return page, nil
}

// rejected recognises a cursor that is no longer valid.
func (l *Listing) rejected(at position, err error) error {
	var status *connection.StatusError
	if at.Page == 1 || !l.followsAnswers() || !errors.As(err, &status) {
		return err
	}
	if status.Status != http.StatusBadRequest && status.Status != http.StatusGone {
		return err
	}
	return retry.PermanentError(TypeCursorRejected, fmt.Errorf("the API does not accept the position it has given before: %w", err))
}

// followsAnswers says whether the next page is named by the answer, and not by counting.
func (l *Listing) followsAnswers() bool {
	switch l.pagination.Kind {
	case pipeline.PaginationCursor, pipeline.PaginationNextLink, pipeline.PaginationLinkHeader:
		return true
	default:
		return false
	}
}

func (l *Listing) request(at position) (connection.Request, error) {
	r := connection.Request{Method: l.spec.Method, Header: l.header, Body: l.body}
	followsLinks := l.pagination.Kind == pipeline.PaginationNextLink || l.pagination.Kind == pipeline.PaginationLinkHeader
	if followsLinks && at.Page > 1 {
		u, err := url.Parse(at.Value)
		if err != nil {
			return r, retry.PermanentError(TypeBadPosition, errors.New("this is not a position of this listing; start it again"))
		}
		r.URL = u // shown without its query, which may hold a token
		return r, l.connection.CheckLink(u)
	}
	u, err := l.connection.URL(l.path, l.withPage(at))
	if err != nil {
		return r, err
	}
	r.URL = u
	r.Shown = l.shown(u)
	return r, nil
}

// withPage is the query of the page.
func (l *Listing) withPage(at position) url.Values {
	values := url.Values{}
	for name, list := range l.query {
		values[name] = list
	}
	p := l.pagination
	if p.Size > 0 && p.SizeParameter != "" {
		values.Set(p.SizeParameter, strconv.Itoa(p.Size))
	}
	switch p.Kind {
	case pipeline.PaginationPage, pipeline.PaginationOffset:
		values.Set(p.Parameter, strconv.Itoa(l.count(at)))
	case pipeline.PaginationCursor:
		if at.Page > 1 {
			values.Set(p.Parameter, at.Value)
		}
	}
	return values
}

// count is the page number or offset of a position.
func (l *Listing) count(at position) int {
	if n, err := strconv.Atoi(at.Value); err == nil {
		return n
	}
	switch {
	case l.pagination.First != nil:
		return *l.pagination.First
	case l.pagination.Kind == pipeline.PaginationPage:
		return 1
	default:
		return 0
	}
}

// shown is the URL for errors, without a cursor.
func (l *Listing) shown(u *url.URL) string {
	shown := *u
	values := shown.Query()
	if l.pagination.Kind == pipeline.PaginationCursor {
		values.Del(l.pagination.Parameter)
	}
	shown.RawQuery = values.Encode()
	return shown.String()
}

// newDecoder makes the decoder of a page, which tells the page what leads to the next one.
func (l *Listing) newDecoder(page *Page) (decoder, error) {
	var digest *xxhash.Digest
	if l.pagination.Kind == pipeline.PaginationPage || l.pagination.Kind == pipeline.PaginationOffset {
		digest = xxhash.New()
		page.digest = digest
	}
	format := decoderSettings{
		format: l.spec.Format, records: l.spec.Records, csv: l.spec.CSV, columns: l.spec.Columns, digest: digest,
		captures: map[string]*jsontext.Value{}, nullIsDone: page.position.Page > 1, mask: l.connection.Mask,
		unended: page.unended(),
	}
	if l.pagination.Next != "" {
		format.captures[l.pagination.Next] = &page.next
	}
	if l.pagination.More != "" {
		format.captures[l.pagination.More] = &page.more
	}
	return format.decoder()
}
