package activities

import (
	"strconv"
	"strings"
	"unicode"
)

// readable escapes what would act on a terminal or a page instead of being read: control characters and marks that
// turn the direction of a text. Lines and tabs stay; a carriage return begins a line.
func readable(text string) string {
	var safe strings.Builder
	for _, r := range strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD")) {
		switch {
		case r == '\n' || r == '\t' || !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			safe.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			safe.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return safe.String()
}
