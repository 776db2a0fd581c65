package pipeline

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maximumIdentifier is PostgreSQL's limit for a name, in bytes; it silently cuts what is longer.
const maximumIdentifier = 63

// headerName is a token of RFC 9110, 5.6.2.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (c *checker) httpSource(at string, h *HTTP) {
	c.connection(join(at, "connection"), h.Connection)
	c.taskQueue(join(at, "task_queue"), h.TaskQueue)
	switch {
	case strings.Contains(string(h.Path), "://"):
		c.fail(join(at, "path"), codeBadPath, "write only what follows the base URL, which is the connection's")
	case h.Path != "" && !strings.HasPrefix(string(h.Path), "/"):
		c.fail(join(at, "path"), codeBadPath, "write the path with a / at its beginning")
	case strings.HasPrefix(string(h.Path), "//"):
		c.fail(join(at, "path"), codeBadPath, "write the path with one / at its beginning: two of them begin the name of a host")
	case slices.Contains(strings.Split(outsideOfActions(string(h.Path)), "/"), ".."):
		c.fail(join(at, "path"), codeBadPath, "write the path without ..: it stays below the connection's base URL")
	case strings.ContainsAny(outsideOfActions(string(h.Path)), "?#"):
		c.fail(join(at, "path"), codeBadPath, "write the parameters under query, which encodes them")
	}
	if h.Body != "" && c.fullMethod(h) != "POST" {
		c.fail(join(at, "body"), codeNoEffect, "only a POST has a body: write method: POST")
	}
	c.headers(join(at, "headers"), h.Headers)
	c.records(at, h.Records, orElse(h.Format, FormatJSON))
	c.csv(at, h.CSV, orElse(h.Format, FormatJSON))
	if h.Pagination != nil {
		c.pagination(join(at, "pagination"), h)
	}
	c.columns(at, h.Columns, pathRule(orElse(h.Format, FormatJSON), h.CSV))
}

func (c *checker) fullMethod(h *HTTP) string { return orElse(h.Method, "GET") }

var templateAction = regexp.MustCompile(`\{\{[^}]*\}\}`)

// outsideOfActions is a template with an x for each action, to look at what is written around them.
func outsideOfActions(text string) string { return templateAction.ReplaceAllString(text, "x") }

// ReservedHeader says why a header cannot be set, or "" where it can: its value follows from the request itself (its
// host, its body) and another one would not be sent, or it asks for answers that nobody would unpack.
func ReservedHeader(name string) string {
	switch strings.ToLower(name) {
	case "host", "content-length", "transfer-encoding", "trailer":
		return "follows from the request itself, and another value would not be sent"
	case "accept-encoding":
		return "is set by the worker, which asks for gzip and unpacks it; with another value compressed answers could not be read"
	}
	return ""
}

func (c *checker) headers(at string, headers map[string]Template) {
	seen := map[string]string{}
	for _, name := range sortedNames(headers) {
		lower := strings.ToLower(name)
		switch {
		case !headerName.MatchString(name):
			c.fail(join(at, name), codeBadName, "%q is no name of a header", clip(name))
		case seen[lower] != "":
			c.fail(join(at, name), codeDuplicateName, "%s and %s are the same header", clip(seen[lower]), clip(name))
		case ReservedHeader(name) != "":
			c.fail(join(at, name), codeReservedName, "%s %s: take it out", clip(name), ReservedHeader(name))
		case strings.ContainsAny(string(headers[name]), "\r\n"):
			c.fail(join(at, name), codeInvalidValue, "a header has no line breaks")
		}
		seen[lower] = name
	}
}

func (c *checker) records(at, records, format string) {
	if records == "" {
		return
	}
	if format != FormatJSON {
		c.fail(join(at, "records"), codeNoEffect, "only json has a path to its records: every line of %s is one", orElse(format, "the file"))
		return
	}
	c.recordPath(join(at, "records"), records)
}

// recordPath checks names joined by dots, or a JSON pointer (RFC 6901).
func (c *checker) recordPath(at, text string) {
	if strings.HasPrefix(text, "/") {
		for i := 0; i < len(text); i++ {
			if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
				c.fail(at, codeBadPath, "in a JSON pointer ~ is written ~0 and / in a name ~1")
				return
			}
		}
		return
	}
	for _, name := range strings.Split(text, ".") {
		if name == "" {
			c.fail(at, codeBadPath, "%q has an empty name: write names joined by single dots, or a JSON pointer such as /a.b/c", clip(text))
			return
		}
	}
}

