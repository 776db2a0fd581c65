package interval_test

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func readAll(t testing.TB, file *zip.File) []byte {
	t.Helper()
	r, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tzifHeader is the header of RFC 8536, section 3.1.
type tzifHeader struct {
	Magic                                              [4]byte
	Version                                            byte
	Reserved                                           [15]byte
	UTCount, StdCount, Leaps, Changes, Types, NameSize uint32
}

// size is the length of the block after the header, with times of so many bytes.
func (h tzifHeader) size(timeSize uint32) int {
	return int(h.Changes*timeSize + h.Changes + h.Types*6 + h.NameSize + h.Leaps*(timeSize+4) + h.StdCount + h.UTCount)
}

// parseTZif reads the changes of the offset out of the 64-bit part of a TZif file.
func parseTZif(data []byte) ([]zoneChange, error) {
	var h tzifHeader
	headerSize := binary.Size(h)
	for range 2 { // the first block has 32-bit times and is passed over
		if _, err := binary.Decode(data, binary.BigEndian, &h); err != nil || string(h.Magic[:]) != "TZif" || h.Version < '2' {
			return nil, errors.New("no TZif file of version 2 or later")
		}
		data = data[headerSize:]
		if block := h.size(4); len(data) > block && string(data[block:block+4]) == "TZif" {
			data = data[block:]
			continue
		}
		break
	}
	if len(data) < h.size(8) {
		return nil, errors.New("the TZif file is cut off")
	}
	kinds, types := data[h.Changes*8:], data[h.Changes*9:]
	offset := func(kind byte) int { return int(int32(binary.BigEndian.Uint32(types[int(kind)*6:]))) }
	var changes []zoneChange
	before := offset(0)
	for i := range int(h.Changes) {
		if after := offset(kinds[i]); after != before {
			at := int64(binary.BigEndian.Uint64(data[i*8:]))
			changes = append(changes, zoneChange{at, before, after})
			before = after
		}
	}
	return changes, nil
}
