package gaps_test

import (
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// book is a ledger in memory.
type book map[interval.Interval]string

func (b book) ledger() gaps.Ledger {
	return gaps.Ledger{Statuses: func(from, to time.Time) iter.Seq2[gaps.Status, error] {
		return func(yield func(gaps.Status, error) bool) {
			for _, iv := range slices.SortedFunc(maps.Keys(b), byStart) {
				if !iv.Start.Before(from) && iv.Start.Before(to) && !yield(gaps.Status{Interval: iv, Status: b[iv]}, nil) {
					return
				}
			}
		}
	}}
}

func byStart(a, b interval.Interval) int {
	if order := a.Start.Compare(b.Start); order != 0 {
		return order
	}
	return a.End.Compare(b.End)
}

func none(time.Time) bool { return false }

// days returns the daily intervals that start in [from, to), by their days of May 2026.
func days(from, to int) []interval.Interval {
	var list []interval.Interval
	for ; from < to; from++ {
		start := time.Date(2026, 5, from, 0, 0, 0, 0, time.UTC)
		list = append(list, interval.Interval{Start: start, End: start.AddDate(0, 0, 1)})
	}
	return list
}

func loaded(intervals ...interval.Interval) book {
	b := book{}
	for _, iv := range intervals {
		b[iv] = step.OutcomeLoaded
	}
	return b
}

func plan(t *testing.T, r gaps.Request) *gaps.Plan {
	t.Helper()
	if r.Open == nil {
		r.Open = none
	}
	if r.Ledger.Statuses == nil {
		r.Ledger = book{}.ledger()
	}
	p, err := gaps.Make(r)
	if err != nil {
		t.Fatal(err)
	}
	if sum := p.Loaded + p.Accepted + p.Failed + p.Open + p.Missing + p.Recent; sum != p.Expected {
		t.Errorf("%d expected, but they count %d: %+v", p.Expected, sum, p)
	}
	return p
}

func show(r *step.Range) string {
	if r == nil {
		return ""
	}
	return r.From.Format("01-02T15:04:05") + " " + r.To.Format("01-02T15:04:05")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	daily := gaps.History{{daily(), at("2026-05-05T09:00")}}
	edited := gaps.History{{daily[0].Spec, daily[0].Applied}, {since(hourly(), "2026-05-10T00:00"), at("2026-05-10T03:30")}}
	early := gaps.History{{daily[0].Spec, at("2026-05-04T12:00")}, {since(hourly(), "2026-05-04T00:00"), at("2026-05-04T12:10")}}
	withFailure := loaded(days(5, 7)...)
	withFailure[days(7, 8)[0]] = step.OutcomeFailed
	for name, test := range map[string]struct {
		history  gaps.History
		catchup  pipeline.Catchup
		now      string
		known    book
		chosen   string
		past     bool
		expected int64
		missing  int64
		start    string
	}{
		// Activated nine days late; the days after it are the Schedule's.
		"late, all":    {gaps.History{{daily[0].Spec, at("2026-05-10T09:00")}}, pipeline.CatchupAll, "2026-05-10T09:00", nil, "", false, 9, 9, "05-01T00:00:00 05-09T00:00:01"},
		"late, latest": {gaps.History{{daily[0].Spec, at("2026-05-10T09:00")}}, pipeline.CatchupLatest, "2026-05-10T09:00", nil, "", false, 1, 1, "05-09T00:00:00 05-09T00:00:01"},
		"late, none":   {gaps.History{{daily[0].Spec, at("2026-05-10T09:00")}}, pipeline.CatchupNone, "2026-05-10T09:00", nil, "", false, 0, 0, ""},
		// On a tick of the first grid the activation comes just after it.
		"at a tick":   {gaps.History{{daily[0].Spec, at("2026-05-10T00:00")}}, pipeline.CatchupLatest, "2026-05-10T09:00", nil, "", false, 1, 1, "05-09T00:00:00 05-09T00:00:01"},
		"nothing yet": {gaps.History{{daily[0].Spec, at("2026-04-10T00:00")}}, pipeline.CatchupAll, "2026-05-01T09:00", nil, "", false, 0, 0, ""},

		"none lists":          {daily, pipeline.CatchupNone, "2026-05-08T09:00", loaded(days(6, 7)...), "", false, 3, 2, ""},
		"all":                 {daily, pipeline.CatchupAll, "2026-05-08T09:00", loaded(days(1, 6)...), "", false, 7, 2, "05-06T00:00:00 05-07T00:00:01"},
		"latest":              {daily, pipeline.CatchupLatest, "2026-05-08T09:00", loaded(days(4, 5)...), "", false, 4, 3, "05-07T00:00:00 05-07T00:00:01"},
		"latest, chosen":      {daily, pipeline.CatchupLatest, "2026-05-08T09:00", loaded(append(days(4, 5), days(7, 8)...)...), "2026-05-08T00:00", false, 4, 2, ""},
		"latest, not begun":   {daily, pipeline.CatchupLatest, "2026-05-08T09:00", loaded(days(4, 5)...), "2026-05-08T00:00", false, 4, 3, "05-07T00:00:00 05-07T00:00:01"},
		"latest, a new gap":   {daily, pipeline.CatchupLatest, "2026-05-11T09:00", loaded(append(days(4, 5), days(7, 8)...)...), "2026-05-08T00:00", false, 7, 5, "05-10T00:00:00 05-10T00:00:01"},
		"latest, gap behind":  {daily, pipeline.CatchupLatest, "2026-05-11T09:00", loaded(append(days(4, 5), days(8, 11)...)...), "", false, 7, 3, "05-07T00:00:00 05-07T00:00:01"},
		"recent":              {daily, pipeline.CatchupAll, "2026-05-08T00:01", loaded(days(1, 7)...), "", false, 7, 0, ""},
		"no longer recent":    {daily, pipeline.CatchupAll, "2026-05-08T00:02", loaded(days(1, 7)...), "", false, 7, 1, "05-07T00:00:00 05-07T00:00:01"},
		"more may be started": {daily, pipeline.CatchupLatest, "2026-05-08T00:01", loaded(days(4, 6)...), "", false, 4, 1, ""},

		"an edit, none":   {edited, pipeline.CatchupNone, "2026-05-10T06:30", loaded(days(5, 10)...), "", false, 11, 6, "05-10T00:00:00 05-10T02:00:01"},
		"an edit, latest": {edited, pipeline.CatchupLatest, "2026-05-10T06:30", loaded(days(4, 10)...), "", false, 12, 6, "05-10T00:00:00 05-10T02:00:01"},
		"an edit, all":    {edited, pipeline.CatchupAll, "2026-05-10T06:30", loaded(days(1, 10)...), "", false, 15, 6, "05-10T00:00:00 05-10T05:00:01"},

		// The old grid's interval was expected, so what the edit makes of it is, from before the activation on.
		"an edit at once": {early, pipeline.CatchupNone, "2026-05-04T13:30", nil, "", false, 13, 13, "05-04T00:00:00 05-04T11:00:01"},

		"failed is no gap":      {daily, pipeline.CatchupAll, "2026-05-08T09:00", loaded(days(1, 5)...).and(withFailure), "", false, 7, 0, ""},
		"the past has failed":   {daily, pipeline.CatchupAll, "2026-05-10T09:00", loaded(days(1, 5)...).and(withFailure), "", true, 9, 2, ""},
		"failed, and no matter": {daily, pipeline.CatchupAll, "2026-05-10T09:00", loaded(days(1, 5)...).and(withFailure), "", false, 9, 2, "05-08T00:00:00 05-09T00:00:01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gaps.Request{
				History: test.history, Policy: gaps.Policy{Catchup: test.catchup, CatchupWindow: time.Hour, DependsOnPast: test.past},
				Now: at(test.now), Ledger: test.known.ledger(),
			}
			if test.chosen != "" {
				r.Chosen = at(test.chosen)
			}
			p := plan(t, r)
			got := p.Decide()
			if p.Expected != test.expected || p.Missing != test.missing || show(got.Start) != test.start {
				t.Errorf("expected %d, missing %d, start %q (%s); want %d, %d, %q", p.Expected, p.Missing, show(got.Start), got.Why, test.expected, test.missing, test.start)
			}
			if (got.Why == "") != (p.Missing == 0) {
				t.Errorf("%d are missing, and it says %q", p.Missing, got.Why)
			}
		})
	}
}

