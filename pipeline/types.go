package pipeline

import "slices"

// FormatVersion is the newest definition format that this build reads and writes. A worker that
// meets a newer one must not guess: it refuses the definition, so that the run waits for an
// upgraded worker.
const FormatVersion = 1

// The declaration of the language. Each field's comment is its reference; its tags are the rules that
// the decoder, the defaults, schema.json and the reference share:
//
//	required:"true"   the key must be there, and not empty
//	enum:"a,b"        the only values
//	minimum, maximum  the bounds of a number or a duration that is written
//	default:"x"       what Effective fills in where nothing is written
//	choice:"x"        exactly one of the fields with the same word is written

// Pipeline is one pipeline file: a schedule and a graph of steps. The same struct travels, as JSON
// and with its defaults filled in, as the input of every run, so that editing a file never changes
// a run that has started.
type Pipeline struct {
	// Format is the version of the definition language. Default and only value: 1.
	Format int `yaml:"format,omitempty" json:"format" minimum:"1" default:"1"`
	// Name identifies the pipeline: lower-case letters, digits, `-` and `_`, beginning with a
	// letter; at most 100 characters; unique per namespace. It begins the id of each of its runs.
	Name string `yaml:"pipeline" json:"pipeline" required:"true"`
	// Description says in a sentence or two what the pipeline is for. It is shown to operators.
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Owner is the team or person to ask about this pipeline.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Warehouse names the connection whose database receives the loads and holds the load ledger.
	Warehouse string `yaml:"warehouse" json:"warehouse" required:"true"`
	// TaskQueue names the Temporal task queue whose workers run the pipeline. Default: `tranche`.
	// Local files and SQLite need a queue that only one host serves.
	TaskQueue string `yaml:"task_queue,omitempty" json:"task_queue" default:"tranche"`
	// Schedule says which data intervals there are and when their runs become due.
	Schedule *Schedule `yaml:"schedule" json:"schedule" required:"true"`
	// RunTimeout bounds a run, from its first step on, waits between steps included. Zero: no
	// bound but those of the steps.
	RunTimeout Duration `yaml:"run_timeout,omitempty" json:"run_timeout,omitempty"`
	// Deadline is how long after its tick an interval should be loaded. One that is not is recorded in
	// the load ledger, logged by the worker, counted, and told of where `notify` is set, once. Zero: none.
	Deadline Duration `yaml:"deadline,omitempty" json:"deadline,omitempty"`
	// Notify names who is told of failures, missed deadlines and recoveries.
	Notify *Notify `yaml:"notify,omitempty" json:"notify,omitempty"`
	// Defaults hold for every step that says nothing itself.
	Defaults Defaults `yaml:"defaults,omitempty" json:"defaults"`
	// Steps are the nodes of the graph; at least one, at most 1,000. The order in the file does not
	// matter.
	Steps []Step `yaml:"steps" json:"steps" required:"true"`

	// Digest is the SHA-256, in hex, of the canonical form of what decides the rows. It is
	// computed when the file is read and travels with the run; a file cannot set it.
	Digest string `yaml:"-" json:"digest,omitempty"`
}

