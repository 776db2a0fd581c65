package connection

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// answers says what the answers of an API are worth. What it does not say is in the table of package retry,
// in which a status that is not listed is permanent: also 500, which most APIs send for requests that
// they will never be able to answer.
type answers struct {
	retryOn    []int         // transient where the table says permanent
	failOn     []int         // permanent, whatever the table or a header says
	throttleOn []int         // throttled, with and without a Retry-After
	longest    time.Duration // caps what an API may ask for
}

// verdict says what an answer other than 2xx is worth, and for how long it asks us to stay away: zero when
// it does not say.
func (a answers) verdict(status int, header http.Header, now time.Time) (retry.Class, time.Duration) {
	after, said := retryAfter(header, now, a.longest)
	class := retry.OfStatus(status, said || quotaIsSpent(header))
	switch {
	case slices.Contains(a.failOn, status):
		class = retry.Permanent
	case slices.Contains(a.throttleOn, status):
		class = retry.Throttled
	case class == retry.Permanent && slices.Contains(a.retryOn, status):
		class = retry.Transient
	}
	if class == retry.Permanent {
		after = 0
	}
	return class, after
}

// pause says for how long nobody should ask the API after this answer, and why: because it refused and said
// for how long, or because it granted the last request of a quota and says when there are more. Asking
// before would be refused.
func (a answers) pause(status int, header http.Header, now time.Time) (time.Duration, string) {
	if status >= http.StatusBadRequest {
		if class, after := a.verdict(status, header, now); class != retry.Permanent && after > 0 {
			return after, fmt.Sprintf("the API answered %d and asked to stay away for %s", status, after.Round(time.Millisecond))
		}
	}
	if after, said := untilReset(header, serverTime(header, now), a.longest); said && after > 0 {
		return after, fmt.Sprintf("the API's quota of requests is used up and comes back in %s", after.Round(time.Millisecond))
	}
	return 0, ""
}

// StatusError is an answer whose status is not 2xx. It is found with errors.As in what [HTTP.Do]
// returns.
type StatusError struct {
	// Status is the HTTP status code.
	Status int
	// Snippet is the beginning of the body: at most 200 bytes, printable, secrets masked.
	Snippet string
	// Asked names the header that says for how long to stay away, such as Retry-After; empty when none does.
	Asked string
}

// Error names the status and shows the beginning of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Snippet != "" {
		text = strings.TrimSpace(text) + ": " + e.Snippet
	}
	return strings.TrimSpace(text)
}
