package activities

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/trancheflow/tranche/command"
	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/step"
)

// execute runs one attempt of an exec step.
func execute(t *testing.T, a *Activities, e *pipeline.Exec) error {
	t.Helper()
	in := input()
	in.Pipeline, in.Timezone = "orders", "Asia/Jakarta"
	start := time.Date(2026, time.January, 14, 17, 0, 0, 0, time.UTC)
	in.Interval = interval.Interval{Start: start, End: start.Add(24 * time.Hour)}
	in.Step.Name, in.Step.Exec = "report", e
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(a.RunCommand, activity.RegisterOptions{Name: step.ActivityExec})
	_, err := env.ExecuteActivity(step.ActivityExec, in)
	return err
}

// script is a step that a shell runs.
func script(text string) *pipeline.Exec {
	return &pipeline.Exec{Command: []pipeline.Template{"/bin/sh", "-c", pipeline.Template(text)}}
}

// allowing allows programs, as a worker whose environment holds a secret.
func allowing(t *testing.T) *Activities {
	t.Helper()
	a := newActivities(t)
	environment := map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/home/worker", "TMPDIR": t.TempDir(), "SHOP_TOKEN": secret}
	a.exec = NewExec(func(name string) (string, bool) {
		value, found := environment[name]
		return value, found
	})
	return a
}

func wantError(t *testing.T, err error, kind string, final bool) string {
	t.Helper()
	var got *temporal.ApplicationError
	if !errors.As(err, &got) || got.Type() != kind || got.NonRetryable() != final {
		t.Fatalf("the step ends with %v, want the type %s", err, kind)
	}
	return got.Message()
}

func TestExecMustBeAllowed(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	message := wantError(t, execute(t, newActivities(t), script("touch "+mark)), TypeExecNotAllowed, true)
	if !strings.Contains(message, "--allow-exec") {
		t.Errorf("the error does not say what to do: %s", message)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program has run all the same")
	}
}

// TestWhatAProgramIsTold: the run, the interval, a few variables of the worker, and nothing else of it.
func TestWhatAProgramIsTold(t *testing.T) {
	t.Parallel()
	a := allowing(t)
	told := filepath.Join(t.TempDir(), "told")
	e := script("env >" + told + "; echo args $0 >>" + told + "; pwd >>" + told + "; touch left-over")
	e.Command = append(e.Command, "{{ date .Interval.Start }}")
	e.Environment = map[string]pipeline.Template{"DAY": "{{ date .Interval.Start }}"}
	if err := execute(t, a, e); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"TRANCHE_PIPELINE": "orders", "TRANCHE_STEP": "report", "TRANCHE_ATTEMPT": "1", "TZ": "UTC", "HOME": "/home/worker", "DAY": "2026-01-15",
		"TRANCHE_INTERVAL_START": "2026-01-14T17:00:00Z", "TRANCHE_INTERVAL_END": "2026-01-15T17:00:00Z", "args 2026-01-15": "",
	} {
		if value, found := got[name]; !found || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	for _, name := range []string{"TRANCHE_WORKFLOW_ID", "TRANCHE_RUN_ID"} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if strings.Contains(string(data), secret) {
		t.Error("the program was given a secret of the worker")
	}
	folder := got["PWD"]
	if !strings.HasPrefix(filepath.Base(folder), "tranche-exec-") {
		t.Errorf("the program ran in %s", folder)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is still there", folder)
	}
}

func TestExecInItsOwnFolder(t *testing.T) {
	t.Parallel()
	e := script("touch here")
	e.Folder = t.TempDir()
	if err := execute(t, allowing(t), e); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(e.Folder, "here")); err != nil {
		t.Error(err)
	}
	e.Folder += "/gone"
	wantError(t, execute(t, allowing(t), e), command.TypeNotStarted, true)
}

func TestHowAnExecStepFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		kind   string
		final  bool
		says   string
	}{
		"stderr":          {`echo out; echo "no such table" >&2; exit 2`, retry.TypeExitCode, true, "exit code 2; the end of its stderr:\nno such table"},
		"stdout":          {`echo "only here"; exit 1`, retry.TypeExitCode, true, "the end of its stdout:\nonly here"},
		"nothing":         {`exit 1`, retry.TypeExitCode, true, "it wrote nothing"},
		"another try":     {`exit 75`, retry.TypeExitCode, false, "exit code 75"},
		"a signal":        {`kill -KILL $$`, retry.TypeSignal, false, "killed"},
		"a secret":        {`echo "token ` + secret + `!" >&2; exit 1`, retry.TypeExitCode, true, "token ***!"},
		"colours, a bell": {`printf 'a\033[31mred\007\r\nb' >&2; exit 1`, retry.TypeExitCode, true, `a\x1b[31mred\a` + "\nb"},
		"no text":         {`printf 'a\377b' >&2; exit 1`, retry.TypeExitCode, true, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := wantError(t, execute(t, allowing(t), script(test.script)), test.kind, test.final)
			if !strings.Contains(message, test.says) {
				t.Errorf("the error says %q, want %q in it", message, test.says)
			}
			if strings.Contains(message, secret) {
				t.Error("the error holds a secret")
			}
		})
	}
}

// TestLongOutput: the end is shown, and no half of a secret that was cut in two.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	a := allowing(t)
	for kept := range len(secret) + 2 {
		// The kept end begins in the middle of a secret. Many others make it shorter, so that its beginning would be shown.
		text := secret[len(secret)-min(kept, len(secret)):] + strings.Repeat(secret, 800) + strings.Repeat("x", 6000) + "the end"
		if shown := a.shown(command.Tail{Text: text, Cut: true}); !strings.HasSuffix(shown, "the end") || len(shown) > saidLimit+len("…") || strings.Contains(shown, "123***") {
			t.Errorf("with %d bytes of a secret: %s", kept, shown)
		}
	}
	if shown := a.shown(command.Tail{Text: "123" + strings.Repeat(secret, 1300), Cut: true}); strings.Contains(shown, "123") || shown == "" {
		t.Errorf("nothing but secrets: %q", shown)
	}
	message := wantError(t, execute(t, a, script(`i=0; while [ $i -lt 5000 ]; do echo "line $i"; i=$((i+1)); done >&2; exit 1`)), retry.TypeExitCode, true)
	if len(message) > errorLimit || !strings.HasSuffix(message, "line 4999") {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}
