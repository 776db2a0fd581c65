package pipeline

import "strings"

// notYet lists what the language knows and checks but this version does not do. To support a setting
// is to delete its row.
var notYet = []struct {
	// paths returns where the pipeline uses it.
	paths func(p *Pipeline) []string
	// what begins the message, up to its verb; instead ends it.
	what, instead string
}{
	{stepsWith(func(s *Step) bool { return s.Query != nil }, "query"), "steps of the kind query are", "use an http or file step, or an activity of your own"},
	{stepsWith(func(s *Step) bool { return s.SQL != nil }, "sql"), "steps of the kind sql are", "use an activity of your own"},
}

// NotSupported returns, in words, what the language knows and this version does not do.
func NotSupported() []string {
	list := make([]string, len(notYet))
	for i, row := range notYet {
		list[i] = strings.TrimSuffix(strings.TrimSuffix(row.what, " is"), " are") + ": " + row.instead
	}
	return list
}

func (c *checker) unsupported() {
	for _, row := range notYet {
		for _, path := range row.paths(c.p) {
			c.add(path, c.positionOf(path), codeNotSupported, row.what+" not supported by this version: "+row.instead)
		}
	}
}

func stepsWith(uses func(s *Step) bool, key string) func(p *Pipeline) []string {
	return func(p *Pipeline) []string {
		var paths []string
		for i := range p.Steps {
			if uses(&p.Steps[i]) {
				paths = append(paths, index("steps", i)+"."+key)
			}
		}
		return paths
	}
}
