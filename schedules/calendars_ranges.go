package schedules

import (
	"math/bits"
	"slices"

	schedulepb "go.temporal.io/api/schedule/v1"
)

// A mask holds small numbers, such as the minutes that a calendar matches: bit v is set when it holds v.
const (
	everyDay     uint64 = 1<<32 - 1<<1 // 1 to 31
	everyMonth   uint64 = 1<<13 - 1<<1 // 1 to 12
	everyWeekday uint64 = 1<<7 - 1     // 0 to 6
)

func maskOf(values []int) uint64 {
	var mask uint64
	for _, v := range values {
		mask |= 1 << v
	}
	return mask
}

// values lists what a mask holds, in order.
func values(mask uint64) []int {
	var list []int
	for ; mask != 0; mask &= mask - 1 {
		list = append(list, bits.TrailingZeros64(mask))
	}
	return list
}

// rangesOf writes sorted numbers as Temporal's ranges, with steps where that makes fewer of them. Zero
// stands for the default of end, the start, and of step, 1.
func rangesOf(values []int) []*schedulepb.Range {
	const anyStep = 100
	plain, stepped := divide(values, 1), divide(values, anyStep)
	if len(stepped) < len(plain) {
		return stepped
	}
	return plain
}

// divide cuts sorted numbers into runs of equal steps: from the least number on, always the longest run
// whose step is not above largest.
func divide(values []int, largest int) []*schedulepb.Range {
	var list []*schedulepb.Range
	for rest := values; len(rest) > 0; {
		step, count := longestRun(rest, largest)
		end := rest[0] + (count-1)*step
		r := &schedulepb.Range{Start: int32(rest[0])}
		if count > 1 {
			r.End = int32(end)
		}
		if step > 1 {
			r.Step = int32(step)
		}
		list = append(list, r)
		start := rest[0]
		rest = slices.DeleteFunc(slices.Clone(rest), func(v int) bool { return v <= end && (v-start)%step == 0 })
	}
	return list
}

// longestRun finds the step with which most values follow the first one. Two values are a run only if
// they are neighbours: else the second may begin a longer one.
func longestRun(values []int, largest int) (step, count int) {
	step, count = 1, 1
	for _, second := range values[1:] {
		s := second - values[0]
		if s > largest {
			break
		}
		n := 1
		for _, v := range values {
			if v == values[0]+n*s {
				n++
			}
		}
		if n > count && (n > 2 || s == 1) {
			step, count = s, n
		}
	}
	return step, count
}
