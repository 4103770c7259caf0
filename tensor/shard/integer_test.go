package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
)

// integerProgram records operations whose results on small integers in floats are small
// integers: products, sums, movement.
func integerProgram(rng *rand.Rand) func(s *tensor.Session) []*tensor.Tensor {
	return func(s *tensor.Session) []*tensor.Tensor {
		size := func() int { return []int{1, 2, 3, 4, 6, 7, 10}[rng.IntN(7)] }
		b, m, k, n := size(), size(), size(), size()
		up := func(sh ...int) *tensor.Tensor {
			x := make([]float32, tensor.Shape(sh).Elems())
			for i := range x {
				x[i] = float32(rng.IntN(7) - 3)
			}
			return tensor.From(s, x, sh...)
		}
		idx := func(rows, count int) *tensor.Tensor {
			x := make([]int32, count)
			for i := range x {
				x[i] = int32(rng.IntN(rows))
			}
			return tensor.From(s, x, count)
		}
		pool := []*tensor.Tensor{up(m, k), up(k, n), up(m, n), up(b, m, k), up(n, m)}
		for range 12 {
			x, y := pool[rng.IntN(len(pool))], pool[rng.IntN(len(pool))]
			d := rng.IntN(max(x.Rank(), 1))
			var z *tensor.Tensor
			switch rng.IntN(14) {
			case 0, 1, 2:
				if x.Rank() < 2 {
					continue
				}
				if y.Rank() < 2 || x.Dim(x.Rank()-1) != y.Dim(y.Rank()-2) {
					y = x.T()
				}
				if _, err := tensor.Broadcast(x.Shape()[:x.Rank()-2], y.Shape()[:y.Rank()-2]); err != nil {
					continue
				}
				z = x.Matmul(y)
			case 3, 4:
				if _, err := tensor.Broadcast(x.Shape(), y.Shape()); err != nil {
					y = up(x.Shape()...)
				}
				z = []func(*tensor.Tensor) *tensor.Tensor{x.Add, x.Sub, x.Mul}[rng.IntN(3)](y)
			case 5:
				if x.Rank() > 0 {
					z = x.Sum(d)
				}
			case 6:
				z = x.SumKeep()
			case 7:
				if x.Rank() > 0 {
					z = x.MaxKeep(d)
				}
			case 8:
				if x.Rank() > 1 {
					z = x.T()
				}
			case 9:
				z = x.Flatten()
			case 10:
				if x.Rank() > 0 {
					z = tensor.Concat(d, x, x.Neg(), up(x.Shape()...))
				}
			case 11:
				if x.Rank() > 0 {
					z = x.IndexAdd(d, idx(x.Dim(d), x.Dim(d)), up(x.Shape()...))
				}
			case 12:
				if x.Rank() > 0 {
					z = x.IndexSelect(d, idx(x.Dim(d), 3))
				}
			case 13:
				if x.Rank() > 0 {
					start := make([]int, x.Rank())
					start[d] = x.Dim(d) / 3
					sh := append(tensor.Shape{}, x.Shape()...)
					sh[d] = min(1, sh[d])
					z = s.Apply(tensor.OpSlice, sliceInts(start, sh), tensor.T(x))
				}
			}
			if z != nil && z.Elems() <= 4096 {
				// Clamp is not linear, and keeps numbers small.
				pool = append(pool, z.Clamp(-40, 40))
				if rng.IntN(2) == 0 {
					pool[len(pool)-1] = z.MulS(2)
					if rng.IntN(3) > 0 {
						pool[len(pool)-1] = z.Clamp(-9, 9)
					}
				}
			}
		}
		return append([]*tensor.Tensor{pool[len(pool)-1].Sum(), pool[len(pool)-1].Mean()}, pool[5:]...)
	}
}

// TestIntegersAreExact: programs on integers in floats give the same bits on any number
// of workers, however sums are deferred and reordered.
func TestIntegersAreExact(t *testing.T) {
	n, compared, late := 1000, 0, 0
	if testsize.Sampled() {
		n = 100
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprintf("seed=%d", seed+1), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed+1, 7))
			c := record(t, integerProgram(rng))
			m := meshes[rng.IntN(len(meshes))]
			var layouts []Layout
			var parts [][]*array
			for _, x := range c.inputs {
				l := randomLayout(rng, m, x.dt, x.sh)
				for l[0] == Partial(Prod) || l[1] == Partial(Prod) {
					l = randomLayout(rng, m, x.dt, x.sh)
				}
				layouts, parts = append(layouts, l), append(parts, split(m, l, x))
			}
			p, err := Rewrite(c.program, m, layouts, nil)
			if err != nil {
				t.Fatal(err)
			}
			outs, tr := simulate(t, p, parts, c.scalars)
			tr.check(t, p)
			want := whole(t, c.program, c.inputs, c.scalars)
			for k, o := range p.Outputs {
				got, top := assemble(t, m, o.Placed, outs[k])
				if top > 1<<20 {
					continue // sums of these may not be exact any more
				}
				compared++
				if o.Layout.partial() {
					late++
				}
				tol := 0.0
				if c.program.Instrs[o.Instr].Op == tensor.OpMean {
					tol = 0x1p-20 * (1 + top)
				}
				if diff := differs(got, want[o.Instr], tol); diff != "" {
					t.Fatalf("%%%d %s\n%v", o.Instr, diff, p.Explain())
				}
			}
		})
	}
	if compared < 3*n || late < n/10 {
		t.Errorf("%d results were compared, of them %d partial", compared, late)
	}
}

// TestMeanOfIntegers: the mean of i64 in parts does not wrap.
func TestMeanOfIntegers(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.From(s, []int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}).Mean()}
	})
	m := Line(2)
	l := Layout{Shard(0)}
	p, err := Rewrite(c.program, m, []Layout{l}, nil)
	if err != nil {
		t.Fatal(err)
	}
	outs, _ := simulate(t, p, [][]*array{split(m, l, c.inputs[0])}, c.scalars)
	if got, _ := assemble(t, m, p.Outputs[0].Placed, outs[0]); got.f[0] != 1<<63 {
		t.Errorf("the mean is %v, expected 2^63", got.f[0])
	}
}
