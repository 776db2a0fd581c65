package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/trancheflow/tranche/warehouse"
)

// path is one way of loading, with its limit.
type path struct {
	name string
	// aim is the least ratio; zero for a figure that is told for comparison only.
	aim    float64
	target *target
	limit  func(context.Context) error
	load   func(context.Context, *warehouse.Warehouse) (warehouse.Receipt, error)
}

// sample is what one run took, in seconds: of the clock, and of the processor in the client (this
// process, or the database's own client), without what the server used.
type sample struct{ elapsed, processor float64 }

// figures are the runs of one path.
type figures struct {
	limits, loads []sample
	ratios        []float64
}

// measure times every path between two runs of its limit, and writes a table.
func (b *bench) measure(ctx context.Context, out io.Writer, rounds int, paths []path) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH / LIMIT\tRATIO\tMIN-MAX\tAIM\t\tLIMIT\tITS CPU\tLOAD\tITS CPU")
	for _, p := range paths {
		f, err := b.measurePath(ctx, rounds, p)
		if err != nil {
			return errors.Join(table.Flush(), fmt.Errorf("%s: %w", p.name, err))
		}
		ratio := median(f.ratios)
		aim, verdict := "-", ""
		if p.aim > 0 {
			aim, verdict = fmt.Sprintf("%.1f", p.aim), met(ratio >= p.aim)
		}
		elapsed := func(s sample) float64 { return s.elapsed }
		processor := func(s sample) float64 { return s.processor }
		fmt.Fprintf(table, "%s\t%.2f\t%.2f-%.2f\t%s\t%s\t%.2fs\t%.2fs\t%.2fs\t%.2fs\n", p.name, ratio, slices.Min(f.ratios), slices.Max(f.ratios), aim, verdict,
			median(each(f.limits, elapsed)), median(each(f.limits, processor)), median(each(f.loads, elapsed)), median(each(f.loads, processor)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nRATIO: rows per second beside the limit's, median of the rounds. CPU: of the client, without the server.\nEvery load was read back: %s, as the limit's.\n", b.sum)
	return err
}

// measurePath runs limit, load, limit, load, ..., limit. The limit of a round is the mean of the two
// beside it.
func (b *bench) measurePath(ctx context.Context, rounds int, p path) (figures, error) {
	var f figures
	before, err := b.timeLimit(ctx, p)
	if err != nil {
		return f, err
	}
	f.limits = append(f.limits, before)
	for range rounds {
		load, err := b.timeLoad(ctx, p)
		if err != nil {
			return f, err
		}
		after, err := b.timeLimit(ctx, p)
		if err != nil {
			return f, err
		}
		f.limits, f.loads = append(f.limits, after), append(f.loads, load)
		f.ratios = append(f.ratios, (before.elapsed+after.elapsed)/2/load.elapsed)
		before = after
	}
	return f, nil
}

func (b *bench) timeLimit(ctx context.Context, p path) (sample, error) {
	if err := p.target.empty(ctx); err != nil {
		return sample{}, err
	}
	s, err := timed(syscall.RUSAGE_CHILDREN, func() error { return p.limit(ctx) })
	if err != nil {
		return sample{}, err
	}
	return s, b.check(ctx, p.target.warehouse, limitTable, "")
}

func (b *bench) timeLoad(ctx context.Context, p path) (sample, error) {
	if err := p.target.empty(ctx); err != nil {
		return sample{}, err
	}
	var receipt warehouse.Receipt
	s, err := timed(syscall.RUSAGE_SELF, func() (err error) {
		receipt, err = p.load(ctx, p.target.warehouse)
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return s, b.check(ctx, p.target.warehouse, loadedTable, receipt.Checksum)
}

// check reads the table back. Its rows must be as many as were written into the file, and the same in
// every table of both databases, whoever wrote them; a receipt's checksum must be theirs.
func (b *bench) check(ctx context.Context, w *warehouse.Warehouse, table, receipt string) error {
	n, sum, err := w.Checksum(ctx, table, columns(), nil)
	switch {
	case err != nil:
		return err
	case n != int64(b.rows):
		return fmt.Errorf("%s holds %d rows, not %d", table, n, b.rows)
	case b.sum != "" && sum != b.sum:
		return fmt.Errorf("%s holds other rows (%s) than the tables before it (%s)", table, sum, b.sum)
	case receipt != "" && receipt != sum:
		return fmt.Errorf("the receipt says %s and %s holds %s", receipt, table, sum)
	}
	b.sum = sum
	return nil
}

// timed runs something and says what it took; who is what syscall.Getrusage takes.
func timed(who int, do func() error) (sample, error) {
	used, err := processorTime(who)
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return sample{}, err
	}
	elapsed := time.Since(began)
	after, err := processorTime(who)
	return sample{elapsed.Seconds(), (after - used).Seconds()}, err
}

func processorTime(who int) (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// median of at least one value; of an even number, the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

func each(samples []sample, of func(sample) float64) []float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	return values
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "MISSED"
}
