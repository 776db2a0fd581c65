package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// TypeKind is the kind of a column's type, without its parameters.
type TypeKind uint8

// The kinds of types. The zero TypeKind is no type.
const (
	Text TypeKind = iota + 1
	Boolean
	Smallint
	Integer
	Bigint
	Real
	Double
	Numeric
	Date
	Timestamp
	Timestamptz
	UUID
	JSONB
	Bytea
)

// maximumPrecision is PostgreSQL's limit for a declared numeric (documentation, 8.1.2).
const maximumPrecision = 1000

// typeNames are the canonical names, as String writes them, by kind.
var typeNames = [...]string{
	Text: "text", Boolean: "boolean", Smallint: "smallint", Integer: "integer", Bigint: "bigint",
	Real: "real", Double: "double precision", Numeric: "numeric", Date: "date",
	Timestamp: "timestamp", Timestamptz: "timestamptz", UUID: "uuid", JSONB: "jsonb", Bytea: "bytea",
}

// typeAliases are PostgreSQL's other names of the same types (documentation, table 8.1).
var typeAliases = map[string]TypeKind{
	"bool": Boolean, "int2": Smallint, "int": Integer, "int4": Integer, "int8": Bigint,
	"float4": Real, "float8": Double, "decimal": Numeric,
	"timestamp without time zone": Timestamp, "timestamp with time zone": Timestamptz,
}

// typeAdvice says what to write instead of a type that is well known but not one of ours.
var typeAdvice = map[string]string{
	"varchar": "text", "character varying": "text", "char": "text", "character": "text", "string": "text",
	"json": "jsonb", "double": "double precision", "float": "double precision", "number": "numeric",
	"datetime": "timestamp", "serial": "integer", "bigserial": "bigint", "blob": "bytea", "binary": "bytea",
	"money": "numeric(19,4)", "long": "bigint", "time": "text", "interval": "text",
}

// Type is the SQL type of a column.
type Type struct {
	Kind TypeKind
	// Precision is the number of digits of a Numeric, from 1 to 1,000. Zero: a Numeric of any length,
	// and always zero for the other kinds.
	Precision int
	// Scale is the number of those digits that follow the decimal point, from 0 to Precision.
	Scale int
}

// ParseType reads the text of an SQL type, in any case and spacing. It knows the types listed at
// Column.Type and PostgreSQL's other names of them; the error says what would be right.
func ParseType(text string) (Type, error) {
	name, parameters, found := strings.Cut(text, "(")
	name = strings.ToLower(strings.Join(strings.Fields(name), " "))
	kind := kindOf(name)
	if kind == 0 {
		if instead, known := typeAdvice[name]; known {
			return Type{}, fmt.Errorf("%q is not one of the column types: write %s", text, instead)
		}
		return Type{}, fmt.Errorf("%q is not one of the column types: %s", text, strings.Join(typeNames[1:], ", ")+" and numeric(p,s)")
	}
	if !found {
		return Type{Kind: kind}, nil
	}
	if kind != Numeric {
		return Type{}, fmt.Errorf("%q: only numeric takes parameters: write %s", text, typeNames[kind])
	}
	return parseNumeric(text, parameters)
}

func kindOf(name string) TypeKind {
	for kind, known := range typeNames {
		if known == name && name != "" {
			return TypeKind(kind)
		}
	}
	return typeAliases[name]
}

func parseNumeric(text, parameters string) (Type, error) {
	inside, after, closed := strings.Cut(parameters, ")")
	first, second, hasScale := strings.Cut(inside, ",")
	precision, ok := smallNumber(first)
	scale := 0
	if hasScale && ok {
		scale, ok = smallNumber(second)
	}
	if !closed || strings.TrimSpace(after) != "" || !ok {
		return Type{}, fmt.Errorf("%q: write numeric(p,s) with two whole numbers, the digits in all and those after the point, such as numeric(14,2)", text)
	}
	if precision < 1 || precision > maximumPrecision || scale > precision {
		return Type{}, fmt.Errorf("%q: the precision is from 1 to %d and the scale from 0 to the precision", text, maximumPrecision)
	}
	return Type{Kind: Numeric, Precision: precision, Scale: scale}, nil
}

// smallNumber reads digits only: Atoi would also take a sign.
func smallNumber(text string) (int, bool) {
	text = strings.TrimSpace(text)
	if text == "" || prefixLength(text, "0123456789") != len(text) {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	return number, err == nil
}

// String returns the canonical SQL of the type, such as "double precision" or "numeric(14,2)".
// PostgreSQL takes it as it is. The zero Type is "".
func (t Type) String() string {
	switch {
	case int(t.Kind) >= len(typeNames):
		return fmt.Sprintf("TypeKind(%d)", t.Kind)
	case t.Kind == Numeric && t.Precision > 0:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
	}
	return typeNames[t.Kind]
}

// String returns the kind's canonical name, such as "double precision".
func (k TypeKind) String() string { return Type{Kind: k}.String() }

// IsTime reports whether values of the kind are dates or times: Date, Timestamp or Timestamptz.
func (k TypeKind) IsTime() bool { return k == Date || k == Timestamp || k == Timestamptz }
