package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Layout is the version of the shared layout of rings and bells.
//
//	1  first
const Layout = 1

const (
	// HeaderSize is the number of bytes in front of the data.
	HeaderSize = 512

	// MinCapacity holds two records of 24 bytes; less is not worth a header.
	MinCapacity = 64

	// MaxCapacity keeps every length well inside the 32 bits of a record header.
	MaxCapacity = 1 << 30

	recordHeader = 8

	// lengthMask is the half of a record's header that holds the length plus one,
	// and padMark the value of it that means padding.
	lengthMask = 1<<32 - 1
	padMark    = 1<<32 - 1

	ringMagic = 0x676e6972_64736e72 // "rnsdring" in memory, little endian

	offMagic    = 0
	offVersion  = 8
	offCapacity = 16
	offHead     = 128
	offWant     = 256
)

// The lines must not overlap and the data must start after the last of them.
var (
	_ = [1]struct{}{}[offWant-offHead-128]
	_ = [1]struct{}{}[HeaderSize-offWant-256]
)

// Size returns the number of bytes of a ring with that capacity.
func Size(capacity int) int { return HeaderSize + capacity }

// MaxRecord returns the length in bytes of the longest body that a ring of that
// capacity takes. A record of up to half the capacity fits once the ring is empty,
// wherever the tail is: it may need nearly as much padding before it.
func MaxRecord(capacity int) int { return capacity/2 - recordHeader }

// recordSize is what a body of n bytes takes in the ring.
func recordSize(n uint64) uint64 { return recordHeader + (n+7)&^7 }

// Init makes mem an empty ring. Its length must be Size of a power of two, its address
// 8-byte aligned (128 is better). The memory must not be used elsewhere before Init has
// returned. Of the data it writes only the place of the first record's header.
func Init(mem []byte) error {
	capacity, err := checkSize(mem)
	if err != nil {
		return err
	}
	clear(mem[:HeaderSize+recordHeader])
	atomic.StoreUint32(word32(mem, offVersion), Layout)
	atomic.StoreUint64(word64(mem, offCapacity), capacity)
	atomic.StoreUint64(word64(mem, offMagic), ringMagic)
	return nil
}

// checkSize returns the capacity that memory of this length has.
func checkSize(mem []byte) (uint64, error) {
	capacity := len(mem) - HeaderSize
	if capacity < MinCapacity || capacity > MaxCapacity || bits.OnesCount(uint(capacity)) != 1 {
		return 0, fmt.Errorf("%w: %d bytes, expected %d and a power of two from %d to %d",
			ErrLayout, len(mem), HeaderSize, MinCapacity, MaxCapacity)
	}
	if !aligned(mem, 8) {
		return 0, fmt.Errorf("%w: memory is not 8-byte aligned", ErrLayout)
	}
	return uint64(capacity), nil
}

// header packs a record's header.
func header(n uint64, tag uint32) uint64 { return n + 1 | uint64(tag)<<32 }

// attach checks the header of an initialised ring and returns its capacity. Only
// what follows from len(mem) is trusted afterwards.
func attach(mem []byte) (capacity uint64, err error) {
	if capacity, err = checkSize(mem); err != nil {
		return 0, err
	}
	if m := atomic.LoadUint64(word64(mem, offMagic)); m != ringMagic {
		return 0, fmt.Errorf("%w: magic %#x, expected %#x", ErrLayout, m, uint64(ringMagic))
	}
	if v := atomic.LoadUint32(word32(mem, offVersion)); v != Layout {
		return 0, fmt.Errorf("%w: version %d, expected %d", ErrLayout, v, Layout)
	}
	if c := atomic.LoadUint64(word64(mem, offCapacity)); c != capacity {
		return 0, fmt.Errorf("%w: header says capacity %d, memory has %d", ErrLayout, c, capacity)
	}
	return capacity, nil
}
