package pipeline

import (
	"strings"
	"testing"
)

func TestParseType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Type{
		"text":                        {Kind: Text},
		"TEXT":                        {Kind: Text},
		" boolean ":                   {Kind: Boolean},
		"bool":                        {Kind: Boolean},
		"smallint":                    {Kind: Smallint},
		"int2":                        {Kind: Smallint},
		"integer":                     {Kind: Integer},
		"int":                         {Kind: Integer},
		"bigint":                      {Kind: Bigint},
		"int8":                        {Kind: Bigint},
		"real":                        {Kind: Real},
		"double precision":            {Kind: Double},
		"double \t precision":         {Kind: Double},
		"float8":                      {Kind: Double},
		"numeric":                     {Kind: Numeric},
		"decimal":                     {Kind: Numeric},
		"numeric(14,2)":               {Kind: Numeric, Precision: 14, Scale: 2},
		"Numeric ( 14 , 2 ) ":         {Kind: Numeric, Precision: 14, Scale: 2},
		"decimal(5)":                  {Kind: Numeric, Precision: 5},
		"numeric(1000,1000)":          {Kind: Numeric, Precision: 1000, Scale: 1000},
		"date":                        {Kind: Date},
		"timestamp":                   {Kind: Timestamp},
		"timestamp without time zone": {Kind: Timestamp},
		"timestamptz":                 {Kind: Timestamptz},
		"timestamp with time zone":    {Kind: Timestamptz},
		"uuid":                        {Kind: UUID},
		"jsonb":                       {Kind: JSONB},
		"bytea":                       {Kind: Bytea},
	} {
		got, err := ParseType(text)
		if err != nil || got != want {
			t.Errorf("ParseType(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseType(got.String()); err != nil || again != want {
			t.Errorf("%q is written %q, which is read as %+v, %v", text, got, again, err)
		}
	}
}

func TestParseTypeRefuses(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"":                              "is not one of the column types",
		"()":                            "is not one of the column types",
		"varchar(20)":                   "write text",
		"json":                          "write jsonb",
		"float":                         "write double precision",
		"datetime":                      "write timestamp",
		"bigin":                         "text, boolean, smallint",
		"bigint(20)":                    "only numeric takes parameters",
		"timestamp(6)":                  "only numeric takes parameters",
		"numeric(":                      "write numeric(p,s)",
		"numeric()":                     "write numeric(p,s)",
		"numeric(a,b)":                  "write numeric(p,s)",
		"numeric(1,2,3)":                "write numeric(p,s)",
		"numeric(14,2) null":            "write numeric(p,s)",
		"numeric(14,2":                  "write numeric(p,s)",
		"numeric(-1,0)":                 "write numeric(p,s)",
		"numeric(+5,0)":                 "write numeric(p,s)",
		"numeric(14,-2)":                "write numeric(p,s)",
		"numeric(0,0)":                  "from 1 to 1000",
		"numeric(1001,0)":               "from 1 to 1000",
		"numeric(2,3)":                  "the scale from 0 to the precision",
		"numeric(99999999999999999999)": "write numeric(p,s)",
		"text[]":                        "is not one of the column types",
	} {
		got, err := ParseType(text)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseType(%q) = %+v, %v; want an error with %q", text, got, err, part)
		}
	}
}

func TestTypeStrings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{Type{}.String(), ""},
		{Type{Kind: Double}.String(), "double precision"},
		{Type{Kind: Numeric}.String(), "numeric"},
		{Type{Kind: Numeric, Precision: 5}.String(), "numeric(5,0)"},
		{Timestamptz.String(), "timestamptz"},
		{TypeKind(200).String(), "TypeKind(200)"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for kind := Text; kind <= Bytea; kind++ {
		if want := kind == Date || kind == Timestamp || kind == Timestamptz; kind.IsTime() != want || kind.String() == "" {
			t.Errorf("%s: IsTime is %t", kind, kind.IsTime())
		}
	}
}

func FuzzParseType(f *testing.F) {
	for _, seed := range []string{"text", "numeric(14,2)", "double precision", "numeric", "varchar(3)", "numeric(1,2,3)", "", "((", "int4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseType(text)
		if err != nil {
			if got != (Type{}) {
				t.Fatalf("%q gives %+v and an error", text, got)
			}
			return
		}
		again, err := ParseType(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is %+v, written %q, which is read as %+v, %v", text, got, got, again, err)
		}
		if got.Scale > got.Precision || got.Kind != Numeric && got.Precision != 0 {
			t.Fatalf("%q is %+v", text, got)
		}
	})
}
