package connection

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// maskText stands where a secret was.
const maskText = "***"

// minimumMasked is the least length, in bytes, of a secret that is masked in free text. A shorter one
// (an empty password, a single letter) would turn every line of a log into asterisks and hide what
// happened, while it keeps nobody out.
const minimumMasked = 4

// rememberedTokens is how many of the tokens that a connection has fetched are masked, the newest ones: an
// answer, or the log of a slow step, may still repeat one that has expired.
const rememberedTokens = 8

// masker replaces secrets in text. The zero masker and nil leave text as it is.
type masker struct {
	pattern *regexp.Regexp

	mutex   sync.Mutex
	fetched map[string][]string // tokens by the name of their connection
	tokens  atomic.Pointer[strings.Replacer]
}

// newMasker masks each of the secrets in all the forms in which it may travel.
func newMasker(secrets []string) *masker {
	var patterns []string
	for _, secret := range secrets {
		if len(secret) < minimumMasked {
			continue
		}
		patterns = append(patterns, escapedPattern(secret))
		for _, form := range formsOf(secret) {
			patterns = append(patterns, regexp.QuoteMeta(form))
		}
	}
	if len(patterns) == 0 {
		return &masker{}
	}
	slices.SortFunc(patterns, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a) // the longest first, so that no rest of a longer form stays
		}
		return strings.Compare(a, b)
	})
	return &masker{pattern: regexp.MustCompile("(?i)" + strings.Join(slices.Compact(patterns), "|"))}
}

// escapedPattern matches a secret in whatever mixture of escapes an answer repeats it: those of JSON, with
// which PHP escapes a slash and others a plus sign, of HTML, and of URLs, in upper or lower case.
func escapedPattern(secret string) string {
	var pattern strings.Builder
	for _, r := range secret {
		percent := ""
		for _, b := range []byte(string(r)) {
			percent += fmt.Sprintf("%%%02X", b)
		}
		literal := regexp.QuoteMeta(string(r))
		alternatives := []string{`\\?` + literal, percent, fmt.Sprintf(`\\u%04x`, r), fmt.Sprintf("&#0*%d;", r), fmt.Sprintf("&#x0*%x;", r)}
		if escaped := html.EscapeString(string(r)); escaped != string(r) {
			alternatives = append(alternatives, escaped)
		}
		if named, ok := map[rune]string{'"': "&quot;", '\'': "&apos;", ' ': `\+`}[r]; ok {
			alternatives = append(alternatives, named)
		}
		pattern.WriteString("(?:" + strings.Join(alternatives, "|") + ")")
	}
	return pattern.String()
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
	if m == nil {
		return text
	}
	if tokens := m.tokens.Load(); tokens != nil {
		text = tokens.Replace(text)
	}
	if m.pattern == nil {
		return text
	}
	return m.pattern.ReplaceAllLiteralString(text, maskText)
}

// learn masks a token that a connection has fetched. Tokens are long and come often, so that they are looked
// for as plain texts: as they are, and in the escapes of URLs, JSON and base64.
func (m *masker) learn(connection, token string) {
	if len(token) < minimumMasked {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.fetched == nil {
		m.fetched = map[string][]string{}
	}
	known := append(slices.Clone(m.fetched[connection]), token)
	m.fetched[connection] = known[max(0, len(known)-rememberedTokens):]
	var pairs []string
	for _, tokens := range m.fetched {
		for _, token := range tokens {
			forms := append(formsOf(token), strings.ReplaceAll(token, "/", `\/`))
			slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
			for _, form := range forms {
				pairs = append(pairs, form, maskText)
			}
		}
	}
	m.tokens.Store(strings.NewReplacer(pairs...))
}

// Mask replaces each secret of the connections in text with ***: as it is, percent-encoded, quoted, and in
// base64. Secrets are the values of the variables named where a credential is expected, passwords in
// database URLs, what basic authentication makes of them, and the access tokens fetched with them. One of less than 4 bytes is not masked
// in free text. Mask is for what others wrote (driver errors, answers); the errors of this package
// are masked already.
func (s *Set) Mask(text string) string { return s.masker.mask(text) }
