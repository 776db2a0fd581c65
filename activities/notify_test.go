package activities

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/connection"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
)

// deliver runs one try to deliver a message to a receiver.
func deliver(t *testing.T, shape string, m step.Message, receive http.HandlerFunc) error {
	t.Helper()
	server := httptest.NewServer(receive)
	defer server.Close()
	text := `connections:
  ops: { webhook: { url: "${HOOK}", shape: ` + shape + `, ui_url: "http://temporal.example" } }
  shop: { http: { base_url: "http://127.0.0.1:1", bearer: "${TOKEN}" } }
`
	set, err := connection.Parse("connections.yaml", []byte(text), func(name string) (string, bool) {
		return map[string]string{"HOOK": server.URL + "/secret-path-of-the-hook", "TOKEN": secret}[name], true
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	a := New(Options{Connections: set, Temporal: launch.New(nil, "prod", nil)})
	a.random = func() float64 { return 0 }
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(a.Notify, activity.RegisterOptions{Name: step.ActivityNotify})
	_, err = env.ExecuteActivity(step.ActivityNotify, step.Notification{Version: 1, Connection: "ops", Message: m})
	return err
}

// message is a failure of which others have written.
func message() step.Message {
	start := time.Date(2026, 1, 14, 17, 0, 0, 0, time.UTC)
	return step.Message{
		Version: 1, ID: "tranche/notify/orders/failure/x", Event: pipeline.EventFailure, Pipeline: "orders", Timezone: "Asia/Jakarta",
		Description: "Orders of\nthe shop.", Owner: "data-platform", Interval: interval.Interval{Start: start, End: start.Add(24 * time.Hour)},
		Kind: step.Scheduled, WorkflowID: "orders-2026-01-15T17:00:00Z", RunID: "r", Step: "extract", Attempts: 5,
		ErrorType: "HTTPStatus", Reason: "answered 500:\x1b[1m <!channel> " + secret, OccurredAt: start,
	}
}

func TestNotifyDelivers(t *testing.T) {
	t.Parallel()
	var got []byte
	receive := func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) }
	if err := deliver(t, "json", message(), receive); err != nil {
		t.Fatal(err)
	}
	want := message()
	want.Description, want.Reason = "Orders of the shop.", "answered 500: [1m <!channel> ***"
	want.Link = "http://temporal.example/namespaces/prod/workflows/orders-2026-01-15T17:00:00Z/r/history"
	want.Text = `orders 2026-01-15 failed (scheduled)
HTTPStatus: answered 500: [1m <!channel> ***
Step extract, 5 attempts
Interval 2026-01-14T17:00:00Z to 2026-01-15T17:00:00Z
Workflow orders-2026-01-15T17:00:00Z, run r
Owner: data-platform. Orders of the shop.
` + want.Link
	var m step.Message
	if err := json.Unmarshal(got, &m); err != nil || fmt.Sprintf("%+v", m) != fmt.Sprintf("%+v", want) {
		t.Errorf("%v: the receiver got\n%+v\nwant\n%+v", err, m, want)
	}
	if err := deliver(t, "slack", message(), receive); err != nil {
		t.Fatal(err)
	}
	var slack map[string]string
	if err := json.Unmarshal(got, &slack); err != nil || len(slack) != 1 ||
		!strings.HasPrefix(slack["text"], "*orders 2026-01-15 failed (scheduled)*\n`HTTPStatus: answered 500: [1m &lt;!channel&gt; ***`\nStep extract, 5 attempts\n") ||
		!strings.HasSuffix(slack["text"], "\n<"+want.Link+"|Open in Temporal>") {
		t.Errorf("%v: Slack got %s", err, got)
	}
}

// What a refusal is worth, when the next try is due, and that nothing in it tells where the webhook is.
func TestNotifyIsRefused(t *testing.T) {
	t.Parallel()
	for status, test := range map[int]struct {
		kind  string
		final bool
		after time.Duration
	}{
		http.StatusInternalServerError: {"HTTPStatus", false, time.Second},
		http.StatusTooManyRequests:     {"RateLimited", false, 42 * time.Second},
		http.StatusNotFound:            {"HTTPStatus", true, 0},
	} {
		err := deliver(t, "json", message(), func(w http.ResponseWriter, r *http.Request) {
			if status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "42")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, r.URL.String()+" "+secret)
		})
		var refused *temporal.ApplicationError
		if !errors.As(err, &refused) || refused.Type() != test.kind || refused.NonRetryable() != test.final || refused.NextRetryDelay() != test.after ||
			!strings.HasPrefix(refused.Message(), "tell of a failure of orders: webhook ops at ") {
			t.Errorf("%d: %v", status, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, secret) || strings.Contains(text, "secret-path") {
			t.Errorf("%d: a secret stands in %s", status, text)
		}
	}
}

func TestMessageTexts(t *testing.T) {
	t.Parallel()
	one := interval.Interval{Start: time.Date(2026, 1, 15, 1, 0, 0, 0, time.UTC), End: time.Date(2026, 1, 15, 2, 0, 0, 0, time.UTC)}
	last := interval.Interval{Start: one.End, End: one.End.Add(time.Hour)}
	rows := int64(1)
	for want, m := range map[string]step.Message{
		"orders 2026-01-15 01:00 missed the deadline of 3h: it is not loaded||Interval 2026-01-15T01:00:00Z to 2026-01-15T02:00:00Z|": {
			Event: pipeline.EventDeadline, Interval: one, Count: 1, Deadline: pipeline.Duration(3 * time.Hour)},
		"orders: 2 intervals missed the deadline of 3h and are not loaded, from 2026-01-15 01:00 to 2026-01-15 02:00||Intervals 2026-01-15T01:00:00Z to 2026-01-15T03:00:00Z|": {
			Event: pipeline.EventDeadline, Interval: one, Count: 2, LastInterval: &last, Deadline: pipeline.Duration(3 * time.Hour)},
		"orders 2026-01-15 01:00 has recovered: it is loaded (backfill)||1 row written|Interval 2026-01-15T01:00:00Z to 2026-01-15T02:00:00Z|": {
			Event: pipeline.EventRecovery, Interval: one, Kind: step.Backfill, Rows: &rows},
		"orders 2026-01-15 01:00 failed|Terminated|Interval 2026-01-15T01:00:00Z to 2026-01-15T02:00:00Z|": {
			Event: pipeline.EventFailure, Interval: one, ErrorType: "Terminated"},
	} {
		m.Pipeline, m.Timezone = "orders", "UTC"
		if got := strings.Join(append([]string{title(m), quote(m)}, lines(m)...), "|"); got != want {
			t.Errorf("%q\nwant\n%q", got, want)
		}
	}
}
