// Package extract gets rows out of a source: the pages of an HTTP API, or a file.
//
// A row has one field per declared column, in their order, as text; nil stands for NULL. What the text
// means is not decided here but where the column's type is known. Rows stream: what is held at a time is
// one record, never a page or a file.
//
// A JSON text is decoded, a JSON number keeps the digits that were sent (9007199254740993, 1e3), true
// and false stay what they are, and an object or array becomes compact JSON. A column of the type jsonb
// keeps the JSON as it was sent, so that a text keeps its quotes. null and a path that leads nowhere
// are NULL. Names are compared exactly; an object that repeats a name is an error, since nobody can
// tell which value was meant. In CSV an unquoted field equal to csv.null (default: the empty one) is NULL
// and a quoted one never is.
package extract

import (
	"errors"
	"fmt"
	"iter"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/retry"
)

// Rows yields the rows of a page or file. A row, and all that it points to, is borrowed: it is valid until
// the next one is asked for. After an error comes nothing more. Rows can be iterated once.
type Rows = iter.Seq2[[][]byte, error]

// The stable type names of the errors of this package; retry.Classify reports them.
const (
	TypeUnexpectedBody = "UnexpectedBody" // a body that is not the listing: HTML, an error object, nothing; permanent
	TypeBadRecord      = "BadRecord"      // a record that cannot be read, or larger than 16 MiB; permanent
	TypePagination     = "Pagination"     // a listing that repeats itself, has no end, or contradicts itself; permanent
	TypeCursorRejected = "CursorRejected" // the API no longer knows the position: start the listing again; permanent
	TypeBadPosition    = "BadPosition"    // a position that this listing has not given; permanent
	TypeTruncated      = "Truncated"      // a body that ends inside a record, or perhaps does; transient over HTTP, permanent in a file
	TypeBadSource      = "BadSource"      // a step that cannot be read as it is declared; permanent
)

// maximumRecord is the largest single record, in bytes. It bounds the memory of a worker: what is
// larger is nearly always a whole document where a record was meant.
const maximumRecord = 16 << 20

var (
	errTruncated = errors.New("the data ends in the middle of a record")
	errTooLarge  = fmt.Errorf("the record is larger than %d MiB", maximumRecord>>20)
	// errStopped ends decoding when the caller wants no more rows.
	errStopped = errors.New("stopped")
)

// unexpected is a body that is not the listing.
func unexpected(format string, args ...any) error {
	return retry.Permanentf(TypeUnexpectedBody, format, args...)
}

// badRecord is a record that cannot be read.
func badRecord(format string, args ...any) error {
	return retry.Permanentf(TypeBadRecord, format, args...)
}

// quote shows a text of the source in an error: short, printable, in quotes.
func quote(text string) string { return `"` + connection.Snippet(text) + `"` }
