package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// grid launches a kernel in blocks of 256 threads.
func grid(t *testing.T, g *cudatest.GPU, module, kernel string, x, y, z int, a *driver.Args) fakecuda.Launch {
	t.Helper()
	return g.Run(t, g.Function(t, text(t, module), kernel),
		driver.Launch{Grid: [3]uint32{uint32(x), uint32(y), uint32(z)}, Block: [3]uint32{256, 1, 1}}, a)
}

// coalesced checks that a launch touched the fewest sectors, and had no bank conflicts.
func coalesced(t *testing.T, did fakecuda.Launch) {
	t.Helper()
	if did.Sectors != did.FewestSectors || did.Conflicts != 0 {
		t.Errorf("%s: %d sectors, at best %d, %d bank conflicts", did.Kernel, did.Sectors, did.FewestSectors, did.Conflicts)
	}
}

func indices(n, end int, seed uint64) []uint32 {
	r := rand.New(rand.NewPCG(seed, 2))
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(r.IntN(end))
	}
	return out
}

// TestAxis gathers and scatters along the middle of three dimensions. Sums have the bits
// of a loop over the places in their order.
func TestAxis(t *testing.T) {
	for _, c := range []struct{ outer, rows, places, inner int }{{1, 5, 40, 64}, {3, 7, 20, 33}, {2, 4, 300, 1}} {
		x, s := random(c.outer*c.rows*c.inner, 1), random(c.outer*c.places*c.inner, 2)
		index := indices(len(s), c.rows, 3)
		gathered, sums := make([]float32, len(s)), slices.Clone(x)
		for k, to := range index {
			at := (k/(c.places*c.inner)*c.rows+int(to))*c.inner + k%c.inner
			gathered[k] = x[at]
			sums[at] += s[k]
		}
		for _, seed := range []uint64{0, 1, 2} {
			g := cudatest.New(t, seed, os.Getenv)
			at, failed := g.Words(t, index), g.Words(t, []uint32{math.MaxUint32})
			y := g.Floats(t, make([]float32, len(s)))
			args := func(from, to driver.DevicePtr) *driver.Args {
				return new(driver.Args).Pointer(from).Pointer(at).Pointer(to).Uint32(uint32(c.rows)).Uint32(uint32(c.places)).
					Uint32(uint32(c.inner)).Pointer(failed)
			}
			grid(t, g, "index", "gather_axis_b32", (c.places*c.inner+255)/256, c.outer, 1, args(g.Floats(t, x), y))
			if got := g.ReadFloats(t, y, len(s)); !slices.Equal(got, gathered) {
				t.Errorf("%+v, seed %d: gathered other values", c, seed)
			}
			y = g.Floats(t, x)
			grid(t, g, "index", "scatter_add_f32", (c.inner+255)/256, c.outer, 1, args(g.Floats(t, s), y))
			if got := g.ReadFloats(t, y, len(x)); !slices.Equal(got, sums) {
				t.Errorf("%+v, seed %d: other sums", c, seed)
			}
			if f := g.ReadWords(t, failed, 1)[0]; f != math.MaxUint32 {
				t.Errorf("%+v: failed at %d", c, f)
			}
		}
	}
}

// TestIndexAdd adds rows whose places repeat. Sums have the bits of a loop in the order
// of the index.
func TestIndexAdd(t *testing.T) {
	for _, c := range []struct{ outer, rows, places, inner int }{{1, 3, 300, 64}, {2, 9, 5, 256}, {1, 1, 70, 8}} {
		x, s := random(c.outer*c.rows*c.inner, 4), random(c.outer*c.places*c.inner, 5)
		index := indices(c.places, c.rows, 6)
		want := slices.Clone(x)
		for k, v := range s {
			want[(k/(c.places*c.inner)*c.rows+int(index[k/c.inner%c.places]))*c.inner+k%c.inner] += v
		}
		for _, seed := range []uint64{0, 1, 2} {
			g := cudatest.New(t, seed, os.Getenv)
			at, failed := g.Words(t, index), g.Words(t, []uint32{math.MaxUint32})
			next, first := g.Words(t, make([]uint32, c.places)), g.Words(t, make([]uint32, c.places))
			did := grid(t, g, "index", "index_chain", (c.places+255)/256, 1, 1,
				new(driver.Args).Pointer(at).Pointer(next).Pointer(first).Uint32(uint32(c.rows)).Uint32(uint32(c.places)).Pointer(failed))
			coalesced(t, did)
			y := g.Floats(t, x)
			did = grid(t, g, "index", "index_add_f32", c.places, c.outer, 1, new(driver.Args).Pointer(g.Floats(t, s)).Pointer(at).
				Pointer(next).Pointer(first).Pointer(y).Uint32(uint32(c.rows)).Uint32(uint32(c.places)).Uint32(uint32(c.inner)))
			coalesced(t, did)
			if got := g.ReadFloats(t, y, len(x)); !slices.Equal(got, want) {
				t.Errorf("%+v, seed %d: other sums", c, seed)
			}
		}
	}
}

