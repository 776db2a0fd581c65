package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/dial"
)

// command runs the program and returns what it said.
func command(t *testing.T, args ...string) (code int, out, talk string) {
	t.Helper()
	var o, e bytes.Buffer
	environment := dial.Environment{"TEMPORAL_CONFIG_FILE=" + os.DevNull, "TEMPORAL_ADDRESS=127.0.0.1:1"}
	code = run(context.Background(), args, streams{&o, &e}, environment)
	return code, o.String(), e.String()
}

func intervalsOf(t *testing.T, args ...string) []intervalRow {
	t.Helper()
	code, out, talk := command(t, append([]string{"intervals", "--json"}, args...)...)
	if code != exitDone {
		t.Fatalf("intervals %v exits %d: %s", args, code, talk)
	}
	var rows []intervalRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatalf("intervals %v prints no JSON: %v\n%s", args, err, out)
	}
	return rows
}

// bounds joins the intervals as start/end, without seconds where they are zero.
func bounds(rows []intervalRow) string {
	var parts []string
	for _, row := range rows {
		parts = append(parts, row.Start+"/"+row.End)
	}
	return strings.ReplaceAll(strings.Join(parts, " "), ":00Z", "Z")
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args string
		want string
	}{
		"a local time that spring skips": {"--cron|30 2 * * *|--timezone|Europe/Rome|--from|2026-03-27T12:00Z|--to|2026-03-30",
			"2026-03-28T01:30Z/2026-03-29T01:00Z 2026-03-29T01:00Z/2026-03-30T00:30Z"},
		"a local time that autumn repeats": {"--cron|30 2 * * *|--timezone|Europe/Rome|--from|2026-10-24T00:00Z|--to|2026-10-26T00:00Z",
			"2026-10-24T00:30Z/2026-10-25T00:30Z 2026-10-25T00:30Z/2026-10-26T01:30Z"},
		"every 24 hours is elapsed time": {"--every|24h|--start-date|2026-03-07T14:37|--timezone|America/New_York|--from|2026-03-07|--to|2026-03-10",
			"2026-03-07T19:37Z/2026-03-08T19:37Z 2026-03-08T19:37Z/2026-03-09T19:37Z 2026-03-09T19:37Z/2026-03-10T19:37Z"},
		"a start date with an offset": {"--every|24h|--start-date|2026-07-01T01:15:00+09:00|--timezone|Asia/Tokyo|--from|2026-06-30|--limit|2",
			"2026-06-30T16:15Z/2026-07-01T16:15Z 2026-07-01T16:15Z/2026-07-02T16:15Z"},
		"day of month or day of week": {"--cron|30 4 1,15 * 5|--from|2026-05-31|--to|2026-06-26",
			"2026-06-01T04:30Z/2026-06-05T04:30Z 2026-06-05T04:30Z/2026-06-12T04:30Z 2026-06-12T04:30Z/2026-06-15T04:30Z 2026-06-15T04:30Z/2026-06-19T04:30Z 2026-06-19T04:30Z/2026-06-26T04:30Z"},
		"a star makes it and": {"--cron|0 9 */2 * 1|--from|2026-08-01|--to|2026-08-31",
			"2026-08-03T09:00Z/2026-08-17T09:00Z 2026-08-17T09:00Z/2026-08-31T09:00Z"},
		"an impossible date or a weekday": {"--cron|0 0 30 2 1|--from|2026-02-01|--to|2026-02-23",
			"2026-02-02T00:00Z/2026-02-09T00:00Z 2026-02-09T00:00Z/2026-02-16T00:00Z 2026-02-16T00:00Z/2026-02-23T00:00Z"},
		"Sunday is 7":    {"--cron|20 1 * * 7|--from|2026-01-01|--to|2026-01-11", "2026-01-04T01:20Z/2026-01-11T01:20Z"},
		"Sunday is 0":    {"--cron|20 1 * * 0|--from|2026-01-01|--to|2026-01-11", "2026-01-04T01:20Z/2026-01-11T01:20Z"},
		"Sunday by name": {"--cron|20 1 * * sun|--from|2026-01-01|--to|2026-01-11", "2026-01-04T01:20Z/2026-01-11T01:20Z"},
		"over the weekend": {"--cron|*/20 6-20 * * mon-fri|--from|2026-05-08T20:40|--to|2026-05-11",
			"2026-05-08T20:40Z/2026-05-11T06:00Z"},
		"uneven steps": {"--cron|*/45 * * * *|--from|2026-01-15|--limit|3",
			"2026-01-15T00:00Z/2026-01-15T00:45Z 2026-01-15T00:45Z/2026-01-15T01:00Z 2026-01-15T01:00Z/2026-01-15T01:45Z"},
		"a day of 23 hours":    {"--cron|0 0 * * *|--timezone|Europe/Rome|--from|2026-03-29|--limit|1", "2026-03-28T23:00Z/2026-03-29T22:00Z"},
		"a day of 25 hours":    {"--cron|0 0 * * *|--timezone|Europe/Rome|--from|2026-10-25|--limit|1", "2026-10-24T22:00Z/2026-10-25T23:00Z"},
		"a month of 743 hours": {"--cron|0 0 1 * *|--timezone|Europe/Rome|--from|2026-03-01|--limit|1", "2026-02-28T23:00Z/2026-03-31T22:00Z"},
		"a start between ticks": {"--cron|0 0 * * *|--start-date|2026-05-10T14:37Z|--from|2026-05-01|--limit|2",
			"2026-05-10T14:37Z/2026-05-11T00:00Z 2026-05-11T00:00Z/2026-05-12T00:00Z"},
		"every, from its start":       {"--every|24h|--start-date|2026-05-10T14:37Z|--from|2026-05-01|--limit|1", "2026-05-10T14:37Z/2026-05-11T14:37Z"},
		"New York in summer":          {"--cron|0 9 * * 1|--timezone|America/New_York|--from|2026-07-06|--limit|1", "2026-07-06T13:00Z/2026-07-13T13:00Z"},
		"EST keeps its offset":        {"--cron|0 9 * * 1|--timezone|EST|--from|2026-07-06|--limit|1", "2026-07-06T14:00Z/2026-07-13T14:00Z"},
		"a half-open range of starts": {"--cron|0 4 * * *|--from|2026-04-06|--to|2026-04-08", "2026-04-06T04:00Z/2026-04-07T04:00Z 2026-04-07T04:00Z/2026-04-08T04:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := bounds(intervalsOf(t, strings.Split(test.args, "|")...)); got != test.want {
				t.Errorf("intervals %s\n got %s\nwant %s", test.args, got, test.want)
			}
		})
	}
}

