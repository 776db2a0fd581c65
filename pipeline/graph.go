package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// Kind returns the key of the step's kind: "http", "file", "query", "load", "sql", "exec" or
// "activity"; "" when none is set and the first of them, in this order, when several are, neither of
// which a checked pipeline has.
func (s *Step) Kind() string {
	switch {
	case s.HTTP != nil:
		return "http"
	case s.File != nil:
		return "file"
	case s.Query != nil:
		return "query"
	case s.Load != nil:
		return "load"
	case s.SQL != nil:
		return "sql"
	case s.Exec != nil:
		return "exec"
	case s.Activity != nil:
		return "activity"
	}
	return ""
}

// IsSource reports whether the step brings rows: its kind is http, file or query.
func (s *Step) IsSource() bool { return s.HTTP != nil || s.File != nil || s.Query != nil }

// SourceColumns returns the columns of a source of rows (http, file or query), in the order of the
// file, and nil for every other kind. The slice is the step's own.
func (s *Step) SourceColumns() []Column {
	switch {
	case s.HTTP != nil:
		return s.HTTP.Columns
	case s.File != nil:
		return s.File.Columns
	case s.Query != nil:
		return s.Query.Columns
	}
	return nil
}

// TaskQueue returns the task queue whose workers run the step, or "" for the pipeline's own.
func (s *Step) TaskQueue() string {
	switch {
	case s.HTTP != nil:
		return s.HTTP.TaskQueue
	case s.Activity != nil:
		return s.Activity.TaskQueue
	}
	return ""
}

// Step returns the step with this name, or nil. It points into the pipeline.
func (p *Pipeline) Step(name string) *Step {
	for i := range p.Steps {
		if p.Steps[i].Name == name {
			return &p.Steps[i]
		}
	}
	return nil
}

// Needs returns the names of the steps that must be done before the named one begins: those under
// `needs` and, of a load, the one it loads from; sorted, each once. It is nil for an unknown step.
func (p *Pipeline) Needs(step string) []string {
	s := p.Step(step)
	if s == nil {
		return nil
	}
	return s.allNeeds()
}

func (s *Step) allNeeds() []string {
	needs := slices.Clone(s.Needs)
	if s.Load != nil && s.Load.From != "" {
		needs = append(needs, s.Load.From)
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// TopologicalOrder returns the names of the steps so that each comes after all that it needs. Of the
// steps that could come next, the first by name does; so the order does not depend on the order in
// the file. The error names an unknown step or a cycle; a checked pipeline has neither.
func (p *Pipeline) TopologicalOrder() ([]string, error) {
	waiting := make(map[string]int, len(p.Steps))
	neededBy := make(map[string][]string, len(p.Steps))
	var ready []string
	for i := range p.Steps {
		name, needs := p.Steps[i].Name, p.Steps[i].allNeeds()
		for _, need := range needs {
			if p.Step(need) == nil {
				return nil, fmt.Errorf("step %q needs %q, which is no step of pipeline %q", name, need, p.Name)
			}
			neededBy[need] = append(neededBy[need], name)
		}
		if waiting[name] = len(needs); len(needs) == 0 {
			ready = append(ready, name)
		}
	}
	order := make([]string, 0, len(p.Steps))
	for len(ready) > 0 {
		slices.Sort(ready)
		name := ready[0]
		ready = ready[1:]
		order = append(order, name)
		for _, next := range neededBy[name] {
			if waiting[next]--; waiting[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	if len(order) < len(p.Steps) {
		return nil, fmt.Errorf("the steps of pipeline %q need each other in a circle: %s", p.Name, arrows(p.cycles()[0]))
	}
	return order, nil
}

// StepsFrom returns the steps that run when a run begins at the named one: it, all that need it, at whatever
// distance, and each source that feeds a load among them, since what a source has read does not outlive its run. Such
// a source does not bring along what else needs it. The names are in the order of TopologicalOrder. The error lists
// the steps when there is none of this name.
func (p *Pipeline) StepsFrom(step string) ([]string, error) {
	order, err := p.TopologicalOrder()
	if err != nil {
		return nil, err
	}
	if p.Step(step) == nil {
		return nil, fmt.Errorf("pipeline %q has no step %q: its steps are %s", p.Name, step, strings.Join(order, ", "))
	}
	needing, runs := map[string]bool{step: true}, map[string]bool{step: true}
	for _, name := range order {
		needing[name] = needing[name] || slices.ContainsFunc(p.Needs(name), func(need string) bool { return needing[need] })
		if needing[name] {
			runs[name] = true
			if load := p.Step(name).Load; load != nil {
				runs[load.From] = true
			}
		}
	}
	return slices.DeleteFunc(order, func(name string) bool { return !runs[name] }), nil
}

// cycles returns one cycle for each group of steps that need each other in a circle, beginning and
// ending with the same name. The search goes by name, so that the answer does not depend on the
// order in the file.
func (p *Pipeline) cycles() [][]string {
	const (
		unseen = iota
		open
		done
	)
	state := make(map[string]int, len(p.Steps))
	var found [][]string
	var path []string
	var visit func(name string)
	visit = func(name string) {
		state[name] = open
		path = append(path, name)
		for _, need := range p.Needs(name) {
			switch {
			case state[need] == open:
				from := slices.Index(path, need)
				found = append(found, append(slices.Clone(path[from:]), need))
			case state[need] == unseen && p.Step(need) != nil:
				visit(need)
			}
		}
		path = path[:len(path)-1]
		state[name] = done
	}
	for _, name := range p.stepNames() {
		if state[name] == unseen {
			visit(name)
		}
	}
	return found
}

func (p *Pipeline) stepNames() []string {
	names := make([]string, len(p.Steps))
	for i := range p.Steps {
		names[i] = p.Steps[i].Name
	}
	slices.Sort(names)
	return names
}

// arrows writes a cycle of needs as "a needs b needs a".
func arrows(cycle []string) string { return strings.Join(cycle, " needs ") }
