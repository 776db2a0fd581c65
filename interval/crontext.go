package interval

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// cronField describes one of the five fields: what it is called and which values it takes.
type cronField struct {
	name     string
	min, max int      // what * stands for
	limit    int      // the largest number that may be written; above max only for Sunday as 7
	names    []string // full names in lower case; the first stands for min
}

var cronFields = [5]cronField{
	{name: "minute", min: 0, max: 59, limit: 59},
	{name: "hour", min: 0, max: 23, limit: 23},
	{name: "day-of-month", min: 1, max: 31, limit: 31},
	{name: "month", min: 1, max: 12, limit: 12, names: []string{"january", "february", "march", "april", "may",
		"june", "july", "august", "september", "october", "november", "december"}},
	{name: "day-of-week", min: 0, max: 6, limit: 7, names: []string{"sunday", "monday", "tuesday", "wednesday",
		"thursday", "friday", "saturday"}},
}

// Positions in cronFields.
const (
	fieldMinute = iota
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
)

const fiveFields = "minute hour day-of-month month day-of-week"

const (
	// longestCron bounds cron text, in bytes. Every minute, hour and date listed one by one takes 400.
	longestCron = 1000
	// mostErrors bounds what is reported of one field.
	mostErrors = 5
)

// parseCron reads cron text and reports everything that is wrong with it, within reason.
func parseCron(text string) (*cron, Errors) {
	if len(text) > longestCron {
		return nil, Errors{cronError(CodeBadCron, 1, "cron %s is longer than %d characters; write ranges and steps in place of lists", excerpt(text), longestCron)}
	}
	if column, bad := firstForeign(text); bad != "" {
		return nil, Errors{cronError(CodeBadCron, column, "cron %q, column %d: %s has no place in cron text; separate the five fields by blanks",
			text, column, bad)}
	}
	words := split(text, " \t")
	if len(words) == 0 {
		return nil, Errors{cronError(CodeBadCron, 1, `cron text is empty; it needs five fields: %s, such as "0 6 * * *"`, fiveFields)}
	}
	if err := refusePrefix(text, words); err != nil {
		return nil, Errors{err}
	}
	if strings.HasPrefix(words[0].text, "@") {
		return parseAlias(text, words)
	}
	if len(words) != len(cronFields) {
		return nil, Errors{wrongCount(text, words)}
	}
	return parseFields(text, words)
}

func cronError(code string, column int, format string, args ...any) *Error {
	return &Error{Code: code, Field: FieldCron, Column: column, Message: fmt.Sprintf(format, args...)}
}

