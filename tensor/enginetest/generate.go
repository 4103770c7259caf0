package enginetest

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
)

// maxElems bounds a generated tensor: large enough for every path of a kernel, small
// enough for the reference.
const maxElems = 2048

// Generate records a random program of about n operations on s and returns the tensors
// that are alive at its end. The same seed records the same program on any engine.
// Programs have all operations, dtypes, views and broadcasts, dims of 0 and 1, names that
// are assigned, tensors that are freed, and scopes. Generate reads nothing and keeps
// values within bounds that no operation of floats overflows.
func Generate(s *tensor.Session, seed uint64, n int) []*tensor.Tensor {
	g := newGenerator(s, seed)
	for range n {
		g.step()
	}
	return g.pool
}

// generator makes random operations on a pool of live tensors.
type generator struct {
	s     *tensor.Session
	key   uint64
	drawn uint64
	pool  []*tensor.Tensor
	depth int // of scopes
	rules []rule
}

func newGenerator(s *tensor.Session, seed uint64) *generator {
	g := &generator{s: s, key: data.Hash(data.Key("enginetest"), seed), rules: buildRules()}
	for range 3 {
		g.add(g.upload(tensor.F32, g.shape(3)))
	}
	return g
}

// n returns a random number below k.
func (g *generator) n(k int) int {
	g.drawn++
	return int(data.Index(g.key, g.drawn, uint64(k)))
}

// chance returns true once in k times on average.
func (g *generator) chance(k int) bool { return g.n(k) == 0 }

func pick[T any](g *generator, l ...T) T { return l[g.n(len(l))] }

// step records an operation, or assigns, frees or keeps a tensor.
func (g *generator) step() {
	switch {
	case g.chance(12) && len(g.pool) > 6:
		g.free()
	case g.chance(12):
		g.assign()
	case g.chance(25) && g.depth < 2:
		g.inScope()
	default:
		g.add(g.operation())
	}
	for len(g.pool) > 24 {
		g.free()
	}
}

func (g *generator) operation() *tensor.Tensor {
	for {
		if x := g.rules[g.n(len(g.rules))](g); x != nil {
			return x
		}
	}
}

func (g *generator) add(x *tensor.Tensor) {
	if x.Err() == nil && x.Elems() <= maxElems || len(g.pool) == 0 {
		g.pool = append(g.pool, x)
	}
}

func (g *generator) free() {
	i := g.n(len(g.pool))
	g.pool[i].Free()
	g.pool = append(g.pool[:i], g.pool[i+1:]...)
}

// assign binds a name of the pool to another value of its shape and dtype, which is then
// read through the name.
func (g *generator) assign() {
	x := g.pool[g.n(len(g.pool))]
	var y *tensor.Tensor
	switch {
	case x.DType() == tensor.Bool:
		y = x.Not()
	case g.chance(2):
		y = x.AddS(1)
	default:
		y = g.like(x.DType(), x.Shape())
	}
	if y.DType() == x.DType() && y.Shape().Equal(x.Shape()) {
		if err := x.Assign(y); err != nil {
			panic("enginetest: " + err.Error()) // a bug of the generator
		}
	}
}

// inScope takes a few steps in a scope and keeps some of their tensors.
func (g *generator) inScope() {
	outer := append([]*tensor.Tensor(nil), g.pool...)
	g.depth++
	g.s.Scope(func(sc *tensor.Scope) {
		for range 3 + g.n(5) {
			g.add(g.operation())
		}
		inner := g.pool[len(outer):]
		g.pool = outer
		for _, x := range inner {
			if g.chance(3) {
				g.pool = append(g.pool, sc.Keep(x))
			}
		}
	})
	g.depth--
}

// dim returns a size: small mostly, sometimes 0 or about the lanes of a vector register.
func (g *generator) dim() int {
	switch g.n(24) {
	case 0:
		return 0
	case 1, 2, 3:
		return 1
	case 4:
		return pick(g, 15, 16, 17, 31, 33, 64, 100)
	}
	return 2 + g.n(5)
}

func (g *generator) shape(maxRank int) []int {
	for {
		sh := make([]int, g.n(maxRank+1))
		n := 1
		for d := range sh {
			sh[d] = g.dim()
			n *= sh[d]
		}
		if n <= maxElems {
			return sh
		}
	}
}

// upload returns new data: floats in [-2, 2) with equal ones and integers among them,
// small integers, bools.
func (g *generator) upload(d tensor.DType, sh []int) *tensor.Tensor {
	a := newArray(d, append(tensor.Shape{}, sh...))
	coarse := g.chance(3)
	for k := range a.len() {
		switch {
		case a.dt.IsFloat() && coarse:
			a.f[k] = float64(g.n(9)-4) / 2
		case a.dt.IsFloat():
			a.f[k] = float64(data.Unit(g.key, g.drawn)) * 2
			g.drawn++
		case d == tensor.Bool:
			a.i[k] = int64(g.n(2))
		case d == tensor.U8:
			a.i[k] = int64(g.n(256))
		default:
			a.i[k] = int64(g.n(21) - 10)
		}
	}
	return put(g.s, a)
}

