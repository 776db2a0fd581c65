package pipeline

import (
	"path"
	"reflect"
	"strconv"
	"strings"
)

// Effective returns a deep copy in which every default is filled in: those of the `default` tags of
// the declaration, those that a step takes from the pipeline's `defaults`, and those that follow from
// other fields, which is what this file is about. It is what travels with a run. Applied to its own
// result it changes nothing. The pipeline must be one that Parse or Decode returned.
func (p *Pipeline) Effective() *Pipeline {
	written := clone(reflect.ValueOf(p)).Interface().(*Pipeline)
	full := *written
	fillDefaults(reflect.ValueOf(&full).Elem())
	if full.Schedule != nil {
		full.Schedule.fill()
	}
	full.Notify.fill(full.Deadline)
	full.Defaults.Retry = written.Defaults.Retry.effective()
	full.Defaults.Timeout = written.Defaults.Timeout.effective(full.RunTimeout)
	for i := range full.Steps {
		full.Steps[i].fill(written.Defaults, full.RunTimeout, full.TaskQueue)
	}
	return &full
}

func (n *Notify) fill(deadline Duration) {
	if n == nil || len(n.On) > 0 {
		return
	}
	n.On = []string{EventFailure, EventDeadline, EventRecovery}
	if deadline == 0 {
		n.On = []string{EventFailure, EventRecovery}
	}
}

// fill keeps the default window of a quick schedule within the ticks that Temporal can start.
func (s *Schedule) fill() {
	written := s.CatchupWindow
	fillDefaults(reflect.ValueOf(s).Elem())
	if most := maximumWindowTicks * s.Every; written == 0 && s.Every > 0 && s.Every < s.CatchupWindow/maximumWindowTicks {
		s.CatchupWindow = most
	}
}

func (s *Step) fill(defaults Defaults, run Duration, taskQueue string) {
	fillDefaults(reflect.ValueOf(s).Elem())
	if s.Activity != nil {
		defaults.Retry = defaults.Retry.forActivity()
	}
	overlay(reflect.ValueOf(&s.Retry).Elem(), reflect.ValueOf(defaults.Retry))
	overlay(reflect.ValueOf(&s.Timeout).Elem(), reflect.ValueOf(defaults.Timeout))
	s.Retry = s.Retry.effective()
	s.Timeout = s.Timeout.effective(run)
	s.Needs = s.allNeeds()
	switch {
	case s.HTTP != nil:
		s.HTTP.fill()
	case s.File != nil:
		s.File.fill()
	case s.Query != nil:
		fillColumns(s.Query.Columns, byName)
	case s.Load != nil:
		fillDefaults(reflect.ValueOf(s.Load).Elem())
	case s.Activity != nil && s.Activity.TaskQueue == "":
		s.Activity.TaskQueue = taskQueue
	}
}

// effective fills the defaults. A pause that is written longer than the default cap lifts the cap.
func (r Retry) effective() Retry {
	full := clone(reflect.ValueOf(r)).Interface().(Retry)
	fillDefaults(reflect.ValueOf(&full).Elem())
	if r.MaximumInterval == 0 {
		full.MaximumInterval = max(full.MaximumInterval, full.InitialInterval)
	}
	return full
}

// effective fills the defaults. A limit that is not written never exceeds the one around it: a run of
// at most 20m has steps of at most 20m without saying so.
func (t Timeout) effective(run Duration) Timeout {
	full := t
	fillDefaults(reflect.ValueOf(&full).Elem())
	if t.ScheduleToClose == 0 && run > 0 {
		full.ScheduleToClose = min(full.ScheduleToClose, run)
	}
	if t.StartToClose == 0 {
		full.StartToClose = min(full.StartToClose, full.ScheduleToClose)
	}
	if t.Heartbeat == 0 {
		full.Heartbeat = min(full.Heartbeat, full.StartToClose)
	}
	return full
}

func (h *HTTP) fill() {
	fillDefaults(reflect.ValueOf(h).Elem())
	if h.Pagination == nil {
		h.Pagination = &Pagination{Kind: PaginationNone}
	}
	h.Pagination.fill()
	if h.Format == FormatCSV {
		h.CSV = h.CSV.effective()
	}
	fillColumns(h.Columns, pathsOf(h.Format, h.CSV))
}

