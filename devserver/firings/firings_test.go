package firings

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden file from what the scheduler computes now")

// TestGolden holds the scheduler's answers to the specs of queries.jsonl. Where they look wrong, they
// are: firings that are lost or doubled around clock changes are what users of Temporal get.
func TestGolden(t *testing.T) {
	t.Parallel()
	queries, err := os.Open(filepath.Join("testdata", "queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = queries.Close() }()
	var got bytes.Buffer
	if err := Print(t.Context(), queries, &got); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "answers.golden.jsonl")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wantLines, gotLines := strings.Split(string(content), "\n"), strings.Split(got.String(), "\n")
	if len(wantLines) != len(gotLines) {
		t.Fatalf("%d lines, want %d", len(gotLines), len(wantLines))
	}
	for i := range wantLines {
		if gotLines[i] != wantLines[i] {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
}

// TestKnownFirings states by hand what was seen on a running server, so that a rewritten golden file
// cannot bend it.
func TestKnownFirings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, query string
		want        []string
	}{
		{"a local time in the gap is skipped", `{"cron":["30 2 * * *"],"timezone":"Europe/Rome","from":"2026-03-27T12:00:00Z","limit":2}`,
			[]string{"2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"}},
		{"a local time that occurs twice fires at the second in Rome", `{"cron":["30 2 * * *"],"timezone":"Europe/Rome","from":"2026-10-24T12:00:00Z","limit":2}`,
			[]string{"2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"and at both in New York", `{"cron":["30 1 * * *"],"timezone":"America/New_York","from":"2026-11-01T00:00:00Z","limit":3}`,
			[]string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}},
		{"quarter hours are lost in Rome", `{"cron":["*/15 * * * *"],"timezone":"Europe/Rome","from":"2026-10-24T23:45:00Z","to":"2026-10-25T02:30:00Z"}`,
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:15:00Z", "2026-10-25T02:30:00Z"}},
		{"hourly loses one in London", `{"cron":["0 * * * *"],"timezone":"Europe/London","from":"2026-10-24T22:00:00Z","to":"2026-10-25T02:00:00Z"}`,
			[]string{"2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"}},
		{"a day that begins after midnight has no midnight", `{"cron":["0 0 * * *"],"timezone":"America/Sao_Paulo","from":"2017-10-13T12:00:00Z","limit":2}`,
			[]string{"2017-10-14T03:00:00Z", "2017-10-16T02:00:00Z"}},
		{"day of month and day of week are both required", `{"cron":["0 0 1,15 * MON"],"from":"2026-01-01T00:00:00Z","limit":2}`,
			[]string{"2026-06-01T00:00:00Z", "2026-06-15T00:00:00Z"}},
		{"from is excluded, to included", `{"cron":["@hourly"],"from":"2026-01-01T00:00:00Z","to":"2026-01-01T02:00:00Z"}`,
			[]string{"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"}},
		{"intervals are anchored at 1970 plus the phase", `{"intervals":[{"interval":"25200s","phase":"5400s"}],"from":"2026-01-01T00:00:00Z","limit":2}`,
			[]string{"2026-01-01T01:30:00Z", "2026-01-01T08:30:00Z"}},
		{"what never happens never fires", `{"cron":["0 0 31 2 *"],"from":"2026-01-01T00:00:00Z","limit":1}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := answerOf(t, test.query)
			var got []string
			for _, at := range answer.Times {
				got = append(got, at.Format(time.RFC3339))
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") || answer.Error != "" {
				t.Errorf("got %v, error %q; want %v", got, answer.Error, test.want)
			}
		})
	}
}

// TestFieldsAndSpecAgree gives one schedule in the two ways a query can.
func TestFieldsAndSpecAgree(t *testing.T) {
	t.Parallel()
	calendar := `{"second":[{}],"minute":[{"start":5}],"hour":[{"end":23,"step":6}],` +
		`"dayOfMonth":[{"start":1,"end":31}],"month":[{"start":1,"end":12}],"dayOfWeek":[{"end":6}]}`
	const bounds = `"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`
	fields := answerOf(t, `{"calendars":[`+calendar+`],"intervals":[{"interval":"36000s"}],"cron":["7 7 * * *"],"timezone":"Asia/Tokyo",`+bounds)
	spec := answerOf(t, `{"spec":{"structuredCalendar":[`+calendar+`],"interval":[{"interval":"36000s"}],"cronString":["7 7 * * *"],"timezoneName":"Asia/Tokyo"},`+bounds)
	if len(fields.Times) == 0 || len(fields.Times) != len(spec.Times) {
		t.Fatalf("fields %v, spec %v; want the same firings", fields.Times, spec.Times)
	}
	for i := range fields.Times {
		if !fields.Times[i].Equal(spec.Times[i]) {
			t.Errorf("firing %d: fields %v, spec %v", i, fields.Times[i], spec.Times[i])
		}
	}
}

func TestRefusedSpecsAreAnswers(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		`{"name":"q","cron":["0 0 * * FRI-MON"],"from":"2026-01-01T00:00:00Z","limit":1}`:                                      "DayOfWeek End is before Start",
		`{"name":"q","cron":["0 0 * * *"],"timezone":"Europe/Atlantis","from":"2026-01-01T00:00:00Z","limit":1}`:               "unknown time zone Europe/Atlantis",
		`{"name":"q","cron":["CRON_TZ=Asia/Tokyo 0 0 * * *"],"timezone":"UTC","from":"2026-01-01T00:00:00Z","limit":1}`:        "conflicting timezone names",
		`{"name":"q","intervals":[{"interval":"3600s","phase":"3600s"}],"from":"2026-01-01T00:00:00Z","limit":1}`:              "phase cannot be greater",
		`{"name":"q","spec":{"calendar":[{"hour":"x"}]},"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","limit":10}`: "Hour",
	} {
		answer := answerOf(t, query)
		if answer.Name != "q" || !strings.Contains(answer.Error, want) {
			t.Errorf("%s: %+v; want an error with %q", query, answer, want)
		}
	}
}

func TestBadInputNamesTheLine(t *testing.T) {
	t.Parallel()
	good := `{"name":"a","cron":["@daily"],"from":"2026-01-01T00:00:00Z","limit":1}`
	for _, test := range []struct{ line, want string }{
		{`{`, "line 3: not a query: unexpected EOF"},
		{`[]`, "line 3: not a query"},
		{good + good, "line 3: not a query: more text after the object"},
		{`{"crom":["@daily"],"from":"2026-01-01T00:00:00Z","limit":1}`, `line 3: not a query: json: unknown field "crom"`},
		{`{"name":"b","limit":1}`, `line 3: query "b": from is missing`},
		{`{"name":"b","from":"2026-01-01T00:00:00Z"}`, `line 3: query "b": give to, or limit, or both`},
		{`{"name":"b","from":"2026-01-01T00:00:00Z","limit":-1}`, "limit -1 is negative"},
		{`{"name":"b","from":"yesterday","limit":1}`, "yesterday"},
		{`{"name":"b","calendars":[{"hours":[]}],"from":"2026-01-01T00:00:00Z","limit":1}`, `query "b": calendars: `},
		{`{"name":"b","spec":{"timezoneName":"UTC"},"timezone":"Asia/Tokyo","from":"2026-01-01T00:00:00Z","limit":1}`, `contradicts the spec's "UTC"`},
	} {
		var out bytes.Buffer
		err := Print(t.Context(), strings.NewReader(good+"\n\n"+test.line+"\n"), &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q within", test.line, err, test.want)
		}
		if want := `{"name":"a","times":["2026-01-02T00:00:00Z"]}` + "\n"; out.String() != want {
			t.Errorf("%s: answers before the bad line %q, want %q", test.line, &out, want)
		}
	}
}

func TestAnswerWithoutFiringsIsAnEmptyList(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := Print(t.Context(), strings.NewReader(`{"name":"<never>","cron":["0 0 31 2 *"],"from":"2026-01-01T00:00:00Z","limit":1}`), &out)
	if want := `{"name":"<never>","times":[]}` + "\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", &out, err, want)
	}
}

func TestCancelEndsALongList(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Print(ctx, strings.NewReader(`{"intervals":[{"interval":"1s"}],"from":"2026-01-01T00:00:00Z","to":"2099-01-01T00:00:00Z"}`), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// FuzzQuery feeds lines: whatever Parse accepts is answered without a panic, in order, within the bounds.
func FuzzQuery(f *testing.F) {
	queries, err := os.ReadFile(filepath.Join("testdata", "queries.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(queries) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := Parse(line)
		if err != nil {
			return
		}
		if bytes.Contains(bytes.ToLower(q.Spec), []byte("exclude")) {
			t.Skip("Temporal searches until 2100 for what is excluded throughout")
		}
		q.Limit = 3
		answer, err := answerTo(t.Context(), newBuilder(), q)
		if err != nil {
			return
		}
		previous := q.From
		for _, at := range answer.Times {
			if !at.After(previous) || q.To != nil && at.After(*q.To) {
				t.Errorf("firing at %v: not after %v, or beyond the end", at, previous)
			}
			previous = at
		}
	})
}

func answerOf(t *testing.T, line string) Answer {
	t.Helper()
	q, err := Parse([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	answer, err := answerTo(t.Context(), newBuilder(), q)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var decoded Answer
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatalf("answer %s: %v", encoded, err)
	}
	return decoded
}
