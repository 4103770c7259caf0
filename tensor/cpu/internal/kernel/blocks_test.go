package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// block is a set of rows of random numbers with guards around and between them.
type block struct {
	fenced
	rows, n int
	Rows[float32]
}

func newBlock(r *rand.Rand, rows, n int) block {
	stride := n + r.IntN(19)
	f := newFenced((rows-1)*stride+n, r.IntN(17), func() float32 { return 4*r.Float32() - 2 })
	b := block{fenced: f, rows: rows, n: n, Rows: Rows[float32]{f.v, stride}}
	for i := range f.v {
		if i%stride >= n {
			f.v[i] = newFenced(0, 0, nil).all[0]
		}
	}
	return b
}

// copied returns a block of the same numbers in other memory.
func (b block) copied(r *rand.Rand) block {
	c := newBlock(r, b.rows, b.n)
	for i := range b.rows {
		copy(c.row(i, b.n), b.row(i, b.n))
	}
	return c
}

func (b block) intact(t *testing.T, what string) {
	t.Helper()
	b.fenced.intact(t, what)
	for i, v := range b.v {
		if i%b.Stride >= b.n && v == v {
			t.Fatalf("%s: wrote %v between rows of %d, %d elements after one begins", what, v, b.n, i%b.Stride)
		}
	}
}

func wide(x []float32) []float64 { return widen(len(x), func(i int) float64 { return float64(x[i]) }) }

// blockCase runs a kernel of blocks over the operands. The kernel writes to the first
// operand and may add to sums.
type blockCase struct {
	name string
	run  func(k *Table[float32], ops []Rows[float32], sums [2][]float32, rows, n int)
}

// blockCases are the kernels of blocks, for rows of an even n.
func blockCases(w, b []float32) []blockCase {
	return []blockCase{
		{"RMSNormRows", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.RMSNormRows(o[0], o[1], w[:n], rows, n, 1e-5)
		}},
		{"RMSNormRows without weights", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.RMSNormRows(o[0], o[1], nil, rows, n, 1e-5)
		}},
		{"LayerNormRows", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.LayerNormRows(o[0], o[1], w[:n], b[:n], rows, n, 1e-5)
		}},
		{"LayerNormRows without bias", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.LayerNormRows(o[0], o[1], w[:n], nil, rows, n, 1e-5)
		}},
		// The gradient of a short row is a difference of numbers that are nearly equal,
		// unless the last argument keeps them apart.
		{"RMSNormGradRows", func(k *Table[float32], o []Rows[float32], s [2][]float32, rows, n int) {
			k.RMSNormGradRows(o[0], o[1], o[2], s[0], w[:n], rows, n, 0.1)
		}},
		{"RMSNormGradRows of x", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.RMSNormGradRows(o[0], o[1], o[2], nil, w[:n], rows, n, 0.1)
		}},
		{"LayerNormGradRows", func(k *Table[float32], o []Rows[float32], s [2][]float32, rows, n int) {
			k.LayerNormGradRows(o[0], o[1], o[2], s[0], s[1], w[:n], rows, n, 1e-2)
		}},
		{"LayerNormGradRows of x", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.LayerNormGradRows(o[0], o[1], o[2], nil, nil, w[:n], rows, n, 1e-2)
		}},
		{"SoftmaxRows", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.SoftmaxRows(o[0], o[1], rows, n, n, 0, 0.7)
		}},
		{"SoftmaxRows causal", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.SoftmaxRows(o[0], o[1], rows, n, max(n-rows+1, 1), 1, 0.7)
		}},
		{"LogSoftmaxRows", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.LogSoftmaxRows(o[0], o[1], make([]float32, LogSoftmaxRoom), rows, n)
		}},
		{"SoftmaxGradRows causal", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			k.SoftmaxGradRows(o[0], o[1], o[2], rows, n, max(n-rows+1, 1), 1, 0.7)
		}},
		{"RoPERows", func(k *Table[float32], o []Rows[float32], _ [2][]float32, rows, n int) {
			if n%2 == 0 {
				k.RoPERows(o[0], o[1], o[2], Rows[float32]{o[2].Data[n/2:], o[2].Stride}, rows, n/2, -1)
			}
		}},
	}
}