// indices returns numbers below n; n must not be 0 unless sh has no elements.
func (g *generator) indices(n int, sh ...int) *tensor.Tensor { return g.between(0, n, sh) }

// fromEnd returns numbers below n, some of them as negative ones that count from n.
func (g *generator) fromEnd(n int, sh ...int) *tensor.Tensor { return g.between(-n, n, sh) }

// between returns numbers of at least lo and below hi.
func (g *generator) between(lo, hi int, sh []int) *tensor.Tensor {
	a := newArray(pick(g, tensor.I32, tensor.I64), append(tensor.Shape{}, sh...))
	for k := range a.i {
		a.i[k] = int64(lo + g.n(hi-lo))
	}
	return put(g.s, a)
}

// from returns a random tensor of the pool that ok accepts, nil if there is none.
func (g *generator) from(ok func(x *tensor.Tensor) bool) *tensor.Tensor {
	at := g.n(len(g.pool))
	for k := range g.pool {
		if x := g.pool[(at+k)%len(g.pool)]; ok(x) {
			return x
		}
	}
	return nil
}

// any returns a tensor of the pool of at least rank dims, a new one if there is none.
func (g *generator) any(rank int) *tensor.Tensor {
	x := g.from(func(x *tensor.Tensor) bool { return x.Rank() >= rank })
	if x == nil || g.chance(8) {
		x = g.upload(pick(g, tensor.DTypes()...), g.ranked(rank))
	}
	return x
}

// ranked returns a shape of rank dims or one more.
func (g *generator) ranked(rank int) []int {
	for {
		if sh := g.shape(rank + 1); len(sh) >= rank {
			return sh
		}
	}
}

// number returns a tensor of numbers, not of bools.
func (g *generator) number(rank int) *tensor.Tensor {
	x := g.any(rank)
	if x.DType() == tensor.Bool {
		x = x.Cast(pick(g, tensor.F32, tensor.I32, tensor.I64, tensor.U8, tensor.F64))
	}
	return x
}

// float returns a tensor of floats between -4 and 4.
func (g *generator) float(rank int) *tensor.Tensor {
	x := g.any(rank)
	if !x.DType().IsFloat() {
		x = x.Cast(pick(g, tensor.F32, tensor.F32, tensor.F64))
	}
	return x.Clamp(-4, 4)
}

// truth returns x as bools. Of a float the sign counts: two engines may disagree whether
// a computed one is exactly 0.
func truth(x *tensor.Tensor) *tensor.Tensor {
	if x.DType().IsFloat() {
		return x.GtS(0.25)
	}
	return x.Cast(tensor.Bool)
}

// tame brings floats between -4 and 4 and returns other tensors as they are.
func tame(x *tensor.Tensor) *tensor.Tensor {
	if x.DType().IsFloat() {
		return x.Clamp(-4, 4)
	}
	return x
}

// like returns a tensor of the dtype and shape: from the pool, or made from one of it, or
// new. Floats are tame.
func (g *generator) like(d tensor.DType, sh []int) *tensor.Tensor {
	x := g.from(func(x *tensor.Tensor) bool { return x.Shape().Equal(sh) })
	if x == nil || g.chance(4) {
		return g.upload(d, sh)
	}
	if d == tensor.Bool {
		return truth(x)
	}
	return tame(x).Cast(d)
}

// beside returns a tensor that broadcasts with x to no more than maxElems elements.
func (g *generator) beside(x *tensor.Tensor) *tensor.Tensor {
	y := g.from(func(y *tensor.Tensor) bool {
		sh, err := tensor.Broadcast(x.Shape(), y.Shape())
		return y != x && err == nil && sh.Elems() <= maxElems
	})
	if y != nil && !g.chance(3) {
		return y
	}
	sh := append([]int(nil), x.Shape()...)
	if len(sh) > 0 && g.chance(2) {
		sh = sh[g.n(len(sh)):]
	}
	for d := range sh {
		if g.chance(3) {
			sh[d] = 1
		}
	}
	return g.upload(pick(g, x.DType(), x.DType(), tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8), sh)
}

// dims returns a random set of a tensor's dims, in any order, perhaps counted from the
// end.
func (g *generator) dims(x *tensor.Tensor) []int {
	var out []int
	for d := range x.Rank() {
		if g.chance(2) {
			if g.chance(3) {
				d -= x.Rank()
			}
			out = append(out, d)
		}
	}
	if len(out) > 1 && g.chance(3) {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// axis returns one of x's dims; x has at least one.
func (g *generator) axis(x *tensor.Tensor) int { return g.n(x.Rank()) }
