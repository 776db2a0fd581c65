package warehouse

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/trancheflow/tranche/pipeline"
)

// copyHeader and copyTrailer frame a stream of COPY .. (FORMAT binary)
// (PostgreSQL documentation, COPY, "Binary Format").
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
)

// days and microseconds from 1970 to 2000, where PostgreSQL's times begin.
const (
	postgresEpochDays   = 10957
	postgresEpochMicros = postgresEpochDays * microsPerDay
)

// appendBinary writes one value with its length, as COPY and the extended protocol's binary format do.
func appendBinary(dst []byte, kind pipeline.TypeKind, v *value) []byte {
	if v.null {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	be := binary.BigEndian
	switch kind {
	case pipeline.Boolean:
		return append(dst, 0, 0, 0, 1, byte(v.i))
	case pipeline.Smallint:
		return be.AppendUint16(append(dst, 0, 0, 0, 2), uint16(v.i))
	case pipeline.Integer:
		return be.AppendUint32(append(dst, 0, 0, 0, 4), uint32(v.i))
	case pipeline.Bigint:
		return be.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.i))
	case pipeline.Real:
		return be.AppendUint32(append(dst, 0, 0, 0, 4), math.Float32bits(float32(v.f)))
	case pipeline.Double:
		return be.AppendUint64(append(dst, 0, 0, 0, 8), math.Float64bits(v.f))
	case pipeline.Date:
		return be.AppendUint32(append(dst, 0, 0, 0, 4), uint32(int32(v.i-postgresEpochDays)))
	case pipeline.Timestamp, pipeline.Timestamptz:
		return be.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.i-postgresEpochMicros))
	case pipeline.Numeric:
		return appendBinaryNumeric(dst, v.b)
	case pipeline.JSONB:
		const version = 1
		dst = be.AppendUint32(dst, uint32(len(v.b)+1))
		return append(append(dst, version), v.b...)
	default: // text, uuid, bytea
		dst = be.AppendUint32(dst, uint32(len(v.b)))
		return append(dst, v.b...)
	}
}

// appendBinaryNumeric writes a canonical decimal as PostgreSQL's numeric: digits to the base 10,000,
// the weight of the first, sign and scale.
func appendBinaryNumeric(dst []byte, text []byte) []byte {
	const positive, negative = 0x0000, 0x4000
	sign := uint16(positive)
	if text[0] == '-' {
		sign, text = negative, text[1:]
	}
	whole, fraction := text, []byte(nil)
	for i, b := range text {
		if b == '.' {
			whole, fraction = text[:i], text[i+1:]
			break
		}
	}
	at := len(dst)
	dst = append(dst, make([]byte, 12)...)
	weight := (len(whole)+3)/4 - 1
	started, digits, trailing := false, 0, 0
	put := func(digit uint16) {
		if digit == 0 && !started {
			weight--
			return
		}
		started = true
		digits++
		trailing++
		if digit != 0 {
			trailing = 0
		}
		dst = binary.BigEndian.AppendUint16(dst, digit)
	}
	for i, digit := 0, uint16(0); i < len(whole); i++ {
		digit = digit*10 + uint16(whole[i]-'0')
		if (len(whole)-1-i)%4 == 0 {
			put(digit)
			digit = 0
		}
	}
	for i := 0; i < len(fraction); i += 4 {
		digit := uint16(0)
		for j := i; j < i+4; j++ {
			digit *= 10
			if j < len(fraction) {
				digit += uint16(fraction[j] - '0')
			}
		}
		put(digit)
	}
	digits -= trailing
	dst = dst[:at+12+2*digits]
	if digits == 0 {
		weight = 0
	}
	be := binary.BigEndian
	be.PutUint32(dst[at:], uint32(8+2*digits))
	be.PutUint16(dst[at+4:], uint16(digits))
	be.PutUint16(dst[at+6:], uint16(int16(weight)))
	be.PutUint16(dst[at+8:], sign)
	be.PutUint16(dst[at+10:], uint16(len(fraction)))
	return dst
}

// errSource is what the server is told when the source breaks: the source's own words could hold a
// row, and would stand in the server's log.
var errSource = errors.New("the source ended with an error")

// copyStream is the COPY stream of a source, made as it is read. The source's error is kept in err.
type copyStream struct {
	source rowSource
	fixed  []byte // the encoded values of the columns that the load itself fills
	count  uint16 // of columns per row
	number bool   // put the row's number in front

	// reading is held while the source is asked: pgconn reads in a goroutine of its own, which it does
	// not wait for when the server ends the COPY first.
	reading sync.Mutex
	ended   bool

	buffer []byte
	unread []byte
	sent   int64
	done   bool
	err    error
}

// chunk is how many bytes are encoded at a time; what pgconn sends per message.
const chunk = 64 << 10

func newCopyStream(source rowSource, fixed []fixedColumn, numbered bool) *copyStream {
	s := &copyStream{source: source, number: numbered, count: uint16(len(source.shape()) + len(fixed))}
	if numbered {
		s.count++
	}
	for _, f := range fixed {
		s.fixed = appendBinary(s.fixed, f.declared.Kind, &f.value)
	}
	s.buffer = make([]byte, 0, chunk+chunk/4)
	s.unread = append(s.buffer, copyHeader...)
	return s
}

// Read implements io.Reader.
func (s *copyStream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for len(s.unread) == 0 {
		if s.err != nil || s.ended {
			return 0, errSource
		}
		if s.done {
			return 0, io.EOF
		}
		s.fill()
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// end waits for a read that is under way, after which the source is asked no more.
func (s *copyStream) end() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.ended = true
	s.unread = nil
}

func (s *copyStream) fill() {
	buffer, columns := s.buffer[:0], s.source.shape()
	for len(buffer) < chunk {
		values, err := s.source.row()
		if err != nil {
			s.err = err
			s.unread = nil
			return
		}
		if values == nil {
			buffer = append(buffer, copyTrailer...)
			s.done = true
			break
		}
		buffer = binary.BigEndian.AppendUint16(buffer, s.count)
		if s.number {
			buffer = appendBinary(buffer, pipeline.Bigint, &value{i: s.source.number()})
		}
		for i := range values {
			buffer = appendBinary(buffer, columns[i].declared.Kind, &values[i])
		}
		buffer = append(buffer, s.fixed...)
		s.sent++
	}
	s.buffer, s.unread = buffer, buffer
}
