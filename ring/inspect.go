package ring

import (
	"encoding/binary"
	"fmt"
)

// Info is what the header of a ring says.
type Info struct {
	Version  uint32 `json:"version"`
	Capacity uint64 `json:"capacity"` // bytes of data
	Head     uint64 `json:"head"`     // bytes released, as published
	Want     uint64 `json:"want"`     // the head the producer waits for
}

// Inspect reads the header of a ring from a copy of its first HeaderSize bytes, for tools
// that show the rings of other processes. It returns ErrLayout if it is not one.
func Inspect(header []byte) (Info, error) {
	if len(header) < HeaderSize {
		return Info{}, fmt.Errorf("%w: %d bytes, expected %d", ErrLayout, len(header), HeaderSize)
	}
	if m := binary.NativeEndian.Uint64(header[offMagic:]); m != ringMagic {
		return Info{}, fmt.Errorf("%w: magic %#x, expected %#x", ErrLayout, m, uint64(ringMagic))
	}
	return Info{
		Version:  binary.NativeEndian.Uint32(header[offVersion:]),
		Capacity: binary.NativeEndian.Uint64(header[offCapacity:]),
		Head:     binary.NativeEndian.Uint64(header[offHead:]),
		Want:     binary.NativeEndian.Uint64(header[offWant:]),
	}, nil
}

// BellInfo is what a bell says.
type BellInfo struct {
	Version uint32 `json:"version"`
	Asleep  bool   `json:"asleep"`  // its owner sleeps, or is about to
	Barrier bool   `json:"barrier"` // and makes a barrier before that
}

// InspectBell reads a bell from a copy of its BellSize bytes. ErrLayout when there is
// none.
func InspectBell(mem []byte) (BellInfo, error) {
	if len(mem) < BellSize {
		return BellInfo{}, fmt.Errorf("%w: %d bytes, expected %d", ErrLayout, len(mem), BellSize)
	}
	if m := binary.NativeEndian.Uint64(mem[offMagic:]); m != bellMagic {
		return BellInfo{}, fmt.Errorf("%w: bell magic %#x, expected %#x", ErrLayout, m, uint64(bellMagic))
	}
	return BellInfo{
		Version: binary.NativeEndian.Uint32(mem[offVersion:]),
		Asleep:  binary.NativeEndian.Uint32(mem[offState:]) == bellAsleep,
		Barrier: binary.NativeEndian.Uint32(mem[offBarrier:]) != 0,
	}, nil
}