// TestBlocks wants the kernels of blocks to agree with those of one row in Go, to write
// nothing between rows, and to give a row the same bits in every block.
func TestBlocks(t *testing.T) {
	gold, err := Select(Go)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		sizes := []int{127, 128, 129, longRow, longRow + 2}
		for n := 1; n < 70; n++ {
			sizes = append(sizes, n)
		}
		for _, n := range sizes {
			w, b := newFenced(n, 3, r.Float32), newFenced(n, 5, r.Float32)
			for _, c := range blockCases(w.v, b.v) {
				rows := 1 + r.IntN(5)
				if n == 64 {
					rows = 2*blockElems/n + 3 // several calls
				}
				what := fmt.Sprintf("%s, %d of %d", c.name, rows, n)
				ops, other := make([]block, 3), make([]block, 3)
				var o, p []Rows[float32]
				for i := range ops {
					ops[i] = newBlock(r, rows, n)
					other[i] = ops[i].copied(r)
					o, p = append(o, ops[i].Rows), append(p, other[i].Rows)
				}
				sums := [2]fenced{newFenced(n, 1, r.Float32), newFenced(n, 2, r.Float32)}
				want := [2][]float32{clone(sums[0].v), clone(sums[1].v)}
				c.run(k, o, [2][]float32{sums[0].v, sums[1].v}, rows, n)
				c.run(gold, p, want, rows, n)
				for i := range rows {
					near(t, what, ops[0].row(i, n), wide(other[0].row(i, n)), 2e-5)
				}
				for i := range want {
					near(t, what+", weights", sums[i].v, wide(want[i]), 2e-5*float64(rows))
					sums[i].intact(t, what)
				}
				for i := range ops {
					ops[i].intact(t, what)
				}
				if rows == 1 || c.name == "SoftmaxRows causal" || c.name == "SoftmaxGradRows causal" {
					continue
				}
				again := clone(ops[0].row(rows-1, n))
				for i := range p {
					p[i] = Rows[float32]{ops[i].Data[(rows-1)*ops[i].Stride:], ops[i].Stride}
				}
				// The output is no input, so the last row can be computed again alone.
				c.run(k, p, want, 1, n)
				for i, v := range p[0].row(0, n) {
					if !identical(v, again[i]) {
						t.Fatalf("%s: element %d of the last row is %v alone and %v with others", what, i, v, again[i])
					}
				}
			}
			w.intact(t, "weights")
			b.intact(t, "biases")
		}
	})
}

// TestEdgeBlocks puts blocks at the end of memory.
func TestEdgeBlocks(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		var mem [7]edge
		for i := range mem {
			mem[i] = newEdge(t)
		}
		random := func(n int) []float32 { return newFenced(n, 0, r.Float32).v }
		for n := 1; n < 40; n++ {
			rows := 1 + r.IntN(3)
			for _, c := range blockCases(mem[5].last(random(n)), mem[6].last(random(n))) {
				var o []Rows[float32]
				for i := range 3 {
					o = append(o, Rows[float32]{mem[i].last(random(rows * n)), n})
				}
				sums := [2][]float32{mem[3].last(random(n)), mem[4].last(random(n))}
				faultless(t, fmt.Sprintf("%s of %d", c.name, n), func() { c.run(k, o, sums, rows, n) })
			}
		}
	})
}

func BenchmarkBlocks(b *testing.B) {
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{16, 64, 128, 384} {
			rows := 1 << 15 / n
			r := rand.New(rand.NewPCG(1, 2))
			random := func(n int) []float32 { return newFenced(n, 0, r.Float32).v }
			var o []Rows[float32]
			for range 3 {
				o = append(o, Rows[float32]{random(rows * n), n})
			}
			sums := [2][]float32{random(n), random(n)}
			for _, c := range blockCases(random(n), random(n)) {
				b.Run(fmt.Sprintf("%v/%s/%d", l, c.name, n), func(b *testing.B) {
					for b.Loop() {
						c.run(k, o, sums, rows, n)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
				})
			}
		}
	}
}

// TestSoftmaxRowsSpecial wants one NaN, one +Inf, or a row of -Inf, to make all of its
// row NaN and no other row.
func TestSoftmaxRowsSpecial(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		inf := float32(math.Inf(1))
		for _, n := range []int{1, 5, 16, 33, 64} {
			for _, v := range []float32{float32(math.NaN()), inf, -inf} {
				x, y := make([]float32, 3*n), make([]float32, 3*n)
				for i := range x {
					x[i] = r.Float32()
				}
				x[n+r.IntN(n)] = v
				if v == -inf {
					for i := range n {
						x[n+i] = v
					}
				}
				for _, log := range []bool{false, true} {
					if log {
						k.LogSoftmaxRows(Rows[float32]{y, n}, Rows[float32]{x, n}, make([]float32, LogSoftmaxRoom), 3, n)
					} else {
						k.SoftmaxRows(Rows[float32]{y, n}, Rows[float32]{x, n}, 3, n, n, 0, 0.5)
					}
					for i, p := range y {
						if i/n == 1 != (p != p) {
							t.Fatalf("log %v, %v among %d: element %d of row %d is %v", log, v, n, i%n, i/n, p)
						}
					}
				}
			}
		}
	})
}
