package schedules_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/schedules"
)

// devserver is where "make devserver" puts the program that prints what Temporal's scheduler computes.
const devserver = "../bin/devserver"

// needDevserver skips a test where the program is not built, and fails it where CI=true.
func needDevserver(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(devserver); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: run make devserver", devserver)
		}
		t.Skipf("%s is missing: run make devserver to compare with Temporal", devserver)
	}
}

// question asks when Temporal fires a spec within a window; the answer must be the ticks.
type question struct {
	what  string
	spec  interval.Spec
	ticks schedules.Ticks
	window
}

// The firings that Temporal's own scheduler computes for what Compile makes are the ticks of the grid, on
// the days around every clock change of the next ten years and, for crons that tick at most once a day, on
// all days.
func TestTemporalFiresAtTheTicks(t *testing.T) {
	t.Parallel()
	needDevserver(t)
	var questions []question
	for i, text := range corpus {
		for number, zone := range changingZones() {
			if !inShare(i, number, 9) {
				continue
			}
			spec := interval.Spec{Cron: text, TimeZone: zone.name, Start: start}
			ticks := compile(t, spec)
			for _, w := range zone.windowsFor(text) {
				questions = append(questions, question{fmt.Sprintf("%q in %s", text, spec.TimeZone), spec, ticks, w})
			}
		}
		if nightly { // the answers would be too many to hold
			ask(t, questions)
			t.Logf("%q in %d zones", text, len(questions))
			questions = nil
		}
	}
	ask(t, questions)
}

// Plain calendars and intervals too.
func TestTemporalFiresAtPlainTicks(t *testing.T) {
	t.Parallel()
	needDevserver(t)
	var questions []question
	for i, text := range corpus {
		zone := []string{"", "Asia/Tokyo", "Asia/Kolkata", "Asia/Jakarta", "Etc/GMT+12", "America/Phoenix", "America/Sao_Paulo"}[i%7]
		spec := interval.Spec{Cron: text, TimeZone: zone, Start: utc(t, "2026-01-15T10:07:30")}
		to := utc(t, "2036-01-01")
		if subDaily(text) {
			to = utc(t, "2026-04-01")
		}
		questions = append(questions, question{fmt.Sprintf("%q in %q", text, zone), spec, compile(t, spec), window{spec.Start, to}})
	}
	for _, every := range []time.Duration{time.Second, 15 * time.Minute, 7 * time.Hour, 24 * time.Hour, 1000 * time.Hour} {
		for _, start := range []string{"2026-05-10T01:30:07", "1969-05-10T01:30:07"} {
			spec := interval.Spec{Every: every, Start: utc(t, start), TimeZone: "Europe/Rome"}
			from := utc(t, "2026-10-24")
			questions = append(questions, question{every.String() + " from " + start, spec, compile(t, spec), window{from, from.Add(300 * every)}})
		}
	}
	for _, q := range questions {
		if !q.ticks.Plain {
			t.Errorf("%s is not plain", q.what)
		}
	}
	ask(t, questions)
}

// ask compares the firings that Temporal computes with the ticks. Questions that differ in what they are
// about, but not in what Temporal sees, are asked once.
func ask(t *testing.T, questions []question) {
	t.Helper()
	if len(questions) == 0 {
		return
	}
	var lines [][]byte
	known := map[string]int{}
	number := make([]int, len(questions))
	for i, q := range questions {
		line := q.line(t)
		if _, ok := known[string(line)]; !ok {
			known[string(line)] = len(lines)
			lines = append(lines, line)
		}
		number[i] = known[string(line)]
	}
	answers := firings(t, lines)
	for i, q := range questions {
		q.check(t, answers[number[i]])
	}
}

// line is the question as "devserver firings" reads it.
func (q question) line(t *testing.T) []byte {
	t.Helper()
	spec, err := protojson.Marshal(q.ticks.Spec())
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"spec": json.RawMessage(spec), "from": q.from, "to": q.to})
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}

func (q question) check(t *testing.T, answer firingsAnswer) {
	t.Helper()
	if answer.Error != "" {
		t.Errorf("%s: Temporal refuses it: %s", q.what, answer.Error)
		return
	}
	grid, err := interval.New(q.spec)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	owner, ok := grid.Owner(q.from)
	if !ok {
		t.Fatalf("%s: no interval contains %s", q.what, q.from)
	}
	for iv := range grid.Between(owner.Start, q.to) {
		tick := iv.End
		if tick.After(q.to) {
			break
		}
		if count == len(answer.Times) {
			t.Errorf("%s: Temporal does not fire at %s or later", q.what, tick)
			return
		}
		if at := answer.Times[count]; !at.Equal(tick) {
			t.Errorf("%s: Temporal fires at %s in place of %s", q.what, at, tick)
			return
		}
		count++
	}
	if count < len(answer.Times) {
		t.Errorf("%s: Temporal fires at %s, after the last tick", q.what, answer.Times[count])
	}
}

// firingsAnswer is a line that "devserver firings" prints.
type firingsAnswer struct {
	Times []time.Time `json:"times"`
	Error string      `json:"error"`
}

// firings asks Temporal's scheduler.
func firings(t *testing.T, lines [][]byte) []firingsAnswer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, devserver, "firings")
	cmd.Stdin = bytes.NewReader(bytes.Join(lines, nil))
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
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d questions", len(answers), len(lines))
	}
	return answers
}
