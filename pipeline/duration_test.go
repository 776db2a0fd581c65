package pipeline

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text      string
		want      time.Duration
		canonical string
	}{
		{"0s", 0, "0s"},
		{"0h", 0, "0s"},
		{"1ms", time.Millisecond, "1ms"},
		{"500ms", 500 * time.Millisecond, "500ms"},
		{"0.5s", 500 * time.Millisecond, "500ms"},
		{"0.1ms", 100 * time.Microsecond, "0.1ms"},
		{"0.000001ms", 1, "0.000001ms"},
		{"1000ms", time.Second, "1s"},
		{"1500ms", 1500 * time.Millisecond, "1.5s"},
		{"1.1s", 1100 * time.Millisecond, "1.1s"},
		{"60s", time.Minute, "1m"},
		{"90m", 90 * time.Minute, "1h30m"},
		{"1h30m", 90 * time.Minute, "1h30m"},
		{"1h0m30s", time.Hour + 30*time.Second, "1h30s"},
		{"1s500ms", 1500 * time.Millisecond, "1.5s"},
		{"6h", 6 * time.Hour, "6h"},
		{"1d", 24 * time.Hour, "24h"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"2d12h", 60 * time.Hour, "60h"},
		{"0.1h", 6 * time.Minute, "6m"},
		{"007s", 7 * time.Second, "7s"},
		{"106751d", 106751 * 24 * time.Hour, "2562024h"},
		{"9223372036.854775807s", math.MaxInt64, "2562047h47m16.854775807s"},
	} {
		got, err := ParseDuration(c.text)
		if err != nil || got.Std() != c.want || got.String() != c.canonical {
			t.Errorf("ParseDuration(%q) = %s (%d), %v; want %s", c.text, got, got, err, c.canonical)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"":                      "an empty text",
		"60":                    "write 60s for seconds or 60m for minutes",
		"0":                     "write 0s",
		"1.5":                   "write 1.5s",
		"s":                     "is no duration",
		"-1h":                   "is no duration",
		"+1h":                   "is no duration",
		" 1h":                   "is no duration",
		"1h ":                   "is no duration",
		"1 h":                   "is no duration",
		"1H":                    "is no duration",
		"1h30":                  "write 30s",
		"30m1h":                 "out of order",
		"1h1h":                  "out of order or twice",
		"1w":                    `unknown unit "w"`,
		"1us":                   `unknown unit "us"`,
		"1µs":                   "is no duration",
		".5s":                   "is no number",
		"5.s":                   "is no number",
		"1.2.3s":                "is no number",
		".s":                    "is no number",
		"0.0000001ms":           "finer than a nanosecond",
		"0.0000000001s":         "finer than a nanosecond",
		"9223372036.854775808s": "too great",
		"106752d":               "too great",
		"106751d24h":            "too long",
		"99999999999999999999s": "too great",
		"P1D":                   "is no duration",
		"1h\x00":                "is no duration",
		"١h":                    "is no duration",
	} {
		got, err := ParseDuration(text)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseDuration(%q) = %s, %v; want an error with %q", text, got, err, part)
		}
	}
}

// A duration survives JSON and YAML as readable text.
func TestDurationMarshals(t *testing.T) {
	t.Parallel()
	type holder struct {
		D Duration `json:"d" yaml:"d"`
	}
	h := holder{Duration(90 * time.Minute)}
	asJSON, err := json.Marshal(h)
	if err != nil || string(asJSON) != `{"d":"1h30m"}` {
		t.Errorf("%s, %v", asJSON, err)
	}
	asYAML, err := yaml.Marshal(h)
	if err != nil || string(asYAML) != "d: 1h30m\n" {
		t.Errorf("%s, %v", asYAML, err)
	}
	var back holder
	if err := json.Unmarshal(asJSON, &back); err != nil || back != h {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{`{"d":5400}`, `{"d":"90"}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if _, err := json.Marshal(holder{-1}); err == nil {
		t.Error("a negative duration was written")
	}
}

// Go's own parser reads the canonical text to the same value: an independent oracle.
func TestDurationAgreesWithGo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		d := Duration(random.Int64N(math.MaxInt64) >> random.IntN(63))
		viaGo, err := time.ParseDuration(d.String())
		if err != nil || viaGo != d.Std() {
			t.Fatalf("%d is written %s, which Go reads as %s, %v", d, d, viaGo, err)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"6h", "1h30m", "500ms", "1d", "60", "1.5s", "", "-1h", "9223372036.854775807s", "0.1ms", "1h1h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %d", text, d)
		}
		again, err := ParseDuration(d.String())
		if err != nil || again != d || again.String() != d.String() {
			t.Fatalf("%q is %s, which reads as %s, %v", text, d, again, err)
		}
		// Where Go's parser takes the text too, it must mean the same; a day is not one of its units.
		if viaGo, err := time.ParseDuration(text); err == nil && viaGo != d.Std() {
			t.Fatalf("%q is %s here and %s for Go", text, d, viaGo)
		}
	})
}
