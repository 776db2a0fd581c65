package pipeline

import "github.com/trancheflow/tranche/interval"

// The codes of problems. Those about the schedule are the ones of package interval.
const (
	codeSyntax           = "yaml-syntax"
	codeEmptyFile        = "empty-file"
	codeSeveralDocuments = "several-documents"
	codeNotUTF8          = "not-utf-8"
	codeControlCharacter = "control-character"
	codeTooLarge         = "too-large"
	codeUnknownField     = "unknown-field"
	codeRepeatedKey      = "repeated-key"
	codeMissingField     = "missing-field"
	codeMissingValue     = "missing-value"
	codeWrongType        = "wrong-type"
	codeInvalidValue     = "invalid-value"
	codeOutOfRange       = "out-of-range"
	codeBadDuration      = "bad-duration"
	codeNotSupported     = interval.CodeNotSupported
	codeNewerFormat      = "newer-format"
)
