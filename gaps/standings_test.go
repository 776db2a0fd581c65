package gaps_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// letters writes how intervals stand, a letter for each: the first of the word.
func letters(t *testing.T, s gaps.Survey) string {
	t.Helper()
	if s.Open == nil {
		s.Open = none
	}
	if s.Statuses == nil {
		s.Statuses = book{}.ledger().Statuses
	}
	stands, err := gaps.Stands(s)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var last interval.Interval
	for stand, err := range stands {
		if err != nil {
			t.Fatal(err)
		}
		if !last.IsZero() && !last.End.Equal(stand.Interval.Start) {
			t.Errorf("%s follows %s", stand.Interval, last)
		}
		last = stand.Interval
		text.WriteByte(string(stand.State)[0])
	}
	return text.String()
}

func TestStands(t *testing.T) {
	t.Parallel()
	applied := gaps.History{{daily(), at("2026-05-05T09:00")}}
	edited := gaps.History{{daily(), at("2026-05-01T09:00")}, {since(hourly(), "2026-05-04T00:00"), at("2026-05-04T03:30")}}
	ledger := book{}
	for n, status := range map[int]string{1: step.OutcomeLoaded, 2: step.OutcomeFailed, 6: step.OutcomeLoaded, 7: step.OutcomeFailed, 8: step.OutcomeCancelled, 9: step.OutcomeAccepted} {
		ledger[days(n, n+1)[0]] = status
	}
	open := func(ticks ...string) func(time.Time) bool {
		return func(tick time.Time) bool {
			for _, one := range ticks {
				if tick.Equal(at(one)) {
					return true
				}
			}
			return false
		}
	}
	policy := gaps.Policy{Catchup: pipeline.CatchupNone, CatchupWindow: time.Hour}
	for _, one := range []struct {
		name string
		s    gaps.Survey
		want string
	}{
		{"of a file, all are expected and none is about to start", gaps.Survey{History: gaps.History{{Spec: daily()}}, Now: at("2026-05-05T00:01")}, "mmmm"},
		{"before the start", gaps.Survey{History: applied, Scheduled: true, Now: at("2026-04-05T00:00")}, ""},
		{"catchup none expects nothing from before the activation", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Now: at("2026-05-08T12:00")}, "uuuummm"},
		{"with latest the newest that was over is expected", gaps.Survey{History: applied, Scheduled: true, Policy: gaps.Policy{Catchup: pipeline.CatchupLatest}, Now: at("2026-05-08T12:00")}, "uuummmm"},
		{"with all all are", gaps.Survey{History: applied, Scheduled: true, Policy: gaps.Policy{Catchup: pipeline.CatchupAll}, Now: at("2026-05-08T12:00")}, "mmmmmmm"},
		{"all may be asked for", gaps.Survey{History: applied, Scheduled: true, Policy: policy, All: true, Now: at("2026-05-08T12:00")}, "mmmmmmm"},
		{"one just over is due", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Now: at("2026-05-08T00:01")}, "uuuummd"},
		{"not if the Schedule is gone", gaps.Survey{History: applied, Policy: policy, Now: at("2026-05-08T00:01")}, "uuuummm"},
		{"one is over at its tick", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Now: at("2026-05-08T00:00")}, "uuuummd"},
		{"outcomes, also where nothing is expected", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Statuses: ledger.ledger().Statuses, Now: at("2026-05-11T12:00")}, "lfuumlfcam"},
		{"an open run goes before an outcome, and before missing", gaps.Survey{
			History: applied, Scheduled: true, Policy: policy, Statuses: ledger.ledger().Statuses, Now: at("2026-05-11T12:00"),
			Open: open("2026-05-02T00:00", "2026-05-04T00:00", "2026-05-06T00:00", "2026-05-10T00:00"),
		}, "ofouolfcom"},
		{"a range by the starts", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Statuses: ledger.ledger().Statuses, Now: at("2026-05-11T12:00"), From: at("2026-05-06T00:00"), To: at("2026-05-08T00:00")}, "lf"},
		{"a range into the future", gaps.Survey{History: applied, Scheduled: true, Policy: policy, Now: at("2026-05-08T12:00"), From: at("2026-05-07T00:00"), To: at("2026-06-08T00:00")}, "m"},
		{"over an edit, each grid in its time", gaps.Survey{History: edited, Scheduled: true, Policy: policy, Now: at("2026-05-04T05:30")}, "mmmmmmmm"},
	} {
		if got := letters(t, one.s); got != one.want {
			t.Errorf("%s: %s, want %s", one.name, got, one.want)
		}
	}
}

