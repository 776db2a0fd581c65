package warehouse

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/ncruces/go-sqlite3"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/warehouse/pgtest"
)

func columnOf(t testing.TB, kind, format string) *column {
	t.Helper()
	compiled, err := compile([]pipeline.Column{{Name: "c", Type: kind, Format: format}})
	if err != nil {
		t.Fatal(err)
	}
	return &compiled[0]
}

// show writes a value as a person would.
func show(c *column, v *value) string {
	switch c.declared.Kind {
	case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint:
		return strconv.FormatInt(v.i, 10)
	case pipeline.Real, pipeline.Double:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
		return string(appendTime(nil, c.declared.Kind, v.i))
	case pipeline.UUID:
		return uuidText(v.b)
	case pipeline.Bytea:
		return hex.EncodeToString(v.b)
	}
	return string(v.b)
}

const refused = "\x00"

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, format, text, want string }{
		{"bigint", "", "9007199254740993", "9007199254740993"},
		{"bigint", "", "-9007199254740993", "-9007199254740993"},
		{"bigint", "", "9223372036854775807", "9223372036854775807"},
		{"bigint", "", "-9223372036854775808", "-9223372036854775808"},
		{"bigint", "", "9223372036854775808", refused},
		{"bigint", "", "-9223372036854775809", refused},
		{"bigint", "", "1e400", refused},
		{"bigint", "", "0e400", "0"},
		{"integer", "", "42", "42"},
		{"integer", "", "+42", "42"},
		{"integer", "", "007", "7"},
		{"integer", "", "42.0", "42"},
		{"integer", "", "1e3", "1000"},
		{"integer", "", "1200e-2", "12"},
		{"integer", "", "1.5", refused},
		{"integer", "", "1e-1", refused},
		{"integer", "", "96439848935", refused},
		{"integer", "", "2147483647", "2147483647"},
		{"integer", "", "2147483648", refused},
		{"integer", "", "", refused},
		{"integer", "", " 1", refused},
		{"integer", "", "1_000", refused},
		{"integer", "", "0x10", refused},
		{"integer", "", "-", refused},
		{"integer", "", ".", refused},
		{"smallint", "", "-32768", "-32768"},
		{"smallint", "", "32768", refused},

		{"numeric", "", "50000.0000000000000001", "50000.0000000000000001"},
		{"numeric", "", "1e3", "1000"},
		{"numeric", "", "1.5e-3", "0.0015"},
		{"numeric", "", "-0.00", "0.00"},
		{"numeric", "", "00.10", "0.10"},
		{"numeric", "", ".5", "0.5"},
		{"numeric", "", "5.", "5"},
		{"numeric", "", "NaN", refused},
		{"numeric", "", "Infinity", refused},
		{"numeric", "", "1e131072", refused},
		{"numeric", "", "1e-16384", refused},
		{"numeric", "", "1e999999999999999999999", refused},
		{"numeric(18,6)", "", "16.4", "16.400000"},
		{"numeric(4,2)", "", "1.005", refused},
		{"numeric(4,2)", "", "1.0500", "1.05"},
		{"numeric(4,2)", "", "99.99", "99.99"},
		{"numeric(4,2)", "", "100", refused},
		{"numeric(4,2)", "", "-99.99", "-99.99"},
		{"numeric(2,2)", "", "0.99", "0.99"},
		{"numeric(2,2)", "", "1", refused},
		{"numeric(4,2)", "", "12,5", refused},

		{"boolean", "", "true", "1"},
		{"boolean", "", "F", "0"},
		{"boolean", "", "yes", refused},
		{"boolean", "", "", refused},
		{"double precision", "", "0.1", "0.1"},
		{"double precision", "", "-0", "0"},
		{"double precision", "", "1e309", refused},
		{"double precision", "", "1e-400", refused},
		{"double precision", "", "0e-400", "0"},
		{"double precision", "", "nan", refused},
		{"double precision", "", "inf", refused},
		{"double precision", "", "0x1p-2", refused},
		{"double precision", "", "1_0", refused},
		{"real", "", "16777217", "1.6777216e+07"},
		{"real", "", "1e39", refused},

		{"text", "", "02134", "02134"},
		{"text", "", "15E2621", "15E2621"},
		{"text", "", "1_000", "1_000"},
		{"text", "", "", ""},
		{"text", "", "a\x00b", refused},
		{"text", "", "\xff", refused},
		{"text", "", "Größe\r\n", "Größe\r\n"},

		{"date", "", "2026-01-15", "2026-01-15"},
		{"date", "", "2024-02-29", "2024-02-29"},
		{"date", "", "2026-02-29", refused},
		{"date", "", "2026-02-30", refused},
		{"date", "", "1900-02-29", refused},
		{"date", "", "0000-01-01", refused},
		{"date", "", "2026-01-15T00:00:00Z", "2026-01-15"},
		{"date", "", "2026-01-15T10:00:00Z", refused},
		{"date", "", "2026-01-15T00:00:00+00:00", refused},
		{"date", "", "infinity", refused},
		{"date", "2006/01/02", "2026/01/15", "2026-01-15"},
		{"date", "2006/01/02", "2026/02/30", refused},
		{"date", "2006-01-02 15", "2026-01-15 01", refused},
		{"date", "unix", "86400", "1970-01-02"},
		{"date", "unix", "86401", refused},

		{"timestamp", "", "2023-11-21T01:31:00+02:00", "2023-11-20T23:31:00.000000"},
		{"timestamp", "", "2023-11-21T01:31:00+01:00", "2023-11-21T00:31:00.000000"},
		{"timestamp", "", "2023-11-21T01:31:00Z", "2023-11-21T01:31:00.000000"},
		{"timestamptz", "", "2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z"},
		{"timestamptz", "", "2024-01-01", "2024-01-01T00:00:00.000000Z"},
		{"timestamptz", "", "2024-01-01T10:00", "2024-01-01T10:00:00.000000Z"},
		{"timestamptz", "", "2024-01-01T10:00+0530", "2024-01-01T04:30:00.000000Z"},
		{"timestamptz", "", "2024-01-01 10:00:00+07", "2024-01-01T03:00:00.000000Z"},
		{"timestamptz", "", "2026-01-15T23:59:59.9999999Z", "2026-01-15T23:59:59.999999Z"},
		{"timestamptz", "", "1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"},
		{"timestamptz", "", "2026-01-15t10:00:00z", "2026-01-15T10:00:00.000000Z"},
		{"timestamptz", "", "2026-01-15T24:00:00Z", refused},
		{"timestamptz", "", "2026-01-15T23:59:60Z", refused},
		{"timestamptz", "", "2026-01-15T23:60:00Z", refused},
		{"timestamptz", "", "2026-02-30T00:00:00Z", refused},
		{"timestamptz", "", "2026-01-15T10:00:00.Z", refused},
		{"timestamptz", "", "2026-01-15T10:00:00,5Z", refused},
		{"timestamptz", "", "2026-01-15T10:00:00 UTC", refused},
		{"timestamptz", "", "2026-01-15T10:00:00+24:00", refused},
		{"timestamptz", "", "2026-01-15T10:00:00+7", refused},
		{"timestamptz", "", "0001-01-01T00:00:00+01:00", refused},
		{"timestamptz", "", "9999-12-31T23:59:59.999999-01:00", refused},
		{"timestamptz", "", "infinity", refused},
		{"timestamptz", "", "", refused},
		{"timestamptz", "unix", "1768471200", "2026-01-15T10:00:00.000000Z"},
		{"timestamptz", "unix", "1768471200.1234567", "2026-01-15T10:00:00.123456Z"},
		{"timestamptz", "unix", "-0.0000001", "1969-12-31T23:59:59.999999Z"},
		{"timestamptz", "unixms", "1.7684712e12", "2026-01-15T10:00:00.000000Z"},
		{"timestamptz", "unixms", "1768471200123", "2026-01-15T10:00:00.123000Z"},
		{"timestamptz", "unixus", "1768471200123456", "2026-01-15T10:00:00.123456Z"},
		{"timestamptz", "unix", "1e30", refused},
		{"timestamptz", "unix", "2026-01-15", refused},
		{"timestamptz", "2006/01/02 15:04:05", "2026/01/15 10:00:00", "2026-01-15T10:00:00.000000Z"},
		{"timestamptz", time.RFC1123Z, "Thu, 15 Jan 2026 10:00:00 +0700", "2026-01-15T03:00:00.000000Z"},

		{"uuid", "", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"uuid", "", "6ba7b8109dad11d180b400c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"uuid", "", "6ba7b810-9dad-11d1-80b4-00c04fd430cg", refused},
		{"uuid", "", "6ba7b810_9dad_11d1_80b4_00c04fd430c8", refused},
		{"bytea", "", `\x00FF`, "00ff"},
		{"bytea", "", `\x0`, refused},
		{"bytea", "", "AP8=", "00ff"},
		{"bytea", "", "AP8", refused},
		{"bytea", "", "AP\n8=", refused},
		{"bytea", "", "", ""},
		{"jsonb", "", ` {"b": 1.10, "a" : [1E2, "x\u00e9", null]} `, `{"a":[100,"xé",null],"b":1.10}`},
		{"jsonb", "", `12345678901234567890.10`, `12345678901234567890.10`},
		{"jsonb", "", `"abc"`, `"abc"`},
		{"jsonb", "", `abc`, refused},
		{"jsonb", "", `{"a":1,"a":2}`, refused},
		{"jsonb", "", `"\u0000"`, refused},
		{"jsonb", "", `"\\u0000"`, `"\\u0000"`},
		{"jsonb", "", `"\ud800"`, refused},
		{"jsonb", "", `{} {}`, refused},
		{"jsonb", "", `1e999999`, refused},
		{"jsonb", "", ``, refused},
	} {
		column := columnOf(t, c.kind, c.format)
		var p parser
		var v value
		reason := p.parse(column, []byte(c.text), &v)
		got := refused
		if reason == "" {
			got = show(column, &v)
		}
		if got != c.want {
			t.Errorf("%s %s %q = %q (%s), want %q", c.kind, c.format, c.text, got, reason, c.want)
		}
		if reason != "" && len(c.text) > 3 && strings.Contains(reason, c.text) {
			t.Errorf("%s %q: the value is in the reason %q", c.kind, c.text, reason)
		}
	}
}

