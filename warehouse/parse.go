package warehouse

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/trancheflow/tranche/pipeline"
)

const (
	notNumber   = "is not a number"
	notInteger  = "is not a whole number: fractions are refused, not rounded"
	outOfRange  = "is out of the type's range"
	notTime     = "is not a time in the declared format"
	noSuchTime  = "is no time of the calendar"
	outOfYears  = "is outside the years 1 to 9999"
	notBoolean  = "is not a boolean: true, false, t, f, 1 or 0"
	hasTimePart = "has a time of day, which a date cannot hold"
)

// decimal is a number as written: sign, digits without point or leading zeros, and the exponent of ten
// of the last digit. Zero has no digits.
type decimal struct {
	negative bool
	digits   []byte
	exponent int
}

// maxExponent keeps a short text from standing for a number of a billion digits.
const maxExponent = 200_000

// decimal reads a number: sign, digits, point, exponent. It is exact.
func (p *parser) decimal(text []byte) (decimal, bool) {
	var d decimal
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		d.negative = text[i] == '-'
		i++
	}
	from := len(p.arena)
	seen, point := false, false
	for ; i < len(text); i++ {
		b := text[i]
		if b == '.' && !point {
			point = true
			continue
		}
		if b < '0' || b > '9' {
			break
		}
		seen = true
		if point {
			d.exponent--
		}
		if b != '0' || len(p.arena) > from {
			p.arena = append(p.arena, b)
		}
	}
	if !seen {
		return d, false
	}
	if i < len(text) {
		exponent, ok := parseExponent(text[i:])
		if !ok {
			return d, false
		}
		d.exponent += exponent
	}
	d.digits = p.arena[from:len(p.arena):len(p.arena)]
	if len(d.digits) == 0 {
		d.negative = false
	}
	return d, true
}

func parseExponent(text []byte) (int, bool) {
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	text = text[1:]
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	n := 0
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = min(n*10+int(b-'0'), maxExponent)
	}
	if negative {
		n = -n
	}
	return n, true
}

// integer reads a whole number. Forms such as 42.0 and 1e3 are whole numbers, as some writers of JSON
// print them; 1.5 is none.
func (p *parser) integer(text []byte, low, high int64) (int64, string) {
	if n, ok := plainInteger(text); ok {
		if n < low || n > high {
			return 0, outOfRange
		}
		return n, ""
	}
	d, ok := p.decimal(text)
	if !ok {
		return 0, notNumber
	}
	n, ok, whole := d.integer(0, false)
	switch {
	case !whole:
		return 0, notInteger
	case !ok || n < low || n > high:
		return 0, outOfRange
	}
	return n, ""
}

// plainInteger is the fast path: a minus sign and at most 18 digits.
func plainInteger(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	if len(digits) != len(text) {
		n = -n
	}
	return n, true
}

// integer returns d × 10^shift as an int64. A fraction is cut towards minus infinity when floor is
// set; otherwise whole is false. ok is false when it does not fit.
func (d decimal) integer(shift int, floor bool) (n int64, ok, whole bool) {
	digits, exponent := d.digits, d.exponent+shift
	whole = true
	for exponent < 0 && len(digits) > 0 {
		if digits[len(digits)-1] != '0' {
			whole = false
		}
		digits = digits[:len(digits)-1]
		exponent++
	}
	if !whole && !floor {
		return 0, true, false
	}
	if len(digits) > 0 && len(digits)+exponent > 19 {
		return 0, false, true
	}
	var magnitude uint64
	for _, b := range digits {
		magnitude = magnitude*10 + uint64(b-'0')
	}
	for ; exponent > 0 && magnitude > 0; exponent-- {
		magnitude *= 10
	}
	if d.negative {
		if !whole {
			magnitude++
		}
		if magnitude > 1<<63 {
			return 0, false, true
		}
		return -int64(magnitude-1) - 1, true, true
	}
	if magnitude > math.MaxInt64 {
		return 0, false, true
	}
	return int64(magnitude), true, true
}

