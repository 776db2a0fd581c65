package main

import "testing"

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"the shop moves to Zürich": "the shop moves to Zürich",
		"quotes \" and \\ stay":    "quotes \" and \\ stay",
		"red \x1b[31m alert":       `red \x1b[31m alert`,
		"two\nlines\tand\r":        `two\nlines\tand\r`,
		"\u009b2J":                 `\u009b2J`,
		"turned \u202e around":     `turned \u202e around`,
		"line \u2028 end":          `line \u2028 end`,
		"bell \a and delete \x7f":  `bell \a and delete \x7f`,
	} {
		if got := printable(text); got != want || unprintable(got) {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}