var fuzzedTypes = []string{
	"text", "boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(7,3)",
	"date", "timestamp", "timestamptz", "uuid", "jsonb", "bytea",
}

// Whatever is accepted is exact, canonical, and reads back as itself.
func FuzzParse(f *testing.F) {
	for i := range fuzzedTypes {
		for _, seed := range []string{"1", "-1.50", "1e3", "2026-01-15T10:00:00.5+07:00", `{"a":[1,2.0]}`, `\x00ff`, "6ba7b8109dad11d180b400c04fd430c8", "true", "0.1e-5"} {
			f.Add(uint8(i), uint8(i%5), []byte(seed))
		}
	}
	formats := []string{"iso", "unix", "unixms", "unixus", "2006-01-02 15:04:05"}
	f.Fuzz(func(t *testing.T, kind, format uint8, text []byte) {
		c := columnOf(t, fuzzedTypes[int(kind)%len(fuzzedTypes)], formats[int(format)%len(formats)])
		if text == nil {
			text = []byte{}
		}
		before := string(text)
		var p parser
		var v value
		if reason := p.parse(c, text, &v); reason != "" {
			return
		}
		if string(text) != before {
			t.Fatalf("the field was changed to %q", text)
		}
		if v.null {
			t.Fatal("a text became NULL")
		}
		first := slices.Clone(appendCanonical(nil, []column{*c}, []value{v}))
		checkExact(t, c, before, &v)
		stored := column{name: c.name, declared: c.declared}
		shown := show(c, &v)
		if c.declared.Kind == pipeline.Bytea {
			shown = `\x` + shown
		}
		var again value
		if reason := p.parse(&stored, []byte(shown), &again); reason != "" {
			t.Fatalf("%q was read as %q, which does not read back: %s", before, shown, reason)
		}
		if second := appendCanonical(nil, []column{stored}, []value{again}); !bytes.Equal(first, second) {
			t.Fatalf("%q was read as %q, which reads back otherwise", before, shown)
		}
		decoded := make([]value, 1)
		if err := readCanonical(first, []column{*c}, decoded); err != nil {
			t.Fatal(err)
		}
		if got := show(c, &decoded[0]); got != show(c, &v) {
			t.Fatalf("spooled %q, got back %q", show(c, &v), got)
		}
	})
}

