package systemtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
	"go.temporal.io/api/enums/v1"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/warehouse"
)

// standing is a pipeline of which the first twelve days of 2026 stand in every way that an interval can.
type standing struct {
	*world
	file string
	// letGo lets the run that works go on; its rows come then.
	letGo   chan struct{}
	running report
	waiting report
}

func newStanding(w *world) *standing {
	w.t.Helper()
	a := newAPI(w.t)
	for n := 1; n <= 12; n++ {
		a.set(januaryDay(n), n)
	}
	s := &standing{world: w, letGo: make(chan struct{})}
	entered := make(chan struct{}, 2)
	a.intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		switch strings.TrimSuffix(r.URL.Query().Get("from"), "T00:00:00Z") {
		case "2026-01-02":
			answer.WriteHeader(http.StatusNotFound)
			return true
		case "2026-01-03":
			entered <- struct{}{}
			<-r.Context().Done()
			return true
		case "2026-01-06":
			entered <- struct{}{}
			select {
			case <-s.letGo:
			case <-r.Context().Done():
			}
		}
		return false
	})
	w.worker(w.connect(a.URL))
	s.file = w.twelve("")
	old := w.write("old.yaml", strings.Replace(w.read(s.file), "size: 100", "size: 50", 1))
	for _, n := range []int{1, 4, 12} {
		w.run(s.file, januaryDay(n), 0)
	}
	w.run(old, januaryDay(5), 0)
	w.run(s.file, januaryDay(2), 5)
	cancelled := w.start(s.file, januaryDay(3))
	<-entered
	if err := w.temporal.CancelWorkflow(w.ctx, cancelled.WorkflowID, cancelled.RunID); err != nil {
		w.t.Fatal(err)
	}
	w.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, cancelled)
	s.running = w.start(s.file, januaryDay(6))
	<-entered
	s.waiting = w.start(s.file, januaryDay(7))
	w.untilGate(1, 1)
	lost := w.start(s.file, januaryDay(11))
	w.untilGate(1, 2)
	if err := w.temporal.TerminateWorkflow(w.ctx, lost.WorkflowID, lost.RunID, "by mistake"); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// twelve is a pipeline whose intervals are the first twelve days of 2026.
func (w *world) twelve(more string) string {
	w.t.Helper()
	return w.ticking(`cron: "0 0 * * *", start_date: 2026-01-01, end_date: 2026-01-13, max_active_runs: 1` + more)
}

// gapReport is the JSON of `starter gaps`.
type gapReport struct {
	Ranges []struct {
		State     string    `json:"state"`
		Gap       bool      `json:"gap"`
		Start     time.Time `json:"start"`
		LastStart time.Time `json:"last_start"`
		Intervals int       `json:"intervals"`
		Outdated  bool      `json:"outdated"`
		Just      bool      `json:"just_accepted"`
	} `json:"ranges"`
	Gaps     int            `json:"gaps"`
	Expected int            `json:"expected"`
	Counts   map[string]int `json:"counts"`
	Altered  []struct {
		Interval interval.Interval `json:"interval"`
		Receipt  int               `json:"receipt"`
		Stored   int               `json:"stored"`
	} `json:"altered"`
}

// gaps runs `starter gaps --json` and wants this exit code.
func (w *world) gaps(wantCode int, args ...string) gapReport {
	w.t.Helper()
	got := w.starter(append(append([]string{"gaps"}, args...), "--json")...)
	var report gapReport
	if err := json.Unmarshal([]byte(got.out), &report); got.code != wantCode || err != nil {
		w.t.Fatalf("starter gaps %v exits %d, want %d: %v\n%s%s", args, got.code, wantCode, err, got.out, got.talk)
	}
	return report
}