// Schedule is the grid of data intervals and the policy for those that were not run in time.
type Schedule struct {
	// Cron has five fields, read as Vixie cron reads them. Exactly one of `cron` and `every` is set.
	Cron string `yaml:"cron,omitempty" json:"cron,omitempty" choice:"cadence"`
	// Every is the elapsed time between ticks, counted from `start_date`; at least 1s, whole seconds.
	Every Duration `yaml:"every,omitempty" json:"every,omitempty" minimum:"1s" choice:"cadence"`
	// Timezone is the IANA name of the zone in which the cron text and zone-less dates are read.
	// Default: UTC.
	Timezone string `yaml:"timezone,omitempty" json:"timezone" default:"UTC"`
	// StartDate is where the first interval starts: a date (midnight in `timezone`), a local time,
	// or an instant with an offset.
	StartDate string `yaml:"start_date" json:"start_date" required:"true"`
	// EndDate is the last instant at which a tick may lie; the same forms as `start_date`.
	// Default: no end.
	EndDate string `yaml:"end_date,omitempty" json:"end_date,omitempty"`
	// Catchup says what happens with intervals that Temporal did not start: `none` (default),
	// `latest` or `all`. `true` and `false` are read as `all` and `latest`.
	Catchup Catchup `yaml:"catchup,omitempty" json:"catchup" enum:"none,latest,all" default:"none"`
	// CatchupWindow is how late, after Temporal was down, a tick is still started by the Schedule
	// itself. At least 10s; may not hold more than 1,000 ticks, of which Temporal would drop some.
	// Default 1h, or 1,000 times `every` where that is shorter.
	CatchupWindow Duration `yaml:"catchup_window,omitempty" json:"catchup_window" minimum:"10s" default:"1h"`
	// Jitter spreads the starts of scheduled runs: each waits a random time up to this long after
	// its tick. The interval stays the same. Default 0.
	Jitter Duration `yaml:"jitter,omitempty" json:"jitter,omitempty"`
	// Delay is how long a scheduled run waits after its tick before it begins. Default 0.
	Delay Duration `yaml:"delay,omitempty" json:"delay,omitempty"`
	// Lookback is how many earlier intervals a scheduled run starts again when it is done.
	// Default 0, at most 100.
	Lookback int `yaml:"lookback,omitempty" json:"lookback,omitempty" minimum:"0" maximum:"100"`
	// MaxActiveRuns bounds the runs of this pipeline that work at the same time, from 1 to 1,000;
	// backfills have a window of their own. Default 1.
	MaxActiveRuns int `yaml:"max_active_runs,omitempty" json:"max_active_runs" minimum:"1" maximum:"1000" default:"1"`
	// DependsOnPast lets a run begin only when the interval before it is loaded. Default false.
	DependsOnPast bool `yaml:"depends_on_past,omitempty" json:"depends_on_past,omitempty"`

	// Since is where this grid took over from an earlier one of the same pipeline: an instant in
	// RFC 3339. `starter schedules apply` sets it; a file cannot. Empty: the grid is the first one.
	Since string `yaml:"-" json:"since,omitempty"`
}

// Catchup is the policy for intervals that Temporal did not start.
type Catchup string

// The values of Catchup.
const (
	CatchupNone   Catchup = "none"
	CatchupLatest Catchup = "latest"
	CatchupAll    Catchup = "all"
)

// Notify names who is told of failures, missed deadlines and recoveries. Each is told once. A message that
// does not arrive is tried again for 24h, and never fails or holds up a run.
type Notify struct {
	// Connection names the webhook connection that receives the messages.
	Connection string `yaml:"connection" json:"connection" required:"true"`
	// On says what is told. `failure`: a run has failed, unless somebody cancelled it or its kind is
	// backfill. `deadline`: intervals are not loaded although their `deadline` is over. `recovery`: an interval
	// is loaded that had failed or missed its deadline. Default: all
	// three, or without a `deadline` the other two.
	On []string `yaml:"on,omitempty" json:"on,omitempty" enum:"failure,deadline,recovery"`
}

// The events of Notify.On.
const (
	EventFailure  = "failure"
	EventDeadline = "deadline"
	EventRecovery = "recovery"
)

// Tells reports whether an event is told of. Without a Notify none is.
func (n *Notify) Tells(event string) bool {
	return n != nil && (len(n.On) == 0 || slices.Contains(n.On, event))
}

// Defaults hold for every step that says nothing itself.
type Defaults struct {
	// Retry is the retry policy of steps; a step overrides it field by field.
	Retry Retry `yaml:"retry,omitempty" json:"retry"`
	// Timeout holds the time limits of steps; a step overrides them field by field.
	Timeout Timeout `yaml:"timeout,omitempty" json:"timeout"`
}