// checkExact compares numbers with math/big.
func checkExact(t *testing.T, c *column, text string, v *value) {
	t.Helper()
	switch c.declared.Kind {
	case pipeline.Smallint, pipeline.Integer, pipeline.Bigint, pipeline.Numeric:
	case pipeline.Text:
		if !utf8.ValidString(text) || string(v.b) != text {
			t.Fatalf("text %q became %q", text, v.b)
		}
		return
	default:
		return
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if n, err := strconv.Atoi(text[i+1:]); err != nil || n > 1000 || n < -1000 {
			return // too long for the oracle
		}
	}
	want, ok := new(big.Rat).SetString(text)
	got, ok2 := new(big.Rat).SetString(show(c, v))
	if !ok || !ok2 || want.Cmp(got) != 0 {
		t.Fatalf("%q became %q", text, show(c, v))
	}
}

func FuzzCalendar(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(-62135596800))
	f.Fuzz(func(t *testing.T, seconds int64) {
		at := time.Unix(seconds%253402300800, 0).UTC()
		if at.Year() < 1 || at.Year() > 9999 {
			t.Skip("outside the years")
		}
		if got, want := string(appendTime(nil, pipeline.Timestamptz, micros(at))), at.Format("2006-01-02T15:04:05.000000Z"); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		y, m, d := at.Date()
		if got, want := days(int64(y), int64(m), int64(d)), floorDiv(at.Unix(), 86400); got != want {
			t.Fatalf("days of %s: %d, want %d", at, got, want)
		}
		got, reason := isoInstant([]byte(at.In(time.FixedZone("", 5*3600+1800)).Format(time.RFC3339)))
		if local := at.Add(5*time.Hour + 30*time.Minute); reason != "" && local.Year() <= 9999 {
			t.Fatalf("%s: %s", at, reason)
		} else if reason == "" && got != micros(at) {
			t.Fatalf("%s: %d", at, got)
		}
	})
}

