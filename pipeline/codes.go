package pipeline

import "github.com/trancheflow/tranche/interval"

// The codes of problems. Those about cron texts, zones and times are the codes of package interval.
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
	codeConflict         = "conflict"
	codeNoEffect         = "no-effect"
	codeNewerFormat      = "newer-format"
	codeNotSupported     = interval.CodeNotSupported

	codeSecretInFile       = "secret-in-file"
	codeBadName            = "bad-name"
	codeReservedName       = "reserved-name"
	codeDuplicateName      = "duplicate-name"
	codeBadPath            = "bad-path"
	codeBadTemplate        = "bad-template"
	codeTemplateNotAllowed = "template-not-allowed"
	codeVariable           = "environment-variable"
	codeBadSQLFile         = "bad-sql-file"

	codeCatchupWindow = "catchup-window"
	codeTimeoutOrder  = "timeout-order"
	codeRetryOrder    = "retry-order"

	codeStepKind      = "step-kind"
	codeUnknownStep   = "unknown-step"
	codeCycle         = "cycle"
	codeContinueLoad  = "continue-source"
	codeNotASource    = "not-a-source"
	codeUnknownColumn = "unknown-column"
	codeBadType       = "bad-type"
	codeBadFormat     = "bad-format"
	codeColumnType    = "column-type"
	codeDateColumn    = "date-time-column"
	codeMissingKey    = "missing-key"
	codeSharedTable   = "shared-table"
)

// Code is the code of a problem with its meaning.
type Code struct {
	Name    string
	Meaning string
}

// Codes returns every code that a Problem can have, in the order of the reference.
func Codes() []Code {
	return []Code{
		{codeSyntax, "The file is not valid YAML."},
		{codeEmptyFile, "The file holds no document."},
		{codeSeveralDocuments, "The file holds a second YAML document; each pipeline has a file of its own."},
		{codeNotUTF8, "The file is not in UTF-8."},
		{codeControlCharacter, "A control character stands in the file or comes from an escape in a quoted text."},
		{codeTooLarge, "The file, or the definition with its SQL and defaults, is above 128 KiB, or an input is nested too deeply."},
		{codeUnknownField, "A key is not known at its place; the message says which one was probably meant."},
		{codeRepeatedKey, "A key is set twice in one mapping."},
		{codeMissingField, "A key that is required is not there."},
		{codeMissingValue, "A key is there without a value, or with an empty text or list where one is required."},
		{codeWrongType, "A value has another form than declared: a number where text is meant, one value where a list is meant."},
		{codeInvalidValue, "A word is not one of those that are possible here."},
		{codeOutOfRange, "A number or a duration is outside its bounds."},
		{codeBadDuration, "A duration cannot be read, most often because its unit is missing."},
		{codeConflict, "Two settings exclude each other."},
		{codeNoEffect, "A setting would have no effect beside the others, so somebody believes in something that does not happen."},
		{codeNewerFormat, "The definition is written for a newer release."},
		{codeNotSupported, "The setting is valid, but this version does not support it; the message says what to write instead, if there is something."},
		{codeSecretInFile, "A credential stands in the file. Credentials belong in the worker's connections, as ${NAME} of its environment."},
		{codeBadName, "A name has characters or a length that it may not have."},
		{codeReservedName, "A name is one of those that Tranche or the database keeps for itself."},
		{codeDuplicateName, "Two steps or two columns have the same name, or names that a database takes for the same."},
		{codeBadPath, "The path of a record, a value, a request or a file is not written as it should be."},
		{codeBadTemplate, "A template cannot be read or names something other than the interval."},
		{codeTemplateNotAllowed, "A template stands in a field that is not one."},
		{codeVariable, "`${NAME}` stands where it would be sent as it is: a pipeline file does not read the environment. Only a program's command may hold it."},
		{codeBadSQLFile, "The SQL file that a step names is missing, empty, not in UTF-8, or outside of the pipeline's folder."},

		{interval.CodeBadCron, "The cron text is not valid."},
		{interval.CodeNeverFires, "The schedule never has a tick."},
		{interval.CodeMissingCron, "The schedule has neither `cron` nor `every`."},
		{interval.CodeCronAndEvery, "The schedule has both `cron` and `every`."},
		{interval.CodeBadEvery, "`every` is not a whole number of seconds."},
		{interval.CodeUnknownTimeZone, "The time zone is not in the zone database."},
		{interval.CodeBadEnd, "`end_date` is not after `start_date`."},
		{interval.CodeBadTime, "A date or time cannot be read, or no calendar has it."},
		{interval.CodeNonexistentTime, "The clock of the time zone skips this local time."},
		{interval.CodeAmbiguousTime, "The clock of the time zone shows this local time twice."},
		{codeCatchupWindow, "The catchup window holds more than 1,000 ticks, of which Temporal would drop some."},

		{codeTimeoutOrder, "A time limit is above the one around it."},
		{codeRetryOrder, "`maximum_interval` is below `initial_interval`."},
		{codeStepKind, "A step has no kind, or more than one."},
		{codeUnknownStep, "`needs` or `from` names a step that is not there."},
		{codeCycle, "Steps need each other in a circle."},
		{codeContinueLoad, "`on_failure: continue` stands on a source that feeds a load."},
		{codeNotASource, "`from` names a step that brings no rows."},
		{codeUnknownColumn, "A load names a column that its source does not have."},
		{codeBadType, "A column's type is not one of the column types."},
		{codeBadFormat, "A column's format is neither one of the known ones nor a Go reference layout with year, month and day."},
		{codeColumnType, "A column has a type that its use does not allow."},
		{codeDateColumn, "`time_column` is a date, but not every interval begins and ends at local midnight."},
		{codeMissingKey, "An upsert has no `unique_key`."},
		{codeSharedTable, "Two loads would own the same rows of a table."},
	}
}
