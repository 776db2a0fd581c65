package extract

import (
	"strings"
	"testing"
)

func TestNextLink(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []string
		want    string
	}{
		"plain":                    {[]string{`<https://h/p?page=2>; rel="next"`}, "https://h/p?page=2"},
		"among others":             {[]string{`<https://h/1>; rel="prev", <https://h/3>; rel="next", <https://h/9>; rel="last"`}, "https://h/3"},
		"several headers":          {[]string{`<https://h/1>; rel="prev"`, `<https://h/3>; rel=next`}, "https://h/3"},
		"several relations":        {[]string{`<https://h/3>; rel="last NEXT"`}, "https://h/3"},
		"comma and quotes inside":  {[]string{`</a?x=1,2>; title="a, \"b\"; rel=next"; rel="prev", </c>;rel="next"`}, "/c"},
		"only the first rel":       {[]string{`</a>; rel="prev"; rel="next"`}, ""},
		"of another context":       {[]string{`</a>; rel="next"; anchor="/other"`}, ""},
		"other parameters":         {[]string{`</a>; foo; rel = "next" ; title*=UTF-8''x`}, "/a"},
		"no next":                  {[]string{`</a>; rel="prev"`}, ""},
		"similar":                  {[]string{`</a>; rel="nextish"`}, ""},
		"none":                     {nil, ""},
		"empty elements":           {[]string{`, ,</a>; rel=next`}, "/a"},
		"not a link":               {[]string{`next: /a`}, ""},
		"broken, and a sound one":  {[]string{`<https://h`, `</b>; rel=next`}, "/b"},
		"target of another scheme": {[]string{`<file:///etc/passwd>; rel="next"`}, "file:///etc/passwd"},
	} {
		if got := nextLink(test.headers); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func FuzzNextLink(f *testing.F) {
	f.Add(`<https://h/1>; rel="prev", <https://h/3>; rel="next"; title="a\"b,"`)
	f.Add(`<a>;;;=";,<b>`)
	f.Fuzz(func(t *testing.T, header string) {
		got := nextLink([]string{header})
		if !strings.Contains(header, got) {
			t.Errorf("%q is not in %q", got, header)
		}
		if again := nextLink([]string{`<x>; rel=prev`, header}); again != got {
			t.Errorf("%q after another header, %q alone", again, got)
		}
	})
}

func FuzzPosition(f *testing.F) {
	f.Add(`{"kind":"cursor","page":2,"value":"c"}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text, "cursor")
		if err != nil {
			return
		}
		next, _ := p.advance("value")
		again, err := parsePosition(next.String(), "cursor")
		if p.Page < 1<<40 && (err != nil || again != next) {
			t.Errorf("%q: %+v, %+v, %v", text, next, again, err)
		}
	})
}

// TestPositionFindsCycles: however long the way to it and the cycle are, it is found in a number of steps in
// proportion.
func TestPositionFindsCycles(t *testing.T) {
	t.Parallel()
	for lead := range 40 {
		for length := 1; length < 40; length++ {
			p := position{Kind: "cursor", Page: 1}
			steps, looped := 0, false
			for ; !looped; steps++ {
				at := steps
				if at >= lead {
					at = lead + (steps-lead)%length
				}
				p, looped = p.advance(strings.Repeat("x", at))
			}
			if steps > 4*(lead+length) || steps <= length {
				t.Errorf("lead %d, length %d: %d steps", lead, length, steps)
			}
		}
	}
}