func TestStandsEndWithAnErrorOfTheLedger(t *testing.T) {
	t.Parallel()
	broken := errors.New("the ledger is away")
	stands, err := gaps.Stands(gaps.Survey{
		History: gaps.History{{Spec: daily()}}, Now: at("2026-05-05T00:00"), Open: none,
		Statuses: func(time.Time, time.Time) iter.Seq2[gaps.Status, error] {
			return func(yield func(gaps.Status, error) bool) { yield(gaps.Status{}, broken) }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, err := range stands {
		if seen++; !errors.Is(err, broken) || seen > 1 {
			t.Errorf("%d: %v", seen, err)
		}
	}
	if _, err := gaps.Stands(gaps.Survey{}); err == nil {
		t.Error("without a grid nothing can be said")
	}
}

func TestNewestStart(t *testing.T) {
	t.Parallel()
	history := gaps.History{{daily(), at("2026-05-01T09:00")}, {since(hourly(), "2026-05-04T00:00"), at("2026-05-04T03:30")}}
	for _, one := range []struct {
		now, to string
		count   int
		want    string
	}{
		{"2026-05-04T05:30", "", 1, "2026-05-04T04:00"},
		{"2026-05-04T05:30", "", 6, "2026-05-03T00:00"},
		{"2026-05-04T05:30", "", 100, "2026-05-01T00:00"},
		{"2026-05-04T05:30", "2026-05-04T02:00", 3, "2026-05-03T00:00"},
		{"2026-05-04T05:30", "2026-05-04T01:30", 1, "2026-05-04T01:00"},
		{"2026-05-04T05:30", "2027-05-04T01:30", 1, "2026-05-04T04:00"},
		{"2026-05-01T05:30", "", 5, ""},
		{"2026-05-04T05:30", "2026-04-01T00:00", 5, ""},
	} {
		var to time.Time
		if one.to != "" {
			to = at(one.to)
		}
		start, err := history.NewestStart(at(one.now), to, one.count)
		got := ""
		if !start.IsZero() {
			got = start.Format("2006-01-02T15:04")
		}
		if err != nil || got != one.want {
			t.Errorf("the newest %d at %s before %q: %s, %v, want %s", one.count, one.now, one.to, got, err, one.want)
		}
	}
}

// A plan and a survey count the same.
func TestStandsCountAsAPlanDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for end := m.now.AddDate(0, 1, 0); m.now.Before(end); {
				m.advance(false)
				if len(m.history) == 0 {
					continue
				}
				open := func(tick time.Time) bool { _, busy := m.open[tick]; return busy }
				p := plan(t, gaps.Request{History: m.history, Policy: m.policy, Now: m.now, Ledger: m.ledger(), Open: open})
				stands, err := gaps.Stands(gaps.Survey{History: m.history, Scheduled: true, Policy: m.policy, Now: m.now, Statuses: m.ledger().Statuses, Open: open})
				if err != nil {
					t.Fatal(err)
				}
				counts := map[step.State]int64{}
				for stand, err := range stands {
					if err != nil {
						t.Fatal(err)
					}
					counts[stand.State]++
				}
				if p.Missing != counts[step.StateMissing] || p.Recent > counts[step.StateDue] || p.Open > counts[step.StateOpen] || p.Loaded > counts[step.StateLoaded] {
					t.Fatalf("a plan has %d missing, %d recent, %d open, %d loaded; intervals stand as %v", p.Missing, p.Recent, p.Open, p.Loaded, counts)
				}
			}
		})
	}
}
