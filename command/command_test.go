//go:build unix

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trancheflow/tranche/retry"
)

// childOfTest makes this test binary run a program and say its process id, see TestProgramEndsWithItsParent.
const childOfTest = "TRANCHE_COMMAND_CHILD"

func TestMain(m *testing.M) {
	if script := os.Getenv(childOfTest); script != "" {
		_, err := Program{Command: []string{"/bin/sh", "-c", script}}.Run(context.Background())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait on a machine that is busy with other tests.
const patience = time.Minute

// shell runs a script in a folder of the test's own.
func shell(t *testing.T, script string) Program {
	t.Helper()
	return Program{Command: []string{"/bin/sh", "-c", script}, Environment: []string{"PATH=" + os.Getenv("PATH")}, Folder: t.TempDir(), Grace: patience}
}

func TestHowAProgramEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		class  retry.Class
		kind   string
		says   string
	}{
		"failure":                {"exit 3", retry.Permanent, retry.TypeExitCode, "exit code 3"},
		"another try, please":    {"exit 75", retry.Transient, retry.TypeExitCode, "exit code 75"},
		"not found by a shell":   {"exec no-such-program-anywhere", retry.Permanent, retry.TypeExitCode, "exit code 127"},
		"killed":                 {"kill -KILL $$", retry.Transient, retry.TypeSignal, "killed"},
		"ended by its own fault": {"kill -SEGV $$", retry.Transient, retry.TypeSignal, "segmentation fault"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shell(t, test.script).Run(t.Context())
			verdict := retry.Classify(err)
			if verdict.Class != test.class || verdict.Type != test.kind || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v is %+v", err, verdict)
			}
		})
	}
	if _, err := shell(t, "exit 0").Run(t.Context()); err != nil {
		t.Errorf("success is %v", err)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	sh := []string{"/bin/sh", "-c", "exit 0"}
	for name, test := range map[string]struct {
		program Program
		want    string
	}{
		"none":            {Program{}, "none is named"},
		"empty":           {Program{Command: []string{""}}, "none is named"},
		"not on PATH":     {Program{Command: []string{"no-such-program-anywhere"}}, "install it on the worker's host"},
		"no such file":    {Program{Command: []string{"/no/such/program"}, Folder: folder}, "start /no/such/program: "},
		"no program":      {Program{Command: []string{plain}}, "permission denied"},
		"not in a folder": {Program{Command: []string{"./load.sh"}, Folder: folder}, "it is looked up in the folder that the program runs in, " + folder},
		"no such folder":  {Program{Command: sh, Folder: filepath.Join(folder, "gone")}, "the folder to run it in, on the worker's host: stat " + folder},
		"no folder":       {Program{Command: sh, Folder: plain}, plain + ", where it is to run on the worker's host, is no folder"},
	} {
		_, err := test.program.Run(t.Context())
		if retry.Classify(err) != (retry.Verdict{Class: retry.Permanent, Type: TypeNotStarted}) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shell(t, "exit 0").Run(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// TestOnlyWhatItIsGiven: the program sees its environment and folder, and nothing of this process.
func TestOnlyWhatItIsGiven(t *testing.T) {
	t.Parallel()
	p := shell(t, `env; pwd; cat; echo "args: $0 $1"; echo said >&2`)
	p.Command = append(p.Command, "a b", `$HOME;"`)
	p.Environment = []string{"PATH=" + os.Getenv("PATH"), "ONLY=this"}
	out, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.Stdout.Text) {
		name, _, assigned := strings.Cut(strings.TrimSpace(line), "=")
		if assigned && name != "PATH" && name != "ONLY" && name != "PWD" && name != "_" && name != "SHLVL" && name != "OLDPWD" {
			t.Errorf("the program was given %s", line)
		}
	}
	folder, err := filepath.EvalSymlinks(p.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ONLY=this\n", folder + "\n", "args: a b $HOME;\"\n"} {
		if !strings.Contains(out.Stdout.Text, want) {
			t.Errorf("%q is not in\n%s", want, out.Stdout.Text)
		}
	}
	if out.Stderr.Text != "said\n" {
		t.Errorf("stderr holds %q", out.Stderr.Text)
	}
	p.Environment = nil
	if out, err := p.Run(t.Context()); err != nil || strings.Contains(out.Stdout.Text, "HOME=") {
		t.Errorf("without an environment: %v\n%s", err, out.Stdout.Text)
	}
}

func TestOnlyTheEndOfAnOutputIsKept(t *testing.T) {
	t.Parallel()
	out, err := shell(t, `i=0; while [ $i -lt 3000 ]; do echo "line $i of many"; i=$((i+1)); done; echo the end`).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !out.Stdout.Cut || len(out.Stdout.Text) != tailSize || !strings.HasSuffix(out.Stdout.Text, "line 2999 of many\nthe end\n") {
		t.Errorf("%d bytes are kept, cut: %v", len(out.Stdout.Text), out.Stdout.Cut)
	}
	var whole tail
	for _, part := range []string{strings.Repeat("a", tailSize-1), "b", strings.Repeat("c", 3*tailSize), "d"} {
		if n, err := whole.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write answers %d, %v", n, err)
		}
	}
	if got := whole.read(); got.Text != strings.Repeat("c", tailSize-1)+"d" || !got.Cut {
		t.Errorf("the tail is %d bytes, cut: %v", len(got.Text), got.Cut)
	}
}

// family is a script that says the process ids of itself and of a grandchild, both of which ignore SIGTERM when
// they are stubborn, and then goes on.
const family = `trap "$TRAP" TERM; (trap "$TRAP" TERM; while :; do sleep 1; done) & echo $$ > first; echo $! > second; mv first self; mv second child; `

// members waits until both have said who they are.
func members(t *testing.T, folder string) []int {
	t.Helper()
	var found []int
	for _, name := range []string{"self", "child"} {
		eventually(t, name+" is there", func() bool {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return false
			}
			id, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, id)
			return true
		})
	}
	return found
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-ticker.C
	}
}

