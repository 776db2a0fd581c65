package connection

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// defaultLongestWait caps what an API may ask for, unless its connection says otherwise. A day in
// Retry-After is nearly always a mistake, and to ask once an hour hurts nobody.
const defaultLongestWait = time.Hour

// mostAsked is what an API can mean by a time to stay away. What is longer is nonsense: milliseconds or an instant in
// place of seconds, a date that stands for "never". To cap it would hold everybody back for nothing.
const mostAsked = 7 * 24 * time.Hour

// retryAfter reads how long to stay away from Retry-After or, when a quota is used up, from the time of its
// reset; never more than longest. Nonsense is not said; a time that has passed is said, and zero.
func retryAfter(header http.Header, now time.Time, longest time.Duration) (time.Duration, bool) {
	now = serverTime(header, now)
	if after, said := headerRetryAfter(header, now, longest); said {
		return after, true
	}
	return untilReset(header, now, longest)
}

// headerRetryAfter reads the header. Of several the longest counts: who asks before would be refused.
func headerRetryAfter(header http.Header, now time.Time, longest time.Duration) (time.Duration, bool) {
	var after time.Duration
	said := false
	for _, value := range header.Values("Retry-After") {
		value = strings.TrimSpace(value)
		one, ok := delta(value, longest)
		if date, err := http.ParseTime(value); err == nil {
			one, ok = within(date.Sub(now), longest)
		}
		if ok {
			after, said = max(after, one), true
		}
	}
	return after, said
}

// asker names the header that retryAfter follows.
func asker(header http.Header, now time.Time) string {
	if _, said := headerRetryAfter(header, serverTime(header, now), time.Hour); said {
		return "Retry-After"
	}
	for _, quota := range quotas {
		if isSpent(header.Get(quota.remaining)) {
			return quota.remaining
		}
	}
	return ""
}

// serverTime is the server's own idea of now, where it gives it: dates in its headers are meant by its
// clock, not by ours.
func serverTime(header http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return now
}

// within caps what an API asks for, unless it is nonsense; what has passed is no wait.
func within(d, longest time.Duration) (time.Duration, bool) {
	return min(max(d, 0), longest), d <= mostAsked
}

// quotas are the headers in which APIs say what is left of a quota and when there is more. There is no
// standard; these are GitHub's (and most others'), Twitter's, Discord's, and those of the IETF draft on
// RateLimit header fields up to its version 6. A reset belongs to the count beside it.
var quotas = []struct{ remaining, reset, resetAfter string }{
	{"X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After"},
	{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", "X-Rate-Limit-Reset-After"},
	{"RateLimit-Remaining", "RateLimit-Reset", ""},
}

// isSpent says whether a count of what is left is there and says nothing is.
func isSpent(text string) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && n < 1 && !math.IsInf(n, 0)
}

func quotaIsSpent(header http.Header) bool {
	for _, quota := range quotas {
		if isSpent(header.Get(quota.remaining)) {
			return true
		}
	}
	return false
}

// untilReset is how long the quotas that are used up stay so. It is not said when none is, or when none says
// it in a way that makes sense.
func untilReset(header http.Header, now time.Time, longest time.Duration) (time.Duration, bool) {
	var until time.Duration
	said := false
	for _, quota := range quotas {
		if !isSpent(header.Get(quota.remaining)) {
			continue
		}
		after, ok := time.Duration(0), false
		if quota.resetAfter != "" {
			after, ok = delta(header.Get(quota.resetAfter), longest)
		}
		if !ok {
			after, ok = reset(header.Get(quota.reset), now, longest)
		}
		if ok {
			until, said = max(until, after), true
		}
	}
	return until, said
}

// Resets are written as seconds since 1970, milliseconds since 1970, seconds from now, or a date (of HTTP or RFC 3339). Which
// number is meant follows from its size: a delta of more than 31 years is none, the milliseconds of this
// century have 12 digits or more, and those of its last year have 13.
const (
	leastEpochSeconds      = 1_000_000_000
	leastEpochMilliseconds = 100_000_000_000
	mostEpochMilliseconds  = 10_000_000_000_000
)

func reset(text string, now time.Time, longest time.Duration) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, ok := decimal(text); ok {
		switch {
		case n >= mostEpochMilliseconds:
			return 0, false
		case n >= leastEpochMilliseconds:
			return within(time.UnixMicro(int64(n*1e3)).Sub(now), longest)
		case n >= leastEpochSeconds:
			return within(time.UnixMicro(int64(n*1e6)).Sub(now), longest)
		default:
			return delta(text, longest)
		}
	}
	date, err := http.ParseTime(text)
	if err != nil {
		date, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return 0, false
	}
	return within(date.Sub(now), longest)
}

// delta reads seconds from now, which may have a fraction.
func delta(text string, longest time.Duration) (time.Duration, bool) {
	n, ok := decimal(strings.TrimSpace(text))
	if !ok || n > mostAsked.Seconds() {
		return 0, false
	}
	return within(time.Duration(n*float64(time.Second)), longest)
}

// decimal reads digits with at most one point among them: no sign, no exponent, no hexadecimal.
func decimal(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}
