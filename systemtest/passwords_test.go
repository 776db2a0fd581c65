package systemtest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/warehouse"
	"github.com/trancheflow/tranche/workflows"
)

// TestPasswordsInErrors: a database that cannot be reached, and an address that cannot be read, are told of without the
// password, however many characters in it mean something in an address. One of a single letter makes nothing
// unreadable.
func TestPasswordsInErrors(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{"percent": "pa%Sword9", "hash": "x#y@z9'\\w", "letter": "a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, warehouse.DriverSQLite)
			hidden := []string{password, url.QueryEscape(password), base64.StdEncoding.EncodeToString([]byte(password))}
			s := newAPI(t)
			s.set("2026-01-15", 3)
			w.environment = append(w.environment, "DB_PASSWORD="+password, "BROKEN=postgres://loader:"+password+"%zz@127.0.0.1:1:2/sales")
			connections := w.connect(s.URL)
			text := w.read(connections)
			away := w.write("away.yaml", text+`  away: { postgres: { url: "postgres://loader@127.0.0.1:1/sales", password: "${DB_PASSWORD}" } }`+"\n")
			p := w.worker(away)
			file := w.also("away", "warehouse: warehouse", "warehouse: away", "steps:", "defaults: { retry: { maximum_attempts: 1 } }\nsteps:")
			started := w.start(file, "2026-01-15")
			w.untilDetails(started, "127.0.0.1")
			if err := w.temporal.TerminateWorkflow(w.ctx, started.WorkflowID, started.RunID, "seen"); err != nil {
				t.Fatal(err)
			}
			var kept strings.Builder
			for _, event := range w.events(started.WorkflowID, started.RunID) {
				kept.WriteString(protojson.Format(event))
				for _, payload := range payloads(event.ProtoReflect()) {
					kept.Write(payload)
				}
			}
			log := w.read(p.Log)
			if !strings.Contains(kept.String(), "127.0.0.1") || !strings.Contains(log, "127.0.0.1") {
				t.Error("the history or the log does not say what could not be reached")
			}
			broken := exec.CommandContext(w.ctx, shared.binaries.Path("worker"), "--connections",
				w.write("broken.yaml", text+`  broken: { postgres: { url: "${BROKEN}" } }`+"\n"), "--task-queue", w.name)
			broken.Env = w.environment
			said, err := broken.CombinedOutput()
			if err == nil || !strings.Contains(string(said), "connections.broken.postgres.url") {
				t.Errorf("the worker ends with %v: %s", err, said)
			}
			if name == "letter" {
				if strings.Contains(log+string(said), "***") {
					t.Errorf("a letter is masked:\n%s\n%s", p.Tail(), said)
				}
				return
			}
			for _, each := range hidden {
				if strings.Contains(kept.String()+log+string(said), each) {
					t.Errorf("the password is told as %q", each)
				}
			}
		})
	}
}

// TestSecretsOfSchedulesAndBackfills looks through what Temporal keeps of a Schedule, of a backfill and of the runs that they
// start, and through what the command line prints of them.
func TestSecretsOfSchedulesAndBackfills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, warehouse.DriverSQLite)
	a := newAPI(t)
	newOneRow(a)
	p := w.worker(w.connect(a.URL))
	start := today().AddDate(0, 0, -3)
	w.apply(w.ticking(fmt.Sprintf(`cron: "0 0 * * *", start_date: %s, catchup: all`, start.Format(time.DateOnly))))
	w.awaitLoaded(daily(t, start), start, today())
	backfill := w.backfill("tranche/backfill/"+w.name+"/again", w.write("again.yaml", w.read(w.folder+"/pipeline.yaml")),
		start.Format(time.DateOnly), today().Format(time.DateOnly), func(in *workflows.BackfillInput) { in.Reprocess = step.ReprocessAll })
	w.patiently(backfill)

	var kept strings.Builder
	keep := func(message proto.Message) {
		kept.WriteString(protojson.Format(message))
		for _, payload := range payloads(message.ProtoReflect()) {
			kept.Write(payload)
		}
	}
	schedule, err := w.temporal.WorkflowService().DescribeSchedule(w.ctx, &workflowservice.DescribeScheduleRequest{Namespace: "default", ScheduleId: launch.ScheduleID(w.name)})
	if err != nil {
		t.Fatal(err)
	}
	keep(schedule)
	ids := append(slices.Collect(maps.Keys(w.runsOf())), backfill.GetID())
	for _, id := range ids {
		described, err := w.temporal.DescribeWorkflow(w.ctx, id, "")
		if err != nil {
			t.Fatal(err)
		}
		keep(described.RawResponse)
		for _, event := range w.events(id, "") {
			keep(event)
		}
	}
	if len(ids) != 4 || strings.Count(kept.String(), `"definition"`) < len(ids) {
		t.Errorf("the test sees the payloads of %d workflows", len(ids))
	}
	for _, command := range [][]string{{"runs", w.name}, {"runs", w.name, "--json"}, {"schedules", "list", "--json"}} {
		got := w.starter(command...)
		kept.WriteString(got.out + got.talk)
	}
	kept.WriteString(w.read(p.Log))
	for _, secret := range []string{apiToken, base64.StdEncoding.EncodeToString([]byte(apiToken))} {
		if strings.Contains(kept.String(), secret) {
			t.Error("a secret is told")
		}
	}
}
