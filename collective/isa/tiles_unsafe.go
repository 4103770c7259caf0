//go:build amd64

package isa

import (
	"syscall"
	"unsafe"
)

// tileData is the bit of the state of tiles in XCR0.
const tileData = 18

// tilesKnown reports whether the kernel keeps tiles for processes that ask it to
// ([AskTiles]). One that doesn't know the question does not.
func tilesKnown() bool {
	const getSupported = 0x1021 // ARCH_GET_XCOMP_SUPP, since Linux 5.16
	var features uint64
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, getSupported, uintptr(unsafe.Pointer(&features)), 0)
	return errno == 0 && features&(1<<tileData) != 0
}