// Names, whatever is in them, are one identifier to both databases.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"a", `"`, `""; drop table x; --`, "$1", "ü", `a"."b`, "a.b", "\\"} {
		f.Add(seed)
	}
	conn, err := sqlite3.Open(":memory:")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		if checkIdentifier(name) != nil {
			t.Skip("refused before it is quoted")
		}
		if got, want := quote(name), (pgx.Identifier{name}).Sanitize(); got != want {
			t.Fatalf("quote(%q) = %s, pgx has %s", name, got, want)
		}
		stmt, tail, err := conn.Prepare("select 1 as " + quote(name))
		if err != nil || tail != "" {
			t.Fatalf("%q: %v, tail %q", name, err, tail)
		}
		if got := stmt.ColumnName(0); got != name {
			t.Fatalf("%q became %q", name, got)
		}
		stmt.Close()
		parts, err := splitName(spell(name) + "." + spell(name))
		if err != nil || len(parts) != 2 || parts[0] != name || parts[1] != name {
			t.Fatalf("%q was split as %q, %v", name, parts, err)
		}
	})
}

// The binary encoding of random values is what pgx writes.
func TestBinaryEqualsPgx(t *testing.T) {
	t.Parallel()
	const rounds = 20_000
	random := rand.New(rand.NewPCG(3, 4))
	types := pgtype.NewMap()
	oids := map[string]uint32{
		"text": pgtype.TextOID, "boolean": pgtype.BoolOID, "smallint": pgtype.Int2OID, "integer": pgtype.Int4OID, "bigint": pgtype.Int8OID,
		"real": pgtype.Float4OID, "double precision": pgtype.Float8OID, "numeric": pgtype.NumericOID, "date": pgtype.DateOID,
		"timestamp": pgtype.TimestampOID, "timestamptz": pgtype.TimestamptzOID, "uuid": pgtype.UUIDOID, "jsonb": pgtype.JSONBOID, "bytea": pgtype.ByteaOID,
	}
	var p parser
	for range rounds {
		for kind, oid := range oids {
			p.reset()
			text, want := randomValue(t, random, kind)
			c := columnOf(t, kind, "")
			var v value
			if reason := p.parse(c, []byte(text), &v); reason != "" {
				t.Fatalf("%s %q %s", kind, text, reason)
			}
			encoded := appendBinary(nil, c.declared.Kind, &v)
			if kind == "numeric" {
				checkNumeric(t, types, text, encoded[4:])
				continue
			}
			expected, err := types.Encode(oid, pgtype.BinaryFormatCode, want, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(encoded[4:], expected) || int(encoded[3]) != len(expected)&0xff {
				t.Fatalf("%s %q: %x, pgx has %x", kind, text, encoded[4:], expected)
			}
		}
	}
}

// checkNumeric decodes with pgx, which writes numerics with another, equally valid number of digits.
func checkNumeric(t *testing.T, types *pgtype.Map, text string, encoded []byte) {
	t.Helper()
	var n pgtype.Numeric
	if err := types.Scan(pgtype.NumericOID, pgtype.BinaryFormatCode, encoded, &n); err != nil {
		t.Fatalf("numeric %q: %v", text, err)
	}
	got := new(big.Rat).SetInt(n.Int)
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n.Exp, -n.Exp))), nil))
	if n.Exp < 0 {
		got.Quo(got, scale)
	} else {
		got.Mul(got, scale)
	}
	want, _ := new(big.Rat).SetString(text)
	if got.Cmp(want) != 0 {
		t.Fatalf("numeric %q was encoded as %s", text, got)
	}
}

