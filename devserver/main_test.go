package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// runAsDevserver makes this test binary be the program: the tests start it as a process of its own,
// with signals and exit codes, without linking it a second time.
const runAsDevserver = "DEVSERVER_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAsDevserver) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience bounds everything that is waited for; a start takes about a second on a quiet machine.
const patience = 90 * time.Second

// process is a running devserver.
type process struct {
	readiness
	command   *exec.Cmd
	readyFile string
	stderr    *bytes.Buffer
}

// start runs `devserver server start-dev` and returns when it says that it is ready.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{readyFile: filepath.Join(t.TempDir(), "ready.json"), stderr: &bytes.Buffer{}}
	p.command = exec.Command(os.Args[0], append([]string{"server", "start-dev", "--ready-file", p.readyFile}, args...)...)
	p.command.Env = append(os.Environ(), runAsDevserver+"=1")
	p.command.Stderr = p.stderr
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.command.Process.Kill(); _ = p.command.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "Temporal is ready at ") {
		_ = p.command.Wait()
		t.Fatalf("stdout of a start: %q, %v; stderr:\n%s", line, err, p.stderr)
	}
	content, err := os.ReadFile(p.readyFile)
	if err != nil {
		t.Fatalf("ready file after the ready line: %v", err)
	}
	if err := json.Unmarshal(content, &p.readiness); err != nil {
		t.Fatalf("ready file %q: %v", content, err)
	}
	return p
}

// end sends a signal and returns the exit code, -1 for one killed.
func (p *process) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait()
	return p.command.ProcessState.ExitCode()
}

func (p *process) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (p *process) dial(t *testing.T) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: p.Address, Logger: noLog{}})
	if err != nil {
		t.Fatalf("dial %s: %v", p.Address, err)
	}
	t.Cleanup(c.Close)
	return c
}

type noLog struct{}

func (noLog) Debug(string, ...any) {}
func (noLog) Info(string, ...any)  {}
func (noLog) Warn(string, ...any)  {}
func (noLog) Error(string, ...any) {}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// attributes are those of a run of Tranche's.
func attributes() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword("TranchePipeline").ValueSet("orders"),
		temporal.NewSearchAttributeKeyKeyword("TrancheRunKind").ValueSet("manual"),
		temporal.NewSearchAttributeKeyTime("TrancheInterval").ValueSet(time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)),
	)
}

// startRun starts a workflow that nobody works on: it stays open.
func startRun(t *testing.T, c client.Client, id string) error {
	t.Helper()
	_, err := c.ExecuteWorkflow(timeout(t, patience), client.StartWorkflowOptions{
		ID: id, TaskQueue: "nobody", TypedSearchAttributes: attributes(),
	}, "Run")
	return err
}

func createSchedule(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ScheduleClient().Create(timeout(t, patience), client.ScheduleOptions{
		ID:     id,
		Paused: true,
		Note:   "kept",
		Spec:   client.ScheduleSpec{CronExpressions: []string{"0 6 * * *"}},
		Action: &client.ScheduleWorkflowAction{ID: "orders", Workflow: "Run", TaskQueue: "nobody"},
	})
	if err != nil {
		t.Fatalf("create schedule: %v", err)
	}
}

// describeAtOnce bounds the description of a schedule, which is a query to a workflow of the system's
// worker. Gossip with dead predecessors would make it 20 to 50 s.
const describeAtOnce = 10 * time.Second

func wantSchedule(t *testing.T, c client.Client, id string) {
	t.Helper()
	description, err := c.ScheduleClient().GetHandle(t.Context(), id).Describe(timeout(t, describeAtOnce))
	if err != nil {
		t.Fatalf("describe schedule: %v", err)
	}
	if state := description.Schedule.State; !state.Paused || state.Note != "kept" {
		t.Errorf("schedule: paused %v, note %q; want true, kept", state.Paused, state.Note)
	}
}

// count waits until a query finds want workflows; visibility lags by some milliseconds.
func count(t *testing.T, c client.Client, query string, want int64) {
	t.Helper()
	ctx := timeout(t, patience)
	for {
		response, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		if err != nil {
			t.Fatalf("count %s: %v", query, err)
		}
		if response.GetCount() == want {
			return
		}
	}
}

