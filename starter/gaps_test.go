package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/step"
)

// stretchesOf makes stretches of a text such as "l3 m1 f2": three loaded days, one missing, two failed.
func stretchesOf(t *testing.T, text string) []step.Stretch {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []step.Stretch
	for _, word := range strings.Fields(text) {
		var count int64
		if _, err := fmt.Sscan(word[1:], &count); err != nil {
			t.Fatal(err)
		}
		for _, state := range step.States() {
			if state[0] == word[0] {
				to := at.AddDate(0, 0, int(count))
				all = append(all, step.Stretch{Mark: step.Mark{State: state}, From: at, Last: to.AddDate(0, 0, -1), To: to, Count: count})
				at = to
				break
			}
		}
	}
	return all
}

func TestWhatIsFilled(t *testing.T) {
	t.Parallel()
	show := func(ranges []step.Range) string {
		var words []string
		for _, r := range ranges {
			words = append(words, fmt.Sprintf("%d-%d", r.From.YearDay(), r.To.YearDay()))
		}
		return strings.Join(words, " ")
	}
	for _, one := range []struct {
		stretches, exact, coarse string
		count                    int64
	}{
		{"l3 a2 r1 w1 d1", "", "", 0},
		{"m3", "1-4", "1-4", 3},
		{"l1 m1 f2 c1 l4", "2-6", "2-6", 4},
		{"m1 l1 f1 a1 m2 d1", "1-2 3-4 5-7", "1-7", 4},
		{"u5 f1 u2 m1 l1 m1", "6-7 9-10 11-12", "6-7 9-12", 3},
	} {
		f := &filling{}
		for _, stretch := range stretchesOf(t, one.stretches) {
			f.add(stretch)
		}
		if show(f.exact) != one.exact || show(f.coarse) != one.coarse || f.count != one.count || f.more {
			t.Errorf("%s: %d in %s, or %s; want %d in %s, or %s", one.stretches, f.count, show(f.exact), show(f.coarse), one.count, one.exact, one.coarse)
		}
	}
	f := &filling{}
	for _, stretch := range stretchesOf(t, strings.Repeat("m1 l1 ", 150)) {
		f.add(stretch)
	}
	if !f.more || f.count != 150 || len(f.exact) != step.FailedRanges || show(f.coarse) != "1-300" {
		t.Errorf("%d gaps: %d ranges, or %s", f.count, len(f.exact), show(f.coarse))
	}
	f = &filling{}
	for _, stretch := range stretchesOf(t, strings.Repeat("f1 u1 ", 150)) {
		f.add(stretch)
	}
	if !f.more || len(f.coarse) <= step.FailedRanges {
		t.Errorf("%d ranges, more: %t; what nobody expects would be run", len(f.coarse), f.more)
	}
}

func TestStreamedJSON(t *testing.T) {
	t.Parallel()
	type head struct {
		Name string `json:"name"`
	}
	type tail struct {
		Count int      `json:"count"`
		More  []string `json:"more"`
	}
	for count := range 3 {
		var out bytes.Buffer
		p := &program{streams: streams{out: &out}}
		err := p.streamJSON(head{"a<b"}, "list", func(yield func(any, error) bool) {
			for i := range count {
				if !yield(map[string]int{"n": i}, nil) {
					return
				}
			}
		}, func() (any, error) { return tail{count, []string{"x"}}, nil })
		var got struct {
			head
			List []map[string]int `json:"list"`
			tail
		}
		if unmarshalled := json.Unmarshal(out.Bytes(), &got); err != nil || unmarshalled != nil || got.Name != "a<b" || got.List == nil || len(got.List) != count || got.Count != count || len(got.More) != 1 {
			t.Errorf("%d: %v, %v\n%s", count, err, unmarshalled, out.String())
		}
	}
	var out bytes.Buffer
	p := &program{streams: streams{out: &out}}
	broken := errors.New("the worker is gone")
	err := p.streamJSON(head{}, "list", func(yield func(any, error) bool) { yield(nil, broken) }, nil)
	if !errors.Is(err, broken) || json.Valid(out.Bytes()) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// What is wrong with the command line is said before anybody is asked.
func TestGapsRefuse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"gaps":                                 "takes exactly one PIPELINE or FILE",
		"status a b":                           "takes exactly one PIPELINE or FILE",
		"gaps orders --accept":                 "--reason is missing",
		"gaps orders --accept --reason closed": "--by is missing",
		"gaps orders --accept --reason a --by b --audit": "--accept records intervals that will never be loaded",
		"gaps orders --accept --reason a --by b\u202ec":  "control characters",
		"gaps orders --reason closed":                    "they need --accept",
		"gaps orders --fill --max-active-runs 0":         "is not possible",
		"gaps orders --fill --audit":                     "--reprocess all",
		"gaps orders --max-active-runs 3":                "it needs --fill",
	} {
		code, out, talk := command(t, strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.Contains(talk, want) {
			t.Errorf("%s: %d %s%s, want %s", args, code, out, talk, want)
		}
	}
	if code, _, talk := command(t, "gaps", "orders"); code != exitUnreachable {
		t.Errorf("without Temporal: %d %s", code, talk)
	}
}