func (b book) and(more book) book {
	maps.Copy(b, more)
	return b
}

// What a closer look finds is struck from the plan; where the sample is used up, the rest goes on after it.
func TestStrike(t *testing.T) {
	t.Parallel()
	r := gaps.Request{
		History: gaps.History{{hourly(), at("2026-05-01T00:00")}}, Now: at("2026-05-11T00:30"),
		Policy: gaps.Policy{Catchup: pipeline.CatchupAll, CatchupWindow: time.Hour},
	}
	p := plan(t, r)
	candidates := p.Candidates()
	if p.Missing != 240 || len(candidates) != gaps.Sample || candidates[0].Start != at("2026-05-01T00:00") {
		t.Fatalf("%d missing, %d candidates from %v", p.Missing, len(candidates), candidates[0])
	}
	p.Strike(candidates[0], true, "")
	p.Strike(candidates[1], false, step.OutcomeFailed)
	if p.Missing != 238 || p.Open != 1 || p.Failed != 1 || show(p.Decide().Start) != "05-01T02:00:00 05-10T23:00:01" {
		t.Errorf("%+v %s", p, show(p.Decide().Start))
	}
	for _, iv := range candidates[2:] {
		p.Strike(iv, true, "")
	}
	if got := show(p.Decide().Start); got != "05-05T03:00:01 05-10T23:00:01" {
		t.Errorf("after the sample: %s", got)
	}

	r.Now = at("2026-05-01T03:30")
	p = plan(t, r)
	for _, iv := range p.Candidates() {
		p.Strike(iv, false, step.OutcomeLoaded)
	}
	if got := p.Decide(); p.Missing != 0 || p.Loaded != 3 || got.Start != nil || got.Why != "" {
		t.Errorf("%+v %+v", p, got)
	}

	r.Policy.Catchup = pipeline.CatchupLatest
	p = plan(t, r)
	p.Strike(p.Candidates()[2], true, "")
	if got := p.Decide(); got.Start != nil {
		t.Errorf("the newest has a run, and %s is started", show(got.Start))
	}
}