func TestServerInMemoryIsUsableWhenItSaysSo(t *testing.T) {
	t.Parallel()
	p := start(t, "--port", "0", "--namespace", "other", "--search-attribute", "Customer=keyword")
	if p.PID != p.command.Process.Pid {
		t.Errorf("ready file: pid %d, want %d", p.PID, p.command.Process.Pid)
	}
	c := p.dial(t)
	createSchedule(t, c, "daily")
	wantSchedule(t, c, "daily")
	if err := startRun(t, c, "orders-2026-01-16T00:00:00Z"); err != nil {
		t.Fatalf("start with the search attributes: %v", err)
	}
	count(t, c, "TranchePipeline = 'orders' AND TrancheRunKind = 'manual'"+
		" AND TrancheInterval >= '2026-01-15T00:00:00Z' AND TrancheInterval < '2026-01-15T00:00:01Z'", 1)
	count(t, c, "Customer = 'nobody'", 0)

	_, err := c.WorkflowService().DescribeNamespace(timeout(t, patience), &workflowservice.DescribeNamespaceRequest{Namespace: "other"})
	if err != nil {
		t.Errorf("namespace of --namespace: %v", err)
	}
	wantPage(t, p.UI, "_app/immutable/entry/")
	wantPage(t, p.UI+"/api/v1/namespaces/default", "NAMESPACE_STATE_REGISTERED")

	if code := p.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code after SIGTERM: %d, want 0; stderr:\n%s", code, p.stderr)
	}
	if p.stderr.Len() > 0 {
		t.Errorf("stderr of an undisturbed life: %s", p.stderr)
	}
	if _, err := os.Stat(p.readyFile); !os.IsNotExist(err) {
		t.Errorf("ready file after the end: %v, want none", err)
	}
}

func TestFileKeepsState(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		signal os.Signal
		code   int
		// samePort restarts on the same port; otherwise on free ones.
		samePort bool
	}{
		{"SIGTERM, same port", syscall.SIGTERM, 0, true},
		{"SIGTERM, other port", syscall.SIGTERM, 0, false},
		{"SIGKILL, same port", syscall.SIGKILL, -1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// Characters that mean something in the URI of a database.
			file := filepath.Join(t.TempDir(), "state 100%?#.db")
			p := start(t, "--port", "0", "--headless", "--db-filename", file)
			c := p.dial(t)
			createSchedule(t, c, "daily")
			// A first workflow task in flight when the server goes would be tried again only after
			// its timeout of 5 s, and a query waits for it.
			wantSchedule(t, c, "daily")
			if err := startRun(t, c, "run"); err != nil {
				t.Fatal(err)
			}
			if code := p.end(t, test.signal); code != test.code {
				t.Fatalf("exit code: %d, want %d; stderr:\n%s", code, test.code, p.stderr)
			}
			port := "0"
			if test.samePort {
				port = p.port(t)
			}
			c = start(t, "--port", port, "--headless", "--db-filename", file).dial(t)
			wantSchedule(t, c, "daily")
			description, err := c.DescribeWorkflowExecution(timeout(t, patience), "run", "")
			if err != nil {
				t.Fatal(err)
			}
			if status := description.GetWorkflowExecutionInfo().GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				t.Errorf("workflow after the restart: %s, want Running", status)
			}
			count(t, c, "TranchePipeline = 'orders'", 1)
		})
	}
}

func TestAttributesAreAddedToAFileThatLacksThem(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.db")
	p := start(t, "--port", "0", "--headless", "-f", file, "--no-search-attributes")
	if err := startRun(t, p.dial(t), "run"); err == nil || !strings.Contains(err.Error(), "no mapping defined for search attribute Tranche") {
		t.Errorf("start without the attributes registered: %v, want an error that names one", err)
	}
	p.end(t, syscall.SIGTERM)
	c := start(t, "--port", "0", "--headless", "-f", file).dial(t)
	if err := startRun(t, c, "run"); err != nil {
		t.Errorf("start once they are registered: %v", err)
	}
}

func TestAttributeOfAnotherTypeIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.db")
	start(t, "--port", "0", "--headless", "-f", file).end(t, syscall.SIGTERM)
	wantRun(t, 1, "search attribute TranchePipeline has type Keyword", "server", "start-dev", "--port", "0", "--headless", "-f", file,
		"--search-attribute", "TranchePipeline=Int")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	// Temporal's default of 10 visibility calls a second would fail the eleventh.
	c := start(t, "--port", "0", "--headless").dial(t)
	for range 50 {
		count(t, c, "WorkflowId = 'none'", 0)
	}
	c = start(t, "--port", "0", "--headless", "--dynamic-config-value", "frontend.namespaceRPS.visibility=10").dial(t)
	for range 50 {
		_, err := c.WorkflowService().CountWorkflowExecutions(timeout(t, patience),
			&workflowservice.CountWorkflowExecutionsRequest{Namespace: "default"})
		if err != nil {
			if !strings.Contains(err.Error(), "rate limit") {
				t.Errorf("beyond the limit: %v, want an error about the rate limit", err)
			}
			return
		}
	}
	t.Error("50 calls within the override of 10 a second: all passed")
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	number := taken.Addr().(*net.TCPAddr).Port
	port, free := strconv.Itoa(number), freePort(t)
	for name, test := range map[string]struct {
		want string
		args []string
	}{
		"frontend":     {"port " + port + " (frontend, on 127.0.0.1) is in use", []string{"--port", port}},
		"UI":           {"port " + port + " (UI, on 127.0.0.1) is in use: end the program that has it, or choose another with --ui-port", []string{"--port", "0", "--ui-port", port}},
		"UI, derived":  {"it is --port plus 1000", []string{"--port", strconv.Itoa(number - 1000)}},
		"metrics":      {"--metrics-port", []string{"--port", "0", "--metrics-port", port}},
		"twice":        {"(metrics, on 127.0.0.1) is in use", []string{"--port", "0", "--http-port", free, "--metrics-port", free}},
		"out of range": {"the highest --port is 61535", []string{"--port", "65000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRun(t, 1, test.want, append([]string{"server", "start-dev"}, test.args...)...)
		})
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestDatabaseFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	used := filepath.Join(dir, "used.db")
	start(t, "--port", "0", "--headless", "-f", used)
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ file, want string }{
		"in use":        {used, "is in use by another devserver"},
		"no folder":     {filepath.Join(dir, "none", "x.db"), "does not exist; create it first"},
		"not SQLite":    {text, "not a database"},
		"others":        {sqliteFile(t, "create table orders (id integer)"), "not one of Temporal's"},
		"older version": {sqliteFile(t, "create table current_executions (shard_id int)"), "another version of Temporal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRun(t, 1, test.want, "server", "start-dev", "--port", "0", "--headless", "-f", test.file)
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "no command given"},
		{"serve", 2, `unknown command "serve"`},
		{"server", 2, "devserver server start-dev"},
		{"server start", 2, "there is only: devserver server start-dev"},
		{"server start-dev --headles", 2, "unknown flag --headles; did you mean --headless? (see: devserver server start-dev --help)"},
		{"server start-dev --db f.db", 2, "did you mean --db-filename?"},
		{"server start-dev --frobnicate", 2, "unknown flag --frobnicate (see"},
		{"server start-dev --port x", 2, "for flag --port"},
		{"server start-dev --port", 2, "needs an argument: --port"},
		{"server start-dev now", 2, `unexpected argument "now"`},
		{"server start-dev --log-level loud", 2, "choose one of debug, info, warn, error, never"},
		{"server start-dev --search-attribute A=Bytes", 2, `unknown type "Bytes"; choose one of Text, Keyword, Int, Double, Bool, Datetime, KeywordList`},
		{"server start-dev --search-attribute A", 2, "give it as NAME=TYPE"},
		{"server start-dev --search-attribute WorkflowId=Int", 1, "Temporal reserves this name"},
		{"server start-dev --dynamic-config-value frontend.rps", 2, "give it as KEY=JSON"},
		{"server start-dev --dynamic-config-value frontend.rps=many", 2, "is not JSON"},
		{`server start-dev --dynamic-config-value frontend.rps="many"`, 2, "--dynamic-config-value frontend.rps: validation failed"},
		{"server start-dev --ip example.org", 1, "is not an IP address"},
		{"firings --file none.jsonl", 1, "none.jsonl"},
		{"firings --files none.jsonl", 2, "did you mean --file?"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			wantRun(t, test.code, test.want, strings.Fields(test.args)...)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--help":                  "devserver firings [flags]",
		"server --help":           "devserver server start-dev [flags]",
		"server start-dev --help": "--no-search-attributes",
		"server start-dev -h":     "--ready-file FILE",
		"firings --help":          "from itself is excluded",
		"--version":               "Temporal server 1.",
	} {
		var out, talk bytes.Buffer
		code := run(t.Context(), strings.Fields(args), stdio{strings.NewReader(""), &out, &talk})
		if code != 0 || !strings.Contains(out.String(), want) || talk.Len() > 0 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want 0, %q within, nothing", args, code, &out, &talk, want)
		}
	}
}

// TestHelpNamesEveryFlag keeps the help, which is written by hand, complete.
func TestHelpNamesEveryFlag(t *testing.T) {
	t.Parallel()
	var flags startDevFlags
	flags.flagSet().VisitAll(func(f *flag.Flag) {
		dashes := "--"
		if len(f.Name) == 1 {
			dashes = "-"
		}
		if !strings.Contains(startDevHelp, dashes+f.Name) {
			t.Errorf("the help lacks %s%s", dashes, f.Name)
		}
	})
}

// wantRun runs the program in this process; it must fail on its own.
func wantRun(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var talk bytes.Buffer
	got := run(timeout(t, patience), args, stdio{strings.NewReader(""), io.Discard, &talk})
	if got != code || !strings.Contains(talk.String(), want) {
		t.Errorf("exit code %d, stderr %q; want %d, %q within", got, &talk, code, want)
	}
}

func wantPage(t *testing.T, url, want string) {
	t.Helper()
	request, err := http.NewRequestWithContext(timeout(t, patience), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		t.Errorf("GET %s: %s, %v, %.300q; want 200 and %q within", url, response.Status, err, body, want)
	}
}

func sqliteFile(t *testing.T, statement string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
	return path
}