func randomValue(t *testing.T, random *rand.Rand, kind string) (string, any) {
	t.Helper()
	at := time.UnixMicro(random.Int64N(3.1e17) - 6.2e16).UTC()
	switch kind {
	case "boolean":
		b := random.IntN(2) == 1
		return strconv.FormatBool(b), b
	case "smallint":
		n := int16(random.Uint32())
		return strconv.Itoa(int(n)), n
	case "integer":
		n := int32(random.Uint32())
		return strconv.Itoa(int(n)), n
	case "bigint":
		n := int64(random.Uint64())
		return strconv.FormatInt(n, 10), n
	case "real":
		f := float32(random.NormFloat64() * math.Pow10(random.IntN(20)-10))
		return strconv.FormatFloat(float64(f), 'g', -1, 32), f
	case "double precision":
		f := random.NormFloat64() * math.Pow10(random.IntN(200)-100)
		return strconv.FormatFloat(f, 'g', -1, 64), f
	case "numeric":
		return randomNumeric(random), nil
	case "date":
		day := at.Truncate(24 * time.Hour)
		return day.Format(time.DateOnly), day
	case "timestamp":
		return at.Format("2006-01-02 15:04:05.000000"), at
	case "timestamptz":
		return at.In(time.FixedZone("", random.IntN(80000)/60*60-40000/60*60)).Format("2006-01-02T15:04:05.999999Z07:00"), at
	case "uuid":
		var id uuid.UUID
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		return id.String(), [16]byte(id)
	case "jsonb":
		n := random.Uint32()
		text := fmt.Sprintf(`{"k%d":[%d,"é"]}`, n%7, n)
		return text, []byte(text)
	case "bytea":
		raw := make([]byte, random.IntN(40))
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		return `\x` + hex.EncodeToString(raw), raw
	}
	text := strings.Repeat("aé\n", random.IntN(30))
	return text, text
}

