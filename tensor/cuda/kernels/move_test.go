package kernels

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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

// transpose runs the kernel of elements of size bytes, and checks what it writes, and
// that it writes nothing else.
func (m *matrices) transpose(t *testing.T, size int) fakecuda.Launch {
	t.Helper()
	g := cudatest.New(t, 1, must)
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
	did := grid(t, g, "move", fmt.Sprint("transpose_b", 8*size), (m.columns+31)/32*((m.rows+31)/32)*count, 1, 1, args)
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
			did := m.transpose(t, size)
			if m.rows%32 == 0 && m.columns%32 == 0 && m.first+m.gap == 0 {
				coalesced(t, did)
			}
		}
	}
}

// transposed is a size of matrices of words, and the sectors that the transpose touches
// over the fewest, in thousandths: of the same accesses, and of all its bytes.
type transposed struct {
	rows, columns   int
	accesses, bytes int
}

// TestTransposeSectors has the table of docs/gpu.md. Where both sizes are multiples of 8
// every access is whole sectors. Otherwise rows begin within a sector, so that 32
// elements touch 5 of them and not 4. Warps that read on across the ends of rows would
// touch 4, and have conflicts of banks there. A row of one element takes a sector of its
// own.
func TestTransposeSectors(t *testing.T) {
	for _, c := range []transposed{
		{1, 1, 1000, 1000}, {32, 32, 1000, 1000}, {96, 64, 1000, 1000}, {40, 24, 1000, 1000},
		{31, 31, 1193, 1223}, {33, 33, 1169, 1408}, {33, 70, 1193, 1335}, {37, 41, 1203, 1352}, {47, 53, 1233, 1278}, {61, 67, 1195, 1269}, {65, 65, 1191, 1317}, {64, 65, 1102, 1161}, {127, 131, 1215, 1243},
		{1, 127, 1000, 4468}, {127, 1, 1000, 4468},
	} {
		m := matrices{dims: [3]int{1, 1, 1}, rows: c.rows, columns: c.columns}
		did := m.transpose(t, 4)
		got := transposed{c.rows, c.columns, 1000 * int(did.Sectors) / int(did.FewestSectors), 1000 * int(did.Sectors) / (2 * ((4*c.rows*c.columns + 31) / 32))}
		if got != c {
			t.Errorf("%+v, expected %+v", got, c)
		}
	}
}
