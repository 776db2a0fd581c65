package pipeline

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

var kindKeys = []string{"http", "file", "query", "load", "sql", "exec", "activity"}

func (c *checker) steps() {
	first := map[string]int{}
	owners := map[string][]loadOwner{}
	activities := c.hasActivities()
	for i := range c.p.Steps {
		s, at := &c.p.Steps[i], index("steps", i)
		c.name(join(at, "name"), s.Name, maximumStepName)
		if before, twice := first[s.Name]; twice && s.Name != "" {
			c.fail(join(at, "name"), codeDuplicateName, "step %q is already declared in line %d: give this one another name", clip(s.Name), c.positionOf(index("steps", before)).line)
		} else {
			first[s.Name] = i
		}
		c.kind(at, s)
		c.retry(join(at, "retry"), s.Retry, c.full.Steps[i].Retry)
		if s.Activity != nil {
			c.retryOfActivity(join(at, "retry"), s.Retry)
		}
		if !activities {
			c.retryOfOwnSteps(join(at, "retry"), s.Retry)
		}
		if s.Timeout != (Timeout{}) {
			c.timeout(join(at, "timeout"), c.full.Steps[i].Timeout)
		}
		if s.Load != nil {
			c.load(join(at, "load"), s, owners)
		}
	}
}

// kind checks that the step has exactly one kind, and then what is in it. Loads come later: they
// look at other steps.
func (c *checker) kind(at string, s *Step) {
	set := s.kinds()
	switch {
	case len(set) > 1:
		c.fail(join(at, set[1]), codeStepKind, "a step has one kind, and this one has %s: make a step of each", strings.Join(set, " and "))
	case len(set) == 0:
		for _, kind := range kindKeys {
			if c.broken(join(at, kind)) {
				return
			}
		}
		c.fail(at, codeStepKind, "the step does nothing: write one of %s", strings.Join(kindKeys, ", "))
	}
	if s.HTTP != nil {
		c.httpSource(join(at, "http"), s.HTTP)
	}
	if s.File != nil {
		c.fileSource(join(at, "file"), s.File)
	}
	if s.Query != nil {
		c.connection(join(at, "query")+".connection", s.Query.Connection)
		c.columns(join(at, "query"), s.Query.Columns, pathByName)
	}
	if s.Exec != nil {
		c.exec(join(at, "exec"), s.Exec)
	}
	if s.Activity != nil {
		c.activity(join(at, "activity"), s.Activity)
	}
}

func (s *Step) kinds() []string {
	var set []string
	for i, isSet := range []bool{s.HTTP != nil, s.File != nil, s.Query != nil, s.Load != nil, s.SQL != nil, s.Exec != nil, s.Activity != nil} {
		if isSet {
			set = append(set, kindKeys[i])
		}
	}
	return set
}

func (c *checker) activity(at string, a *Activity) {
	if a.Type != strings.TrimSpace(a.Type) || strings.ContainsAny(a.Type, "\n\r\t") || len(a.Type) > maximumTaskQueue {
		c.fail(join(at, "type"), codeBadName, "an activity's type has no blanks around it, no line breaks and at most %d bytes", maximumTaskQueue)
	}
	c.taskQueue(join(at, "task_queue"), a.TaskQueue)
	if _, set := a.Input["interval"]; set {
		c.fail(join(at, "input")+".interval", codeReservedName, "the run's interval is put there: choose another key")
	}
}

// graph checks what the steps need of each other.
func (c *checker) graph() {
	for i := range c.p.Steps {
		s, at := &c.p.Steps[i], index("steps", i)
		seen := map[string]bool{}
		for j, need := range s.Needs {
			c.need(index(join(at, "needs"), j), s, need, seen[need])
			seen[need] = true
		}
	}
	for _, cycle := range c.p.cycles() {
		if len(cycle) == 2 {
			continue // a step that needs itself, which has been said at the entry
		}
		c.fail(c.edge(c.pathOfStep(cycle[0]), cycle), codeCycle, "the steps need each other in a circle: %s", arrows(cycle))
	}
}