// alive says whether a process runs; one whose end nobody has asked for does not.
func alive(id int) bool {
	if syscall.Kill(id, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(id)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func allDead(t *testing.T, processes []int) {
	t.Helper()
	for _, id := range processes {
		eventually(t, fmt.Sprintf("process %d is dead", id), func() bool { return !alive(id) })
	}
}

// TestStopReachesTheWholeGroup: when the context ends, the program and what it has started are asked to end, and
// killed if they do not.
func TestStopReachesTheWholeGroup(t *testing.T) {
	t.Parallel()
	why := errors.New("somebody said so")
	for name, test := range map[string]struct {
		trap  string
		grace time.Duration
	}{
		"both obey":   {"exit 0", patience},
		"both ignore": {"", 300 * time.Millisecond},
		"no grace":    {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shell(t, family+"while :; do sleep 0.02; done")
			p.Environment, p.Grace = append(p.Environment, "TRAP="+test.trap), test.grace
			if test.trap != "" {
				// A shell looks at signals between two commands.
				p.Command[2] = strings.Replace(p.Command[2], "sleep 1;", "sleep 0.02;", 1)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := p.Run(ctx)
				ended <- err
			}()
			group := members(t, p.Folder)
			began := time.Now()
			cancel(why)
			err := <-ended
			if !errors.Is(err, why) {
				t.Errorf("the program that was stopped is %v", err)
			}
			if took := time.Since(began); took < test.grace && test.trap == "" {
				t.Errorf("it was killed after %s, before its grace of %s", took, test.grace)
			}
			allDead(t, group)
		})
	}
}

// TestWhatIsLeftBehindIsKilled: the program has ended, but what it has started holds its output: the step neither
// hangs nor leaves it running.
func TestWhatIsLeftBehindIsKilled(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 3} {
		p := shell(t, family+fmt.Sprintf("exit %d", code))
		p.Environment = append(p.Environment, "TRAP=")
		_, err := p.Run(t.Context())
		var exit *ExitError
		if (err == nil) != (code == 0) || code != 0 && (!errors.As(err, &exit) || exit.Code != code) {
			t.Errorf("exit %d is %v", code, err)
		}
		allDead(t, members(t, p.Folder)[1:])
	}
}

// TestProgramEndsWithItsParent: on Linux the program does not survive a kill -9 of this process, also when other
// threads of this process have come and gone since.
func TestProgramEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("skipped: only on Linux the kernel ends a program with its parent")
	}
	parent := exec.Command(os.Args[0])
	pipe := filepath.Join(t.TempDir(), "id")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	parent.Env = []string{childOfTest + "=echo $$ >" + pipe + "; exec sleep 600"}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Wait() }()
	defer func() { _ = parent.Process.Kill() }()
	said, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(id) {
		t.Fatalf("process %q: %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	allDead(t, []int{id})
}