// PostgreSQL's limits of an unconstrained numeric (documentation, 8.1).
const (
	maxNumericWhole    = 131072
	maxNumericFraction = 16383
)

// numeric reads an exact number and returns its canonical text: no exponent, no leading zeros, no
// minus on zero, and exactly the declared number of decimals.
func (p *parser) numeric(text []byte, declared pipeline.Type) ([]byte, string) {
	d, ok := p.decimal(text)
	if !ok {
		return nil, notNumber
	}
	scale := max(-d.exponent, 0)
	if declared.Precision > 0 {
		scale = declared.Scale
		for -d.exponent > scale && len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
			d.digits = d.digits[:len(d.digits)-1]
			d.exponent++
		}
		if -d.exponent > scale && len(d.digits) > 0 {
			return nil, "has more decimals than " + strconv.Itoa(scale) + ", and is not rounded"
		}
	}
	whole := len(d.digits) + d.exponent // digits before the point, when positive
	if len(d.digits) > 0 && declared.Precision > 0 && whole > declared.Precision-declared.Scale {
		return nil, outOfRange
	}
	if len(d.digits) > 0 && whole > maxNumericWhole || scale > maxNumericFraction {
		return nil, outOfRange
	}
	return p.writeNumeric(d, whole, scale), ""
}

func (p *parser) writeNumeric(d decimal, whole, scale int) []byte {
	from := len(p.arena)
	if d.negative {
		p.arena = append(p.arena, '-')
	}
	if len(d.digits) == 0 {
		whole = 0
	}
	if whole <= 0 {
		p.arena = append(p.arena, '0')
	}
	for i := 0; i < whole; i++ {
		p.arena = append(p.arena, d.at(i))
	}
	if scale > 0 {
		p.arena = append(p.arena, '.')
		for i := whole; i < whole+scale; i++ {
			p.arena = append(p.arena, d.at(i))
		}
	}
	return p.arena[from:len(p.arena):len(p.arena)]
}

// at is the digit at position i, counted from the first digit; positions outside hold zeros.
func (d decimal) at(i int) byte {
	if i < 0 || i >= len(d.digits) {
		return '0'
	}
	return d.digits[i]
}

func parseBoolean(text []byte) (int64, string) {
	switch len(text) {
	case 1:
		switch text[0] {
		case 't', 'T', '1':
			return 1, ""
		case 'f', 'F', '0':
			return 0, ""
		}
	case 4:
		if bytes.EqualFold(text, []byte("true")) {
			return 1, ""
		}
	case 5:
		if bytes.EqualFold(text, []byte("false")) {
			return 0, ""
		}
	}
	return 0, notBoolean
}

// parseFloat reads a decimal number and gives the nearest float. Infinity and NaN are refused, as are
// numbers that would become infinite or, without being zero, zero.
func parseFloat(text []byte, bits int) (float64, string) {
	zero := true
	for _, b := range text {
		switch {
		case b >= '1' && b <= '9':
			zero = false
		case b == 'e' || b == 'E':
			goto scanned
		case b != '0' && b != '.' && b != '-' && b != '+':
			return 0, notNumber // also hexadecimal, underscores, inf and nan, which ParseFloat takes
		}
	}
scanned:
	if i := bytes.IndexByte(text, '_'); i >= 0 {
		return 0, notNumber
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), bits)
	if err != nil {
		if math.IsInf(f, 0) {
			return 0, outOfRange
		}
		return 0, notNumber
	}
	if f == 0 {
		if !zero {
			return 0, outOfRange
		}
		return 0, "" // not minus zero, which SQLite does not keep
	}
	return f, ""
}