// Retry is a step's retry policy. It is handed to Temporal as declared, and seen so in the run's
// history.
type Retry struct {
	// InitialInterval is the pause before the second attempt. Default 500ms, at least 1ms.
	InitialInterval Duration `yaml:"initial_interval,omitempty" json:"initial_interval,omitempty" minimum:"1ms" default:"500ms"`
	// BackoffCoefficient multiplies the pause from attempt to attempt, from 1 to 100. Default 2.
	BackoffCoefficient float64 `yaml:"backoff_coefficient,omitempty" json:"backoff_coefficient,omitempty" minimum:"1" maximum:"100" default:"2"`
	// MaximumInterval caps the pause, before jitter; not below `initial_interval`. Default 30s, or
	// `initial_interval` where that is longer.
	MaximumInterval Duration `yaml:"maximum_interval,omitempty" json:"maximum_interval,omitempty" minimum:"1ms" default:"30s"`
	// MaximumAttempts bounds the attempts, the first one included. Default 5, at least 1, at most
	// 10,000: without a bound a step would be tried for ever, which nobody asks for by accident.
	MaximumAttempts int `yaml:"maximum_attempts,omitempty" json:"maximum_attempts,omitempty" minimum:"1" maximum:"10000" default:"5"`
	// Jitter varies the pauses by this fraction, from 0 to 1. Default 0.25.
	Jitter *float64 `yaml:"jitter,omitempty" json:"jitter,omitempty" minimum:"0" maximum:"1" default:"0.25"`
	// JitterKind says how: `add` (default: up to the fraction on top of the pause) or `spread`
	// (the pause times 1−jitter to 1+jitter).
	JitterKind string `yaml:"jitter_kind,omitempty" json:"jitter_kind,omitempty" enum:"add,spread" default:"add"`
	// NonRetryableErrorTypes end the step at the first such error, whatever attempts are left.
	NonRetryableErrorTypes []string `yaml:"non_retryable_error_types,omitempty" json:"non_retryable_error_types,omitempty"`
	// RetryOnly is the whole list of the types of errors that are tried again; every other error ends
	// the step. Waits (a rate limit, an open circuit) stay waits. Empty: what is worth another try by
	// the table of errors. Not for steps of the kind `activity`.
	RetryOnly []string `yaml:"retry_only,omitempty" json:"retry_only,omitempty"`
	// Rules say what errors of some types are worth. The first rule that names the type decides,
	// before `non_retryable_error_types` and `retry_only` are asked.
	Rules []RetryRule `yaml:"rules,omitempty" json:"rules,omitempty"`
}

// RetryRule says what errors of some types are worth.
type RetryRule struct {
	// ErrorTypes are the types of errors that the rule is for; `"*"` stands for all of them.
	ErrorTypes []string `yaml:"error_types" json:"error_types" required:"true"`
	// Action is `retry` (try again, also what is permanent otherwise; not for steps of the kind
	// `activity`), `fail` (end the step at once, also instead of a wait) or `default` (as if there were
	// no rule, which exempts the types from later rules).
	Action string `yaml:"action" json:"action" required:"true" enum:"retry,fail,default"`
	// Delay is the least pause before the next attempt; only with the action `retry`. Default: the
	// pause of the policy.
	Delay Duration `yaml:"delay,omitempty" json:"delay,omitempty" minimum:"1ms"`
}

// Timeout holds the time limits of a step, as Temporal defines them.
type Timeout struct {
	// StartToClose bounds one attempt; at least 100ms. Default 5m, or `schedule_to_close` where that is
	// shorter.
	StartToClose Duration `yaml:"start_to_close,omitempty" json:"start_to_close,omitempty" minimum:"100ms" default:"5m"`
	// ScheduleToClose bounds the step over all attempts, from its first scheduling, pauses and
	// waits included; not below `start_to_close`, not above `run_timeout`. Default 30m, or
	// `run_timeout` where that is shorter.
	ScheduleToClose Duration `yaml:"schedule_to_close,omitempty" json:"schedule_to_close,omitempty" minimum:"1s" default:"30m"`
	// Heartbeat is how long an attempt may show no progress before it counts as lost; at least 2s,
	// not above `start_to_close`. Default 30s, or `start_to_close` where that is shorter.
	Heartbeat Duration `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty" minimum:"2s" default:"30s"`
}

// The values of Step.OnFailure.
const (
	OnFailureFail     = "fail"
	OnFailureSkip     = "skip"
	OnFailureContinue = "continue"
)

