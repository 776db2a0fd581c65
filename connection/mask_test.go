package connection

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestMaskHidesEveryForm(t *testing.T) {
	t.Parallel()
	const secret = `pa%S "wörd/+?`
	m := newMasker([]string{secret, "TOKEN-abc123"})
	for name, form := range map[string]string{
		"plain":      secret,
		"query":      url.QueryEscape(secret),
		"path":       url.PathEscape(secret),
		"user info":  url.UserPassword("u", secret).String(),
		"quoted":     strconv.Quote(secret),
		"base64":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 URL": base64.URLEncoding.EncodeToString([]byte(secret)),
		"other":      "TOKEN-abc123",
	} {
		text := m.mask("before " + form + " after")
		if !strings.HasPrefix(text, "before ") || !strings.HasSuffix(text, " after") || !strings.Contains(text, maskText) {
			t.Errorf("%s: %s", name, text)
		}
		for _, part := range []string{"pa%S", "pa%25S", "abc123", form} {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q left in %s", name, part, text)
			}
		}
	}
}

// A password that is empty or a single letter must not make a log unreadable.
func TestMaskLeavesTextReadable(t *testing.T) {
	t.Parallel()
	const line = "loaded 12 rows into analytics"
	for _, secrets := range [][]string{nil, {""}, {"a"}, {"", "a", "in", "ows"}} {
		if got := newMasker(secrets).mask(line); got != line {
			t.Errorf("%q: %s", secrets, got)
		}
	}
	if got := (*masker)(nil).mask(line); got != line {
		t.Error(got)
	}
}

func TestMaskTakesTheLongerSecretFirst(t *testing.T) {
	t.Parallel()
	if got := newMasker([]string{"abcd", "abcdefgh"}).mask("x abcdefgh y"); got != "x *** y" {
		t.Error(got)
	}
}

func TestSetMasksWhatItWasGiven(t *testing.T) {
	t.Parallel()
	set := mustParse(t, whole, wholeEnv)
	basic := base64.StdEncoding.EncodeToString([]byte("reader:token-value"))
	text := set.Mask("Authorization: Basic " + basic + "; password=hunter22; key=token-value; " + url.QueryEscape(wholeEnv["PASSWORD"]))
	for _, secret := range []string{"hunter22", "token-value", basic[:16], "z%279"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q left in %s", secret, text)
		}
	}
	if api, _ := set.HTTP("keyed"); api.Mask("token-value") != maskText {
		t.Error("an API masks other than its set")
	}
}
