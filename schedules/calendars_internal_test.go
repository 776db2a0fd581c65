package schedules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	schedulepb "go.temporal.io/api/schedule/v1"

	"github.com/trancheflow/tranche/interval"
)

func TestRangesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		// Sparse, dense, and with a step.
		mask := random.Uint64() & random.Uint64() >> (4 + random.IntN(50))
		if random.IntN(2) == 0 {
			mask |= random.Uint64() >> (4 + random.IntN(50))
		}
		for v, step := random.IntN(20), 1+random.IntN(9); v < 60 && random.IntN(3) > 0; v += step {
			mask |= 1 << v
		}
		list := rangesOf(values(mask))
		if got := maskOf(numbers(list)); got != mask {
			t.Fatalf("%v is read as %v", list, values(got))
		}
		for _, r := range list {
			if r.GetEnd() != 0 && r.GetEnd() <= r.GetStart() || r.GetStep() < 0 || r.GetStep() == 1 {
				t.Fatalf("%v: not in Temporal's short form", list)
			}
		}
	}
}

func TestRangesAreShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]*schedulepb.Range{
		"":                    nil,
		"0":                   {{}},
		"0 1":                 {{End: 1}},
		"1 30":                {{Start: 1}, {Start: 30}},
		"0 15 30 45":          {{End: 45, Step: 15}},
		"8 9 10 11 20":        {{Start: 8, End: 11}, {Start: 20}},
		"0 2 3 4 5 6":         {{}, {Start: 2, End: 6}},
		"2026 2027 2030 2031": {{Start: 2026, End: 2027}, {Start: 2030, End: 2031}},
		"2026 2028 2030 2032": {{Start: 2026, End: 2032, Step: 2}},
	} {
		var values []int
		for _, field := range strings.Fields(text) {
			var v int
			if _, err := fmt.Sscan(field, &v); err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		if got := rangesOf(values); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s becomes %v, want %v", text, got, want)
		}
	}
}

// A timetable's times are divided into rectangles that do not overlap, seconds included.
func TestRectanglesDivideTheTimes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var list []int
		for hour := range 24 {
			for _, minute := range []int{0, 15, 16, 59} {
				for _, second := range []int{0, 28, 32} {
					if random.IntN(5) > 1 {
						list = append(list, hour*3600+minute*60+second)
					}
				}
			}
		}
		table := &timetable{}
		table.number([][]int{list})
		rest := table.sets[0]
		count := len(rest.positions())
		for _, r := range table.rectangles(rest) {
			set := table.setOf(r)
			if !rest.contains(set) || set.empty() {
				t.Fatalf("%+v holds other times, or some twice", r)
			}
			count -= len(set.positions())
			rest.removeAll(set)
		}
		if count != 0 || !rest.empty() {
			t.Fatalf("%d times are in no rectangle, or in several", count)
		}
	}
}

// Products cover what is needed and nothing that is forbidden, whatever the dates are.
func TestCoverHoldsItsPromise(t *testing.T) {
	t.Parallel()
	a := newAlmanac(2026, 2032)
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 40 {
		needed, forbidden := a.newSet(), a.newSet()
		for d := newDate(2026, 1, 1); d <= newDate(2032, 12, 31); d++ {
			switch n := random.IntN(100); {
			case n < round:
				a.add(forbidden, d)
			case n < 2*round:
				a.add(needed, d)
			}
		}
		covered := a.newSet()
		for _, p := range a.cover(needed, forbidden) {
			if n := a.countCommon(p, forbidden); n > 0 {
				t.Fatalf("round %d: %v holds %d forbidden dates", round, p, n)
			}
			if a.countCommon(p, needed) == 0 {
				t.Fatalf("round %d: %v is of no use", round, p)
			}
			covered.addAll(a.setOf(p))
		}
		if !covered.contains(needed) {
			t.Fatalf("round %d: not all needed dates are covered", round)
		}
	}
}

// Where ten years take too many calendars there are fewer years, and in the end none.
func TestTooManyCalendarsMeanFewerYears(t *testing.T) {
	t.Parallel()
	spec := interval.Spec{Cron: "30 2 * * *", TimeZone: "Africa/Casablanca", Start: newDate(2026, 1, 1).time()}
	grid, err := interval.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := grid.Fields()
	now := newDate(2026, 11, 30).time()
	compileWith := func(l limits) (Ticks, error) { return compile(spec, grid.Location(), fields, "", now, l) }
	whole, err := compileWith(defaultLimits)
	if err != nil || whole.Shortened {
		t.Fatalf("%+v, %v", whole, err)
	}
	ten := len(whole.Calendars)
	five, err := compileWith(limits{calendars: ten - 1, bytes: 1 << 20, refused: 1000})
	if err != nil || !five.Shortened || five.Exact.Year() != 2031 {
		t.Fatalf("%d calendars until %s, %v", len(five.Calendars), five.Exact, err)
	}
	for _, l := range []limits{{len(five.Calendars) - 1, 1 << 20, 1000}, {1000, five.Size() - 1, 1000}} {
		two, err := compileWith(l)
		if err != nil || !two.Shortened || two.Exact.Year() != 2028 {
			t.Fatalf("%+v: %d calendars until %s, %v", l, len(two.Calendars), two.Exact, err)
		}
		for _, ticks := range []Ticks{five, two} {
			if err := ticks.Check(spec, spec.Start, now.Add(100*365*24*time.Hour)); err != nil {
				t.Error(err)
			}
		}
		// More than is liked, but not refused.
		last, err := compileWith(limits{calendars: 1, bytes: 1, refused: len(two.Calendars)})
		if err != nil || len(last.Calendars) != len(two.Calendars) {
			t.Errorf("%d calendars, %v", len(last.Calendars), err)
		}
		_, err = compileWith(limits{calendars: 1, bytes: 1, refused: len(two.Calendars) - 1})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("takes %d of Temporal's calendars even for 2 years", len(two.Calendars))) {
			t.Errorf("refused with %v", err)
		}
	}
}