// Step is one node of the graph; it becomes one Temporal activity. Exactly one of its kinds is set:
// `http`, `file`, `query`, `load`, `sql`, `exec` or `activity`.
type Step struct {
	// Name identifies the step in the pipeline: the same characters as a pipeline's name; at most
	// 60; unique.
	Name string `yaml:"name" json:"name" required:"true"`
	// Needs names the steps that must be done before this one begins.
	Needs []string `yaml:"needs,omitempty" json:"needs,omitempty"`
	// HTTP reads rows from an HTTP API, page by page.
	HTTP *HTTP `yaml:"http,omitempty" json:"http,omitempty" choice:"kind"`
	// File reads rows from files of a folder or bucket.
	File *File `yaml:"file,omitempty" json:"file,omitempty" choice:"kind"`
	// Query reads rows from a database.
	Query *Query `yaml:"query,omitempty" json:"query,omitempty" choice:"kind"`
	// Load writes the rows of a source into a table, exactly once per interval.
	Load *Load `yaml:"load,omitempty" json:"load,omitempty" choice:"kind"`
	// SQL runs a statement over the interval, in a ledgered transaction.
	SQL *SQL `yaml:"sql,omitempty" json:"sql,omitempty" choice:"kind"`
	// Exec runs a program, only on a worker that allows it.
	Exec *Exec `yaml:"exec,omitempty" json:"exec,omitempty" choice:"kind"`
	// Activity runs any Temporal activity by its name, in any SDK's language.
	Activity *Activity `yaml:"activity,omitempty" json:"activity,omitempty" choice:"kind"`
	// OnFailure says what a failure of this step means: `fail` (default: the run fails), `skip`
	// (this step and all that need it are skipped) or `continue` (what needs it still runs; not
	// allowed on a source that feeds a load).
	OnFailure string `yaml:"on_failure,omitempty" json:"on_failure" enum:"fail,skip,continue" default:"fail"`
	// Retry overrides the pipeline's default retry policy, field by field.
	Retry Retry `yaml:"retry,omitempty" json:"retry"`
	// Timeout overrides the pipeline's default time limits, field by field.
	Timeout Timeout `yaml:"timeout,omitempty" json:"timeout"`
}

// The values of HTTP.Format and File.Format.
const (
	FormatJSON   = "json"
	FormatNDJSON = "ndjson"
	FormatCSV    = "csv"
)

// The values of File.Compression.
const (
	CompressionNone = "none"
	CompressionGzip = "gzip"
	CompressionZstd = "zstd"
)

// The values of File.Missing.
const (
	MissingFail  = "fail"
	MissingWait  = "wait"
	MissingEmpty = "empty"
)

// The values of Column.Format that are not layouts.
const (
	TimeISO    = "iso"
	TimeUnix   = "unix"
	TimeUnixMS = "unixms"
	TimeUnixUS = "unixus"
)

// The values of Load.Outside.
const (
	OutsideFail = "fail"
	OutsideDrop = "drop"
)

// The values of Retry.JitterKind.
const (
	JitterAdd    = "add"
	JitterSpread = "spread"
)

