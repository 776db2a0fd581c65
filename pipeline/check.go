package pipeline

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trancheflow/tranche/interval"
)

// checker looks at what the decoded document means. It runs after a decoding that may have failed in
// places; what depends on those is left unsaid.
type checker struct {
	*report
	p        *Pipeline
	readFile func(name string) ([]byte, error)
	// full is the effective form, for checks over what is not written.
	full *Pipeline
	// grid is nil when the schedule has a problem.
	grid *interval.Grid
	loc  *time.Location
}

func (c *checker) check() {
	if len(c.p.Steps) > maximumSteps {
		c.fail("steps", codeOutOfRange, "a pipeline has at most %d steps, and this one has %d: split it", maximumSteps, len(c.p.Steps))
		return
	}
	c.inlineSQL()
	c.plainTexts()
	c.full = c.p.Effective()
	if c.p.Format > FormatVersion {
		c.fail("format", codeNewerFormat, "format %d is newer than %d, the newest one that this release reads: use a newer release", c.p.Format, FormatVersion)
	}
	c.name("pipeline", c.p.Name, maximumPipelineName)
	c.connection("warehouse", c.p.Warehouse)
	c.taskQueue("task_queue", c.p.TaskQueue)
	c.notify()
	c.schedule()
	c.retry("defaults.retry", c.p.Defaults.Retry, c.full.Defaults.Retry)
	if !c.hasActivities() {
		c.retryOfOwnSteps("defaults.retry", c.p.Defaults.Retry)
	}
	c.timeout("defaults.timeout", c.full.Defaults.Timeout)
	c.steps()
	c.graph()
	c.templates()
	c.unsupported()
}