func randomNumeric(random *rand.Rand) string {
	var b strings.Builder
	if random.IntN(2) == 1 {
		b.WriteByte('-')
	}
	whole, fraction := random.IntN(25), random.IntN(25)
	for range whole + 1 {
		b.WriteByte(byte('0' + random.IntN(10)*random.IntN(2)))
	}
	if fraction > 0 {
		b.WriteByte('.')
	}
	for range fraction {
		b.WriteByte(byte('0' + random.IntN(10)*random.IntN(2)))
	}
	return b.String()
}

// What COPY is given arrives as it was meant, by the server's own reading.
func TestBinaryReadByTheServer(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Postgres(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "set timezone = 'UTC'; create table n (id bigint, n numeric, t timestamptz)"); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	var texts []string
	source := func(yield func([][]byte, error) bool) {
		for i := range 5000 {
			number := randomNumeric(random)
			at, _ := randomValue(t, random, "timestamptz")
			texts = append(texts, number+" "+at)
			if !yield([][]byte{strconv.AppendInt(nil, int64(i), 10), []byte(number), []byte(at)}, nil) {
				return
			}
		}
	}
	compiled, err := compile([]pipeline.Column{{Name: "id", Type: "bigint"}, {Name: "n", Type: "numeric"}, {Name: "t", Type: "timestamptz"}})
	if err != nil {
		t.Fatal(err)
	}
	reader := newRowReader(compiled, source, 1)
	defer reader.close()
	if _, err := conn.PgConn().CopyFrom(ctx, newCopyStream(reader, nil, false), "copy n from stdin (format binary)"); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		number, at, _ := strings.Cut(text, " ")
		var equal, sameText bool
		if i%50 != 0 {
			continue
		}
		if err := conn.QueryRow(ctx, "select n = $2::numeric and t = $3::timestamptz, n::text = $2::numeric::text from n where id = $1", i, number, at).Scan(&equal, &sameText); err != nil || !equal || !sameText {
			t.Fatalf("%q was stored otherwise (%v, %v, %v)", text, equal, sameText, err)
		}
	}
}

