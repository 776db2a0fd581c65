package extract

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// Page is one page of a listing. It is not safe for concurrent use.
type Page struct {
	listing  *Listing
	position position
	response *http.Response
	decoder  decoder
	digest   *xxhash.Digest // of the records; nil where nobody asks
	next     jsontext.Value // what the answer says of the next page
	more     jsontext.Value
	rows     int
	begun    bool
	complete bool
	after    string
	done     bool
}

// Number of the page in its listing, from 1.
func (p *Page) Number() int { return p.position.Page }

// Where says where in the listing the last row was, for errors: "page 3, record 17".
func (p *Page) Where() string {
	return fmt.Sprintf("page %d, %s", p.position.Page, p.decoder.where())
}

// Close gives up what of the page has not been read. It is idempotent.
func (p *Page) Close() error { return p.response.Body.Close() }

// Rows streams the page's rows. Whether they may be kept is known only when the iteration has ended without
// an error: a page that breaks off, or is the one before again, says so at its end.
func (p *Page) Rows() Rows {
	return func(yield func([][]byte, error) bool) {
		if p.begun {
			yield(nil, errors.New("the rows of a page can be read once"))
			return
		}
		p.begun = true
		defer p.Close()
		err := p.read(yield)
		if err == errStopped {
			return
		}
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", p.Where(), err))
			return
		}
		p.complete = true
	}
}

func (p *Page) read(yield func([][]byte, error) bool) error {
	body := bufio.NewReaderSize(p.response.Body, readerSize)
	if err := p.checkAnswer(body); err != nil {
		return err
	}
	err := p.decoder.decode(body, func(row [][]byte) bool {
		p.rows++
		return yield(row, nil)
	})
	if errors.Is(err, errTruncated) {
		return retry.TransientError(TypeTruncated, p.torn())
	}
	if err != nil {
		return err
	}
	return p.finish()
}

// unended says that the answer has no length and no chunks: it ends when the connection does, and nobody can tell
// whether that was meant. What is compressed has an end of its own, and so has every answer of HTTP/2.
func (p *Page) unended() bool {
	r := p.response
	return r != nil && r.ProtoMajor == 1 && r.ContentLength < 0 && len(r.TransferEncoding) == 0 && !r.Uncompressed
}

func (p *Page) torn() error {
	switch {
	case !p.unended():
		return errors.New("the answer ends in the middle of a record, although the server says it is whole")
	case p.listing.spec.Format == formatCSV:
		return errors.New("the last line has no line end, and the answer neither a Content-Length nor chunks: it ended with its connection and cannot be told from one that was cut off")
	default:
		return errors.New("the answer ends in the middle of a record: it has neither a Content-Length nor chunks, and its connection ended too early")
	}
}

// Next says, when all rows have been read, where the listing goes on, or that this was its last page.
func (p *Page) Next() (position string, done bool, err error) {
	if !p.complete {
		return "", false, errors.New("what comes after a page is known when all of its rows have been read")
	}
	return p.after, p.done, nil
}

// byteOrderMark is what Windows programs put before UTF-8 text.
var byteOrderMark = []byte("\xef\xbb\xbf")

const (
	// readerSize of the buffer before a decoder, in bytes.
	readerSize = 64 << 10
	// sniffed is how much of a body is looked at to tell what it is, in bytes.
	sniffed = 512
)

// checkAnswer refuses a body that is not the listing at all.
func (p *Page) checkAnswer(body *bufio.Reader) error {
	head, err := body.Peek(sniffed)
	if err != nil && err != io.EOF {
		return err
	}
	format := orDefault(p.listing.spec.Format, formatJSON)
	contentType := p.response.Header.Get("Content-Type")
	media, _, _ := mime.ParseMediaType(contentType)
	mask := func(text []byte) string { return quote(p.listing.connection.Mask(string(text))) }
	if format != formatCSV && bytes.HasPrefix(head, byteOrderMark) {
		body.Discard(len(byteOrderMark))
	}
	head = bytes.TrimPrefix(head, byteOrderMark)
	trimmed := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(trimmed) == 0 && len(head) < sniffed:
		if p.emptyIsHonest(format, media) {
			return nil
		}
		return unexpected("the answer (%d) has an empty body where %s is wanted", p.response.StatusCode, format)
	case media == "text/html" || media == "application/xhtml+xml" || looksLikeHTML(trimmed):
		return unexpected("the answer is an HTML page, not %s: %s", format, mask(head))
	case format != formatCSV && trimmed[0] == '<':
		return unexpected("the answer is markup, not %s: %s", format, mask(head))
	case format == formatCSV && (media == "application/json" || strings.HasSuffix(media, "+json")):
		return unexpected("the answer is %s, not csv: %s", quote(media), mask(head))
	}
	return nil
}

