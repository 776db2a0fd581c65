package warehouse

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/trancheflow/tranche/pipeline"
)

// column is a declared column, ready to parse values.
type column struct {
	name     string
	declared pipeline.Type
	format   timeFormat
	layout   string // of formatLayout
	notNull  bool
	inKey    bool // of an upsert
	maxChars int  // of an existing varchar(n); zero is no bound
}

type timeFormat uint8

const (
	formatISO timeFormat = iota
	formatUnix
	formatUnixMilli
	formatUnixMicro
	formatLayout
)

const (
	intervalColumn = "_interval_start" // hidden: which interval brought a row
	rowColumn      = "_tranche_row"    // of staged rows: their number in the source
)

// maxIdentifier is PostgreSQL's limit in bytes; longer names are cut silently, so that two may become one.
const maxIdentifier = 63

// compile checks the declared columns and makes them ready to parse.
func compile(declared []pipeline.Column) ([]column, error) {
	if len(declared) == 0 {
		return nil, permanent(TypeBadRequest, "no columns are declared")
	}
	columns := make([]column, len(declared))
	seen := make(map[string]bool, len(declared))
	for i, d := range declared {
		if err := checkIdentifier(d.Name); err != nil {
			return nil, permanent(TypeBadRequest, "column %q: %w", d.Name, err)
		}
		if seen[d.Name] {
			return nil, permanent(TypeBadRequest, "column %q is declared twice", d.Name)
		}
		seen[d.Name] = true
		if d.Name == intervalColumn || d.Name == rowColumn {
			return nil, permanent(TypeBadRequest, "column %q: the name is reserved", d.Name)
		}
		parsed, err := pipeline.ParseType(d.Type)
		if err != nil {
			return nil, permanent(TypeBadRequest, "column %q: %w", d.Name, err)
		}
		columns[i] = column{name: d.Name, declared: parsed, notNull: d.NotNull}
		columns[i].format, columns[i].layout = formatOf(d.Format)
	}
	return columns, nil
}

// checkIdentifier refuses names that a database would change or cannot hold.
func checkIdentifier(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case len(name) > maxIdentifier:
		return fmt.Errorf("the name has %d bytes: at most %d are allowed, since PostgreSQL cuts longer ones silently", len(name), maxIdentifier)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name has a control character")
	}
	return nil
}

func formatOf(format string) (timeFormat, string) {
	switch format {
	case "", "iso":
		return formatISO, ""
	case "unix":
		return formatUnix, ""
	case "unixms":
		return formatUnixMilli, ""
	case "unixus":
		return formatUnixMicro, ""
	}
	return formatLayout, format
}

// quote writes an identifier so that nothing in it can end it.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return quoted
}

// value is one parsed value. Which field holds it depends on the column's kind:
// i booleans, integers, days and microseconds since 1970; f floats; b everything else, canonical.
type value struct {
	null bool
	i    int64
	f    float64
	b    []byte
}

// parser turns fields into values. Values are valid until the next reset.
type parser struct {
	arena []byte
}

func (p *parser) reset() { p.arena = p.arena[:0] }

// parse reads text as the column's type. It returns a reason when it does not fit, which completes
// the sentence "the value ..." and never holds the value.
func (p *parser) parse(c *column, text []byte, v *value) (reason string) {
	if text == nil {
		*v = value{null: true}
		if c.inKey {
			return missingKey
		}
		if c.notNull {
			return "is missing, and the column is declared not_null"
		}
		return ""
	}
	*v = value{}
	switch c.declared.Kind {
	case pipeline.Text:
		v.b = text
		return checkText(text, c.maxChars)
	case pipeline.Bigint:
		v.i, reason = p.integer(text, math.MinInt64, math.MaxInt64)
	case pipeline.Integer:
		v.i, reason = p.integer(text, math.MinInt32, math.MaxInt32)
	case pipeline.Smallint:
		v.i, reason = p.integer(text, math.MinInt16, math.MaxInt16)
	case pipeline.Numeric:
		v.b, reason = p.numeric(text, c.declared)
	case pipeline.Boolean:
		v.i, reason = parseBoolean(text)
	case pipeline.Real:
		v.f, reason = parseFloat(text, 32)
	case pipeline.Double:
		v.f, reason = parseFloat(text, 64)
	case pipeline.Date:
		v.i, reason = p.date(c, text)
	case pipeline.Timestamp, pipeline.Timestamptz:
		v.i, reason = p.instant(c, text)
	case pipeline.UUID:
		v.b, reason = p.uuid(text)
	case pipeline.JSONB:
		v.b, reason = p.json(text)
	case pipeline.Bytea:
		v.b, reason = p.bytea(text)
	default:
		return "has a type that this version does not know"
	}
	return reason
}

func checkText(text []byte, maxChars int) string {
	ascii := true
	for _, b := range text {
		if b == 0 {
			return "has a NUL character, which a text column cannot hold"
		}
		if b >= utf8.RuneSelf {
			ascii = false
		}
	}
	if !ascii && !utf8.Valid(text) {
		return "is not valid UTF-8"
	}
	if maxChars > 0 && len(text) > maxChars && utf8.RuneCount(text) > maxChars {
		return fmt.Sprintf("has more than the %d characters of the table's column", maxChars)
	}
	return ""
}

// appendTime writes the one textual form of dates and times, of fixed width so that texts compare
// as the instants do.
func appendTime(dst []byte, kind pipeline.TypeKind, i int64) []byte {
	if kind == pipeline.Date {
		y, m, d := civil(i)
		return appendDate(dst, y, m, d)
	}
	days := floorDiv(i, microsPerDay)
	rest := i - days*microsPerDay
	y, m, d := civil(days)
	dst = appendDate(dst, y, m, d)
	dst = append(dst, 'T')
	seconds, micros := rest/1e6, rest%1e6
	dst = appendTwo(dst, seconds/3600)
	dst = append(dst, ':')
	dst = appendTwo(dst, seconds/60%60)
	dst = append(dst, ':')
	dst = appendTwo(dst, seconds%60)
	dst = append(dst, '.')
	dst = appendTwo(dst, micros/1e4)
	dst = appendTwo(dst, micros/100%100)
	dst = appendTwo(dst, micros%100)
	if kind == pipeline.Timestamptz {
		dst = append(dst, 'Z')
	}
	return dst
}

func appendDate(dst []byte, y, m, d int64) []byte {
	dst = appendTwo(dst, y/100)
	dst = appendTwo(dst, y%100)
	dst = append(dst, '-')
	dst = appendTwo(dst, m)
	dst = append(dst, '-')
	return appendTwo(dst, d)
}

func appendTwo(dst []byte, n int64) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

const (
	microsPerSecond = int64(1e6)
	microsPerDay    = 86400 * microsPerSecond
)

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// civil and days convert between days since 1970 and the proleptic Gregorian calendar, by counting
// in eras of 400 years that begin in March (years 1 to 9999 are all that is ever asked).
func civil(z int64) (y, m, d int64) {
	z += 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func days(y, m, d int64) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

// daysOf is the day of t's own calendar, as it stands in t's zone.
func daysOf(t time.Time) int64 {
	y, m, d := t.Date()
	return days(int64(y), int64(m), int64(d))
}
