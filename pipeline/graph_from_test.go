package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sourced makes a pipeline as graph does; "b<a" is a load b from the source a.
func sourced(lines ...string) *Pipeline {
	p := &Pipeline{Name: "p"}
	for _, line := range lines {
		name, needs, _ := strings.Cut(line, ":")
		name, from, isLoad := strings.Cut(name, "<")
		s := Step{Name: name, Needs: strings.Fields(needs)}
		switch {
		case isLoad:
			s.Load = &Load{From: from}
		case strings.HasPrefix(name, "x"):
			s.HTTP = &HTTP{}
		default:
			s.Activity = &Activity{Type: "A"}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

func TestStepsFrom(t *testing.T) {
	t.Parallel()
	plain := []string{"x:", "load<x:"}
	chain := []string{"prepare:", "x1: prepare", "load1<x1:", "x2:", "load2<x2: load1", "mail: load2", "other: prepare"}
	shared := []string{"x:", "load1<x:", "load2<x: load1"}
	for _, c := range []struct {
		steps      []string
		from, want string
	}{
		{plain, "x", "x load"},
		{plain, "load", "x load"},
		{chain, "prepare", "prepare other x1 load1 x2 load2 mail"},
		{chain, "load1", "x1 load1 x2 load2 mail"},
		{chain, "load2", "x2 load2 mail"},
		{chain, "x2", "x2 load2 mail"},
		{chain, "mail", "mail"},
		{chain, "other", "other"},
		// A source that is read again for a later load does not bring along the earlier one.
		{shared, "load2", "x load2"},
		{shared, "load1", "x load1 load2"},
	} {
		if got, err := sourced(c.steps...).StepsFrom(c.from); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v from %s: %v, %v; want %s", c.steps, c.from, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "y"} {
		if got, err := sourced(plain...).StepsFrom(bad); err == nil || !strings.Contains(err.Error(), "its steps are x, load") {
			t.Errorf("from %q: %v, %v", bad, got, err)
		}
	}
}

// Over random pipelines: what runs is the step, whatever needs one of its followers, and the sources of the loads among
// them; nothing else.
func TestStepsFromProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 3))
	for range 3000 {
		p := randomSourced(random)
		from := p.Steps[random.IntN(len(p.Steps))].Name
		runs, err := p.StepsFrom(from)
		if err != nil {
			t.Fatal(err)
		}
		followers := map[string]bool{}
		for _, name := range runs {
			if reaches(p, name, from) {
				followers[name] = true
			}
		}
		for _, s := range p.Steps {
			in := slices.Contains(runs, s.Name)
			feeds := s.IsSource() && slices.ContainsFunc(p.Steps, func(of Step) bool { return followers[of.Name] && of.Load != nil && of.Load.From == s.Name })
			if want := reaches(p, s.Name, from) || feeds; in != want {
				t.Fatalf("%+v from %s runs %v: %s is in: %t, want %t", p.Steps, from, runs, s.Name, in, want)
			}
			for _, need := range p.Needs(s.Name) {
				if followers[need] && !in {
					t.Fatalf("%+v from %s runs %v, and not %s, which needs %s", p.Steps, from, runs, s.Name, need)
				}
			}
		}
	}
}

// reaches reports whether a step is the other one or needs it, at whatever distance.
func reaches(p *Pipeline, name, other string) bool {
	return name == other || slices.ContainsFunc(p.Needs(name), func(need string) bool { return reaches(p, need, other) })
}

// randomSourced makes a pipeline without cycles.
func randomSourced(random *rand.Rand) *Pipeline {
	lines := []string{"x0:"}
	sources := []string{"x0"}
	var names []string
	for i := 1; i < 2+random.IntN(8); i++ {
		name := fmt.Sprintf("a%d", i)
		switch random.IntN(3) {
		case 0:
			name = fmt.Sprintf("x%d", i)
		case 1:
			name = fmt.Sprintf("l%d<%s", i, sources[random.IntN(len(sources))])
		}
		line := name + ":"
		for _, other := range append(names, sources...) {
			if random.IntN(5) == 0 {
				line += " " + other
			}
		}
		name, _, _ = strings.Cut(name, "<")
		if strings.HasPrefix(name, "x") {
			sources = append(sources, name)
		} else {
			names = append(names, name)
		}
		lines = append(lines, line)
	}
	return sourced(lines...)
}
