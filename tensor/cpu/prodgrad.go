package cpu

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

const (
	// othersTile is how many results of a product that lie beside each other are done at
	// once: a cache line of float32.
	othersTile = 16
	// othersPiece is how many elements of a row are read at a time. Those of a tile stay
	// in the first-level cache.
	othersPiece = 256
)

// others computes rows of prodGrad whose elements are all normal as float64: the product
// of all by each of them.
type others[T float] struct {
	product   func(s kernel.LongProduct, x []float64) kernel.LongProduct
	k         *kernel.Table[float64]
	transpose func(dst []T, ds int, src []T, ss, rows, cols int)
	// double and single convert elements of another type than float64.
	double func(dst []float64, x []T)
	single func(dst []T, x []float64)
	// over is dst[i] = s/x[i] of these elements.
	over func(dst, x []T, s T)
}

// wide returns the elements as float64: in place, or converted.
func (p *others[T]) wide(r *run, x []T) []float64 {
	if w, ok := any(x).([]float64); ok {
		return w
	}
	w := scratchRow[float64](r, 3, len(x))
	p.double(w, x)
	return w
}

// multiply multiplies s by elements of a row.
func (p *others[T]) multiply(r *run, s *kernel.LongProduct, x []T) { *s = p.product(*s, p.wide(r, x)) }

// divide is dst[i] = d/x[i]. dst may be x.
func (p *others[T]) divide(r *run, dst, x []T, d *division) {
	const most = 1 << 100 // far from the ends of float32
	by := math.Abs(d.by)
	if near := by < most && by > 1.0/most || by == 0 || math.IsInf(by, 1); p.over != nil && near && d.exponent == 0 && d.times == 1 {
		p.over(dst, x, T(d.by)) // half the time of float64, and within one more rounding
		return
	}
	w := p.wide(r, x)
	to, ok := any(dst).([]float64)
	if !ok {
		to = w
	}
	p.k.RDivS(to, w, d.by)
	for e := d.exponent; e != 0; {
		const most = 1000
		step := max(min(e, most), -most)
		p.k.MulS(to, to, math.Ldexp(1, step))
		e -= step
	}
	if d.times != 1 {
		p.k.MulS(to, to, d.times)
	}
	if !ok {
		p.single(dst, to)
	}
}

// division is by/x*2^exponent*times of numbers x.
type division struct {
	by       float64
	exponent int
	times    float64
}

// divisionOf returns what is dy times the product of all factors of s but one, of that
// factor x. s is normal.
func divisionOf(s *kernel.LongProduct, dy float64) division {
	const far = 1000 // 2^far is well within the normal numbers
	prod := func(e int) float64 { return math.Ldexp(s.M, e) }
	least, most := s.E-s.Most-1, s.E-s.Least+1 // exponents of bounds of the products
	_, e := math.Frexp(dy)
	switch {
	case most < -1074: // all are less than half of the least number
		return division{by: math.Copysign(0, s.M) * dy, times: 1}
	case least > 1024:
		return division{by: math.Copysign(math.Inf(1), s.M) * dy, times: 1}
	case min(least, least+e, s.E, s.E+e) > -far && max(most, most+e, s.E, s.E+e) < far:
		return division{by: prod(s.E) * dy, times: 1}
	}
	middle := (s.Least + s.Most) / 2 // near it, quotients are normal
	return division{prod(middle), s.E - middle, dy}
}

// tile stores the gradient of n results that lie beside each other, from element at of x
// on, and returns true if it could.
func (p *others[T]) tile(r *run, g *folding, out, x []T, dy []T, at, n int) bool {
	var prods [othersTile]kernel.LongProduct
	for j := range n {
		prods[j] = kernel.One()
	}
	turned := scratchRow[T](r, 2, n*othersPiece)
	g.eachRows(r, at, othersPiece, func(off, rows, stride int) {
		p.transpose(turned, rows, x[off:], stride, rows, n)
		for j := range n {
			p.multiply(r, &prods[j], turned[j*rows:][:rows])
		}
	})
	var by [othersTile]division
	for j := range n {
		if !prods[j].Normal() {
			return false
		}
		by[j] = divisionOf(&prods[j], float64(dy[j]))
	}
	g.eachRows(r, at, othersPiece, func(off, rows, stride int) {
		p.transpose(turned, rows, x[off:], stride, rows, n)
		for j := range n {
			row := turned[j*rows:][:rows]
			p.divide(r, row, row, &by[j])
		}
		p.transpose(out[off:], stride, turned, rows, n, rows)
	})
	return true
}

// row stores the gradient of one result, from element at of x on, and returns true if it
// could. Elements that are apart are copied.
func (p *others[T]) row(r *run, g *folding, out, x []T, dy T, at int) bool {
	prod := kernel.One()
	each := func(f func(o, n, st int)) {
		g.folded.each(r, at, func(o, n, st int) {
			for lo := 0; lo < n && !r.stopped(); lo += foldRow {
				f(o+lo*st, min(foldRow, n-lo), st)
			}
		})
	}
	read := func(o, n, st int) []T {
		if st == 1 {
			return x[o:][:n]
		}
		copied := scratchRow[T](r, 2, n)
		for i := range copied {
			copied[i] = x[o+i*st]
		}
		return copied
	}
	each(func(o, n, st int) { p.multiply(r, &prod, read(o, n, st)) })
	if !prod.Normal() {
		return false
	}
	by := divisionOf(&prod, float64(dy))
	each(func(o, n, st int) {
		if st == 1 {
			p.divide(r, out[o:][:n], x[o:][:n], &by)
			return
		}
		row := read(o, n, st)
		p.divide(r, row, row, &by)
		for i, v := range row {
			out[o+i*st] = v
		}
	})
	return true
}

