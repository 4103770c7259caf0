package kernel

import "unsafe"

// view returns b as elements of T; len(b) must be a multiple of their size. Loads and
// stores of these types need no alignment on amd64 and arm64, and T has no pointers, so
// the checks of -race agree.
func view[T number](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// headOf returns the bytes from the start of b to the next multiple of 64 in memory, at
// most len(b).
func headOf(b []byte) int {
	return min(len(b), int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&63))
}