// emptyIsHonest says whether an empty body can be a listing without records: where the format has no
// brackets and the server itself names the format.
func (p *Page) emptyIsHonest(format, media string) bool {
	switch format {
	case formatNDJSON:
		return strings.HasSuffix(media, "ndjson") || strings.HasSuffix(media, "jsonl") || strings.HasSuffix(media, "jsonlines")
	case formatCSV:
		csv := p.listing.spec.CSV
		return media == "text/csv" && csv != nil && csv.Header != nil && !*csv.Header
	default:
		return false
	}
}

func looksLikeHTML(head []byte) bool {
	lower := bytes.ToLower(head[:min(len(head), 20)])
	return bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html"))
}

// finish finds out, after the last row, what comes after the page.
func (p *Page) finish() error {
	var value string
	var err error
	if p.listing.followsAnswers() {
		value, err = p.valueFromAnswer()
	} else {
		value, err = p.valueByCounting()
	}
	if err != nil {
		return err
	}
	if value, err = p.heedMore(value); err != nil {
		return err
	}
	if value == "" || p.repeatsNothing(value) {
		p.done = true
		return nil
	}
	return p.advance(value)
}

// repeatsNothing recognises one way to end a list: no records, and the same cursor again.
func (p *Page) repeatsNothing(value string) bool {
	return p.rows == 0 && p.listing.followsAnswers() && value == p.position.Value
}

func (p *Page) advance(value string) error {
	if p.position.Page >= p.listing.pagination.MaximumPages {
		return retry.Permanentf(TypePagination, "the listing goes on after %d pages, the most that maximum_pages allows", p.position.Page)
	}
	next, looped := p.position.advance(value)
	switch {
	case p.listing.followsAnswers() && (looped || value == p.position.Value):
		return retry.Permanentf(TypePagination, "cursor repeated: the answer leads to a page that has been read before, and the listing would never end")
	case isNull(p.decoder):
		return retry.Permanentf(TypePagination, "the list of records is null, and yet the answer leads to another page")
	}
	if p.rows > 0 && p.digest != nil {
		next.Last = strconv.FormatUint(p.digest.Sum64(), 16)
	}
	p.after = next.String()
	return nil
}

func isNull(d decoder) bool {
	list, ok := d.(*jsonDecoder)
	return ok && list.null
}

// valueFromAnswer is the cursor or the link that the answer names; "" when it names none.
func (p *Page) valueFromAnswer() (string, error) {
	pagination := p.listing.pagination
	if pagination.Kind == pipeline.PaginationLinkHeader {
		return p.resolve(nextLink(p.response.Header.Values("Link")))
	}
	value, err := captured(p.next, pagination.Next)
	if err != nil || pagination.Kind == pipeline.PaginationCursor {
		return value, err
	}
	return p.resolve(value)
}

// resolve makes a link absolute and checks where it leads.
func (p *Page) resolve(link string) (string, error) {
	if link == "" {
		return "", nil
	}
	target, err := url.Parse(link)
	if err != nil {
		return "", retry.PermanentError(TypePagination, errors.New("the link to the next page is not a URL"))
	}
	resolved := p.response.Request.URL.ResolveReference(target)
	resolved.Fragment = ""
	if err := p.listing.connection.CheckLink(resolved); err != nil {
		return "", err
	}
	return resolved.String(), nil
}

// valueByCounting is the number of the next page or its offset; "" after the last page.
func (p *Page) valueByCounting() (string, error) {
	pagination := p.listing.pagination
	if pagination.Kind == pipeline.PaginationNone {
		return "", nil
	}
	if p.rows > 0 && strconv.FormatUint(p.digest.Sum64(), 16) == p.position.Last {
		return "", retry.Permanentf(TypePagination, "page repeated: it has the same records as the page before; the API seems to ignore the parameter %q", pagination.Parameter)
	}
	last := p.rows == 0 || pagination.Size > 0 && p.rows < pagination.Size
	if last && pagination.More == "" || p.rows == 0 {
		return "", nil
	}
	step := 1
	if pagination.Kind == pipeline.PaginationOffset {
		step = p.rows
	}
	return strconv.Itoa(p.listing.count(p.position) + step), nil
}

// heedMore compares the value with what the answer says of whether there is more.
func (p *Page) heedMore(value string) (string, error) {
	path := p.listing.pagination.More
	if path == "" {
		return value, nil
	}
	switch string(p.more) {
	case "false":
		return "", nil
	case "true":
		if value == "" && p.listing.followsAnswers() {
			return "", retry.Permanentf(TypePagination, "%q says that there are more pages, and %q does not lead to the next one", path, p.listing.pagination.Next)
		}
		if value == "" {
			return "", retry.Permanentf(TypePagination, "%q says that there are more pages, and this one is empty", path)
		}
		return value, nil
	}
	found := "missing"
	if len(p.more) > 0 {
		found = kindName(p.more.Kind())
	}
	return "", retry.Permanentf(TypePagination, "%q in the answer is %s where true or false is wanted", path, connection.Snippet(found))
}