// strip stores the gradient of count results, each of a short row of n elements; rows
// begin stride elements apart. It does so, and returns true, only if no product of
// elements of a row can leave the range of normal numbers. For each element it multiplies
// the product of those before it by that of those after it, column by column.
func (p *others[T]) strip(r *run, out, x, dy []T, stride, count, n int) bool {
	turned := scratchRow[T](r, 2, n*count)
	turn(r, turned, count, x, stride, n, count)
	wide := p.wide(r, turned)
	room := scratchRow[float64](r, 0, n*count+2*count)
	before, after, by := room[:n*count], room[n*count:][:count], room[n*count+count:]
	p.k.Abs(before, wide)
	limit := math.Ldexp(1, 1000/n)
	if !(p.k.RowMax(before) < limit && p.k.RowMin(before) > 1/limit) {
		return false
	}
	column := func(x []float64, j int) []float64 { return x[j*count:][:count] }
	copy(column(before, 0), column(wide, 0))
	for j := 1; j < n-1; j++ {
		p.k.Mul(column(before, j), column(before, j-1), column(wide, j))
	}
	for i, v := range dy[:count] {
		by[i] = float64(v)
	}
	for j := n - 1; j > 0; j-- {
		product, to := column(before, j-1), column(wide, j)
		if j == n-1 {
			copy(after, to)
		} else {
			p.k.Mul(product, product, after)
			p.k.Mul(after, after, to)
		}
		p.k.Mul(to, product, by)
	}
	p.k.Mul(column(wide, 0), after, by)
	if p.single != nil { // otherwise wide is turned
		p.single(turned, wide)
	}
	turn(r, out, stride, turned, count, count, n)
	return true
}

// strips lowers prodGrad of short rows.
func (p *others[T]) strips(s *compile.Step, g folding) func(r *run) error {
	n, stride := g.count, g.kept.innerStride(0)
	return func(r *run) error {
		in, dy, out := buf[T](r, &s.In[0]), buf[T](r, &s.In[1]), buf[T](r, &s.Out)
		for i, end := r.share(g.results, stripRows); i < end && !r.stopped(); i += stripRows {
			count := min(stripRows, end-i)
			if p.strip(r, out[i*stride:], in[i*stride:], dy[i:], stride, count, n) {
				continue
			}
			for j := i; j < i+count; j++ {
				if !p.row(r, &g, out, in, dy[j], j*stride) {
					anyOthers(r, &g, out, in, dy[j], j*stride)
				}
			}
		}
		return nil
	}
}

// prodGrad is dy times the product of all other elements.
func prodGrad[T float](s *compile.Step, p others[T]) func(r *run) error {
	x := s.In[0]
	g := foldingOf(x, s.Ints)
	if g.results > 0 && g.alongRow() && g.count > 1 && g.count <= shortRow && len(g.kept.dims) == 1 && g.kept.innerStride(0) >= g.count {
		return p.strips(s, g)
	}
	return func(r *run) error {
		if x.Shape.Elems() == 0 {
			return nil
		}
		in, dy, out := buf[T](r, &s.In[0]), buf[T](r, &s.In[1]), buf[T](r, &s.Out)
		if g.inColumns() {
			g.tiles(r, othersTile, func(i, base, n int) {
				if p.tile(r, &g, out, in, dy[i:], base, n) {
					return
				}
				for j := range n {
					anyOthers(r, &g, out, in, dy[i+j], base+j)
				}
			})
			return nil
		}
		g.kept.rows(r, func(i, base, _, _, _ int) {
			if !p.row(r, &g, out, in, dy[i], base) {
				anyOthers(r, &g, out, in, dy[i], base)
			}
		})
		return nil
	}
}

// anyOthers stores the gradient of one result, from element base of in on, whatever the
// elements are. The product of all others is that of all by the element where both are
// finite and not 0.
func anyOthers[T float](r *run, g *folding, out, in []T, dy T, base int) {
	zeros, prod := 0, 1.0
	g.folded.each(r, base, func(o, m, st int) {
		for l := range m {
			if v := in[o+l*st]; v == 0 {
				zeros++
			} else {
				prod *= float64(v)
			}
		}
	})
	var others []float64
	if prod == 0 || math.IsInf(prod, 0) || prod != prod {
		others = productsOfOthers(r, g, in, base)
	}
	g.folded.each(r, base, func(o, m, st int) {
		for l := range m {
			v := in[o+l*st]
			p := 0.0
			switch {
			case others != nil:
				p, others = others[0], others[1:]
			case zeros == 0:
				p = prod / float64(v)
			case zeros == 1 && v == 0:
				p = prod
			}
			out[o+l*st] = T(p * float64(dy))
		}
	})
}

// productsOfOthers returns, for each of the elements that fold into one from base on, the
// product of those before it and those after it.
func productsOfOthers[T float](r *run, g *folding, in []T, base int) []float64 {
	all, others := scratchRow[float64](r, 0, g.count)[:0], scratchRow[float64](r, 1, g.count)
	g.folded.each(r, base, func(o, m, st int) {
		for l := range m {
			all = append(all, float64(in[o+l*st]))
		}
	})
	before, after := 1.0, 1.0
	for i, v := range all {
		others[i] = before
		before *= v
	}
	for i, v := range slices.Backward(all) {
		others[i] *= after
		after *= v
	}
	return others
}