// TestIndexErrors gives places that are not there: each kernel names the first and leaves
// the rest as it is.
func TestIndexErrors(t *testing.T) {
	const rows, places, inner = 4, 6, 8
	index := make([]uint32, places*inner)
	index[13], index[21] = rows, math.MaxUint32
	for _, kernel := range []string{"gather_axis_b32", "scatter_add_f32"} {
		g := cudatest.New(t, 1, os.Getenv)
		failed := g.Words(t, []uint32{math.MaxUint32})
		grid(t, g, "index", kernel, 1, 1, 1, new(driver.Args).Pointer(g.Floats(t, make([]float32, places*inner))).Pointer(g.Words(t, index)).
			Pointer(g.Floats(t, make([]float32, places*inner))).Uint32(rows).Uint32(places).Uint32(inner).Pointer(failed))
		if f := g.ReadWords(t, failed, 1)[0]; f != 13 {
			t.Errorf("%s failed at %d, want 13", kernel, f)
		}
	}
	g := cudatest.New(t, 1, os.Getenv)
	failed, out := g.Words(t, []uint32{math.MaxUint32}), g.Words(t, make([]uint32, 2*places))
	grid(t, g, "index", "index_chain", 1, 1, 1, new(driver.Args).Pointer(g.Words(t, []uint32{1, 1, rows, 1, 2, rows})).
		Pointer(out).Pointer(out+4*places).Uint32(rows).Uint32(places).Pointer(failed))
	if got, want := g.ReadWords(t, out, 2*places), []uint32{1, 3, 5, 6, 6, 6, 1, 0, 1, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("chains %d, want %d", got, want)
	}
	if f := g.ReadWords(t, failed, 1)[0]; f != 2 {
		t.Errorf("index_chain failed at %d, want 2", f)
	}
}

// TestFailureRecord has checks write into memory of the host: the first that failed
// stays, and one that did not writes nothing.
func TestFailureRecord(t *testing.T) {
	g := cudatest.New(t, 1, os.Getenv)
	record, err := g.HostAlloc(16, driver.HostDeviceMap)
	if err != nil {
		t.Fatal(err)
	}
	at, err := g.HostDevicePointer(record)
	if err != nil {
		t.Fatal(err)
	}
	copy(record, bytes.Repeat([]byte{0xff}, 16))
	index := g.Words(t, []uint32{5, 0, 9, 0, math.MaxUint32, math.MaxUint32}) // 5, 9, -1
	address := g.Words(t, []uint32{uint32(at), uint32(at >> 32)})
	for _, c := range []struct {
		failed, step uint32
		want         [3]int64 // step, place and index
	}{
		{math.MaxUint32, 3, [3]int64{math.MaxUint32, math.MaxUint32, -1}},
		{2, 7, [3]int64{7, 2, -1}},
		{1, 8, [3]int64{7, 2, -1}},
		{math.MaxUint32, 9, [3]int64{7, 2, -1}},
	} {
		grid(t, g, "index", "index_failed", 1, 1, 1, new(driver.Args).Pointer(index).Pointer(g.Words(t, []uint32{c.failed})).Pointer(address).Uint32(c.step))
		le := binary.LittleEndian
		got := [3]int64{int64(le.Uint32(record)), int64(le.Uint32(record[4:])), int64(le.Uint64(record[8:]))}
		if got != c.want {
			t.Errorf("after step %d, which failed at %d: %d, want %d", c.step, c.failed, got, c.want)
		}
	}
	if err := g.HostFree(record); err != nil {
		t.Fatal(err)
	}
}
