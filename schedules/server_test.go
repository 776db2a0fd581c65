package schedules

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/trancheflow/tranche/launch"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/step"
	"github.com/trancheflow/tranche/systemtest/stack"
)

// server is the one Temporal server of all tests of the package.
var server struct {
	process *stack.Process
	missing error
}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	binaries, err := stack.FindBinaries("..")
	if err != nil {
		server.missing = err
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "tranche-schedules-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if server.process, err = binaries.Server(context.Background(), folder, "--port", "0", "--headless"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.process.Kill()
	return m.Run()
}

// needServer skips a test where the programs are not built, and fails it where CI=true.
func needServer(t *testing.T) {
	t.Helper()
	if server.missing == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(server.missing)
	}
	t.Skipf("skipped: %v", server.missing)
}

// place is what one test has for itself: a name, and a ledger in memory.
type place struct {
	t         *testing.T
	ctx       context.Context
	name      string
	schedules *Schedules
	asked     []step.GridRequest
	answer    step.GridAnswer
}

var places atomic.Int64

func newPlace(t *testing.T) *place {
	t.Helper()
	needServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	dialled, err := client.DialContext(ctx, client.Options{HostPort: server.process.Ready.Address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dialled.Close)
	return &place{t: t, ctx: ctx, name: fmt.Sprintf("s%d", places.Add(1)), schedules: New(launch.New(dialled, "default", nil))}
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// ledger answers as one that has heard of no pipeline, unless the test says otherwise.
func (p *place) ledger(_ context.Context, request step.GridRequest) (step.GridAnswer, error) {
	p.asked = append(p.asked, request)
	return p.answer, nil
}

// source is a pipeline of the test's name with this schedule, and more lines of its file.
func (p *place) source(schedule, more string) Source {
	p.t.Helper()
	text := "pipeline: " + p.name + "\nwarehouse: main\ntask_queue: " + p.name + "\nschedule: { " + schedule + " }\n" + more + `
steps:
  - name: extract
    http: { connection: shop, path: /orders, columns: [{ name: id, type: bigint }, { name: at, type: timestamp }] }
  - name: load
    load: { from: extract, table: orders, disposition: delete+insert, time_column: at }
`
	parsed, problems := pipeline.Parse(pipeline.Source{File: "pipeline.yaml", Data: []byte(text)})
	if len(problems) > 0 {
		p.t.Fatal(problems)
	}
	return Source{File: "pipeline.yaml", Definition: parsed.Effective()}
}

// plan plans one pipeline and returns its change.
func (p *place) plan(source Source) Change {
	p.t.Helper()
	plan, err := p.schedules.Plan(p.ctx, []Source{source}, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return plan.Changes[0]
}

// apply plans and applies one pipeline.
func (p *place) apply(source Source) Applied {
	p.t.Helper()
	applied, err := p.schedules.Apply(p.ctx, p.plan(source), p.ledger)
	if err != nil {
		p.t.Fatal(err)
	}
	return applied
}

// current returns the Schedule, which must be there.
func (p *place) current() *Schedule {
	p.t.Helper()
	found, err := p.schedules.Get(p.ctx, p.name)
	if err != nil || found == nil {
		p.t.Fatalf("get the Schedule: %v, %v", found, err)
	}
	return found
}
