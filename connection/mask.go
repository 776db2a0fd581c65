package connection

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maskText stands where a secret was.
const maskText = "***"

// minimumMasked is the least length, in bytes, of a secret that is masked in free text. A shorter one
// (an empty password, a single letter) would turn every line of a log into asterisks and hide what
// happened, while it keeps nobody out.
const minimumMasked = 4

// masker replaces secrets in text. The zero masker and nil leave text as it is.
type masker struct {
	replacer *strings.Replacer
}

// newMasker masks each of the secrets in all the forms in which it may travel.
func newMasker(secrets []string) *masker {
	var forms []string
	for _, secret := range secrets {
		if len(secret) < minimumMasked {
			continue
		}
		forms = append(forms, formsOf(secret)...)
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a) // the longest first, so that no rest of a longer form stays
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, maskText)
	}
	return &masker{replacer: strings.NewReplacer(pairs...)}
}

// formsOf lists a secret as it stands in plain text, in URLs, in quoted text and in base64 (without
// padding, which is a prefix of the form with it).
func formsOf(secret string) []string {
	quoted := strconv.Quote(secret)
	return []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		strings.TrimPrefix(url.UserPassword("", secret).String(), ":"),
		quoted[1 : len(quoted)-1],
		base64.RawStdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

func (m *masker) mask(text string) string {
	if m == nil || m.replacer == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// Mask replaces each secret of the connections in text with ***: as it is, percent-encoded, quoted, and in
// base64. Secrets are the values of the variables named where a credential is expected, passwords in
// database URLs, and what basic authentication makes of them. One of less than 4 bytes is not masked
// in free text. Mask is for what others wrote (driver errors, answers); the errors of this package
// are masked already.
func (s *Set) Mask(text string) string { return s.masker.mask(text) }
