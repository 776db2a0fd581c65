package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/trancheflow/tranche/retry"
)

// position is where a listing stands. All that a listing has to remember from page to page is in it, so
// that a listing has no state of its own and an attempt goes on where another one ended.
type position struct {
	// Kind of the pagination that it belongs to.
	Kind string `json:"kind"`
	// Page is the number of the page that is asked for next, from 1.
	Page int `json:"page"`
	// Value is the page number, the offset, the cursor or the link of that page.
	Value string `json:"value,omitempty"`
	// Last is a hash of the records of the last page that had any.
	Last string `json:"last,omitempty"`
	// Mark, Power and Steps are the state of Brent's algorithm over the values, which finds a cycle of
	// any length in a number of steps that is proportional to it, and remembers one value.
	Mark  string `json:"mark,omitempty"`
	Power int    `json:"power,omitempty"`
	Steps int    `json:"steps,omitempty"`
}

func parsePosition(text, kind string) (position, error) {
	bad := func() (position, error) {
		return position{}, retry.PermanentError(TypeBadPosition, errors.New("this is not a position of this listing; start it again"))
	}
	if text == "" {
		return position{Kind: kind, Page: 1}, nil
	}
	var p position
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || p.Page < 2 || p.Kind != kind {
		return bad()
	}
	if _, err := decoder.Token(); err != io.EOF {
		return bad()
	}
	return p, nil
}

func (p position) String() string {
	text, _ := json.Marshal(p) // of texts and numbers: it cannot go wrong
	return string(text)
}

// advance returns the position of the page after this one. looped says that its value was seen before.
func (p position) advance(value string) (next position, looped bool) {
	next = p
	next.Page, next.Value = p.Page+1, value
	hash := strconv.FormatUint(xxhash.Sum64String(value), 16)
	if hash == p.Mark {
		return next, true
	}
	if next.Steps++; next.Steps >= next.Power {
		next.Mark, next.Power, next.Steps = hash, max(2*p.Power, 1), 0
	}
	return next, false
}