func (p *Pagination) fill() {
	first := 0
	switch p.Kind {
	case PaginationNone:
		return
	case PaginationPage:
		first = 1
		p.Parameter = orElse(p.Parameter, "page")
	case PaginationOffset:
		p.Parameter = orElse(p.Parameter, "offset")
		p.SizeParameter = orElse(p.SizeParameter, "limit")
	case PaginationCursor:
		p.Parameter = orElse(p.Parameter, "cursor")
	}
	if p.First == nil && (p.Kind == PaginationPage || p.Kind == PaginationOffset) {
		p.First = &first
	}
	fillDefaults(reflect.ValueOf(p).Elem())
}

func (f *File) fill() {
	fillDefaults(reflect.ValueOf(f).Elem())
	format, compression := formatOfName(string(f.Path))
	f.Format = orElse(f.Format, format)
	f.Compression = orElse(f.Compression, compression)
	if f.Format == FormatCSV {
		f.CSV = f.CSV.effective()
	}
	fillColumns(f.Columns, pathsOf(f.Format, f.CSV))
}

// formatOfName reads the extensions of a file's name: the last one may be a compression's. The format
// is "" when the name does not tell it.
func formatOfName(name string) (format, compression string) {
	compression = CompressionNone
	switch strings.ToLower(path.Ext(name)) {
	case ".gz":
		compression = CompressionGzip
	case ".zst":
		compression = CompressionZstd
	}
	if compression != CompressionNone {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		format = FormatCSV
	case ".ndjson", ".jsonl":
		format = FormatNDJSON
	case ".json":
		format = FormatJSON
	}
	return format, compression
}

func (c *CSV) effective() *CSV {
	full := CSV{}
	if c != nil {
		full = *c
	}
	fillDefaults(reflect.ValueOf(&full).Elem())
	return &full
}

// pathsOf says where a column's value stands in a record that does not say so.
func pathsOf(format string, csv *CSV) func(index int, name string) string {
	switch {
	case format != FormatCSV:
		return inJSON
	case csv.Header != nil && !*csv.Header:
		return func(index int, _ string) string { return strconv.Itoa(index + 1) }
	}
	return byName
}

func byName(_ int, name string) string { return name }

// inJSON is the column's name, as a JSON pointer where a dot in it would separate two names.
func inJSON(_ int, name string) string {
	if strings.Contains(name, ".") || strings.HasPrefix(name, "/") {
		return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return name
}

func fillColumns(columns []Column, pathOf func(index int, name string) string) {
	for i := range columns {
		c := &columns[i]
		c.Path = orElse(c.Path, pathOf(i, c.Name))
		parsed, err := ParseType(c.Type)
		if err != nil {
			continue // a checked pipeline has none
		}
		c.Type = parsed.String()
		if parsed.Kind.IsTime() {
			c.Format = orElse(c.Format, TimeISO)
		}
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// fillDefaults sets the fields of a struct that have a `default` tag and no value. It does not look
// into structs below.
func fillDefaults(v reflect.Value) {
	for i := range v.NumField() {
		text, ok := v.Type().Field(i).Tag.Lookup("default")
		if ok && v.Field(i).IsZero() {
			setDefault(v.Field(i), text)
		}
	}
}

// setDefault sets a field from the text of its tag. A test reads every tag of the declaration, so
// none of them can be malformed.
func setDefault(v reflect.Value, text string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case v.Type() == durationType:
		d, _ := ParseDuration(text)
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "true")
	case v.CanInt():
		number, _ := strconv.ParseInt(text, 10, 64)
		v.SetInt(number)
	case v.CanFloat():
		number, _ := strconv.ParseFloat(text, 64)
		v.SetFloat(number)
	}
}

// overlay sets the fields of a struct that have no value to those of another one.
func overlay(v, otherwise reflect.Value) {
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			v.Field(i).Set(clone(otherwise.Field(i)))
		}
	}
}

// clone copies a value with all that it points to.
func clone(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v
		}
		copied := clone(v.Elem())
		if v.Kind() == reflect.Interface {
			return copied
		}
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(copied)
		return target
	case reflect.Struct:
		target := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			target.Field(i).Set(clone(v.Field(i)))
		}
		return target
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		target := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			target.Index(i).Set(clone(v.Index(i)))
		}
		return target
	case reflect.Map:
		return cloneMap(v)
	}
	return v
}

func cloneMap(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	target := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, key := range v.MapKeys() {
		target.SetMapIndex(key, clone(v.MapIndex(key)))
	}
	return target
}
