package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// matrices are operands of a transpose: dims of matrices whose rows are longer by gap
// elements than they need be, beyond the first elements of their memory.
type matrices struct {
	dims          [3]int
	rows, columns int
	first, gap    int
}

// at returns the strides of the dims, the stride of rows, and the elements of it all.
func (m *matrices) at(rows, columns int) (dims [3]int, row, all int) {
	row = columns + m.gap
	n := rows*row + m.gap
	for i := len(dims) - 1; i >= 0; i-- {
		dims[i] = n
		n *= m.dims[i]
	}
	return dims, row, m.first + n
}

// sectors returns how many sectors hold the matrices' elements of size bytes.
func (m *matrices) sectors(rows, columns, size int) uint64 {
	from, row, _ := m.at(rows, columns)
	held := map[int]bool{}
	for z := range m.dims[0] * m.dims[1] * m.dims[2] {
		a := m.first
		for i, rest := 2, z; i >= 0; i-- {
			a += rest % m.dims[i] * from[i]
			rest /= m.dims[i]
		}
		for r := range rows {
			begin, end := (a+r*row)*size, (a+r*row+columns)*size
			for s := begin / 32; s <= (end-1)/32; s++ {
				held[s] = true
			}
		}
	}
	return uint64(len(held))
}

// cut is how the kernels of transposes whose rows begin anywhere cut a matrix up.
type cut struct {
	h, w, pitch int
	flat        uint32
}

// transpose runs the kernel of elements of size bytes, with a cut that of rows that begin
// anywhere. It checks what the kernel writes, and that it writes nothing else.
func (m *matrices) transpose(t *testing.T, size int, c *cut) fakecuda.Launch {
	t.Helper()
	g := cudatest.New(t, 1, os.Getenv)
	from, row, n := m.at(m.rows, m.columns)
	to, toRow, toN := m.at(m.columns, m.rows)
	x, want := make([]byte, n*size), bytes.Repeat([]byte{0xa5}, toN*size)
	r := rand.New(rand.NewPCG(1, 3))
	for i := range x {
		x[i] = byte(r.Uint32())
	}
	y := g.Bytes(t, want)
	off := driver.DevicePtr(m.first * size)
	args := new(driver.Args).Pointer(g.Bytes(t, x) + off).Pointer(y + off).Uint32(uint32(m.rows)).Uint32(uint32(m.columns)).
		Uint32(uint32(m.dims[1])).Uint32(uint32(m.dims[2])).Uint64(uint64(row))
	for _, s := range from {
		args.Uint64(uint64(s))
	}
	args.Uint64(uint64(toRow))
	for _, s := range to {
		args.Uint64(uint64(s))
	}
	count := m.dims[0] * m.dims[1] * m.dims[2]
	name, h, w := "transpose_b", 32, 32
	if c != nil {
		name, h, w = "transpose_any_b", c.h, c.w
		args.Uint32(uint32(c.h)).Uint32(uint32(c.w)).Uint32(uint32(c.pitch)).Uint32(c.flat)
	}
	did := grid(t, g, "move", fmt.Sprint(name, 8*size), (m.columns+w-1)/w*((m.rows+h-1)/h)*count, 1, 1, args)
	for z := range count {
		a, b := m.first, m.first
		for i, rest := 2, z; i >= 0; i-- {
			a, b = a+rest%m.dims[i]*from[i], b+rest%m.dims[i]*to[i]
			rest /= m.dims[i]
		}
		for i := range m.rows {
			for j := range m.columns {
				copy(want[(b+j*toRow+i)*size:][:size], x[(a+i*row+j)*size:])
			}
		}
	}
	got := make([]byte, len(want))
	if err := g.CopyDtoH(got, y); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%+v of %d bytes: byte %d is %d, want %d", *m, size, i, got[i], want[i])
		}
	}
	if did.Conflicts != 0 {
		t.Errorf("%+v of %d bytes: %d conflicts of banks", *m, size, did.Conflicts)
	}
	if least := m.sectors(m.rows, m.columns, size) + m.sectors(m.columns, m.rows, size); did.Sectors < least {
		t.Errorf("%+v of %d bytes: %d sectors, and its elements lie in %d", *m, size, did.Sectors, least)
	}
	return did
}

// TestTranspose transposes matrices of elements of every size: alone and in dims of
// others, with gaps between rows, from the beginning of memory and from further on. Where
// rows are whole sectors, every access is.
func TestTranspose(t *testing.T) {
	one := [3]int{1, 1, 1}
	for _, size := range []int{1, 2, 4, 8} {
		for _, m := range []matrices{
			{one, 1, 1, 0, 0}, {one, 32, 32, 0, 0}, {one, 96, 64, 0, 0}, {one, 33, 70, 0, 0}, {one, 5, 129, 3, 0}, {one, 130, 31, 1, 9},
			{[3]int{2, 1, 3}, 32, 64, 0, 0}, {[3]int{2, 3, 2}, 9, 37, 5, 2}, {[3]int{1, 4, 1}, 40, 8, 0, 1},
		} {
			did := m.transpose(t, size, nil)
			if m.rows%32 == 0 && m.columns%32 == 0 && m.first+m.gap == 0 {
				coalesced(t, did)
			}
		}
	}
}

// pitch returns the least step from one row of a tile to the next, in elements of size
// bytes, with which columns have no conflicts of banks.
func pitch(columns, size int) int {
	for size < 8 && columns*size%8 != 4 || columns%2 == 0 && size == 8 {
		columns++
	}
	return columns
}

// TestTransposeAny does the same with the kernels for rows that begin anywhere: in one
// block and in several, whole rows at once and 32 columns at a time.
func TestTransposeAny(t *testing.T) {
	one := [3]int{1, 1, 1}
	for _, size := range []int{1, 2, 4, 8} {
		for _, m := range []matrices{
			{one, 1, 1, 0, 0}, {one, 1, 40, 0, 0}, {one, 40, 1, 0, 0}, {one, 32, 32, 0, 0}, {one, 33, 70, 0, 0}, {one, 9, 129, 3, 0}, {one, 130, 31, 1, 9},
			{[3]int{2, 1, 3}, 32, 64, 0, 0}, {[3]int{2, 3, 2}, 9, 37, 5, 2}, {[3]int{1, 4, 1}, 40, 8, 0, 1}, {[3]int{2, 1, 2}, 17, 23, 7, 0},
		} {
			for _, h := range []int{min(m.rows, 64), (m.rows + 1) / 2} {
				for _, w := range []int{32, 96} {
					m.transpose(t, size, &cut{h: h, w: w, pitch: pitch(64, size)})
				}
				if m.gap == 0 && m.columns > 1 {
					m.transpose(t, size, &cut{h: h, w: m.columns, pitch: pitch(m.columns, size), flat: 1})
				}
			}
		}
	}
}
