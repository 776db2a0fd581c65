package interval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

// devserver is where "make devserver" puts the program that prints what Temporal's scheduler computes.
const devserver = "../bin/devserver"

// firingsQuery and firingsAnswer are a line of input and of output of "devserver firings".
type firingsQuery struct {
	Name      string           `json:"name"`
	Cron      []string         `json:"cron"`
	Intervals []firingInterval `json:"intervals"`
	Timezone  string           `json:"timezone"`
	From      time.Time        `json:"from"`
	To        time.Time        `json:"to"`
	Limit     int              `json:"limit"`

	spec interval.Spec // what the same schedule is here
}

// firingInterval is Temporal's IntervalSpec, counted from 1970: durations such as "25200s".
type firingInterval struct {
	Interval string `json:"interval"`
	Phase    string `json:"phase"`
}

type firingsAnswer struct {
	Name  string      `json:"name"`
	Times []time.Time `json:"times"`
	Error string      `json:"error"`
}

// Temporal's own scheduler and the grid agree where Temporal is right: in zones whose clocks do not
// change, for cron text with at most one restricted day field (it knows no "or" between them).
func TestAgreesWithTemporal(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(devserver); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: run make devserver", devserver)
		}
		t.Skipf("%s is missing: run make devserver to compare with Temporal", devserver)
	}
	queries := firingsQueries(t)
	for i, answer := range firings(t, queries) {
		query := queries[i]
		if answer.Name != query.Name || answer.Error != "" {
			t.Fatalf("%+v is answered %+v", query, answer)
		}
		var got []time.Time
		g, err := interval.New(query.spec)
		if err != nil && !strings.Contains(err.Error(), "never fires") {
			t.Errorf("%s: %v", query.Name, err)
			continue
		}
		if err == nil {
			for at, ok := g.Next(query.From); ok && !at.After(query.To) && len(got) < query.Limit; at, ok = g.Next(at) {
				got = append(got, at)
			}
		}
		if !slices.EqualFunc(got, answer.Times, time.Time.Equal) {
			t.Errorf("%s: %d ticks, Temporal has %d: %s", query.Name, len(got), len(answer.Times), firstDifference(unix(got), unix(answer.Times)))
		}
	}
}

func firingsQueries(t *testing.T) []firingsQuery {
	t.Helper()
	crons := []string{
		"0 0 * * *", "*/15 * * * *", "20 1 * * 7", "20 1 * * sun", "*/20 6-20 * * mon-fri", "*/45 * * * *", "0 0 1 * *", "5/20 * * * *",
		"0 9 */2 * */3", "0 0 29 2 *", "0 0 30 2 *", "0 0 31 * *", "0 0 1 jan-mar *", "*/60 */24 */31 */12 */7", "@hourly", "@weekly", "@monthly", "@yearly",
	}
	random := rand.New(rand.NewPCG(3, 3))
	for len(crons) < 150 {
		text := randomCron(random)
		if fields := strings.Fields(text); fields[2][0] == '*' || fields[4][0] == '*' {
			crons = append(crons, text)
		}
	}
	zones := []string{"UTC", "Asia/Tokyo", "Asia/Kolkata", "Asia/Jakarta", "Etc/GMT+12", "America/Phoenix"}
	var queries []firingsQuery
	for i, text := range crons {
		zone := zones[i%len(zones)]
		queries = append(queries, firingsQuery{Name: text + " in " + zone, Cron: []string{text}, Timezone: zone,
			spec: interval.Spec{Cron: text, TimeZone: zone},
			From: utc(t, "2026-01-15T10:07:30"), To: utc(t, "2036-01-01"), Limit: 300})
	}
	start := utc(t, "2026-05-10T01:30:07")
	for _, every := range []time.Duration{time.Second, 15 * time.Minute, 7 * time.Hour, 24 * time.Hour, 1000 * time.Hour} {
		length := int64(every / time.Second)
		queries = append(queries, firingsQuery{Name: "every " + every.String(), spec: interval.Spec{Every: every, Start: start},
			Intervals: []firingInterval{{fmt.Sprintf("%ds", length), fmt.Sprintf("%ds", start.Unix()%length)}},
			From:      start, To: utc(t, "2030-01-01"), Limit: 300})
	}
	return queries
}

func firings(t *testing.T, queries []firingsQuery) []firingsAnswer {
	t.Helper()
	var input bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, query := range queries {
		if err := encoder.Encode(query); err != nil {
			t.Fatal(err)
		}
	}
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, devserver, "firings")
	cmd.Stdin = &input
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s firings: %v\n%s", devserver, err, &stderr)
	}
	var answers []firingsAnswer
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var answer firingsAnswer
		if err := decoder.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	if len(answers) != len(queries) {
		t.Fatalf("%d answers to %d queries", len(answers), len(queries))
	}
	return answers
}

func unix(times []time.Time) []int64 {
	var list []int64
	for _, at := range times {
		list = append(list, at.Unix())
	}
	return list
}