// HTTP reads rows from an HTTP API, page by page.
type HTTP struct {
	// Connection names the API: its base URL, credentials and limits are the connection's.
	Connection string `yaml:"connection" json:"connection" required:"true"`
	// TaskQueue is that of the connection, where its declaration has one: Temporal then keeps the rate at
	// which steps start on it, over all workers. Default: the pipeline's.
	TaskQueue string `yaml:"task_queue,omitempty" json:"task_queue,omitempty"`
	// Method is `GET` (default) or `POST`.
	Method string `yaml:"method,omitempty" json:"method" enum:"GET,POST" default:"GET"`
	// Path is appended to the connection's base URL; it begins with `/`. Parameters belong under
	// `query`, which encodes them.
	Path Template `yaml:"path" json:"path" required:"true"`
	// Query holds the query parameters.
	Query map[string]Template `yaml:"query,omitempty" json:"query,omitempty"`
	// Headers are sent with each request. Credentials belong in the connection, not here. Host, Content-Length,
	// Transfer-Encoding, Trailer and Accept-Encoding cannot be set.
	Headers map[string]Template `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Body is the body of a `POST`, sent as JSON unless a header says otherwise.
	Body Template `yaml:"body,omitempty" json:"body,omitempty"`
	// Format of the answer: `json` (default), `ndjson` or `csv`. The last line of a CSV answer without
	// Content-Length and chunks must have a line end: it is the only sign that the answer is whole.
	Format string `yaml:"format,omitempty" json:"format" enum:"json,ndjson,csv" default:"json"`
	// Records is the path of the array of records in a JSON answer, names joined by dots, or a
	// JSON pointer when it begins with `/`. Default: the answer itself is the array. An answer without
	// it is a failure, and so is an empty array in an answer that says at its top that it is none: with
	// something under `error`, `errors` or `fault`, with `ok` or `success` that is false, or with a `status` of `error`,
	// `fail`, `failed` or `failure` (names and values in upper or lower case). `message` and `code` alone say nothing.
	Records string `yaml:"records,omitempty" json:"records,omitempty"`
	// CSV says how a CSV answer is written.
	CSV *CSV `yaml:"csv,omitempty" json:"csv,omitempty"`
	// Pagination says how to ask for the next page. Default: there is only one.
	Pagination *Pagination `yaml:"pagination,omitempty" json:"pagination,omitempty"`
	// ResumeWithin is how old the last page of a listing by page number or offset may be for a
	// new attempt to go on after it; when it is older the listing starts again. Default 5m.
	ResumeWithin Duration `yaml:"resume_within,omitempty" json:"resume_within,omitempty" minimum:"1s" default:"5m"`
	// Columns are the fields taken from each record; at least one.
	Columns []Column `yaml:"columns" json:"columns" required:"true"`
}

// The values of Pagination.Kind.
const (
	PaginationNone       = "none"
	PaginationPage       = "page"
	PaginationOffset     = "offset"
	PaginationCursor     = "cursor"
	PaginationNextLink   = "next_link"
	PaginationLinkHeader = "link_header"
)

// Pagination says how the next page of a listing is asked for.
type Pagination struct {
	// Kind is `none`, `page` (a page number), `offset` (offset and limit), `cursor` (a token in
	// the body), `next_link` (a URL in the body) or `link_header` (RFC 8288, rel="next").
	Kind string `yaml:"kind" json:"kind" required:"true" enum:"none,page,offset,cursor,next_link,link_header"`
	// Parameter is the query parameter that carries the page number, the offset or the cursor.
	// Default: `page`, `offset` or `cursor`, as the kind says.
	Parameter string `yaml:"parameter,omitempty" json:"parameter,omitempty"`
	// SizeParameter is the query parameter that carries the page size. Default: none is sent,
	// with `offset`: `limit`.
	SizeParameter string `yaml:"size_parameter,omitempty" json:"size_parameter,omitempty"`
	// Size is the number of records asked for per page; at least 1. With `page` and `offset` a page
	// with fewer records is the last one; without a size the last page is an empty one. Required by
	// `offset`.
	Size int `yaml:"size,omitempty" json:"size,omitempty" minimum:"1"`
	// First is the number of the first page or the first offset. Default 1 for `page`, 0 for
	// `offset`.
	First *int `yaml:"first,omitempty" json:"first,omitempty" minimum:"0"`
	// Next is the path in the body of the cursor (`cursor`) or of the link (`next_link`); the
	// last page has none, null or an empty text there. It stands beside the records, so `records` says where those
	// are. Required by these kinds.
	Next string `yaml:"next,omitempty" json:"next,omitempty"`
	// More is the path in the body of a boolean that says whether there is another page. Optional.
	More string `yaml:"more,omitempty" json:"more,omitempty"`
	// MaximumPages bounds the listing; a longer one is an error. At least 1. Default 100,000.
	MaximumPages int `yaml:"maximum_pages,omitempty" json:"maximum_pages,omitempty" minimum:"1" default:"100000"`
}

// File reads rows from files of a folder or bucket.
type File struct {
	// Connection names the folder or bucket.
	Connection string `yaml:"connection" json:"connection" required:"true"`
	// Path of the file below it, with slashes and without `..`. Usually it names the interval.
	Path Template `yaml:"path" json:"path" required:"true"`
	// Format is `csv`, `ndjson` or `json`. Default: by the name's extension.
	Format string `yaml:"format,omitempty" json:"format,omitempty" enum:"csv,ndjson,json"`
	// Compression is `none`, `gzip` or `zstd`. Default: by the name's extension.
	Compression string `yaml:"compression,omitempty" json:"compression,omitempty" enum:"none,gzip,zstd"`
	// Records is the path of the array of records in a JSON file; as in `http`.
	Records string `yaml:"records,omitempty" json:"records,omitempty"`
	// CSV says how a CSV file is written.
	CSV *CSV `yaml:"csv,omitempty" json:"csv,omitempty"`
	// Missing says what a missing file means: `fail` (default), `wait` (until it is there) or
	// `empty` (no rows).
	Missing string `yaml:"missing,omitempty" json:"missing" enum:"fail,wait,empty" default:"fail"`
	// Columns are the fields taken from each record; at least one.
	Columns []Column `yaml:"columns" json:"columns" required:"true"`
}

// CSV says how CSV is written. The default is RFC 4180 with a header line.
type CSV struct {
	// Delimiter between fields, one ASCII character. Default `,`.
	Delimiter string `yaml:"delimiter,omitempty" json:"delimiter,omitempty" default:","`
	// Header says whether the first line names the columns. Default true. Without it columns are
	// taken by position, or by a `path` that is the field's number, counted from 1.
	Header *bool `yaml:"header,omitempty" json:"header,omitempty" default:"true"`
	// Null is the unquoted text that stands for NULL. Default: the empty text; a quoted empty
	// field is an empty text.
	Null *string `yaml:"null,omitempty" json:"null,omitempty" default:""`
}

// Column is one typed column of a source's rows.
type Column struct {
	// Name of the column in the rows and, when a load creates it, in the table; at most 63 bytes.
	// Names that differ only in case are the same name. Names that begin with `_tranche` or
	// `_interval_start` are reserved.
	Name string `yaml:"name" json:"name" required:"true"`
	// Type is an SQL type: text, boolean, smallint, integer, bigint, real, double precision,
	// numeric, numeric(p,s), date, timestamp, timestamptz, uuid, jsonb or bytea. Values are checked
	// against it on the way in; one that does not fit fails the step and names column and row.
	Type string `yaml:"type" json:"type" required:"true"`
	// Path of the value in the record: names joined by dots, or a JSON pointer when it begins
	// with `/`; in CSV the header's name, or without a header the field's number, counted from 1.
	// Default: the column's name, or in CSV without a header its place in this list. The columns of
	// a query have none.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Format of a date or time in the source: `iso` (default: ISO 8601 / RFC 3339, read as UTC
	// when it has no offset), `unix`, `unixms`, `unixus` (seconds, milli- or microseconds since
	// 1970), or a Go reference layout such as `2006/01/02 15:04:05`.
	Format string `yaml:"format,omitempty" json:"format,omitempty"`
	// NotNull refuses rows that have no value here. Default false.
	NotNull bool `yaml:"not_null,omitempty" json:"not_null,omitempty"`
}

// Query reads rows from a database.
type Query struct {
	// Connection names the database.
	Connection string `yaml:"connection" json:"connection" required:"true"`
	// SQL is the statement; `$start` and `$end` are the interval's bounds as typed parameters.
	// Exactly one of `sql` and `file` is set.
	SQL string `yaml:"sql,omitempty" json:"sql,omitempty" choice:"text"`
	// File holds the statement: a path relative to the pipeline file, without `..`. The run takes
	// the text along, not the name.
	File string `yaml:"file,omitempty" json:"file,omitempty" choice:"text"`
	// Columns are the columns of the result, by name; at least one.
	Columns []Column `yaml:"columns" json:"columns" required:"true"`
}

// The values of Load.Disposition.
const (
	DispositionDeleteInsert = "delete+insert"
	DispositionUpsert       = "upsert"
	DispositionReplace      = "replace"
)

// Load writes the rows of a source into a table, exactly once per interval.
type Load struct {
	// From names the step whose rows are loaded; it is needed by this step, said or not.
	From string `yaml:"from" json:"from" required:"true"`
	// Table is the target, `table` or `schema.table`. It is created from the source's columns when
	// it is missing. The schema `tranche`, and tables that begin with `tranche_` where no schema is
	// written, are the load ledger's.
	Table string `yaml:"table" json:"table" required:"true"`
	// Disposition is how the load writes: `delete+insert` (the interval's slice is replaced),
	// `upsert` (by `unique_key`; nothing is deleted) or `replace` (the whole table).
	Disposition string `yaml:"disposition" json:"disposition" required:"true" enum:"delete+insert,upsert,replace"`
	// TimeColumn is the column (date, timestamp or timestamptz) that says to which interval a row
	// belongs. Required by `delete+insert` on a table that Tranche did not create.
	TimeColumn string `yaml:"time_column,omitempty" json:"time_column,omitempty"`
	// UniqueKey names the columns that identify a row. Required by `upsert`, and only there.
	UniqueKey []string `yaml:"unique_key,omitempty" json:"unique_key,omitempty"`
	// VersionColumn says which of two rows with one key is newer, for `upsert`: a column of numbers,
	// dates or times. Default: the interval that brought the row, in a hidden column of a table that
	// Tranche created.
	VersionColumn string `yaml:"version_column,omitempty" json:"version_column,omitempty"`
	// Scope lets several loads share a table: each owns the rows with these values in these text
	// columns, which the load fills in.
	Scope map[string]string `yaml:"scope,omitempty" json:"scope,omitempty"`
	// Outside says what to do with a row whose time is NULL or outside the interval: `fail`
	// (default) or `drop` (counted).
	Outside string `yaml:"outside,omitempty" json:"outside" enum:"fail,drop" default:"fail"`
	// AllowEmpty lets `replace` empty the table. Default false.
	AllowEmpty bool `yaml:"allow_empty,omitempty" json:"allow_empty,omitempty"`
	// Checks are made over the slice inside the loading transaction; one that does not hold fails
	// the step with CheckFailed, and the old slice stays.
	Checks []Check `yaml:"checks,omitempty" json:"checks,omitempty"`
}

// Check is one condition on the rows that a load has written. Exactly one field is set.
type Check struct {
	// MinimumRows is the least number of rows that the load must have written.
	MinimumRows *int64 `yaml:"minimum_rows,omitempty" json:"minimum_rows,omitempty" minimum:"0" choice:"condition"`
	// MaximumRows is the greatest number of rows that the load may have written.
	MaximumRows *int64 `yaml:"maximum_rows,omitempty" json:"maximum_rows,omitempty" minimum:"0" choice:"condition"`
	// Unique names columns whose combined values may occur only once in the slice.
	Unique []string `yaml:"unique,omitempty" json:"unique,omitempty" choice:"condition"`
	// NotNull names a column that must have a value in every row of the slice.
	NotNull string `yaml:"not_null,omitempty" json:"not_null,omitempty" choice:"condition"`
}

// SQL runs a statement over the interval, in a ledgered transaction of the warehouse.
type SQL struct {
	// Statement is the SQL to run; `$start` and `$end` are the interval's bounds as typed parameters.
	// Exactly one of `statement` and `file` is set.
	Statement string `yaml:"statement,omitempty" json:"statement,omitempty" choice:"text"`
	// File holds the statement, as in `query`.
	File string `yaml:"file,omitempty" json:"file,omitempty" choice:"text"`
}

// Exec runs a program, only on a worker that was started with `--allow-exec`. Exit code 0 is success, 75
// (EX_TEMPFAIL) asks for another try, and every other one fails the step; the end of what it has written to
// stderr (to stdout, if that is empty) stands in the error. Standard input is empty. The program gets PATH, HOME, LANG,
// LC_ALL and TMPDIR of the worker and nothing else of its environment, TZ=UTC, and about the run TRANCHE_PIPELINE,
// TRANCHE_STEP, TRANCHE_INTERVAL_START, TRANCHE_INTERVAL_END, TRANCHE_WORKFLOW_ID, TRANCHE_RUN_ID and
// TRANCHE_ATTEMPT. It is ended with all that it has started (its process group) by SIGTERM, and by SIGKILL three
// seconds later: on a cancel, when its worker stops, and before `start_to_close` is over, at most three seconds or a
// quarter of it. Nothing is promised about what the program itself changes: it may run more than once for an
// interval, and a later attempt may begin while an earlier one, whose worker was lost, still runs.
type Exec struct {
	// Command is the program and its arguments; no shell reads them. A program without a slash is looked
	// up in PATH of the worker. An argument may be empty.
	Command []Template `yaml:"command" json:"command" required:"true" items:"maybe-empty"`
	// Environment holds more variables for the program, by name. Names that begin with `TRANCHE_` are
	// reserved. It is no place for credentials: the program reads those itself, from a file of its host.
	Environment map[string]Template `yaml:"environment,omitempty" json:"environment,omitempty"`
	// Folder is the absolute path, on the worker's host, of the folder to run in. Default: a new and empty
	// one for each attempt, which is removed afterwards.
	Folder string `yaml:"folder,omitempty" json:"folder,omitempty"`
}

// Activity runs any Temporal activity by its name.
type Activity struct {
	// Type is the activity type's name.
	Type string `yaml:"type" json:"type" required:"true"`
	// TaskQueue whose workers run it. Default: the pipeline's.
	TaskQueue string `yaml:"task_queue,omitempty" json:"task_queue,omitempty"`
	// Input is passed as the activity's only argument, with the interval added under `interval`.
	// Whole numbers within 64 bits stay exact.
	Input map[string]any `yaml:"input,omitempty" json:"input,omitempty"`
}