func (p *parser) uuid(text []byte) ([]byte, string) {
	const bad = "is not a UUID"
	from := len(p.arena)
	var plain [32]byte
	switch len(text) {
	case 32:
		copy(plain[:], text)
	case 36:
		if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
			return nil, bad
		}
		n := copy(plain[:], text[:8])
		n += copy(plain[n:], text[9:13])
		n += copy(plain[n:], text[14:18])
		n += copy(plain[n:], text[19:23])
		copy(plain[n:], text[24:])
	default:
		return nil, bad
	}
	p.arena = append(p.arena, make([]byte, 16)...)
	raw := p.arena[from:len(p.arena):len(p.arena)]
	if _, err := hex.Decode(raw, plain[:]); err != nil {
		return nil, bad
	}
	return raw, ""
}

// bytea reads PostgreSQL's hexadecimal form (\x00ff) and, without that prefix, base64 with padding
// (RFC 4648), as JSON carries bytes.
func (p *parser) bytea(text []byte) ([]byte, string) {
	from := len(p.arena)
	if rest, ok := bytes.CutPrefix(text, []byte(`\x`)); ok {
		p.arena = append(p.arena, make([]byte, hex.DecodedLen(len(rest)))...)
		raw := p.arena[from:len(p.arena):len(p.arena)]
		if _, err := hex.Decode(raw, rest); err != nil {
			return nil, `is not hexadecimal after \x`
		}
		return raw, ""
	}
	if bytes.ContainsAny(text, "\r\n") { // which the decoder would skip
		return nil, `is neither base64 nor \x followed by hexadecimal`
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(p.arena, text)
	if err != nil {
		return nil, `is neither base64 nor \x followed by hexadecimal`
	}
	p.arena = raw
	return raw[from:len(raw):len(raw)], ""
}

// date reads a day. A time of day is refused unless it is midnight without an offset or in UTC: then
// nothing is lost.
func (p *parser) date(c *column, text []byte) (int64, string) {
	switch c.format {
	case formatISO:
		day, rest, reason := isoDate(text)
		if reason != "" || len(rest) == 0 {
			return day, reason
		}
		micros, reason := isoInstant(text)
		if reason == "" && (micros != day*microsPerDay || hasOffset(rest)) {
			return 0, hasTimePart
		}
		return day, reason
	case formatLayout:
		t, err := time.Parse(c.layout, string(text))
		if err != nil {
			return 0, notTime
		}
		if t.Hour() != 0 || t.Minute() != 0 || t.Second() != 0 || t.Nanosecond() != 0 {
			return 0, hasTimePart
		}
		return daysOf(t), yearReason(t.Year())
	}
	micros, reason := p.instant(c, text)
	if reason != "" {
		return 0, reason
	}
	if micros%microsPerDay != 0 {
		return 0, hasTimePart
	}
	return micros / microsPerDay, ""
}

// hasOffset reports whether a zone other than Z stands in the time part.
func hasOffset(rest []byte) bool { return bytes.ContainsAny(rest, "+-") }

// instant reads a time as microseconds since 1970, in UTC when it says no offset. What is finer than a
// microsecond is cut off, towards the past.
func (p *parser) instant(c *column, text []byte) (int64, string) {
	switch c.format {
	case formatUnix:
		return p.unix(text, 6)
	case formatUnixMilli:
		return p.unix(text, 3)
	case formatUnixMicro:
		return p.unix(text, 0)
	case formatLayout:
		t, err := time.Parse(c.layout, string(text))
		if err != nil {
			return 0, notTime
		}
		t = t.UTC()
		return t.Unix()*microsPerSecond + int64(t.Nanosecond()/1000), yearReason(t.Year())
	}
	return isoInstant(text)
}

func yearReason(year int) string {
	if year < 1 || year > 9999 {
		return outOfYears
	}
	return ""
}

// The first and last microsecond of the years 1 to 9999.
var (
	minMicros = days(1, 1, 1) * microsPerDay
	maxMicros = days(10000, 1, 1)*microsPerDay - 1
)

func inYears(micros int64) (int64, string) {
	if micros < minMicros || micros > maxMicros {
		return 0, outOfYears
	}
	return micros, ""
}

// unix reads a number of units since 1970; shift is the power of ten from the unit to microseconds.
func (p *parser) unix(text []byte, shift int) (int64, string) {
	d, ok := p.decimal(text)
	if !ok {
		return 0, notTime
	}
	micros, ok, _ := d.integer(shift, true)
	if !ok {
		return 0, outOfYears
	}
	return inYears(micros)
}

// isoDate reads YYYY-MM-DD.
func isoDate(text []byte) (day int64, rest []byte, reason string) {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' {
		return 0, nil, notTime
	}
	y, ok1 := digitsOf(text[:4])
	m, ok2 := digitsOf(text[5:7])
	d, ok3 := digitsOf(text[8:10])
	if !ok1 || !ok2 || !ok3 {
		return 0, nil, notTime
	}
	if y == 0 {
		return 0, nil, outOfYears
	}
	if m < 1 || m > 12 || d < 1 || d > daysIn(y, m) {
		return 0, nil, noSuchTime
	}
	return days(y, m, d), text[10:], ""
}

