package pipeline

import (
	"reflect"
	"strings"
)

// foreignWords are settings of other tools under the names that people type from memory.
var foreignWords = map[string]string{
	"schedule_interval": "schedule.cron or schedule.every",
	"interval":          "schedule.every",
	"depends_on":        "needs",
	"dependencies":      "needs",
	"upstream":          "needs",
	"primary_key":       "unique_key",
	"key":               "unique_key",
	"mode":              "disposition",
	"write_disposition": "disposition",
	"retries":           "retry: { maximum_attempts: … }",
	"retry_delay":       "retry: { initial_interval: … }",
	"execution_timeout": "timeout: { start_to_close: … }",
	"concurrency":       "schedule.max_active_runs",
	"tasks":             "steps",
	"url":               "connection, which knows the address, and path",
	"auth":              "connection, which knows the credentials",
	"incremental_key":   "time_column",
	"cursor_field":      "time_column",
	"target":            "table",
	"destination":       "table",
	"source":            "from",
	"tz":                "timezone",
}

// suggest returns the option that a misspelt word probably means, or "".
func suggest(word string, options []string) string {
	best, least := "", max(1, len(word)/3)+1 // one slip in three letters
	for _, option := range options {
		if d := distance(strings.ToLower(word), option, least); d < least {
			best, least = option, d
		}
	}
	return best
}

// suggestBelow looks one level down: catchup at the top belongs under schedule.
func suggestBelow(word string, t reflect.Type) string {
	for _, outer := range fieldsOf(t, "yaml") {
		inner := t.Field(outer.index).Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		for _, f := range fieldsOf(inner, "yaml") {
			if suggest(word, []string{f.name}) != "" {
				return outer.name + "." + f.name
			}
		}
	}
	return ""
}

func didYouMean(word string, options []string) string {
	if meant := suggest(word, options); meant != "" {
		return " (did you mean " + meant + "?)"
	}
	return ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that make b of a
// (the optimal string alignment distance). It gives up at the limit: words come from a file, and a
// long one is no misspelling.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 100 {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
