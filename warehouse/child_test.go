package warehouse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trancheflow/tranche/retry"
	"github.com/trancheflow/tranche/warehouse"
)

const childVariable = "TRANCHE_TEST_CHILD"

// order is what a child process is told to do: load numbered orders of the day, and after some of them
// say "ready" and wait for a line.
type order struct {
	Config       warehouse.Config
	Day          int
	Fence        int64
	Rows         int
	WaitAfter    int  // zero: it does not wait
	Stage        bool // append a page to a stage instead
	OrderedAt    string
	CustomerText string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// child loads, and prints "loaded" or the type of the error.
func child(text string, in io.Reader, out io.Writer) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	ctx := context.Background()
	w, err := warehouse.Open(ctx, o.Config)
	if err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	defer w.Close()
	req := orders(o.Day, o.Fence)
	input := bufio.NewReader(in)
	req.Rows = numbered(o.Rows, o.OrderedAt, o.CustomerText, func(i int) {
		if i == o.WaitAfter {
			fmt.Fprintln(out, "ready")
			_, _ = input.ReadString('\n') // the parent's line, or its end
		}
	})
	if o.Stage {
		err = appendPage(ctx, w, stageOf(o.Fence), req.Rows)
	} else {
		_, err = w.Load(ctx, req)
	}
	if err != nil {
		fmt.Fprintln(out, retry.Classify(err).Type)
		return 1
	}
	fmt.Fprintln(out, "loaded")
	return 0
}

func stageOf(fence int64) warehouse.StageRef {
	return warehouse.StageRef{Pipeline: "orders", RunID: "run", Step: "extract", Interval: day(15), Columns: columns(orderColumns), Fence: fence}
}

// appendPage takes the stage over and writes its next and last page.
func appendPage(ctx context.Context, w *warehouse.Warehouse, ref warehouse.StageRef, page warehouse.Rows) error {
	stage, err := w.OpenStage(ctx, ref)
	if err != nil {
		return err
	}
	_, err = stage.AppendPage(ctx, stage.Progress().Pages+1, page, func() (string, bool, error) { return "", true, nil })
	return err
}

// numbered are rows with the ids 1 to n.
func numbered(n int, orderedAt, customer string, each func(i int)) warehouse.Rows {
	return func(yield func([][]byte, error) bool) {
		for i := 1; i <= n; i++ {
			if each != nil {
				each(i)
			}
			if !yield([][]byte{fmt.Append(nil, i), []byte(orderedAt), []byte(customer), []byte("1.50")}, nil) {
				return
			}
		}
	}
}

// process is a running child.
type process struct {
	*exec.Cmd
	t     *testing.T
	stdin io.WriteCloser
	lines *bufio.Reader
}

func startChild(t *testing.T, o order, environment ...string) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^$"), t: t}
	p.Env = append(append(os.Environ(), childVariable+"="+string(text)), environment...)
	p.Stderr = os.Stderr
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended long ago
		_ = p.Wait()
	})
	return p
}

func (p *process) line() string {
	p.t.Helper()
	text, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the child's output: %v", err)
	}
	return strings.TrimSpace(text)
}

func (p *process) expect(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("the child says %q, want %q", got, want)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

const noon = "2026-01-15T12:00:00Z"

// A process that is killed in the middle of a load leaves the table as it was, and the next load is
// whole.
func TestKilledInTheMiddle(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|old|1", "2|"+noon+"|old|1", "3|"+noon+"|old|1"))
		p := startChild(t, order{Config: b.config, Day: 15, Fence: 2, Rows: 50_000, WaitAfter: 40_000, OrderedAt: noon, CustomerText: "new"})
		p.expect("ready")
		p.signal(syscall.SIGKILL)
		b.expect("select customer, count(*) from orders group by customer", "old|3")
		req := orders(15, 3)
		req.Rows = numbered(50_000, noon, "new", nil)
		b.load(req)
		b.expect("select customer, count(*) from orders group by customer", "new|50000")
	})
}

