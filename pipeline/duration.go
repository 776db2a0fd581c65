package pipeline

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is an elapsed time. Its text is one or more numbers, each with a unit, from the greatest
// unit to the smallest: "6h", "1h30m", "1.5s", "500ms". The units are d, h, m, s and ms; a day is 24
// hours, whatever the clocks do. A number without a unit is refused: nobody can tell its unit by
// looking. Durations are not negative.
type Duration time.Duration

// durationUnits are the units in the order in which they may follow each other.
var durationUnits = [...]struct {
	name string
	size time.Duration
}{
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

// Std returns d as a standard duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// ParseDuration reads the text of a Duration. The error says what would be right.
func ParseDuration(text string) (Duration, error) {
	if text == "" {
		return 0, fmt.Errorf(`an empty text is no duration: write a number with its unit, such as 30s or 1h30m`)
	}
	var total time.Duration
	next := 0 // index of the greatest unit that may still come
	for rest := text; rest != ""; {
		number := rest[:prefixLength(rest, "0123456789.")]
		rest = rest[len(number):]
		unit := rest[:prefixLength(rest, "abcdefghijklmnopqrstuvwxyz")]
		rest = rest[len(unit):]
		if number == "" || unit == "" && rest != "" {
			return 0, fmt.Errorf(`%q is no duration: write numbers with their units d, h, m, s or ms, such as 30s or 1h30m`, text)
		}
		if unit == "" {
			return 0, missingUnit(text, number)
		}
		index := unitIndex(unit)
		if index < 0 {
			return 0, fmt.Errorf(`%q has the unknown unit %q: the units are d, h, m, s and ms`, text, unit)
		}
		if index < next {
			return 0, fmt.Errorf(`%q has its units out of order or twice: write each at most once, from d to ms`, text)
		}
		next = index + 1
		amount, err := durationOf(number, durationUnits[index].size)
		if err != nil {
			return 0, fmt.Errorf(`%q is no duration: %w`, text, err)
		}
		if total > math.MaxInt64-amount {
			return 0, fmt.Errorf(`%q is too long: the greatest duration is about 292 years`, text)
		}
		total += amount
	}
	return Duration(total), nil
}

// durationOf multiplies exactly, in integers: 0.1 has no exact binary fraction.
func durationOf(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, hasPoint := strings.Cut(number, ".")
	if whole == "" || hasPoint && fraction == "" || strings.Contains(fraction, ".") {
		return 0, fmt.Errorf("%q is no number", number)
	}
	count, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || count > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("%q is too great: the greatest duration is about 292 years", number)
	}
	amount := time.Duration(count) * unit
	for part := unit; fraction != ""; fraction = fraction[1:] {
		if part%10 != 0 && fraction[0] != '0' {
			return 0, fmt.Errorf("%q is finer than a nanosecond", number)
		}
		part /= 10
		amount += time.Duration(fraction[0]-'0') * part
		if amount < 0 {
			return 0, fmt.Errorf("%q is too great: the greatest duration is about 292 years", number)
		}
	}
	return amount, nil
}

func missingUnit(text, number string) error {
	if text == "0" {
		return fmt.Errorf(`0 has no unit: write 0s`)
	}
	return fmt.Errorf(`%s has no unit: write %ss for seconds or %sm for minutes`, text, number, number)
}

func unitIndex(name string) int {
	for i, unit := range durationUnits {
		if unit.name == name {
			return i
		}
	}
	return -1
}

func prefixLength(text, set string) int {
	for i := 0; i < len(text); i++ {
		if strings.IndexByte(set, text[i]) < 0 {
			return i
		}
	}
	return len(text)
}

// String returns the canonical text: hours, minutes and seconds, each only where it is not zero, and
// milliseconds only below a second: "24h", "1h30m", "1.5s", "500ms", "0s". ParseDuration reads it
// back to the same value.
func (d Duration) String() string {
	rest := time.Duration(d)
	switch {
	case rest < 0:
		return rest.String() // not a value that can be parsed; only for messages
	case rest == 0:
		return "0s"
	case rest < time.Second:
		return decimal(rest, time.Millisecond) + "ms"
	}
	var b strings.Builder
	for _, unit := range durationUnits[1:3] {
		if count := rest / unit.size; count > 0 {
			fmt.Fprintf(&b, "%d%s", count, unit.name)
			rest -= count * unit.size
		}
	}
	if rest > 0 {
		b.WriteString(decimal(rest, time.Second) + "s")
	}
	return b.String()
}

// decimal writes amount/unit without trailing zeros. The unit is a power of ten nanoseconds.
func decimal(amount, unit time.Duration) string {
	whole, fraction := amount/unit, amount%unit
	if fraction == 0 {
		return strconv.FormatInt(int64(whole), 10)
	}
	digits := len(strconv.FormatInt(int64(unit), 10)) - 1
	return strings.TrimRight(fmt.Sprintf("%d.%0*d", whole, digits, fraction), "0")
}

// MarshalText returns the canonical text, so that a duration stays readable in JSON and in
// Temporal's UI.
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 {
		return nil, fmt.Errorf("a duration of %s cannot be written: durations are not negative", time.Duration(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText is ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