func daysIn(y, m int64) int64 {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func digitsOf(text []byte) (int64, bool) {
	var n int64
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, true
}

// isoInstant reads ISO 8601 as RFC 3339 profiles it, with a space or T between date and time, seconds
// and fraction optional, an offset of Z, ±hh, ±hhmm, ±hh:mm or ±hh:mm:ss or none (UTC). A date alone is its midnight.
func isoInstant(text []byte) (int64, string) {
	day, rest, reason := isoDate(text)
	if reason != "" {
		return 0, reason
	}
	if len(rest) == 0 {
		return day * microsPerDay, ""
	}
	if len(rest) < 6 || rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' || rest[3] != ':' {
		return 0, notTime
	}
	hour, ok1 := digitsOf(rest[1:3])
	minute, ok2 := digitsOf(rest[4:6])
	if !ok1 || !ok2 {
		return 0, notTime
	}
	var second, micros int64
	rest = rest[6:]
	if len(rest) >= 3 && rest[0] == ':' {
		var ok bool
		if second, ok = digitsOf(rest[1:3]); !ok {
			return 0, notTime
		}
		if micros, rest, ok = isoFraction(rest[3:]); !ok {
			return 0, notTime
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, noSuchTime
	}
	offset, reason := isoOffset(rest)
	if reason != "" {
		return 0, reason
	}
	return inYears(day*microsPerDay + ((hour*60+minute)*60+second-offset)*microsPerSecond + micros)
}

func isoFraction(text []byte) (micros int64, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	i := 1
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if i <= 6 {
			micros = micros*10 + int64(text[i]-'0')
		}
	}
	for n := i; n <= 6; n++ {
		micros *= 10
	}
	return micros, text[i:], i > 1
}

// isoOffset returns seconds east of UTC.
func isoOffset(text []byte) (int64, string) {
	if len(text) == 0 || len(text) == 1 && (text[0] == 'Z' || text[0] == 'z') {
		return 0, ""
	}
	sign := int64(1)
	switch text[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, notTime
	}
	text = text[1:]
	var parts [3]int64
	for i := range parts {
		if len(text) == 0 && i > 0 {
			break
		}
		if i > 0 && text[0] == ':' {
			text = text[1:]
		}
		if len(text) < 2 {
			return 0, notTime
		}
		n, ok := digitsOf(text[:2])
		if !ok {
			return 0, notTime
		}
		parts[i], text = n, text[2:]
	}
	if len(text) > 0 {
		return 0, notTime
	}
	if parts[0] > 23 || parts[1] > 59 || parts[2] > 59 {
		return 0, noSuchTime
	}
	return sign * (parts[0]*3600 + parts[1]*60 + parts[2]), ""
}
