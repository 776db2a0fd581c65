package connection

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/trancheflow/tranche/retry"
)

// maximumRetryAfter caps what an API may ask for. A day in Retry-After is nearly always a mistake, and
// to ask once an hour hurts nobody.
const maximumRetryAfter = time.Hour

// statusClasses says which statuses deserve another try. A status that is not listed is permanent:
// also 500, which most APIs send for requests that they will never be able to answer. A connection
// lists it under retry_on_status where it is otherwise.
var statusClasses = map[int]retry.Class{
	http.StatusRequestTimeout:     retry.Transient,
	http.StatusTooEarly:           retry.Transient,
	http.StatusTooManyRequests:    retry.Throttled,
	http.StatusBadGateway:         retry.Transient,
	http.StatusServiceUnavailable: retry.Transient,
	http.StatusGatewayTimeout:     retry.Transient,
}

// StatusError is an answer whose status is not 2xx. It is found with errors.As in what [HTTP.Do]
// returns.
type StatusError struct {
	// Status is the HTTP status code.
	Status int
	// Snippet is the beginning of the body: at most 200 bytes, printable, secrets masked.
	Snippet string
}

// Error names the status and shows the beginning of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Snippet != "" {
		text = strings.TrimSpace(text) + ": " + e.Snippet
	}
	return strings.TrimSpace(text)
}

// verdict says what an answer other than 2xx is worth, and for how long it asks us to stay away.
func verdict(status int, header http.Header, alsoTransient []int, now time.Time) (retry.Class, time.Duration) {
	after, said := retryAfter(header, now)
	switch {
	case status == http.StatusTooManyRequests:
		return retry.Throttled, after
	case status == http.StatusServiceUnavailable && said:
		return retry.Throttled, after
	case status == http.StatusForbidden && (said || quotaIsSpent(header)):
		return retry.Throttled, after
	}
	for _, listed := range alsoTransient {
		if status == listed {
			return retry.Transient, 0
		}
	}
	return statusClasses[status], 0
}

// retryAfter reads how long to stay away from Retry-After or, when the quota is spent, from the time of
// its reset. Nonsense is not said; a time that has passed is said, and zero.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	now = serverTime(header, now)
	if value := strings.TrimSpace(header.Get("Retry-After")); value != "" {
		if after, ok := seconds(value); ok {
			return after, true
		}
		if date, err := http.ParseTime(value); err == nil {
			return within(date.Sub(now)), true
		}
	}
	if quotaIsSpent(header) {
		return untilReset(header, now)
	}
	return 0, false
}

// serverTime is the server's own idea of now, where it gives it: dates in its headers are meant by its
// clock, not by ours.
func serverTime(header http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return now
}

func seconds(text string) (time.Duration, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(maximumRetryAfter/time.Second) {
		return maximumRetryAfter, true // digits only, so it is out of range
	}
	return time.Duration(n) * time.Second, true
}

func within(d time.Duration) time.Duration { return min(max(d, 0), maximumRetryAfter) }

// The headers in which APIs say what is left of a quota. There is no standard; these are GitHub's and
// those of the IETF draft on RateLimit header fields.
var (
	remainingHeaders = []string{"X-RateLimit-Remaining", "RateLimit-Remaining"}
	resetHeaders     = []string{"X-RateLimit-Reset", "RateLimit-Reset"}
)

func quotaIsSpent(header http.Header) bool {
	for _, name := range remainingHeaders {
		if strings.TrimSpace(header.Get(name)) == "0" {
			return true
		}
	}
	return false
}

// Resets are written as seconds since 1970, milliseconds since 1970, or seconds from now. Which of
// them is meant follows from the size: a delta of more than 31 years is none, and the milliseconds of
// this century have 12 digits or more.
const (
	leastEpochSeconds      = 1_000_000_000
	leastEpochMilliseconds = 100_000_000_000
)

func untilReset(header http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range resetHeaders {
		n, err := strconv.ParseInt(strings.TrimSpace(header.Get(name)), 10, 64)
		switch {
		case err != nil || n < 0:
			continue
		case n >= leastEpochMilliseconds:
			return within(time.UnixMilli(n).Sub(now)), true
		case n >= leastEpochSeconds:
			return within(time.Unix(n, 0).Sub(now)), true
		default:
			return seconds(strconv.FormatInt(n, 10))
		}
	}
	return 0, false
}
