package pipeline

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// graph makes a pipeline of steps with their needs: "a: b c" needs b and c.
func graph(lines ...string) *Pipeline {
	p := &Pipeline{Name: "p"}
	for _, line := range lines {
		name, needs, _ := strings.Cut(line, ":")
		p.Steps = append(p.Steps, Step{Name: name, Needs: strings.Fields(needs), Activity: &Activity{Type: "A"}})
	}
	return p
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	p := graph("a:", "b: c a c", "c:")
	p.Steps = append(p.Steps, Step{Name: "load", Needs: []string{"b", "a"}, Load: &Load{From: "a"}})
	for name, want := range map[string][]string{"a": nil, "b": {"a", "c"}, "load": {"a", "b"}, "unknown": nil} {
		if got := p.Needs(name); !slices.Equal(got, want) {
			t.Errorf("Needs(%q) = %v, want %v", name, got, want)
		}
	}
	if got := p.Steps[1].Needs; !slices.Equal(got, []string{"c", "a", "c"}) {
		t.Errorf("Needs changed the step: %v", got)
	}
}

func TestTopologicalOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		steps []string
		want  string
	}{
		{nil, ""},
		{[]string{"b:", "a:", "c:"}, "a b c"},
		{[]string{"a: z", "z:"}, "z a"},
		{[]string{"d: b c", "c: a", "b: a", "a:"}, "a b c d"},
		{[]string{"load: extract", "extract:", "archive: extract"}, "extract archive load"},
	} {
		got, err := graph(c.steps...).TopologicalOrder()
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, %v; want %s", c.steps, got, err, c.want)
		}
	}
	for want, steps := range map[string][]string{
		`step "a" needs "x", which is no step`: {"a: x"},
		"a needs c needs b needs a":            {"a: c", "b: a", "c: b", "d: a"},
		"a needs a":                            {"a: a"},
	} {
		if got, err := graph(steps...).TopologicalOrder(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v; want an error with %q", steps, got, err, want)
		}
	}
}

// Over random graphs: the order has every step after its needs, does not depend on the order in the
// file, and is refused exactly when there is a cycle.
func TestTopologicalOrderProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		p := randomGraph(random)
		order, err := p.TopologicalOrder()
		if hasCycle := len(p.cycles()) > 0; (err != nil) != hasCycle {
			t.Fatalf("%v: %v, and a cycle: %t", p.Steps, err, hasCycle)
		}
		if err != nil {
			continue
		}
		for i, name := range order {
			for _, need := range p.Needs(name) {
				if slices.Index(order, need) >= i {
					t.Fatalf("%s comes before %s, which it needs: %v", name, need, order)
				}
			}
		}
		shuffled := *p
		shuffled.Steps = slices.Clone(p.Steps)
		random.Shuffle(len(shuffled.Steps), func(i, j int) {
			shuffled.Steps[i], shuffled.Steps[j] = shuffled.Steps[j], shuffled.Steps[i]
		})
		if again, _ := shuffled.TopologicalOrder(); !slices.Equal(again, order) {
			t.Fatalf("%v, and in another order of the file %v", order, again)
		}
	}
}

func randomGraph(random *rand.Rand) *Pipeline {
	count := 1 + random.IntN(8)
	lines := make([]string, count)
	for i := range lines {
		lines[i] = fmt.Sprintf("s%d:", i)
		for j := range count {
			if j != i && random.IntN(count*2) == 0 {
				lines[i] += fmt.Sprintf(" s%d", j)
			}
		}
	}
	return graph(lines...)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	columns := []Column{{Name: "id", Type: "bigint"}}
	for want, s := range map[string]Step{
		"http":     {HTTP: &HTTP{Columns: columns}},
		"file":     {File: &File{Columns: columns}},
		"query":    {Query: &Query{Columns: columns}},
		"load":     {Load: &Load{}},
		"sql":      {SQL: &SQL{}},
		"exec":     {Exec: &Exec{}},
		"activity": {Activity: &Activity{}},
		"":         {},
	} {
		isSource := want == "http" || want == "file" || want == "query"
		if got := s.Kind(); got != want || s.IsSource() != isSource {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := s.SourceColumns(); reflect.DeepEqual(got, columns) != isSource || !isSource && got != nil {
			t.Errorf("%s has the columns %v", want, got)
		}
	}
	if kinds := len(kindKeys); kinds != 7 {
		t.Errorf("%d kinds", kinds)
	}
}

func TestTableName(t *testing.T) {
	t.Parallel()
	for table, want := range map[string][2]string{"orders": {"", "orders"}, "sales.orders": {"sales", "orders"}, "": {"", ""}} {
		if schema, name := (&Load{Table: table}).TableName(); schema != want[0] || name != want[1] {
			t.Errorf("%q is %q, %q", table, schema, name)
		}
	}
}
