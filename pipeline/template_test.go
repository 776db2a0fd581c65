package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	jakarta, err := interval.LoadLocation("Asia/Jakarta")
	if err != nil {
		t.Fatal(err)
	}
	// 15 January in Jakarta.
	iv := interval.Interval{Start: instant(t, "2026-01-14T17:00:00Z"), End: instant(t, "2026-01-15T17:00:00Z")}
	for _, c := range []struct{ template, inJakarta, inUTC string }{
		{"/orders", "/orders", "/orders"},
		{"", "", ""},
		{"{{ .Interval.Start }}", "2026-01-14T17:00:00Z", "2026-01-14T17:00:00Z"},
		{"{{.Interval.Start}}/{{.Interval.End}}", "2026-01-14T17:00:00Z/2026-01-15T17:00:00Z", "2026-01-14T17:00:00Z/2026-01-15T17:00:00Z"},
		{"a{{- date .Interval.Start -}} b", "a2026-01-15b", "a2026-01-14b"},
		{"{{ .Interval.End | date }}", "2026-01-16", "2026-01-15"},
		{"{{ local .Interval.Start }}", "2026-01-15T00:00:00+07:00", "2026-01-14T17:00:00Z"},
		{"{{ unix .Interval.Start }}", "1768410000", "1768410000"},
		{"{{ unixms .Interval.End }}", "1768496400000", "1768496400000"},
		{"{{ last_instant .Interval.End }}", "2026-01-15T16:59:59.999999Z", "2026-01-15T16:59:59.999999Z"},
		{"{{ .Interval.End | last_instant | unixms }}", "1768496399999", "1768496399999"},
		{"{{ .Interval.End | last_instant | unix }}", "1768496399", "1768496399"},
		{"{{ date (last_instant .Interval.End) }}", "2026-01-15", "2026-01-15"},
		{"{{ local (last_instant .Interval.End) }}", "2026-01-15T23:59:59.999999+07:00", "2026-01-15T16:59:59.999999Z"},
		{`{{ format "2006/01/02" .Interval.Start }}`, "2026/01/15", "2026/01/14"},
		{"{{ .Interval.Start | format `20060102T1504Z0700` }}", "20260115T0000+0700", "20260114T1700Z"},
		{`{{ .Interval.Start | local | format "15:04" }}`, "00:00", "17:00"},
		{"{{/* nothing */}}x", "x", "x"},
		{"}} { {", "}} { {", "}} { {"},
	} {
		for loc, want := range map[*time.Location]string{jakarta: c.inJakarta, time.UTC: c.inUTC, nil: c.inUTC} {
			got, err := Template(c.template).Execute(iv, loc)
			if err != nil || got != want {
				t.Errorf("%s in %s: got %q, %v; want %q", c.template, loc, got, err, want)
			}
		}
	}
}

// The interval is written in UTC, in whatever zone its instants are.
func TestTemplatesIgnoreTheZoneOfTheInstants(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 7*60*60)
	iv := interval.Interval{Start: instant(t, "2026-01-14T17:00:00Z").In(east), End: instant(t, "2026-01-15T17:00:00Z").In(east)}
	if got, err := Template("{{ .Interval.Start }}").Execute(iv, nil); err != nil || got != "2026-01-14T17:00:00Z" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A layout with a literal Z is right where the zone is UTC.
func TestLiteralZ(t *testing.T) {
	t.Parallel()
	iv := interval.Interval{Start: instant(t, "2026-01-14T17:00:00Z"), End: instant(t, "2026-01-15T17:00:00Z")}
	const text = `{{ format "2006-01-02T15:04:05Z" .Interval.Start }}`
	if got, err := Template(text).Execute(iv, time.UTC); err != nil || got != "2026-01-14T17:00:00Z" {
		t.Errorf("got %q, %v", got, err)
	}
	rome, err := interval.LoadLocation("Europe/Rome")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Template(text).Execute(iv, rome); err == nil {
		t.Errorf("got %q, which claims to be UTC", got)
	}
}

// The output is bounded: the layout of a format may be long and stand there often.
func TestTemplateOutputIsBounded(t *testing.T) {
	t.Parallel()
	iv := interval.Interval{Start: instant(t, "2026-01-14T17:00:00Z"), End: instant(t, "2026-01-15T17:00:00Z")}
	text := Template(`{{ format "` + strings.Repeat("Monday", 20000) + `" .Interval.Start }}`)
	if got, err := (text + text + text).Execute(iv, nil); err == nil || !strings.Contains(err.Error(), "longer than 256 KiB") {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"{{ .Interval.Start }}", "{{ .Interval.End | last_instant | unixms }}", `{{ format "2006" .Interval.Start }}`,
		"{{ range . }}{{ end }}", "{{ define `x` }}{{ end }}", "{{ $x := 1 }}", "{{", "}}", "{{ call .Interval }}",
		"{{ printf `%1000000d` 1 }}", "{{ (date .Interval.Start) }}", "{{ nil }}", "{{ .Interval.Start | date | date }}",
		"{{ break }}", "{{ template `x` }}", "{{ block `x` . }}{{ end }}", "{{ . }}", "{{ .Interval.Start.Unix }}", "{{/* c */}}",
	} {
		f.Add(seed)
	}
	iv := interval.Interval{Start: time.Unix(1768410000, 0).UTC(), End: time.Unix(1768496400, 0).UTC()}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Template(text).Execute(iv, nil)
		if err != nil {
			if err.Error() == "" {
				t.Fatalf("%q: an error without a word", text)
			}
			return
		}
		if again, err := Template(text).Execute(iv, nil); err != nil || again != got {
			t.Fatalf("%q: %q, and then %q, %v", text, got, again, err)
		}
		if !strings.Contains(text, "{{") && got != text {
			t.Fatalf("%q became %q", text, got)
		}
		for _, forbidden := range []string{"map[", "0x", "<nil>", "<no value>", "templateInstant"} {
			if strings.Contains(got, forbidden) && !strings.Contains(text, forbidden) {
				t.Fatalf("%q shows the inside: %q", text, got)
			}
		}
	})
}

// A text that must hold what looks like a variable of the environment can be written.
func TestDollarBeforeABrace(t *testing.T) {
	t.Parallel()
	const text = `{{ "$" }}{NAME}`
	p := with(t, "path: /", "headers: { X-A: '"+text+"' }\n      path: /")
	if got, err := p.Steps[0].HTTP.Headers["X-A"].Execute(interval.Interval{}, nil); err != nil || got != "${NAME}" {
		t.Errorf("%q, %v", got, err)
	}
}