func (c *checker) csv(at string, csv *CSV, format string) {
	if csv == nil {
		return
	}
	at = join(at, "csv")
	if format != FormatCSV {
		c.fail(at, codeNoEffect, "the format is %s: write format: csv, or leave csv out", orElse(format, "not csv"))
		return
	}
	d := csv.Delimiter
	if d != "" && (len(d) != 1 || d[0] >= utf8.RuneSelf || strings.ContainsAny(d, "\"\r\n")) {
		c.fail(join(at, "delimiter"), codeInvalidValue, "a delimiter is one ASCII character other than the quote and the line break, such as \";\" or \"\\t\"")
	}
	if csv.Null != nil && strings.ContainsAny(*csv.Null, "\"\r\n"+orElse(d, ",")) {
		c.fail(join(at, "null"), codeInvalidValue, "the text for NULL has no quote, delimiter or line break: it stands unquoted in the file")
	}
}

// paginationUses says which settings a kind of pagination has, and which of them it requires.
var paginationUses = map[string]struct{ allowed, required string }{
	PaginationNone:       {"", ""},
	PaginationPage:       {"parameter size_parameter size first more maximum_pages", ""},
	PaginationOffset:     {"parameter size_parameter size first more maximum_pages", "size"},
	PaginationCursor:     {"parameter size_parameter size next more maximum_pages", "next"},
	PaginationNextLink:   {"size_parameter size next more maximum_pages", "next"},
	PaginationLinkHeader: {"size_parameter size more maximum_pages", ""},
}

func (c *checker) pagination(at string, h *HTTP) {
	p := h.Pagination
	uses, known := paginationUses[p.Kind]
	if !known {
		return
	}
	set := map[string]bool{
		"parameter": p.Parameter != "", "size_parameter": p.SizeParameter != "", "size": p.Size != 0,
		"first": p.First != nil, "next": p.Next != "", "more": p.More != "", "maximum_pages": p.MaximumPages != 0,
	}
	for _, key := range []string{"parameter", "size_parameter", "size", "first", "next", "more", "maximum_pages"} {
		isAllowed := strings.Contains(" "+uses.allowed+" ", " "+key+" ")
		if set[key] && !isAllowed {
			c.fail(join(at, key), codeNoEffect, "pagination of the kind %s has no %s", p.Kind, key)
		}
		if !set[key] && key == uses.required {
			c.fail(join(at, key), codeMissingField, "pagination of the kind %s needs %s", p.Kind, key)
		}
	}
	if p.SizeParameter != "" && p.Size == 0 {
		c.fail(join(at, "size_parameter"), codeNoEffect, "size_parameter says how to ask for pages of a size: write size too")
	}
	c.bodyPaths(at, h)
	c.pageParameters(at, h)
}

// bodyPaths checks the settings that point into the body of an answer, which only JSON has.
func (c *checker) bodyPaths(at string, h *HTTP) {
	format := orElse(h.Format, FormatJSON)
	for _, use := range []struct{ key, text string }{{"next", h.Pagination.Next}, {"more", h.Pagination.More}} {
		switch {
		case use.text == "":
		case format != FormatJSON:
			c.fail(join(at, use.key), codeConflict, "%s is a path in a JSON answer, and the format is %s", use.key, format)
		default:
			c.recordPath(join(at, use.key), use.text)
			c.besideRecords(join(at, use.key), use.key, use.text, h.Records)
		}
	}
}

// besideRecords refuses a path that leads into the records, to them, or to what holds them: an answer is read once,
// from its beginning to its end, and its records are passed on as they come.
func (c *checker) besideRecords(at, key, text, records string) {
	if records == "" {
		c.fail(at, codeConflict, "%s stands beside the records in an object, and without records the whole answer is an array: say in records under which name they are", key)
		return
	}
	inner, outer := pathNames(text), pathNames(records)
	if len(inner) < len(outer) {
		inner, outer = outer, inner
	}
	if slices.Equal(inner[:len(outer)], outer) {
		c.fail(at, codeConflict, "%s leads to %q and the records are at %q: the two must lead to different places, none inside the other", key, clip(text), clip(records))
	}
}

