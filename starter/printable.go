package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable escapes what would act on a terminal instead of being read: control characters, line ends, and marks that
// turn the direction of a text. Notes can come from anybody who may use Temporal's UI.
func printable(text string) string {
	if !unprintable(text) {
		return text
	}
	var safe strings.Builder
	for _, r := range text {
		if acts(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			safe.WriteString(quoted[1 : len(quoted)-1])
		} else {
			safe.WriteRune(r)
		}
	}
	return safe.String()
}

// unprintable reports whether a text has a character that acts.
func unprintable(text string) bool { return strings.ContainsFunc(text, acts) }

func acts(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
