package kernel

import (
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ringside-go/ringside/collective/element"
)

// newEdge returns memory that ends where the next byte cannot be read. A kernel that
// reads too far faults here, as it might at the end of a mapped buffer.
func newEdge(t *testing.T) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 9*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(mem[8*page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice(&mem[0], 8*page)
}

func TestEdge(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	each(t, func(t *testing.T, s Set, _ *rand.Rand) {
		var mem [4][]byte
		for i := range mem {
			mem[i] = newEdge(t)
		}
		at := ""
		defer func() {
			if err := recover(); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		}()
		combos(func(op element.Reduction, c conversion) {
			last := func(i, n int, dt element.DType) []byte { return mem[i][len(mem[i])-n*dt.Size():] }
			for n := range 300 {
				at = op.String() + " " + c.String()
				c.run(s, op, 1, [][]byte{last(2, n, c.to), last(3, n, c.to)}, [][]byte{last(0, n, c.from), last(1, n, c.from)})
			}
		})
		for _, n := range []int{1, 100, repMin, repMin + 33} {
			at = "copy"
			s.Copy(mem[1][len(mem[1])-n:], mem[0][len(mem[0])-n:])
		}
	})
}
