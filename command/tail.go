package command

// tailSize is how much of a program's output is kept, in bytes: more than is shown, so that what is masked
// can be masked before it is cut.
const tailSize = 16 << 10

// Tail is the end of an output.
type Tail struct {
	// Text is at most 16 KiB, as written: it may hold secrets, control characters and invalid UTF-8.
	Text string
	// Cut says that there was more before it.
	Cut bool
}

// tail keeps the end of what is written to it. It is written to by one goroutine, and read after that is done.
type tail struct {
	kept []byte
	cut  bool
}

// Write keeps the end of p. It never fails, so that a program is not stopped by what it says.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > tailSize {
		p, t.cut = p[len(p)-tailSize:], true
	}
	if over := len(t.kept) + len(p) - tailSize; over > 0 {
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
		t.cut = true
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

func (t *tail) read() Tail { return Tail{string(t.kept), t.cut} }