func TestOpenAndOddOutcomes(t *testing.T) {
	t.Parallel()
	known := loaded(days(1, 4)...)
	known[interval.Interval{Start: at("2026-05-01T00:00"), End: at("2026-05-01T01:00")}] = step.OutcomeLoaded // of a grid that nobody knows
	known[days(3, 4)[0]] = step.OutcomeAccepted
	p := plan(t, gaps.Request{
		History: gaps.History{{daily(), at("2026-05-01T00:00")}}, Now: at("2026-05-06T00:30"), Ledger: known.ledger(),
		Policy: gaps.Policy{Catchup: pipeline.CatchupAll, CatchupWindow: 10 * time.Second, Jitter: time.Hour},
		Open:   func(tick time.Time) bool { return tick.Equal(at("2026-05-02T00:00")) },
	})
	if p.Expected != 5 || p.Loaded != 1 || p.Accepted != 1 || p.Open != 1 || p.Missing != 1 || p.Recent != 1 {
		t.Errorf("%+v", p)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	known := loaded(days(1, 10)...)
	known[days(7, 8)[0]] = step.OutcomeFailed
	known[days(3, 4)[0]] = step.OutcomeFailed // before the activation
	delete(known, days(8, 9)[0])
	r := gaps.Request{
		History: gaps.History{{daily(), at("2026-05-05T09:00")}}, Now: at("2026-05-11T02:00"), Ledger: known.ledger(),
		Policy: gaps.Policy{Catchup: pipeline.CatchupAll, CatchupWindow: time.Hour, Deadline: time.Hour},
	}
	late := func() string { return fmt.Sprint(plan(t, r).Late) }
	if got := late(); got != fmt.Sprint(append(days(7, 9), days(10, 11)...)) {
		t.Errorf("late: %s", got)
	}
	r.Ledger.Noticed = func(time.Time, time.Time) iter.Seq2[interval.Interval, error] {
		return func(yield func(interval.Interval, error) bool) {
			_ = yield(days(2, 3)[0], nil) && yield(days(8, 9)[0], nil)
		}
	}
	if got := late(); got != fmt.Sprint(append(days(7, 8), days(10, 11)...)) {
		t.Errorf("late and not told of: %s", got)
	}
	r.Policy.Deadline = 4 * 24 * time.Hour
	if got := late(); got != "[]" {
		t.Errorf("nothing is that late: %s", got)
	}
	r.History[0].Spec, r.Policy.Deadline = hourly(), time.Minute
	got := plan(t, r).Late
	if len(got) != gaps.Sample || got[gaps.Sample-1].End != at("2026-05-11T01:00") {
		t.Errorf("%d late, the newest %v", len(got), got[len(got)-1])
	}
}

func TestLedgerFails(t *testing.T) {
	t.Parallel()
	broken := fmt.Errorf("no ledger")
	r := gaps.Request{History: gaps.History{{daily(), at("2026-05-05T09:00")}}, Now: at("2026-05-11T02:00"), Open: none, Policy: gaps.Policy{Deadline: time.Hour}}
	r.Ledger.Statuses = func(time.Time, time.Time) iter.Seq2[gaps.Status, error] {
		return func(yield func(gaps.Status, error) bool) { yield(gaps.Status{}, broken) }
	}
	if _, err := gaps.Make(r); err != broken {
		t.Errorf("outcomes: %v", err)
	}
	r.Ledger = book{}.ledger()
	r.Ledger.Noticed = func(time.Time, time.Time) iter.Seq2[interval.Interval, error] {
		return func(yield func(interval.Interval, error) bool) { yield(interval.Interval{}, broken) }
	}
	if _, err := gaps.Make(r); err != broken {
		t.Errorf("notices: %v", err)
	}
	if _, err := gaps.Make(gaps.Request{}); err == nil || !strings.Contains(err.Error(), "grid") {
		t.Errorf("no grids: %v", err)
	}
}

// A minutely pipeline that was paused for a year: half a million intervals are planned in little memory.
func TestAYearOfMinutes(t *testing.T) {
	minutely := interval.Spec{Cron: "* * * * *", TimeZone: "UTC", Start: at("2026-01-01T00:00")}
	const minutes = 365 * 24 * 60
	r := gaps.Request{
		History: gaps.History{{minutely, at("2026-01-01T00:00")}}, Now: at("2027-01-01T00:02"), Open: none,
		Policy: gaps.Policy{Catchup: pipeline.CatchupAll, CatchupWindow: time.Hour, Deadline: time.Hour},
	}
	some := func(from, to time.Time, each func(minute int, iv interval.Interval) bool) {
		start := r.History[0].Spec.Start
		for i := 0; start.Before(to); i++ {
			iv := interval.Interval{Start: start, End: start.Add(time.Minute)}
			if start = iv.End; !iv.Start.Before(from) && !each(i, iv) {
				return
			}
		}
	}
	// Every tenth has an outcome, and half a million were told of.
	r.Ledger.Statuses = func(from, to time.Time) iter.Seq2[gaps.Status, error] {
		return func(yield func(gaps.Status, error) bool) {
			some(from, to, func(i int, iv interval.Interval) bool {
				return i%10 != 5 || yield(gaps.Status{Interval: iv, Status: step.OutcomeLoaded}, nil)
			})
		}
	}
	r.Ledger.Noticed = func(from, to time.Time) iter.Seq2[interval.Interval, error] {
		return func(yield func(interval.Interval, error) bool) {
			some(from, to, func(i int, iv interval.Interval) bool { return i > 500_000 || yield(iv, nil) })
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	p := plan(t, r)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if p.Expected != minutes+2 || p.Missing != minutes*9/10 || p.Loaded != minutes/10 || p.Recent != 2 || len(p.Late) != gaps.Sample {
		t.Errorf("%+v", p)
	}
	if got := p.Decide(); show(got.Start) != "01-01T00:00:00 12-31T23:59:01" {
		t.Errorf("start %s", show(got.Start))
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d intervals in %s, %d bytes allocated in all", p.Expected, took.Round(time.Millisecond), allocated)
	if allocated > 1<<20 {
		t.Errorf("%d bytes were allocated: memory grows with the intervals", allocated)
	}
}

// A tick that elapsed just before the Schedule was written may have been dropped by Temporal: it is started whatever
// catchup says, but nothing older.
func TestATickThatAWriteMayHaveDropped(t *testing.T) {
	t.Parallel()
	start := at("2026-05-01T00:00")
	history := gaps.History{{interval.Spec{Every: time.Minute, Start: start}, start}}
	written := at("2026-05-01T10:00").Add(500 * time.Millisecond)
	var before []interval.Interval
	timeline, err := history.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	for iv := range timeline.Between(start, at("2026-05-01T12:00")) {
		before = append(before, iv)
	}
	b := loaded(before...)
	request := gaps.Request{History: history, Policy: gaps.Policy{Catchup: pipeline.CatchupNone}, Now: at("2026-05-01T11:00"), Ledger: b.ledger()}
	for _, c := range []struct {
		missing string // the tick
		written time.Time
		want    bool
	}{
		{"2026-05-01T10:00", written, true},
		{"2026-05-01T09:59", written, true},
		{"2026-05-01T09:50", written, false},
		{"2026-05-01T10:01", written, false},
		{"2026-05-01T10:00", time.Time{}, false},
	} {
		iv, ok := timeline.At(at(c.missing))
		if !ok {
			t.Fatal(c.missing)
		}
		delete(b, iv)
		request.Written = c.written
		decision := plan(t, request).Decide()
		if got := decision.Start != nil; got != c.want || got && !decision.Start.From.Equal(iv.Start) {
			t.Errorf("missing %s, written %s: %+v", c.missing, c.written, decision)
		}
		b[iv] = step.OutcomeLoaded
	}
}
