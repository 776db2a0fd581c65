package warehouse

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
)

// rowReader pulls rows from a source, one at a time, checks and parses them, decides their place and
// adds up the checksum of those that are to be written.
type rowReader struct {
	columns  []column
	next     func() ([][]byte, error, bool)
	stop     func()
	place    func(values []value) placement // nil: every row is inside
	progress func(rows int64)

	parser parser
	values []value
	line   []byte // canonical form of the current row
	ahead  bool   // the current row was read by prime and is still to be delivered
	ended  bool

	first   int64 // number of the first row
	read    int64
	outside outside
	sum     checksum
}

// placement says where a row lies.
type placement uint8

const (
	inside placement = iota
	beyond
	atEnd // exactly on the interval's end, which belongs to the next one
	timeless
)

// outside says what to do with rows that do not belong to the interval.
type outside struct {
	drop     bool
	interval interval.Interval
	dropped  int64
}

// progressEvery is the number of rows between calls of progress: about a hundred calls per second.
const progressEvery = 4096

func newRowReader(columns []column, rows Rows, first int64) *rowReader {
	next, stop := iter.Pull2(rows)
	return &rowReader{
		columns: columns, next: func() ([][]byte, error, bool) { return next() }, stop: stop,
		values: make([]value, len(columns)), first: first,
	}
}

// prime reads the first row, so that a source that is slow or broken is not waited for in a transaction.
func (r *rowReader) prime() error {
	if r.ahead || r.ended {
		return nil
	}
	ok, err := r.advance()
	if err != nil {
		return err
	}
	r.ahead = ok
	return nil
}

// row returns the next row that is to be written; nil at the end. It is valid until the next call.
func (r *rowReader) row() ([]value, error) {
	if r.ahead {
		r.ahead = false
		return r.values, nil
	}
	ok, err := r.advance()
	if err != nil || !ok {
		return nil, err
	}
	return r.values, nil
}

func (r *rowReader) advance() (bool, error) {
	for !r.ended {
		fields, err, ok := r.next()
		if err != nil {
			r.ended = true
			return false, err
		}
		if !ok {
			r.ended = true
			r.report()
			return false, nil
		}
		r.read++
		if r.read%progressEvery == 0 {
			r.report()
		}
		if err := r.parse(fields); err != nil {
			r.ended = true
			return false, err
		}
		keep, err := r.keep()
		if err != nil {
			r.ended = true
			return false, err
		}
		if keep {
			r.line = appendCanonical(r.line[:0], r.columns, r.values)
			r.sum.add(r.line)
			return true, nil
		}
	}
	return false, nil
}

// number is the number of the current row in the source, from 1.
func (r *rowReader) number() int64 { return r.first + r.read - 1 }

func (r *rowReader) parse(fields [][]byte) error {
	if len(fields) != len(r.columns) {
		return permanent(TypeBadRequest, "row %d has %d fields, %d columns are declared", r.number(), len(fields), len(r.columns))
	}
	r.parser.reset()
	for i := range r.columns {
		if reason := r.parser.parse(&r.columns[i], fields[i], &r.values[i]); reason != "" {
			return badValue(r.number(), &r.columns[i], reason, fields[i])
		}
	}
	return nil
}

// keep reports whether the row is to be written.
func (r *rowReader) keep() (bool, error) {
	if r.place == nil {
		return true, nil
	}
	where := r.place(r.values)
	switch {
	case where == inside:
		return true, nil
	case !r.outside.drop:
		return false, outsideError(r.number(), r.outside.interval, where)
	}
	r.outside.dropped++
	return false, nil
}

func (r *rowReader) report() {
	if r.progress != nil {
		r.progress(r.read)
	}
}

// appendCanonical writes a row's values in a form that is the same for both databases: what is summed,
// and what waits in a spool.
func appendCanonical(dst []byte, columns []column, values []value) []byte {
	for i := range values {
		v := &values[i]
		if v.null {
			dst = append(dst, 0)
			continue
		}
		dst = append(dst, 1)
		switch columns[i].declared.Kind {
		case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint, pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(v.i))
		case pipeline.Real, pipeline.Double:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.f))
		default:
			dst = binary.AppendUvarint(dst, uint64(len(v.b)))
			dst = append(dst, v.b...)
		}
	}
	return dst
}

// readCanonical is the inverse of appendCanonical. The values borrow from line.
func readCanonical(line []byte, columns []column, values []value) error {
	for i := range values {
		if len(line) == 0 {
			return fmt.Errorf("spooled row ends early")
		}
		present := line[0] != 0
		line = line[1:]
		if !present {
			values[i] = value{null: true}
			continue
		}
		values[i] = value{}
		switch columns[i].declared.Kind {
		case pipeline.Boolean, pipeline.Smallint, pipeline.Integer, pipeline.Bigint, pipeline.Date, pipeline.Timestamp, pipeline.Timestamptz:
			values[i].i = int64(binary.LittleEndian.Uint64(line))
			line = line[8:]
		case pipeline.Real, pipeline.Double:
			values[i].f = math.Float64frombits(binary.LittleEndian.Uint64(line))
			line = line[8:]
		default:
			n, size := binary.Uvarint(line)
			values[i].b = line[size : size+int(n) : size+int(n)]
			line = line[size+int(n):]
		}
	}
	return nil
}

// checksum is a sum of hashes, one per row: the order of rows does not matter, their number does.
type checksum struct {
	rows int64
	sum  uint64
}

// checksumAlgorithm is written in front of each checksum, so that sums of another kind are not compared.
const checksumAlgorithm = "xxh64sum1"

func (c *checksum) add(line []byte) {
	c.rows++
	c.sum += xxhash.Sum64(line)
}

// String gives algorithm, number of rows and sum: "xxh64sum1:3:0f2a…".
func (c checksum) String() string {
	return fmt.Sprintf("%s:%d:%016x", checksumAlgorithm, c.rows, c.sum)
}

func badValue(row int64, c *column, reason string, text []byte) error {
	return permanent(TypeBadValue, "%w", &ValueError{
		Row: row, Column: c.name, Declared: c.declared.String(), Reason: reason, value: append([]byte(nil), text...),
	})
}

func (r *rowReader) shape() []column { return r.columns }
func (r *rowReader) close()          { r.stop() }
