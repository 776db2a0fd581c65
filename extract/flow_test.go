package extract

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/pipeline"
)

// The rows of the benchmarks and of the test of memory: eight columns, 82 bytes of CSV or 154 of JSON.
var wide = columns("id", "ordered_at", "customer", "product", "quantity", "price", "status", "note")

const (
	csvHead    = "id,ordered_at,customer,product,quantity,price,status,note\n"
	csvLine    = "%d,2026-01-15T10:07:30Z,customer-%06d,product-%04d,%d,%d.50,shipped,fragile\n"
	ndjsonLine = `{"id":%d,"ordered_at":"2026-01-15T10:07:30Z","customer":"customer-%06d","product":"product-%04d","quantity":%d,"price":%d.50,"status":"shipped","note":"fragile"}` + "\n"
)

// lines is a stream of rows that repeats a block of them: making each anew would cost more than
// reading it.
type lines struct {
	block  string
	blocks int
	rest   string
}

const blockRows = 1000

func newLines(format string, rows int) *lines {
	l := &lines{blocks: rows / blockRows}
	line := ndjsonLine
	if format == formatCSV {
		l.rest, line = csvHead, csvLine
	}
	var block strings.Builder
	for i := range blockRows {
		fmt.Fprintf(&block, line, 1_000_000+i, i, i%100, i%10+1, i%90+10)
	}
	l.block = block.String()
	return l
}

func (l *lines) Read(p []byte) (int, error) {
	if l.rest == "" {
		if l.blocks == 0 {
			return 0, io.EOF
		}
		l.blocks--
		l.rest = l.block
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func streaming(t testing.TB, format string, rows int) *Listing {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if format == formatJSON {
			// One array: the lines with commas between them.
			out := bufio.NewWriter(w)
			defer out.Flush()
			io.WriteString(out, `{"data":[{"id":0,"note":"first"}`)
			scanner := bufio.NewScanner(newLines(formatNDJSON, rows))
			for scanner.Scan() {
				out.WriteByte(',')
				out.Write(scanner.Bytes())
			}
			io.WriteString(out, `],"next":null}`)
			return
		}
		io.Copy(w, newLines(format, rows))
	})
	return openListing(t, apiAt(t, server.URL, "timeout: 30s"), pipeline.HTTP{Path: "/x", Format: format, Records: map[bool]string{true: "data"}[format == formatJSON], Columns: wide})
}

// TestMemoryIsFlat reads a million rows over HTTP in each format and looks at the heap on the way. It
// does not run beside other tests, whose memory it would count.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("reads three million rows")
	}
	const rows = 1_000_000
	const growth = 8 << 20 // bytes; the rows are 82 to 154 MB
	for _, format := range []string{formatCSV, formatNDJSON, formatJSON} {
		t.Run(format, func(t *testing.T) {
			page, err := streaming(t, format, rows).Fetch(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer page.Close()
			var before, now runtime.MemStats
			count := 0
			for _, err := range page.Rows() {
				if err != nil {
					t.Fatal(err)
				}
				switch count++; {
				case count == 10_000:
					runtime.GC()
					runtime.ReadMemStats(&before)
				case count%200_000 == 0:
					runtime.GC()
					runtime.ReadMemStats(&now)
					if now.HeapAlloc > before.HeapAlloc+growth {
						t.Errorf("after %d rows the heap holds %d KiB, %d after 10,000", count, now.HeapAlloc>>10, before.HeapAlloc>>10)
					}
				}
			}
			if count < rows {
				t.Errorf("%d rows", count)
			}
		})
	}
}

// TestRowsAllocateNothing decodes from memory, where only the decoders can allocate.
func TestRowsAllocateNothing(t *testing.T) {
	const rows = 100_000
	for _, format := range []string{formatCSV, formatNDJSON} {
		d, err := decoderSettings{format: format, columns: wide}.decoder()
		if err != nil {
			t.Fatal(err)
		}
		stream := newLines(format, rows)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := d.decode(stream, func([][]byte) bool { return true }); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if per := float64(after.Mallocs-before.Mallocs) / rows; per > 0.01 {
			t.Errorf("%s: %.3f allocations per row", format, per)
		}
	}
}

func benchmarkDecode(b *testing.B, format string) {
	const rows = 100_000
	d, err := decoderSettings{format: format, columns: wide}.decoder()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.decode(newLines(format, rows), func([][]byte) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkCSV(b *testing.B)    { benchmarkDecode(b, formatCSV) }
func BenchmarkNDJSON(b *testing.B) { benchmarkDecode(b, formatNDJSON) }

func BenchmarkNDJSONOverHTTP(b *testing.B) {
	const rows = 100_000
	l := streaming(b, formatNDJSON, rows)
	for b.Loop() {
		page, err := l.Fetch(b.Context(), "")
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range page.Rows() {
			if err != nil {
				b.Fatal(err)
			}
		}
		page.Close()
	}
	b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
}