// A process may also be killed while SQLite writes: at whatever moment that is, one of the two slices
// is there, whole.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	b := newBench(t, warehouse.DriverSQLite)
	b.load(orders(15, 1, "1|"+noon+"|old|1"))
	for fence := int64(2); fence < 8; fence++ {
		p := startChild(t, order{Config: b.config, Day: 15, Fence: fence, Rows: 30_000, WaitAfter: 30_000, OrderedAt: noon, CustomerText: "new"})
		p.expect("ready")
		if _, err := io.WriteString(p.stdin, "go\n"); err != nil {
			t.Fatal(err)
		}
		waitForWriter(t, b.config.DSN)
		p.signal(syscall.SIGKILL)
		_ = p.Wait() // killed
		got := b.query("select customer, count(*) from orders group by customer")
		if len(got) != 1 || got[0] != "old|1" && got[0] != "new|30000" {
			t.Fatalf("after kill -9 the slice is %q", got)
		}
	}
	b.load(orders(15, 9, "1|"+noon+"|old|1"))
	b.expect("select customer, count(*) from orders group by customer", "old|1")
}

// waitForWriter returns when the write-ahead log has grown: somebody is writing, or has written.
func waitForWriter(t *testing.T, path string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			return -1
		}
		return info.Size()
	}
	before := size()
	deadline := time.Now().Add(10 * time.Second)
	for size() == before && time.Now().Before(deadline) {
		if got, err := querySQLite(path, "select count(*) from orders where customer = 'new'"); err == nil && got[0] != "0" {
			return
		}
	}
}

// A process that is stopped inside its load does not hold the interval: a newer attempt loads it. When
// the old one goes on, it is turned away.
func TestStoppedInTheMiddle(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1, "1|"+noon+"|old|1"))
		p := startChild(t, order{Config: b.config, Day: 15, Fence: 2, Rows: 20_000, WaitAfter: 19_000, OrderedAt: noon, CustomerText: "late"})
		p.expect("ready")
		p.signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Load(ctx, orders(15, 3, "1|"+noon+"|new|1")); err != nil {
			t.Fatalf("the newer attempt: %v", err)
		}
		b.expect("select customer, count(*) from orders group by customer", "new|1")
		p.signal(syscall.SIGCONT)
		if _, err := io.WriteString(p.stdin, "go\n"); err != nil {
			t.Fatal(err)
		}
		p.expect("Fenced")
		b.expect("select customer, count(*) from orders group by customer", "new|1")
	})
}

// The same for a page of a stage: its newer owner goes on, the stopped one is turned away.
func TestStoppedInAPage(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		p := startChild(t, order{Config: b.config, Day: 15, Fence: 2, Rows: 20_000, WaitAfter: 19_000, OrderedAt: noon, CustomerText: "late", Stage: true})
		p.expect("ready")
		p.signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := appendPage(ctx, b.Warehouse, stageOf(3), numbered(5, noon, "new", nil)); err != nil {
			t.Fatalf("the newer attempt: %v", err)
		}
		p.signal(syscall.SIGCONT)
		if _, err := io.WriteString(p.stdin, "go\n"); err != nil {
			t.Fatal(err)
		}
		p.expect("Fenced")
		req := orders(15, 4)
		ref := stageOf(0)
		req.Rows, req.Stage, req.StagedRows = nil, &ref, 5
		b.load(req)
		b.expect("select customer, count(*) from orders group by customer", "new|5")
	})
}

// The tables do not depend on the host's time zone.
func TestHostZone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.load(orders(15, 1))
		for fence, zone := range []string{"UTC", "Asia/Kolkata", "America/St_Johns"} {
			p := startChild(t, order{Config: b.config, Day: 15, Fence: int64(fence + 2), Rows: 1, OrderedAt: "2026-01-15 10:00:00", CustomerText: zone}, "TZ="+zone)
			p.expect("loaded")
			want := "1|2026-01-15 10:00:00+00"
			if b.config.Driver == warehouse.DriverSQLite {
				want = "1|2026-01-15T10:00:00.000000Z"
			}
			b.expect("select id, ordered_at from orders", want)
		}
	})
}