// pathNames takes a path apart.
func pathNames(text string) []string {
	pointer, isPointer := strings.CutPrefix(text, "/")
	if !isPointer {
		return strings.Split(text, ".")
	}
	names := strings.Split(pointer, "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names
}

// pageParameters refuses a parameter that the query sets too: one of the two would be lost.
func (c *checker) pageParameters(at string, h *HTTP) {
	full := *h.Pagination
	full.fill()
	for _, use := range []struct{ key, name string }{{"parameter", full.Parameter}, {"size_parameter", full.SizeParameter}} {
		if _, taken := h.Query[use.name]; taken && use.name != "" {
			c.fail(join(at, use.key), codeConflict, "the parameter %s is set under query too: leave it to the pagination", clip(use.name))
		}
	}
	if full.Parameter != "" && full.Parameter == full.SizeParameter {
		c.fail(join(at, "size_parameter"), codeConflict, "parameter and size_parameter are the same")
	}
}

func (c *checker) fileSource(at string, f *File) {
	c.connection(join(at, "connection"), f.Connection)
	literal := outsideOfActions(string(f.Path))
	switch {
	case f.Path == "":
	case strings.Contains(literal, "://"):
		c.fail(join(at, "path"), codeBadPath, "write the path below the folder or bucket, which is the connection's")
	case strings.HasPrefix(literal, "/") || strings.Contains(literal, `\`) || path.Clean("/"+literal) != "/"+strings.TrimSuffix(literal, "/"):
		c.fail(join(at, "path"), codeBadPath, "write a relative path with slashes, without .. and empty parts")
	case strings.ContainsAny(literal, "*?"):
		c.fail(join(at, "path"), codeNotSupported, "patterns with * or ? are not supported by this version: name one file, usually with the interval in its name")
	}
	format, _ := formatOfName(string(f.Path))
	if format = orElse(f.Format, format); format == "" && f.Path != "" {
		c.fail(join(at, "format"), codeMissingField, "the file's name does not tell its format: write format: csv, ndjson or json")
	}
	c.records(at, f.Records, format)
	c.csv(at, f.CSV, format)
	c.columns(at, f.Columns, pathRule(format, f.CSV))
}

// pathCheck reports what is wrong with the path of a column.
type pathCheck func(c *checker, at, path string)

func pathRule(format string, csv *CSV) pathCheck {
	switch {
	case format != FormatCSV:
		return (*checker).recordPath
	case csv != nil && csv.Header != nil && !*csv.Header:
		return pathByNumber
	}
	return pathByHeader
}

func pathByHeader(*checker, string, string) {}

func pathByNumber(c *checker, at, path string) {
	if number, err := strconv.Atoi(path); err != nil || number < 1 {
		c.fail(at, codeBadPath, "without a header a path is the field's number, counted from 1")
	}
}

func pathByName(c *checker, at, _ string) {
	c.fail(at, codeNoEffect, "the columns of a query have no path: name them in the SQL with AS")
}

// columns checks the columns of a source. Names that differ only in case are one name for SQLite and
// for SQL that does not quote them.
func (c *checker) columns(at string, columns []Column, checkPath pathCheck) {
	byName, byStart := map[string]string{}, map[string]string{}
	for i := range columns {
		column, here := &columns[i], index(join(at, "columns"), i)
		c.columnName(join(here, "name"), column.Name, byName, byStart)
		if column.Path != "" {
			checkPath(c, join(here, "path"), column.Path)
		}
		if column.Type == "" {
			continue
		}
		parsed, err := ParseType(column.Type)
		if err != nil {
			c.fail(join(here, "type"), codeBadType, "%s", err)
			continue
		}
		c.timeFormat(join(here, "format"), column.Format, parsed)
	}
}

func (c *checker) columnName(at, name string, byName, byStart map[string]string) {
	if name == "" {
		return
	}
	if other := c.sameStart(name, byStart); other != "" {
		c.fail(at, codeBadName, "the name has %d bytes: at most %d are possible, and the database would take %q and %q for the same column", len(name), maximumIdentifier, name, other)
	}
	c.identifier(at, name, "a column")
	lower := strings.ToLower(name)
	if other, twice := byName[lower]; twice {
		c.fail(at, codeDuplicateName, "column %q is already there as %q: give each column a name of its own", clip(name), clip(other))
	}
	byName[lower] = name
}

// sameStart returns an earlier name that begins with the same 63 bytes, or "".
func (c *checker) sameStart(name string, byStart map[string]string) string {
	if len(name) < maximumIdentifier {
		return ""
	}
	start := name[:maximumIdentifier]
	other, seen := byStart[start]
	byStart[start] = name
	if !seen || other == name {
		return ""
	}
	return other
}

// identifier checks a name that the database will see. It is quoted there, so it may hold nearly
// anything.
func (c *checker) identifier(at, name, what string) {
	switch {
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		c.fail(at, codeBadName, "the name of %s has no blanks around it and no line breaks in it", what)
	case len(name) > maximumIdentifier:
		c.fail(at, codeBadName, "the name of %s has %d bytes: at most %d are possible", what, len(name), maximumIdentifier)
	case reservedName(name):
		c.fail(at, codeReservedName, "%q is reserved: Tranche or the database has a column or table of that name of its own", name)
	}
}

// systemColumns are PostgreSQL's, which no table can have twice (documentation, 5.6).
var systemColumns = map[string]bool{"tableoid": true, "xmin": true, "cmin": true, "xmax": true, "cmax": true, "ctid": true}

func reservedName(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, "_tranche") || strings.HasPrefix(lower, "_interval_start") || systemColumns[lower]
}

func (c *checker) timeFormat(at, format string, t Type) {
	switch {
	case format == "":
	case !t.Kind.IsTime():
		c.fail(at, codeNoEffect, "only date, timestamp and timestamptz have a format, and the column is %s", t)
	case format == TimeISO || format == TimeUnix || format == TimeUnixMS || format == TimeUnixUS:
	default:
		if err := checkSourceLayout(format); err != nil {
			c.fail(at, codeBadFormat, "%s%s", err, didYouMean(format, []string{TimeISO, TimeUnix, TimeUnixMS, TimeUnixUS}))
		}
	}
}