func (c *checker) need(at string, s *Step, need string, twice bool) {
	switch {
	case need == "":
	case need == s.Name:
		c.fail(at, codeCycle, "a step cannot need itself")
	case c.p.Step(need) == nil:
		c.unknownStep(at, need, s.Name)
	case twice:
		c.fail(at, codeDuplicateName, "%q stands twice in the list", clip(need))
	}
}

// unknownStep leaves a name alone that the broken name of another step may have been.
func (c *checker) unknownStep(at, name, self string) {
	others := slices.DeleteFunc(c.p.stepNames(), func(n string) bool { return n == self || n == "" })
	if len(others) == 0 {
		c.fail(at, codeUnknownStep, "there is no step %q", clip(name))
		return
	}
	c.fail(at, codeUnknownStep, "there is no step %q%s", clip(name), didYouMean(name, others))
}

func (c *checker) pathOfStep(name string) string {
	for i := range c.p.Steps {
		if c.p.Steps[i].Name == name {
			return index("steps", i)
		}
	}
	return "steps"
}

// edge is the place of the first need of a cycle.
func (c *checker) edge(at string, cycle []string) string {
	s := c.p.Step(cycle[0])
	if i := slices.Index(s.Needs, cycle[1]); i >= 0 {
		return index(join(at, "needs"), i)
	}
	return join(at, "load") + ".from"
}

// inlineSQL puts the text of SQL files in the place of their names: what a run does must not depend
// on a file that somebody edits while it runs.
func (c *checker) inlineSQL() {
	for i := range c.p.Steps {
		s, at := &c.p.Steps[i], index("steps", i)
		if s.Query != nil {
			c.inline(join(at, "query"), "sql", &s.Query.SQL, &s.Query.File)
		}
		if s.SQL != nil {
			c.inline(join(at, "sql"), "statement", &s.SQL.Statement, &s.SQL.File)
		}
	}
}

func (c *checker) inline(at, key string, text, file *string) {
	switch {
	case *text != "" && *file != "":
		c.fail(join(at, "file"), codeConflict, "%s and file are both set: keep one of them", key)
	case *text == "" && *file == "":
		if !c.broken(join(at, key)) && !c.broken(join(at, "file")) {
			c.fail(at, codeMissingField, "the SQL is missing: write %s, or file with the name of an SQL file beside the pipeline", key)
		}
	case *file != "":
		if read, ok := c.sqlFile(join(at, "file"), *file); ok {
			*text, *file = read, ""
		}
	}
}

func (c *checker) sqlFile(at, name string) (string, bool) {
	if !fs.ValidPath(name) || strings.Contains(name, `\`) {
		c.fail(at, codeBadSQLFile, "%q is not a file in the pipeline's folder: write a relative path with slashes and without ..", clip(name))
		return "", false
	}
	if c.readFile == nil {
		c.fail(at, codeBadSQLFile, "SQL files cannot be read here: write the SQL into the pipeline file")
		return "", false
	}
	data, err := c.readFile(name)
	switch {
	case err != nil:
		c.fail(at, codeBadSQLFile, "read the SQL file: %s", err)
	case len(data) > MaximumSize:
		c.fail(at, codeTooLarge, "%s has %d KiB, which is more than %d", clip(name), len(data)>>10, MaximumSize>>10)
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		c.fail(at, codeBadSQLFile, "%s is not text in UTF-8", clip(name))
	case strings.TrimSpace(string(data)) == "":
		c.fail(at, codeBadSQLFile, "%s is empty", clip(name))
	default:
		text := strings.TrimPrefix(string(data), "\uFEFF")
		c.secretsInSQL(at, path.Join(path.Dir(c.file), name), text)
		return text, true
	}
	return "", false
}