const (
	// maximumPipelineName leaves room for the time in a workflow id, which Temporal limits to 1,000.
	maximumPipelineName = 100
	maximumStepName     = 60
	// maximumSteps keeps a run's history, some ten events for each step and more for each wait, well
	// below the 51,200 events at which Temporal ends it.
	maximumSteps      = 1000
	maximumConnection = 100
	// maximumTaskQueue is Temporal's default limit for ids and names.
	maximumTaskQueue = 1000
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// name checks an identifier of our own. An empty one has been reported as missing.
func (c *checker) name(path, name string, limit int) {
	switch {
	case name == "":
	case len(name) > limit:
		c.fail(path, codeBadName, "the name has %d characters: at most %d are possible", utf8.RuneCountInString(name), limit)
	case !namePattern.MatchString(name):
		c.fail(path, codeBadName, "%q is no name: write lower-case letters, digits, - and _, beginning with a letter%s", clip(name), nameAdvice(name))
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9_-]+`)

// nameAdvice turns a name into one that is possible, if only its case or its blanks are wrong.
func nameAdvice(name string) string {
	better := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-_")
	if !namePattern.MatchString(better) || utf8.RuneCountInString(name) < len(name) {
		return ""
	}
	return ", such as " + better
}

func (c *checker) connection(path, name string) {
	c.name(path, name, maximumConnection)
}

func (c *checker) notify() {
	if c.p.Notify == nil {
		return
	}
	c.connection("notify.connection", c.p.Notify.Connection)
	on := c.p.Notify.On
	if _, written := c.places["notify.on"]; written && len(on) == 0 {
		c.fail("notify.on", codeMissingValue, "on is empty: write at least one of %s, %s and %s, or leave it out, which means all of them", EventFailure, EventDeadline, EventRecovery)
	}
	for i, event := range on {
		switch at := index("notify.on", i); {
		case slices.Contains(on[:i], event):
			c.fail(at, codeNoEffect, "%s stands in the list before: name each once", clip(event))
		case event == EventDeadline && c.p.Deadline == 0:
			c.fail(at, codeNoEffect, "the pipeline has no deadline that could be missed: write deadline: 3h, or leave the event out")
		}
	}
}

func (c *checker) taskQueue(path, name string) {
	switch {
	case len(name) > maximumTaskQueue:
		c.fail(path, codeBadName, "the name has %d bytes: at most %d are possible", len(name), maximumTaskQueue)
	case name != strings.TrimSpace(name) || strings.ContainsAny(name, "\n\r\t"):
		c.fail(path, codeBadName, "%q has blanks around it or line breaks in it", clip(name))
	case variable.MatchString(name):
		c.fail(path, codeVariable, "%q: a pipeline file does not read the environment: write the name of the task queue itself", clip(name))
	case strings.HasPrefix(name, "/_sys/"):
		c.fail(path, codeReservedName, "names that begin with /_sys/ are Temporal's own")
	}
}

// schedule builds the grid and reports what package interval says at the place it is about.
func (c *checker) schedule() {
	s := c.p.Schedule
	if s == nil {
		return
	}
	c.loc = time.UTC
	spec := interval.Spec{Cron: s.Cron, Every: s.Every.Std(), TimeZone: s.Timezone}
	if loc, err := interval.LoadLocation(s.Timezone); err == nil {
		c.loc = loc
	} else {
		c.intervalProblems("schedule.timezone", err)
		spec.TimeZone = ""
	}
	spec.Start = c.instant("schedule.start_date", s.StartDate)
	spec.End = c.instant("schedule.end_date", s.EndDate)
	if spec.Start.IsZero() {
		// The cadence is checked even when its start is not known.
		spec.Start = time.Date(sampleYear, time.January, 1, 0, 0, 0, 0, time.UTC)
		spec.End = time.Time{}
	}
	if c.broken("schedule.every") || c.broken("schedule.cron") {
		return
	}
	grid, err := interval.New(spec)
	if err != nil {
		c.intervalProblems("schedule", err)
		return
	}
	if !c.broken("schedule") {
		c.grid = grid
		c.catchupWindow()
	}
}

func (c *checker) instant(path, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := interval.ParseInstant(text, c.loc)
	if err != nil {
		c.intervalProblems(path, err)
		return time.Time{}
	}
	return t
}

// scheduleKeys are the keys of a schedule by the fields of an interval.Error.
var scheduleKeys = map[string]string{
	interval.FieldCron:     "schedule.cron",
	interval.FieldEvery:    "schedule.every",
	interval.FieldTimeZone: "schedule.timezone",
	interval.FieldStart:    "schedule.start_date",
	interval.FieldEnd:      "schedule.end_date",
}

func (c *checker) intervalProblems(path string, err error) {
	var all interval.Errors
	if !errors.As(err, &all) {
		var one *interval.Error
		if !errors.As(err, &one) {
			c.fail(path, codeInvalidValue, "%s", err)
			return
		}
		all = interval.Errors{one}
	}
	for _, one := range all {
		at := path
		if key := scheduleKeys[one.Field]; key != "" && path == "schedule" {
			at = key
		}
		c.failInside(at, one.Column, one.Code, one.Message)
	}
}

const (
	// maximumWindowTicks is the number of starts that Temporal's scheduler buffers; it drops what
	// comes on top (server v1.32.1, service/worker/scheduler).
	maximumWindowTicks = 1000
	// windowSample is how many ticks of a cron are looked at: a year of half-hours.
	windowSample = 20000
)

// catchupWindow refuses a window in which Temporal would drop ticks after an outage.
func (c *checker) catchupWindow() {
	window := c.full.Schedule.CatchupWindow.Std()
	most := c.longestWindow(window)
	if window <= most {
		return
	}
	c.fail("schedule.catchup_window", codeCatchupWindow, "a window of %s holds more than 1,000 ticks of this schedule, and Temporal would drop some of them: write at most %s", Duration(window), Duration(most))
}

// longestWindow is the longest window that holds no more than 1,000 ticks, as far as it is below the
// given one.
func (c *checker) longestWindow(window time.Duration) time.Duration {
	if every := c.p.Schedule.Every.Std(); every > 0 {
		if every > window/maximumWindowTicks {
			return window
		}
		return every * maximumWindowTicks
	}
	if window <= maximumWindowTicks*time.Minute {
		return window // a cron has at most one tick a minute
	}
	ticks := make([]time.Time, 0, windowSample)
	start, _ := c.grid.Next(time.Time{})
	for iv := range c.grid.Between(start, start.AddDate(100, 0, 0)) {
		if ticks = append(ticks, iv.End); len(ticks) == windowSample {
			break
		}
	}
	most := window
	for i := maximumWindowTicks; i < len(ticks); i++ {
		most = min(most, ticks[i].Sub(ticks[i-maximumWindowTicks]))
	}
	return most
}

func (c *checker) timeout(path string, t Timeout) {
	run := c.full.RunTimeout
	if run > 0 && t.ScheduleToClose > run {
		c.fail(join(path, "schedule_to_close"), codeTimeoutOrder, "schedule_to_close (%s) is above run_timeout (%s): a step cannot take longer than its run", t.ScheduleToClose, run)
	}
	if t.StartToClose > t.ScheduleToClose {
		c.fail(join(path, "start_to_close"), codeTimeoutOrder, "start_to_close (%s) is above schedule_to_close (%s%s): one attempt cannot take longer than all of them", t.StartToClose, t.ScheduleToClose, c.originOf(path, t))
	}
	if t.Heartbeat > t.StartToClose {
		c.fail(join(path, "heartbeat"), codeTimeoutOrder, "heartbeat (%s) is above start_to_close (%s), so it would never be noticed", t.Heartbeat, t.StartToClose)
	}
}

// originOf says where a schedule_to_close comes from that the step does not have itself.
func (c *checker) originOf(path string, t Timeout) string {
	if _, written := c.places[join(path, "schedule_to_close")]; written {
		return ""
	}
	switch t.ScheduleToClose {
	case c.p.Defaults.Timeout.ScheduleToClose:
		return ", from defaults"
	case c.full.RunTimeout:
		return ", from run_timeout"
	}
	return ", the default"
}

// templates checks every template by executing it over a sample interval.
func (c *checker) templates() {
	start := time.Date(sampleYear, time.November, 23, 17, 0, 0, 0, time.UTC)
	sample := interval.Interval{Start: start, End: start.Add(time.Hour)}
	_ = eachTemplate(reflect.ValueOf(c.p).Elem(), "", func(path string, t Template) (Template, error) {
		if _, err := t.Execute(sample, c.loc); err != nil {
			c.fail(path, codeBadTemplate, "%s", err)
		} else if !c.broken(path) {
			c.variables(path, string(t))
		}
		return t, nil
	})
}

// looksLikeTemplate does not match an array literal of SQL such as '{{1,2},{3,4}}'.
var looksLikeTemplate = regexp.MustCompile(`\{\{-?\s*(\.|(date|local|unix|unixms|format|last_instant)\b)`)

// plainTexts refuses templates where nobody would fill them in.
func (c *checker) plainTexts() {
	eachText(reflect.ValueOf(c.p).Elem(), "", func(path, text string) {
		if path == "description" || path == "owner" || !looksLikeTemplate.MatchString(text) {
			return
		}
		advice := "write the value itself"
		if key := lastOf(path); key == "sql" || key == "statement" {
			advice = "write $start and $end, which are bound as parameters"
		}
		c.fail(path, codeTemplateNotAllowed, "templates are not filled in here: %s", advice)
	})
}

// eachText visits every text at or below v that is no template.
func eachText(v reflect.Value, path string, visit func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != templateType {
			visit(path, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachText(v.Elem(), path, visit)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type(), "yaml") {
			eachText(v.Field(f.index), join(path, f.name), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), index(path, i), visit)
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			eachText(v.MapIndex(reflect.ValueOf(key)), join(path, key), visit)
		}
	}
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
