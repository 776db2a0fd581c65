package main

import "testing"

func TestCut(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		line, want string
		width      int
	}{
		{"", "", 3},
		{"abc", "abc", 3},
		{"abcd", "ab…", 3},
		{"данные", "данн…", 5},
		{"店は休み", "店は休み", 8},
		{"店は休み", "店は休…", 7},
		{"店は休み", "店は…", 6},
		{"e\u0301te\u0301", "e\u0301te\u0301", 3},
		{"e\u0301te\u0301s", "e\u0301t…", 3},
	} {
		if got := cut(one.line, one.width); got != one.want || columns(got) > one.width {
			t.Errorf("%q in %d columns is %q, want %q", one.line, one.width, got, one.want)
		}
	}
}