func TestIntervalsOfAQuarterHourOnDaysThatChange(t *testing.T) {
	t.Parallel()
	for day, want := range map[string]int{"2026-10-25": 100, "2026-03-29": 92} {
		next := map[string]string{"2026-10-25": "2026-10-26", "2026-03-29": "2026-03-30"}[day]
		rows := intervalsOf(t, "--cron", "*/15 * * * *", "--timezone", "Europe/London", "--from", day, "--to", next)
		if len(rows) != want {
			t.Errorf("%s has %d intervals, want %d", day, len(rows), want)
		}
		for _, row := range rows {
			start, _ := time.Parse(time.RFC3339, row.Start)
			end, _ := time.Parse(time.RFC3339, row.End)
			local, err := time.Parse(time.RFC3339, row.Local)
			if end.Sub(start) != 15*time.Minute || err != nil || !local.Equal(start) || row.Tick != row.End {
				t.Errorf("%s: %+v", day, row)
			}
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(goodPipeline), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, part := range map[string]string{
		"nonsense":                                                                  "there is no command",
		"intervals":                                                                 "give a pipeline file",
		"intervals|--cron|0 0 30 2 *":                                               "never fires",
		"intervals|--cron|0 0 * * *|--every|1h":                                     "one of --cron and --every",
		"intervals|--cron|0 0 0 * * *":                                              "five",
		"intervals|--cron|0 0 * * 1#2":                                              "#",
		"intervals|--cron|CRON_TZ=UTC 0 0 * * *":                                    "timezone",
		"intervals|--cron|0 0 * * *|--timezone|Europe/Rom":                          "Europe/Rome",
		"intervals|--cron|0 0 * * *|--from|2026-05-02|--to|2026-05-01":              "not before",
		"intervals|--cron|0 0 * * *|--from|2026-02-30":                              "2026-02-30",
		"intervals|--cron|0 0 * * *|--timezone|Europe/Rome|--from|2026-10-25T02:30": "twice",
		"intervals|--cron|0 0 * * *|--timezone|Europe/Rome|--from|2026-03-29T02:30": "does not exist",
		"intervals|--every|0s":                                                      "no time between ticks",
		"intervals|--cron|":                                                         "--cron is empty",
		"intervals|--every|90":                                                      "90",
		"intervals|--cron|0 0 * * *|--limit|0":                                      "--limit",
		"intervals|--cron|0 0 * * *|--tmiezone|x":                                   "tmiezone",
		"validate|missing.yaml":                                                     "missing.yaml",
		"render|a|b|--interval|2026-01-01":                                          "exactly one FILE",
		"render|PIPELINE":                                                           "interval",
		"runs|a|b":                                                                  "at most one",
		"rerun":                                                                     "exactly one PIPELINE or FILE",
		"rerun|PIPELINE":                                                            "--interval is missing",
		"rerun|PIPELINE|--interval|2026-01-01/2026-01-03":                           "`starter backfill` with --reprocess all",
		"rerun|PIPELINE|--interval|2026-01-01..2026-01-03":                          "`starter backfill` with --reprocess all",
		"rerun|PIPELINE|--interval|2026-01-01|--definition|old":                     "neither current nor run",
		"setup|now": "no arguments",
	} {
		code, out, talk := command(t, strings.Split(strings.ReplaceAll(args, "PIPELINE", file), "|")...)
		if code != exitUsage || !strings.Contains(talk, part) || strings.Contains(talk, "\n\n\n") {
			t.Errorf("%s exits %d, want %d, and says %q, want %q in it (stdout %q)", args, code, exitUsage, talk, part, out)
		}
	}
}

const goodPipeline = `pipeline: orders
warehouse: w
schedule: { cron: "0 0 * * *", timezone: Asia/Jakarta, start_date: 2026-01-01 }
steps:
  - name: extract
    http: { connection: shop, path: /orders, query: { from: "{{ .Interval.Start }}" }, columns: [{ name: id, type: bigint }, { name: at, type: timestamp }] }
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`

func TestValidate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good/pipeline.yaml", goodPipeline)
	write("good/connections.yaml", "connections: {}\n")
	if code, out, talk := command(t, "validate", filepath.Join(folder, "good")); code != exitDone || !strings.Contains(out, "orders is valid, 2 steps") {
		t.Errorf("a good folder exits %d: %s%s", code, out, talk)
	}
	if code, out, _ := command(t, "validate", good, "--show-effective"); code != exitDone || !strings.Contains(out, "maximum_attempts: 5") {
		t.Errorf("the effective definition lacks the defaults: %d %s", code, out)
	}
	bad := write("bad/pipeline.yaml", strings.NewReplacer("timezone: Asia/Jakarta", "timezon: Asia/Jakarta", "bigint", "bigin").Replace(goodPipeline))
	code, out, talk := command(t, "validate", bad)
	if code != exitInvalid || out != "" || !strings.Contains(talk, bad+":3:32: ") || !strings.Contains(talk, bad+":6:") || strings.Count(talk, "\n") != 2 {
		t.Errorf("a bad file exits %d: %s%s", code, out, talk)
	}
	code, out, _ = command(t, "validate", folder, "--json")
	var report validation
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitInvalid || len(report.Problems) != 2 || len(report.Pipelines) != 1 || report.Problems[0].Line != 3 {
		t.Errorf("the JSON report exits %d: %v %s", code, err, out)
	}
	write("twice/a.yaml", goodPipeline)
	write("twice/b.yml", goodPipeline)
	if code, _, talk := command(t, "validate", filepath.Join(folder, "twice")); code != exitInvalid || !strings.Contains(talk, "duplicate-pipeline") {
		t.Errorf("one name in two files exits %d: %s", code, talk)
	}
	if code, _, talk := command(t, "validate", filepath.Join(folder, "good", "connections.yaml")); code != exitInvalid {
		t.Errorf("a file that is no pipeline exits %d: %s", code, talk)
	}
	empty := filepath.Join(folder, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, talk := command(t, "validate", empty); code != exitUsage || !strings.Contains(talk, "no pipeline") {
		t.Errorf("an empty folder exits %d: %s", code, talk)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(goodPipeline), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, talk := command(t, "render", file, "--interval", "2026-01-15")
	if code != exitDone || !strings.Contains(out, "2026-01-14T17:00:00Z") || strings.Contains(out, "{{") {
		t.Errorf("render exits %d: %s%s", code, out, talk)
	}
	if before, _, _ := command(t, "render", "--interval", "2026-01-15", file); before != exitDone {
		t.Error("flags before names are not read")
	}
	if code, _, talk := command(t, "render", file, "--interval", "2026-01-15T12:00"); code != exitUsage || !strings.Contains(talk, "2026-01-1") {
		t.Errorf("an instant inside an interval exits %d: %s", code, talk)
	}
}

func TestUnreachableTemporal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(goodPipeline), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", file, "--interval", "2026-01-15"}, {"rerun", file, "--interval", "2026-01-15"}, {"rerun", "orders", "--interval", "2026-01-15"}, {"runs"}, {"setup"}} {
		code, _, talk := command(t, args...)
		if code != exitUnreachable || !strings.Contains(talk, "127.0.0.1:1") || !strings.Contains(talk, "--address") {
			t.Errorf("%v exits %d: %s", args, code, talk)
		}
	}
}

func TestRunRefusesWhatIsNotOver(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(goodPipeline), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, talk := command(t, "run", file, "--interval", "2099-01-15")
	if code != exitUsage || !strings.Contains(talk, "not over") {
		t.Errorf("an interval of the future exits %d: %s", code, talk)
	}
}

func TestHelpNamesExitCodes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"intervals", "--help"}, {}} {
		code, out, _ := command(t, args...)
		if code != exitDone || !strings.Contains(out, "3 invalid pipeline") {
			t.Errorf("%v exits %d: %s", args, code, out)
		}
	}
}

func FuzzInterspersed(f *testing.F) {
	f.Add("run\x00file\x00--interval\x00x\x00--wait")
	f.Add("run\x00--\x00--interval")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		app := (&program{}).app()
		got := interspersed(app, args)
		// Nothing is lost and nothing is made up, but for the separator.
		count := func(list []string) map[string]int {
			counts := map[string]int{}
			for _, arg := range list {
				if arg != "--" {
					counts[arg]++
				}
			}
			return counts
		}
		was, is := count(args), count(got)
		if len(was) != len(is) {
			t.Fatalf("%q became %q", args, got)
		}
		for arg, n := range was {
			if is[arg] != n {
				t.Fatalf("%q became %q", args, got)
			}
		}
	})
}
