package warehouse

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/pipeline"
)

// json reads one JSON value and returns it without white space, with the members of objects in order
// and numbers as exact decimals, so that equal documents have equal bytes whatever a database does to
// their form. Repeated names, NUL in strings and invalid UTF-8 are refused.
func (p *parser) json(text []byte) ([]byte, string) {
	value := jsontext.Value(bytes.Clone(text))
	err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, "repeats a name in an object"
	case err != nil:
		return nil, "is not valid JSON"
	}
	var out bytes.Buffer
	out.Grow(len(value))
	decoder, encoder := jsontext.NewDecoder(bytes.NewReader(value)), jsontext.NewEncoder(&out)
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimRight(out.Bytes(), "\n"), ""
		}
		if err != nil {
			return nil, "is not valid JSON"
		}
		if reason := p.writeJSON(encoder, token); reason != "" {
			return nil, reason
		}
	}
}

func (p *parser) writeJSON(encoder *jsontext.Encoder, token jsontext.Token) string {
	switch token.Kind() {
	case '0':
		number, reason := p.numeric([]byte(token.String()), pipeline.Type{Kind: pipeline.Numeric})
		if reason != "" {
			return "has a number that no numeric can hold"
		}
		if encoder.WriteValue(number) != nil {
			return "is not valid JSON"
		}
		return ""
	case '"':
		if strings.ContainsRune(token.String(), 0) {
			return "has a NUL character, which jsonb cannot hold"
		}
	}
	if encoder.WriteToken(token) != nil {
		return "is not valid JSON"
	}
	return ""
}