// ranges writes the ranges in a line each, without what follows from the rest.
func (r gapReport) ranges() string {
	var text strings.Builder
	for _, one := range r.Ranges {
		fmt.Fprintf(&text, "%s-%s %d %s", one.Start.Format("2"), one.LastStart.Format("2"), one.Intervals, one.State)
		for word, is := range map[string]bool{" gap": one.Gap, " outdated": one.Outdated, " just": one.Just} {
			if is {
				text.WriteString(word)
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// says wants a command to exit so and to print exactly this, and this among what it tells people.
func (w *world) says(wantCode int, wantOut, wantTalk string, args ...string) {
	w.t.Helper()
	got := w.starter(args...)
	if got.code != wantCode || got.out != wantOut || !strings.Contains(got.talk, wantTalk) {
		w.t.Errorf("starter %v exits %d, want %d:\n%s%s\nwant\n%s%s", args, got.code, wantCode, got.out, got.talk, wantOut, wantTalk)
	}
}

// Real runs in every state, as people and scripts are told of them.
func TestEveryStateIsTold(t *testing.T) {
	t.Parallel()
	databases(t, func(w *world) {
		s := newStanding(w)
		s.says(0, s.name+`: 0 0 * * * in UTC, catchup none
no Schedule: nothing is started by itself

12 intervals, 2026-01-01 to 2026-01-12

2025-12-29 Mon     LFCL
2026-01-05 Mon  LRWMMMF
2026-01-12 Mon  L

L loaded 4 (1 by another definition)   R running 1   W waiting 1   F failed 2
C cancelled 1   M missing 3
`, "has no Schedule", "status", s.file)
		s.says(6, s.name+`: 6 gaps in 12 intervals (3 missing, 2 failed, 1 cancelled)
2026-01-02: failed
2026-01-03: cancelled
2026-01-08 to 2026-01-10, 3 intervals: missing
2026-01-11: failed

No gaps, since a run is open or about to be started:
2026-01-06: running
2026-01-07: waiting

Loaded by another definition (a gap with --outdated):
2026-01-05: loaded, by another definition
`, s.name+" has 6 gaps", "gaps", s.file)
		report := s.gaps(6, s.file)
		if want := "2-2 1 failed gap\n3-3 1 cancelled gap\n5-5 1 loaded outdated\n6-6 1 running\n7-7 1 waiting\n8-10 3 missing gap\n11-11 1 failed gap\n"; report.ranges() != want || report.Gaps != 6 || report.Expected != 12 {
			w.t.Errorf("%d gaps of %d:\n%swant\n%s", report.Gaps, report.Expected, report.ranges(), want)
		}
		s.audits()
		s.tells()
		s.accepts()
	})
}

// audits deletes rows behind Tranche's back.
func (s *standing) audits() {
	s.t.Helper()
	if report := s.gaps(6, s.file, "--audit"); len(report.Altered) != 0 {
		s.t.Errorf("nothing was altered, but %+v", report.Altered)
	}
	s.execute("delete from orders where id = " + fmt.Sprint(january(4).Start.Unix()*1000))
	report := s.gaps(6, s.file, "--audit", "--outdated")
	if len(report.Altered) != 1 || report.Altered[0].Interval != january(4) || report.Altered[0].Receipt != 4 || report.Altered[0].Stored != 3 || report.Gaps != 8 {
		s.t.Errorf("%d gaps, altered: %+v", report.Gaps, report.Altered)
	}
	s.says(6, s.name+`: 1 gap in 1 interval (1 altered); 1 slice counted

The rows are not those of the receipt:
2026-01-04: the receipt of load says 4 rows, and table `+s.tableName()+` has 3
`, "", "gaps", s.file, "--audit", "--from", "2026-01-04", "--to", "2026-01-05")
}

// tableName is how a receipt names the table.
func (s *standing) tableName() string {
	if s.config.Driver == warehouse.DriverPostgres {
		return "public.orders"
	}
	return "orders"
}

// passing are figures that differ from run to run: how long it took, and how long ago that was.
var passing = regexp.MustCompile(`  +[0-9.]+[a-zµ]+  +[0-9]+s  `)

// tells what is known of each interval.
func (s *standing) tells() {
	s.t.Helper()
	got := s.starter("status", s.file, "--table", "--from", "2026-01-01", "--to", "2026-01-08")
	_, table, _ := strings.Cut(got.out, "2026-01-07\n\n")
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(passing.ReplaceAllString(line, "  TIME  ")), " "))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"INTERVAL STATE ROWS ATTEMPTS TOOK AGE KIND\n2026-01-01 loaded 1 1 TIME manual\n2026-01-02 failed 1 TIME manual\nHTTPStatus: list api: page 1: GET http://",
		"\n2026-01-03 cancelled TIME manual", "\n2026-01-04 loaded 4 1 TIME manual\n2026-01-05 loaded 5 1 TIME manual by another definition\n",
		"\n2026-01-06 running", "\n2026-01-07 waiting", "\n\n3 loaded, 1 running, 1 waiting, 1 failed, 1 cancelled",
	} {
		if got.code != 0 || !strings.Contains(text, want) {
			s.t.Errorf("status --table exits %d and lacks %q:\n%s%s", got.code, want, text, got.talk)
		}
	}
	var report struct {
		Intervals []struct {
			State    string            `json:"state"`
			Interval interval.Interval `json:"interval"`
			Rows     *int              `json:"rows"`
			Attempts int               `json:"attempts"`
			Took     string            `json:"took"`
			Note     string            `json:"note"`
		} `json:"intervals"`
		Total  int            `json:"total"`
		Counts map[string]int `json:"counts"`
		State  string         `json:"state"`
	}
	got = s.starter("status", s.file, "--table", "--json")
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 0 || len(report.Intervals) != 12 || report.Total != 12 || report.State != "none" {
		s.t.Fatalf("status --json: %d, %v\n%s%s", got.code, err, got.out, got.talk)
	}
	first, second, seventh := report.Intervals[0], report.Intervals[1], report.Intervals[6]
	switch {
	case first.State != "loaded" || first.Interval != january(1) || first.Rows == nil || *first.Rows != 1 || first.Attempts != 1 || first.Took == "":
		s.t.Errorf("the first is %+v", first)
	case second.State != "failed" || second.Rows != nil || !strings.Contains(second.Note, "404"):
		s.t.Errorf("the second is %+v", second)
	case seventh.State != "waiting" || seventh.Took == "" || report.Counts["missing"] != 3:
		s.t.Errorf("the seventh is %+v, counted %v", seventh, report.Counts)
	}
}

// accepts some gaps, lets the runs end that were under way, and accepts the rest.
func (s *standing) accepts() {
	s.t.Helper()
	s.says(2, "", "--reason is missing", "gaps", s.file, "--accept")
	s.says(2, "", "they need --accept", "gaps", s.file, "--reason", "none")
	s.says(1, s.name+": no gaps in 2 intervals\n\nNo gaps, since a run is open or about to be started:\n2026-01-06: running\n2026-01-07: waiting\n",
		"nothing was accepted", "gaps", s.file, "--accept", "--reason", "closed", "--by", "anna", "--from", "2026-01-06", "--to", "2026-01-08")
	s.says(1, s.name+": no gaps in 1 interval\n", "what is loaded is no gap", "gaps", s.file, "--accept", "--reason", "closed", "--by", "anna", "--to", "2026-01-02")
	for range 2 {
		accepted := s.gaps(0, s.file, "--accept", "--reason", "the shop was closed", "--by", "anna", "--from", "2026-01-09", "--to", "2026-01-11")
		if accepted.Counts["accepted"] != 2 {
			s.t.Errorf("accepted: %+v", accepted)
		}
	}
	report := s.gaps(0, s.file, "--accept", "--reason", "nobody needs them", "--by", "bert")
	if want := "2-3 2 accepted just\n5-5 1 loaded outdated\n6-6 1 running\n7-7 1 waiting\n8-8 1 accepted just\n11-11 1 accepted just\n"; report.ranges() != want || report.Gaps != 0 {
		s.t.Errorf("%d gaps:\n%swant\n%s", report.Gaps, report.ranges(), want)
	}
	close(s.letGo)
	s.wantStatus(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, s.running, s.waiting)
	outcomes, err := s.database.Outcomes(s.ctx, warehouse.Query{Pipeline: s.name})
	if err != nil || len(outcomes) != 12 {
		s.t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	if got := outcomes[8]; got.Status != warehouse.OutcomeAccepted || got.Note != "accepted by anna: the shop was closed" || time.Since(got.RecordedAt) > patience {
		s.t.Errorf("the ninth is %+v", got)
	}
	if got := outcomes[1]; got.Status != warehouse.OutcomeAccepted || got.Note != "accepted by bert: nobody needs them" {
		s.t.Errorf("the second is %+v", got)
	}
	// What is run again is what its run says, also after it was accepted.
	s.run(s.file, januaryDay(9), 0)
	s.run(s.file, januaryDay(4), 0)
	if report := s.gaps(0, s.file, "--audit"); report.Counts["loaded"] != 7 || report.Counts["accepted"] != 5 || len(report.Altered) != 0 {
		s.t.Errorf("at last: %+v", report)
	}
	s.gaps(6, s.file, "--outdated")
}

// execute runs a statement in the warehouse, as somebody with a password might.
func (w *world) execute(sql string) {
	w.t.Helper()
	if w.config.Driver == warehouse.DriverPostgres {
		conn, err := pgx.Connect(w.ctx, w.config.DSN)
		if err != nil {
			w.t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(w.ctx, sql); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	conn, err := sqlite3.Open(w.config.DSN)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(conn.BusyTimeout(patience), conn.Exec(sql)); err != nil {
		w.t.Fatal(err)
	}
}