func TestSpoolOverflowsToDisk(t *testing.T) {
	t.Parallel()
	compiled, err := compile([]pipeline.Column{{Name: "id", Type: "bigint"}, {Name: "t", Type: "text"}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 30_000
	filler := bytes.Repeat([]byte("x"), 600)
	reader := newRowReader(compiled, func(yield func([][]byte, error) bool) {
		for i := range n {
			if !yield([][]byte{strconv.AppendInt(nil, int64(i), 10), filler}, nil) {
				return
			}
		}
	}, 1)
	defer reader.close()
	s, err := fillSpool(reader)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if s.file == nil || len(s.memory) > spoolMemory {
		t.Fatalf("the spool holds %d bytes in memory and has no file", len(s.memory))
	}
	if _, err := os.Stat(s.file.Name()); err == nil {
		t.Error("the temporary file still has a name")
	}
	for i := range n {
		values, err := s.row()
		if err != nil || values == nil || values[0].i != int64(i) || !bytes.Equal(values[1].b, filler) || s.number() != int64(i+1) {
			t.Fatalf("row %d: %v, %v", i, values, err)
		}
	}
	if values, err := s.row(); values != nil || err != nil {
		t.Errorf("after the end: %v, %v", values, err)
	}
}

// Parsing and summing allocate nothing per row.
func TestNoAllocationPerRow(t *testing.T) {
	compiled, err := compile([]pipeline.Column{
		{Name: "a", Type: "bigint"}, {Name: "b", Type: "timestamptz"}, {Name: "c", Type: "text"}, {Name: "d", Type: "numeric(12,2)"},
		{Name: "e", Type: "boolean"}, {Name: "f", Type: "double precision"}, {Name: "g", Type: "uuid"}, {Name: "h", Type: "date"},
	})
	if err != nil {
		t.Fatal(err)
	}
	fields := [][]byte{[]byte("123"), []byte("2026-01-15T10:00:00.123456+07:00"), []byte("text"), []byte("-12.5"), []byte("true"), []byte("0.25"), []byte("6ba7b8109dad11d180b400c04fd430c8"), []byte("2026-01-15")}
	reader := newRowReader(compiled, func(yield func([][]byte, error) bool) {
		for yield(fields, nil) {
		}
	}, 1)
	defer reader.close()
	encoded := make([]byte, 0, 1<<12)
	allocations := testing.AllocsPerRun(1000, func() {
		values, err := reader.row()
		if err != nil {
			t.Fatal(err)
		}
		encoded = encoded[:0]
		for i := range values {
			encoded = appendBinary(encoded, compiled[i].declared.Kind, &values[i])
		}
	})
	if allocations > 0 {
		t.Errorf("%g allocations per row", allocations)
	}
}

func TestHolders(t *testing.T) {
	t.Parallel()
	mine := lock{key: "receipt|a", table: "public.orders", fence: 100}
	name := func(l lock, deadline int64) string { return holderPrefix(l) + strconv.FormatInt(deadline, 10) }
	for _, c := range []struct {
		name string
		want bool
	}{
		{name(lock{"receipt|a", "public.orders", false, 99}, 0), true},
		{name(lock{"receipt|a", "public.orders", false, 100}, 0), false},
		{name(lock{"receipt|a", "public.orders", false, 101}, 5000), false},
		{name(lock{"receipt|a", "public.orders", false, 101}, 900), true},
		{name(lock{"receipt|b", "public.orders", false, 1}, 0), false},
		{name(lock{"receipt|b", "public.orders", false, 1}, 994), true},
		{name(lock{"receipt|b", "public.orders", false, 1}, 996), false}, // within the grace
		{name(lock{"receipt|b", "public.other", false, 1}, 1), false},
	} {
		h, ok := parseHolder(c.name)
		if !ok || len(c.name) > 63 || h.lost(mine, 1000) != c.want {
			t.Errorf("%s (%v): lost is %v", c.name, ok, !c.want)
		}
	}
	if longest := name(lock{key: "k", table: "t", fence: math.MaxInt64}, 9999999999); len(longest) > 63 {
		t.Errorf("%s has %d bytes", longest, len(longest))
	}
	for _, other := range []string{"psql", "tranche", "tranche:x:y:z:w", "tranche:1:2:3", ""} {
		if _, ok := parseHolder(other); ok {
			t.Errorf("%q was taken for one of ours", other)
		}
	}
}

func TestBoundOfADate(t *testing.T) {
	t.Parallel()
	c := columnOf(t, "date", "")
	for _, z := range []struct {
		zone, at string
		want     string
	}{
		{"Asia/Jakarta", "2026-01-14T17:00:00Z", "2026-01-15"},
		{"Asia/Jakarta", "2026-01-15T00:00:00Z", refused},
		{"America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06"}, // midnight is skipped: the day begins at 01:00
		{"Europe/Rome", "2026-03-28T23:00:00Z", "2026-03-29"},
		{"Europe/Rome", "2026-03-29T22:00:00Z", "2026-03-30"},
	} {
		location, err := interval.LoadLocation(z.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, z.at)
		if err != nil {
			t.Fatal(err)
		}
		got := refused
		if v, err := bound(c, at, location); err == nil {
			got = string(appendTime(nil, pipeline.Date, v.i))
		}
		if got != z.want {
			t.Errorf("%s in %s is %q, want %q", z.at, z.zone, got, z.want)
		}
	}
}
