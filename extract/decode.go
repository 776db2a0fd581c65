package extract

import (
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// The formats of a source.
const (
	formatJSON   = "json"
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
)

// decoder turns a body into rows.
type decoder interface {
	// decode calls yield with each row until that returns false, which makes it return errStopped.
	decode(source io.Reader, yield func(row [][]byte) bool) error
	// where says where in the body the decoder is: "record 17" or "line 17".
	where() string
}

// decoderSettings is what decides how a body is read, over HTTP and in files.
type decoderSettings struct {
	format     string
	records    string
	csv        *pipeline.CSV
	columns    []pipeline.Column
	digest     *xxhash.Digest
	captures   map[string]*jsontext.Value
	nullIsDone bool
	// unended says that the body ends with its connection, whole or not.
	unended bool
	// mask takes secrets out of what an answer says of an error beside an empty list. nil: nobody asks,
	// since a file is no answer.
	mask func(string) string
}

func (s decoderSettings) decoder() (decoder, error) {
	if s.format == formatCSV {
		d, err := newCSVDecoder(s.csv, s.columns)
		if err != nil {
			return nil, err
		}
		d.digest, d.unended = s.digest, s.unended
		return d, nil
	}
	f, err := newFields(s.columns)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(s.format) {
	case formatJSON, "":
		d, err := newJSONDecoder(f, s.records, s.captures)
		if err != nil {
			return nil, err
		}
		d.digest, d.nullIsDone, d.mask = s.digest, s.nullIsDone, s.mask
		return d, nil
	case formatNDJSON:
		return &ndjsonDecoder{records{fields: f, digest: s.digest}}, nil
	default:
		return nil, retry.Permanentf(TypeBadSource, "format %q is not one of json, ndjson and csv", s.format)
	}
}
