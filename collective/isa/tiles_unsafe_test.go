//go:build amd64

package isa

import (
	"syscall"
	"testing"
	"unsafe"
)

// tilesPermitted reports whether this process may use tiles, as the kernel says. It may
// not if the kernel knows no such permission.
func tilesPermitted(t *testing.T) bool {
	t.Helper()
	const getPermission = 0x1022 // ARCH_GET_XCOMP_PERM, since Linux 5.16
	var features uint64
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, getPermission, uintptr(unsafe.Pointer(&features)), 0)
	if errno != 0 {
		if Best() == AMX {
			t.Fatalf("the kernel keeps tiles, and does not say for whom: %v", errno)
		}
		return false
	}
	return features&(1<<tileData) != 0
}

// TestPermission: the best level is found without asking for the permission to use tiles,
// which a process has after AskTiles alone.
func TestPermission(t *testing.T) {
	best := Best()
	Levels()
	BrainFloat()
	if tilesPermitted(t) {
		t.Error("the process may use tiles, for which it has not asked")
	}
	if ok := AskTiles(); ok != tilesPermitted(t) || !ok && best == AMX {
		t.Errorf("asked for tiles: %v, permitted: %v, the best level is %v", ok, tilesPermitted(t), best)
	}
}
