package warehouse

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolMemory is how much of a spool stays in memory. What is larger goes to a temporary file, so that
// memory does not grow with the number of rows.
const spoolMemory = 8 << 20

// spool holds checked rows between the source and a transaction that must not wait for the source.
type spool struct {
	columns []column
	first   int64
	memory  []byte
	file    *os.File // what did not fit into memory; it has no name any more

	rows   int64
	input  *bufio.Reader
	index  int64
	line   []byte
	values []value
}

// fillSpool reads the source to its end.
func fillSpool(rows *rowReader) (_ *spool, err error) {
	s := &spool{columns: rows.columns, first: rows.first, values: make([]value, len(rows.columns))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var writer *bufio.Writer
	for {
		values, err := rows.row()
		if err != nil {
			return nil, err
		}
		if values == nil {
			break
		}
		s.rows++
		if writer == nil && len(s.memory)+len(rows.line) > spoolMemory {
			if s.file, err = temporaryFile(); err != nil {
				return nil, err
			}
			writer = bufio.NewWriterSize(s.file, 1<<18)
		}
		if writer == nil {
			s.memory = binary.AppendUvarint(s.memory, uint64(len(rows.line)))
			s.memory = append(s.memory, rows.line...)
			continue
		}
		var length [binary.MaxVarintLen64]byte
		n := binary.PutUvarint(length[:], uint64(len(rows.line)))
		if _, err := writer.Write(length[:n]); err != nil {
			return nil, spoolError(err)
		}
		if _, err := writer.Write(rows.line); err != nil {
			return nil, spoolError(err)
		}
	}
	return s, s.rewind(writer)
}

func (s *spool) rewind(writer *bufio.Writer) error {
	parts := []io.Reader{&memoryReader{s.memory}}
	if writer != nil {
		if err := writer.Flush(); err != nil {
			return spoolError(err)
		}
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return spoolError(err)
		}
		parts = append(parts, s.file)
	}
	s.input = bufio.NewReaderSize(io.MultiReader(parts...), 1<<18)
	return nil
}

// memoryReader gives the part of a spool that is in memory.
type memoryReader struct{ rest []byte }

func (m *memoryReader) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// temporaryFile is removed from its folder at once: it is gone with the process, however that ends.
func temporaryFile() (*os.File, error) {
	file, err := os.CreateTemp("", "tranche-spool-*")
	if err != nil {
		return nil, spoolError(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(spoolError(err), file.Close())
	}
	return file, nil
}

func spoolError(err error) error {
	return transient(TypeRowsLost, "hold rows in a temporary file: %w", err)
}

func (s *spool) row() ([]value, error) {
	if s.index == s.rows {
		return nil, nil
	}
	length, err := binary.ReadUvarint(s.input)
	if err != nil {
		return nil, spoolError(err)
	}
	if uint64(cap(s.line)) < length {
		s.line = make([]byte, length, 2*length)
	}
	s.line = s.line[:length]
	if _, err := io.ReadFull(s.input, s.line); err != nil {
		return nil, spoolError(err)
	}
	s.index++
	if err := readCanonical(s.line, s.columns, s.values); err != nil {
		return nil, spoolError(fmt.Errorf("row %d: %w", s.number(), err))
	}
	return s.values, nil
}

func (s *spool) number() int64   { return s.first + s.index - 1 }
func (s *spool) shape() []column { return s.columns }

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	s.memory = nil
}
