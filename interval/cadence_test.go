package interval_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func span(low, high int) []int {
	var list []int
	for v := low; v <= high; v++ {
		list = append(list, v)
	}
	return list
}

func TestFields(t *testing.T) {
	t.Parallel()
	days, months, weekdays := span(1, 31), span(1, 12), span(0, 6)
	for text, want := range map[string]interval.Fields{
		"@daily":            {[]int{0}, []int{0}, days, months, weekdays, false},
		"59,*/30 23 * * *":  {[]int{0, 30, 59}, []int{23}, days, months, weekdays, false},
		"* * * * *":         {span(0, 59), span(0, 23), days, months, weekdays, false},
		"30 4 1,15 * 5":     {[]int{30}, []int{4}, []int{1, 15}, months, []int{5}, true},
		"0 9 */2 * 1":       {[]int{0}, []int{9}, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}, months, []int{1}, false},
		"0 9 1-31 * 1":      {[]int{0}, []int{9}, days, months, []int{1}, true},
		"0 9 31 dec fri-7":  {[]int{0}, []int{9}, []int{31}, []int{12}, []int{0, 5, 6}, true},
		"0 9 ? jan-mar/2 7": {[]int{0}, []int{9}, days, []int{1, 3}, []int{0}, false},
	} {
		fields, ok := newGrid(t, interval.Spec{Cron: text}).Fields()
		if !ok || !reflect.DeepEqual(fields, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, fields, ok, want)
		}
	}
	if fields, ok := newGrid(t, interval.Spec{Every: time.Hour, Start: utc(t, "2026-01-01")}).Fields(); ok {
		t.Errorf("every has the fields %+v", fields)
	}
}
