package gaps_test

import (
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/gaps"
	"github.com/trancheflow/tranche/interval"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

func hourly() interval.Spec {
	return interval.Spec{Cron: "0 * * * *", TimeZone: "UTC", Start: at("2026-05-01T00:00")}
}

func daily() interval.Spec {
	return interval.Spec{Cron: "0 0 * * *", TimeZone: "UTC", Start: at("2026-05-01T00:00")}
}

func since(spec interval.Spec, text string) interval.Spec {
	spec.Since = at(text)
	return spec
}

func TestSucceed(t *testing.T) {
	t.Parallel()
	now := at("2026-05-04T09:10")
	applied := at("2026-05-02T12:00")
	one := gaps.History{{hourly(), applied}}
	two := gaps.History{{hourly(), applied}, {since(daily(), "2026-05-03T07:00"), at("2026-05-03T07:20")}}
	ended := daily()
	ended.End = at("2026-06-01T00:00")
	spelled := daily()
	spelled.Cron = "@daily"
	future := daily()
	future.Start = at("2026-06-01T00:00")
	for name, test := range map[string]struct {
		known   gaps.History
		spec    interval.Spec
		era     gaps.Era
		ordinal int
		failure string
	}{
		"the first": {nil, hourly(), gaps.Era{hourly(), now}, 0, ""},
		"the first one that is known, of a Schedule that says more": {nil, since(hourly(), "2026-05-03T07:00"), gaps.Era{since(hourly(), "2026-05-03T07:00"), now}, 0, ""},
		"nothing new": {one, hourly(), one[0], 0, ""},
		"heard of late, when another one has taken over": {
			append(two[:2:2], gaps.Era{since(hourly(), "2026-05-03T07:00"), at("2026-05-03T07:30")}), since(daily(), "2026-05-03T07:00"), two[1], 1, "",
		},
		"other bounds":                     {gaps.History{{daily(), applied}}, ended, gaps.Era{ended, applied}, 0, ""},
		"another cadence":                  {one, daily(), gaps.Era{since(daily(), "2026-05-04T09:00"), now}, 1, ""},
		"written again":                    {two, since(daily(), "2026-05-03T07:00"), two[1], 1, ""},
		"goes on":                          {two, daily(), two[1], 1, ""},
		"another text":                     {two, spelled, gaps.Era{since(spelled, "2026-05-03T07:00"), two[1].Applied}, 1, ""},
		"and back":                         {two, hourly(), gaps.Era{since(hourly(), "2026-05-04T00:00"), now}, 2, ""},
		"as the Schedule says":             {one, since(daily(), "2026-05-03T23:00"), gaps.Era{since(daily(), "2026-05-03T23:00"), now}, 1, ""},
		"the same rule, taking over again": {two, since(daily(), "2026-05-04T00:00"), gaps.Era{since(daily(), "2026-05-04T00:00"), now}, 2, ""},
		"older than what is known":         {two, since(hourly(), "2026-05-02T00:00"), gaps.Era{}, 0, "apply the pipeline again"},
		"before the first tick":            {gaps.History{{future, applied}}, hourly(), gaps.Era{hourly(), applied}, 0, ""},
		"no such cron":                     {one, interval.Spec{Cron: "x"}, gaps.Era{}, 0, "cron"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			era, ordinal, err := test.known.Succeed(test.spec, now)
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("error %v, want %q", err, test.failure)
				}
				return
			}
			if err != nil || era != test.era || ordinal != test.ordinal {
				t.Errorf("%v\n got %d %+v\nwant %d %+v", err, ordinal, era, test.ordinal, test.era)
			}
			again, same, err := append(test.known[:ordinal:ordinal], era).Succeed(era.Spec, now.Add(time.Hour))
			if err != nil || again != era || same != ordinal {
				t.Errorf("written again: %d %+v, %v", same, again, err)
			}
		})
	}
}

// Hourly has completed until 09:00 when daily comes at 09:10.
func TestTimelineOfAChangedGrid(t *testing.T) {
	t.Parallel()
	history := gaps.History{{hourly(), at("2026-05-04T00:30")}}
	era, _, err := history.Succeed(daily(), at("2026-05-04T09:10"))
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := append(history, era).Timeline()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for iv := range timeline.Between(at("2026-05-04T07:00"), at("2026-05-06T00:00")) {
		got = append(got, iv.String())
	}
	want := "2026-05-04T07:00:00Z/2026-05-04T08:00:00Z 2026-05-04T08:00:00Z/2026-05-04T09:00:00Z 2026-05-04T09:00:00Z/2026-05-05T00:00:00Z 2026-05-05T00:00:00Z/2026-05-06T00:00:00Z"
	if strings.Join(got, " ") != want {
		t.Errorf("%s", strings.Join(got, " "))
	}
}