// firstForeign finds the first character that is not printable ASCII or a tab, such as a no-break
// space out of a web page, and returns its column and how to print it.
func firstForeign(text string) (column int, printed string) {
	for i, r := range text {
		column++
		if r == '\t' || ' ' <= r && r <= '~' {
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		return column, strconv.QuoteToASCII(text[i : i+size])
	}
	return 0, ""
}

// word is a part of a text and the 1-based column at which it starts.
type word struct {
	text   string
	column int
}

// split cuts text at any of the separators and drops empty parts.
func split(text, separators string) []word {
	var words []word
	for start := 0; start < len(text); {
		length := strings.IndexAny(text[start:], separators)
		if length < 0 {
			length = len(text) - start
		}
		if length > 0 {
			words = append(words, word{text[start : start+length], start + 1})
		}
		start += length + 1
	}
	return words
}

// refusePrefix refuses what other crons allow around the fields: a zone before them, a comment after them.
func refusePrefix(text string, words []word) *Error {
	if name, zone, found := strings.Cut(words[0].text, "="); found && (name == "TZ" || name == "CRON_TZ") {
		return cronError(CodeNotSupported, words[0].column,
			"cron %q: %s= inside cron text is not supported; write timezone: %s beside the cron", text, name, zone)
	}
	for _, w := range words {
		if strings.HasPrefix(w.text, "#") {
			return cronError(CodeNotSupported, w.column,
				"cron %q, column %d: a comment inside cron text is not supported; write it outside of the quotes", text, w.column)
		}
	}
	return nil
}

func parseAlias(text string, words []word) (*cron, Errors) {
	fields := ""
	switch strings.ToLower(words[0].text) {
	case "@yearly", "@annually":
		fields = "0 0 1 1 *"
	case "@monthly":
		fields = "0 0 1 * *"
	case "@weekly":
		fields = "0 0 * * 0"
	case "@daily", "@midnight":
		fields = "0 0 * * *"
	case "@hourly":
		fields = "0 * * * *"
	case "@every":
		duration := strings.TrimSpace(strings.TrimSpace(text)[len("@every"):])
		if _, err := time.ParseDuration(duration); err != nil {
			duration = "24h, or another duration,"
		}
		return nil, Errors{cronError(CodeNotSupported, words[0].column,
			"cron %q: @every is not supported; write every: %s in place of the cron", text, duration)}
	case "@reboot":
		return nil, Errors{cronError(CodeNotSupported, words[0].column,
			"cron %q: @reboot is not supported: a run owns an interval of time, and a start of the machine has none; write when the interval ends, such as @daily", text)}
	default:
		return nil, Errors{cronError(CodeBadCron, words[0].column,
			"cron %q: %s is unknown; the names are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly", text, words[0].text)}
	}
	if len(words) > 1 {
		return nil, Errors{cronError(CodeBadCron, words[1].column,
			"cron %q, column %d: nothing may follow %s", text, words[1].column, words[0].text)}
	}
	return parseFields(fields, split(fields, " "))
}

// wrongCount explains a cron that has not five fields, and what it may have been meant to be.
func wrongCount(text string, words []word) *Error {
	if len(words) != 6 && len(words) != 7 {
		return cronError(CodeBadCron, 0, "cron %q has %s; it needs five: %s", text, plural(len(words), "field"), fiveFields)
	}
	var meant []string
	if rest := words[1:6]; fits(rest) {
		meant = append(meant, fmt.Sprintf("%q if the first field was meant as seconds", join(rest)))
	}
	if rest := words[:5]; len(words) == 6 && fits(rest) {
		meant = append(meant, fmt.Sprintf("%q if the last field was meant as years", join(rest)))
	}
	advice := fiveFields
	if len(meant) > 0 {
		advice = strings.Join(meant, ", ")
	}
	if n, found := strings.CutPrefix(words[0].text, "*/"); found && allDigits(n) {
		advice += fmt.Sprintf("; for a tick every %s seconds write every: %ss in place of the cron", n, n)
	}
	return cronError(CodeNotSupported, 0,
		"cron %q has %d fields; seconds and years are not supported. Write five: %s", text, len(words), advice)
}

func fits(words []word) bool {
	_, errs := parseFields(join(words), words)
	return errs == nil
}

func join(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func parseFields(text string, words []word) (*cron, Errors) {
	var sets [len(cronFields)]set
	var errs Errors
	for i := range cronFields {
		p := fieldParser{cronField: &cronFields[i], position: i, cron: text}
		sets[i] = p.parse(words[i])
		errs = append(errs, p.errs...)
	}
	if errs != nil {
		return nil, errs
	}
	starred := func(position int) bool {
		first := words[position].text[0]
		return first == '*' || first == '?'
	}
	c := &cron{
		minute:   sets[fieldMinute],
		hour:     sets[fieldHour],
		day:      sets[fieldDay],
		month:    sets[fieldMonth],
		weekday:  sets[fieldWeekday],
		bothDays: starred(fieldDay) || starred(fieldWeekday),
		elapsed:  starred(fieldMinute) || starred(fieldHour),
	}
	if _, ok := c.nextDate(0); !ok {
		return nil, Errors{cronError(CodeNeverFires, words[fieldDay].column,
			"cron %q never fires: month %s never has a day %s; write a day that it has, or 1 of the month after for its last day",
			text, words[fieldMonth].text, words[fieldDay].text)}
	}
	return c, nil
}

// fieldParser parses one field and collects what is wrong with it.
type fieldParser struct {
	*cronField
	position int
	cron     string // the whole text, for messages
	errs     Errors
}

func (p *fieldParser) fail(code string, at word, format string, args ...any) {
	if len(p.errs) == mostErrors {
		return
	}
	p.errs = append(p.errs, cronError(code, at.column, "%s %q (column %d of cron %q): %s",
		p.name, at.text, at.column, p.cron, fmt.Sprintf(format, args...)))
}

func (p *fieldParser) parse(field word) set {
	if field.text == "?" && (p.position == fieldDay || p.position == fieldWeekday) {
		return p.span(p.min, p.max, 1)
	}
	var all set
	column := field.column
	for part := range strings.SplitSeq(field.text, ",") {
		all |= p.element(word{part, column}, field)
		column += len(part) + 1
	}
	return all
}

// element parses one part of a list: *, a, a-b, */n, a/n or a-b/n.
func (p *fieldParser) element(w word, field word) set {
	if w.text == "" {
		p.fail(CodeBadCron, field, "an element of the list is empty; write values separated by single commas")
		return 0
	}
	if advice := p.unsupported(w.text); advice != "" {
		p.fail(CodeNotSupported, w, "%s", advice)
		return 0
	}
	base, stepText, stepped := strings.Cut(w.text, "/")
	step := 1
	if stepped {
		var ok bool
		if step, ok = p.step(w, stepText); !ok {
			return 0
		}
	}
	low, high, ok := p.bounds(w, base, stepped)
	if !ok {
		return 0
	}
	if low > high {
		p.fail(CodeNotSupported, w, "a range that wraps around is not supported; write %s", p.unwrapped(base, low, high, step))
		return 0
	}
	return p.span(low, high, step)
}

// span returns the set of low, low+step, … up to high. Sunday as 7 becomes 0.
func (p *fieldParser) span(low, high, step int) set {
	var s set
	for v := low; v <= high; v += step {
		if v > p.max {
			s |= 1 << p.min
		} else {
			s |= 1 << v
		}
	}
	return s
}

func (p *fieldParser) step(w word, text string) (int, bool) {
	size := p.max - p.min + 1
	if !allDigits(text) || strings.Trim(text, "0") == "" {
		p.fail(CodeBadCron, w, "the step after / must be a number from 1 to %d", size)
		return 0, false
	}
	step, err := strconv.Atoi(text)
	if err == nil && step <= size {
		return step, true
	}
	advice := ""
	switch p.position {
	case fieldMinute:
		advice = fmt.Sprintf("; for a tick every %s minutes write every: %sm in place of the cron", text, text)
	case fieldHour:
		advice = fmt.Sprintf("; for a tick every %s hours write every: %sh in place of the cron", text, text)
	}
	p.fail(CodeBadCron, w, "a step of %s is more than the %d values of the field, so that only one of them would be left%s", text, size, advice)
	return 0, false
}

// bounds returns the first and the last value of an element without its step. The first is above the
// last when the range wraps around.
func (p *fieldParser) bounds(w word, base string, stepped bool) (low, high int, ok bool) {
	if base == "*" {
		return p.min, p.max, true
	}
	first, last, ranged := strings.Cut(base, "-")
	if low, ok = p.value(w, first); !ok {
		return 0, 0, false
	}
	switch {
	case ranged:
		if high, ok = p.value(w, last); !ok {
			return 0, 0, false
		}
		if p.position == fieldWeekday && high == 0 && low > 0 && !allDigits(last) {
			high = p.limit // fri-sun ends with the Sunday that follows
		}
	case stepped:
		if low > p.max {
			low = p.min
		}
		high = p.max
	default:
		high = low
	}
	return low, high, true
}

// value reads one number or name.
func (p *fieldParser) value(w word, text string) (int, bool) {
	if allDigits(text) {
		if v, err := strconv.Atoi(text); err == nil && p.min <= v && v <= p.limit {
			return v, true
		}
	}
	lower := strings.ToLower(text)
	for i, name := range p.names {
		if lower == name || lower == name[:3] {
			return p.min + i, true
		}
	}
	if text == "" { // -5, 5-
		text = w.text
	}
	p.fail(CodeBadCron, w, "%q is not %s", text, p.kind())
	return 0, false
}

// kind says which values the field takes.
func (p *fieldParser) kind() string {
	switch p.position {
	case fieldMonth:
		return "a month from 1 to 12 or from jan to dec"
	case fieldWeekday:
		return "a day from 0 to 7 (0 and 7 are Sunday) or from sun to sat"
	default:
		return fmt.Sprintf("a number from %d to %d", p.min, p.limit)
	}
}

// unwrapped writes a range that wraps around with ranges that do not.
func (p *fieldParser) unwrapped(base string, low, high, step int) string {
	if low > p.max { // 7-2
		return fmt.Sprintf("%d-%d", p.min, high)
	}
	if step > 1 {
		var values []string
		size := p.max - p.min + 1
		for v := low; v <= high+size; v += step {
			values = append(values, strconv.Itoa((v-p.min)%size+p.min))
		}
		return strings.Join(values, ",")
	}
	named := !allDigits(strings.SplitN(base, "-", 2)[0])
	return p.print(low, p.max, named) + "," + p.print(p.min, high, named)
}

func (p *fieldParser) print(low, high int, named bool) string {
	one := func(v int) string {
		if named {
			return p.names[v-p.min][:3]
		}
		return strconv.Itoa(v)
	}
	if low == high {
		return one(low)
	}
	return one(low) + "-" + one(high)
}

// unsupported recognises what Quartz, Jenkins and their kind allow in a field, and says what to write
// instead; "" when the element is none of that.
func (p *fieldParser) unsupported(element string) string {
	upper := strings.ToUpper(element)
	switch {
	case strings.Contains(upper, "#"):
		day, _, _ := strings.Cut(element, "#")
		return fmt.Sprintf("# (the nth weekday of a month) is not supported; write the weekday alone, %q: each run then covers a week", day)
	case upper == "H" || strings.HasPrefix(upper, "H/") || strings.HasPrefix(upper, "H("):
		if _, step, found := strings.Cut(element, "/"); found {
			return fmt.Sprintf("H (a value chosen by a hash) is not supported; write */%s", step)
		}
		return fmt.Sprintf("H (a value chosen by a hash) is not supported; write a fixed value, such as %d", min(17, p.max))
	case p.position == fieldDay && upper != "W" && strings.HasSuffix(upper, "W"):
		return "W (the nearest working day) is not supported; write the day alone, or 1-5 in the day-of-week field for every working day"
	case p.position == fieldDay && (upper == "L" || strings.HasPrefix(upper, "L-")):
		return "L (the last day of the month) is not supported; write 1: a run that is due on the 1st covers the month to the end of its last day"
	case p.position == fieldWeekday && upper == "L":
		return "L (the last day of the week) is not supported; write sat or sun"
	case p.position == fieldWeekday && strings.HasSuffix(upper, "L"):
		return fmt.Sprintf("L (the last such weekday of the month) is not supported; write the weekday alone, %q: each run then covers a week",
			element[:len(element)-1])
	}
	return ""
}

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
