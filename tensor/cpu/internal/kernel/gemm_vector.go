//go:build amd64 || arm64

package kernel

import (
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/isa"
)

// The functions of one level that make up a product. Strides are in bytes here, as in the
// assembly.
type (
	tileFunc[T Float]      = func(k int, a *T, rsA, csA int, b *T, rsB int, c *T, ldc int, alpha T, cols, add int)
	packFunc[T Float]      = func(dst *T, ds int, src *T, ss int, rows, cols int)
	transposeFunc[T Float] = func(dst *T, ds int, src *T, ss int, blocks int)
)

// gemmUnit computes products out of tiles of up to two or three vectors of columns.
type gemmUnit[T Float] struct {
	size      int              // of a number in bytes
	lanes     int              // numbers in a vector
	tile      [][]tileFunc[T]  // by vectors-1 and rows
	pack      []packFunc[T]    // by vectors-1
	transpose transposeFunc[T] // of lanes×lanes
	// nearRows is the most rows of a that read a near b in place, which costs them less
	// than copying it. See "Tiles of products" in docs/decisions.md. 0 leaves it to the
	// rules for any b.
	nearRows int
	ways     int // of the first level cache

	few *fewUnit[T] // nil without one
}

// newGemm returns the unit of one level.
func newGemm[T Float](size, lanes int, tile [][]tileFunc[T], pack []packFunc[T], transpose transposeFunc[T]) *gemmUnit[T] {
	g := &gemmUnit[T]{size: size, lanes: lanes, tile: tile, pack: pack, transpose: transpose, ways: isa.NearWays()}
	if len(tile) == 3 {
		g.nearRows = 512
	}
	return g
}

// reading is how the tiles read a: in place, or from a copy in scratch.
type reading int

const (
	inPlace reading = iota
	// rows copied one after another, a little apart: their own distance would alias in
	// the cache
	byRows
	byColumns // columns of each band of rows, one after another
)

const (
	// smallMatrix is the number of elements below which a matrix is read in place rather
	// than packed.
	smallMatrix = 4096
	// rowGap is added to the length of copied rows, so that no two rows of a band compete
	// for the same cache sets.
	rowGap = 16
	// farWays is the number of ways of the first-level cache that passing data needs,
	// beside the rows of a that compete for the others.
	farWays = 3
	// keptElems is the part of b that stays packed in the second-level cache during all
	// rows of a pass, where reading those again costs nothing: 768 KiB.
	keptElems = 192 << 10
	// A b is near if it has up to nearElems elements, which stay in the second-level
	// cache, and its rows are up to nearRow apart, two in a page.
	nearElems = 256 << 10
	nearRow   = 500
)

// readA returns how to read a of m×k for n columns, in bands of mr rows.
func (g *gemmUnit[T]) readA(m, n, k, mr int, a Matrix[T]) reading {
	switch {
	case g.words(m*k) <= smallMatrix || n <= 2*g.lanes:
		return inPlace
	case a.CS != 1:
		return byColumns
	case n >= 8*g.lanes && a.RS*g.size%2048 == 0 && mr+farWays > g.ways:
		return byRows
	}
	return inPlace
}

// words returns the size of n numbers in words of four bytes, in which the limits are.
func (g *gemmUnit[T]) words(n int) int { return n * g.size / 4 }

// tallest returns the most rows of tiles of the given number of vectors.
func (g *gemmUnit[T]) tallest(vectors int) int { return len(g.tile[vectors-1]) - 1 }

// widest returns the most vectors that the tiles of an m×n product have. Tiles of 9 rows
// and 3 vectors load 12 times for 27 multiplications; those of 14 and 2 load 16 times for
// 28, which is too much for a core that multiplies twice a cycle and loads little more
// than one whole vector (see docs/decisions.md, "Tiles of products").
func (g *gemmUnit[T]) widest(m, n int) int {
	v := ceil(n, g.lanes)
	if len(g.tile) < 3 || v < 3 || v == 4 || m > g.tallest(3) && m <= g.tallest(2) {
		return 2
	}
	return 3
}

func (g *gemmUnit[T]) gemm(m, n, k int, alpha T, a, b Matrix[T], accumulate bool, c []T, ldc int, scratch []T, stop *atomic.Bool) {
	checkGemm(m, n, k, a, b, c, ldc)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		zeroUnless(accumulate, m, n, c, ldc)
		return
	}
	scratch = scratch[:GemmScratch(m, n, k)]
	kc := depth(k)
	p := product[T]{gemmUnit: g, vectors: g.widest(m, n), alpha: alpha, c: c, ldc: ldc, a: a, b: b, stop: stop}
	if p.few(m, n, k, accumulate, scratch) {
		return
	}
	mr := ceil(m, ceil(m, g.tallest(p.vectors))) // bands of rows as even as possible
	p.mr = mr
	p.read = g.readA(m, n, k, mr, a)
	p.direct = b.CS == 1 && (m <= 2*g.tallest(2) || g.words(k*n) <= smallMatrix || k <= shallowMax && b.RS*g.size%2048 != 0 ||
		m <= g.nearRows && g.words(k*n) <= nearElems && g.words(b.RS) <= nearRow)
	// even blocks: a few rows would wait for all of b
	step := ceil(ceil(m, ceil(m, rowsMax/mr*mr)), mr) * mr
	p.once = step >= m
	packA, rest := (min(m, rowsMax)+unitMax)*(kc+rowGap), lanesMax*kc
	p.bufA, p.bufRest, p.bufB = scratch[:packA], scratch[packA:packA+rest], scratch[packA+rest:]
	width := p.blockCols(n, kc)
	for j := 0; j < n; j += width {
		nc := min(width, n-j)
		for d := 0; d < k; d += kc {
			p.depth = min(kc, k-d)
			p.add = 0
			if accumulate || d > 0 {
				p.add = 1
			}
			for i := 0; i < m; i += step {
				if !p.block(i, min(step, m-i), d, j, nc) {
					return
				}
			}
		}
	}
}

// product is the state of one product.
type product[T Float] struct {
	*gemmUnit[T]
	vectors int // of the widest tiles
	mr      int // rows of a band
	alpha   T
	a, b    Matrix[T]
	c       []T
	ldc     int
	stop    *atomic.Bool
	read    reading
	direct  bool // b is read where it lies
	// one block of rows, so that no later block reads a packed panel
	once                bool
	bufA, bufRest, bufB []T
	depth               int // of this block of k
	add                 int
}

// blockCols returns how many of n columns are computed together, with blocks of depth kc.
// Where a is read in place, the packed part of b must stay in the second-level cache, and
// the blocks are even and made of whole panels.
func (p *product[T]) blockCols(n, kc int) int {
	if p.once || p.direct || p.read != inPlace {
		return colsMax
	}
	panel := p.vectors * p.lanes
	most := min(keptElems/p.words(kc*panel), colsMax/panel) * panel
	return ceil(ceil(n, ceil(n, most)), panel) * panel
}

// panel returns the number of columns of the next panel, when left columns are left. The
// last four vectors are two and two, as one alone is slow.
func (p *product[T]) panel(left int) int {
	v := min(ceil(left, p.lanes), p.vectors)
	if v == 3 && left > 3*p.lanes && left <= 4*p.lanes {
		v = 2
	}
	return min(left, v*p.lanes)
}

// inPlaceB reports whether cols columns can be read in place: whole vectors only, as
// there may be nothing after them.
func (p *product[T]) inPlaceB(cols int) bool {
	return p.direct && cols%p.lanes == 0
}

// packPanel copies a panel, cols columns of b at the depth of this block of k, into dst.
func (p *product[T]) packPanel(dst []T, b Matrix[T], cols int) {
	v, rows := ceil(cols, p.lanes), p.depth
	width := v * p.lanes
	dst = dst[:rows*width]
	if b.CS == 1 {
		_ = b.Data[(rows-1)*b.RS+cols-1]
		p.pack[v-1](&dst[0], p.size*width, &b.Data[0], p.size*b.RS, rows, cols)
		return
	}
	if cols < width {
		clear(dst)
	}
	done := 0 // columns transposed, to depth whole
	whole := rows / p.lanes
	if b.RS == 1 && whole > 0 {
		for ; done+p.lanes <= cols; done += p.lanes {
			_ = b.Data[(done+p.lanes-1)*b.CS+rows-1]
			p.transpose(&dst[done], p.size*width, &b.Data[done*b.CS], p.size*b.CS, whole)
		}
		if done < cols { // the columns that are left, beside zeros
			for j := range p.lanes {
				if at := p.bufRest[j*rows:][:rows]; done+j < cols {
					copy(at, b.Data[(done+j)*b.CS:])
				} else {
					clear(at)
				}
			}
			p.transpose(&dst[done], p.size*width, &p.bufRest[0], p.size*rows, whole)
			done += p.lanes
		}
	}
	for j := range cols {
		k := 0
		if j < done {
			k = whole * p.lanes
		}
		at := k*b.RS + j*b.CS
		for ; k < rows; k++ {
			dst[k*width+j] = b.Data[at]
			at += b.RS
		}
	}
}

// packRows copies rows i to i+mc of this block of a, from column d, and returns the view
// to read instead.
func (p *product[T]) packRows(i, mc, d int) Matrix[T] {
	a := p.a.Sub(i, d)
	if p.read == byRows {
		ld := p.depth + rowGap
		for r := range mc {
			copy(p.bufA[r*ld:r*ld+p.depth], a.Data[r*a.RS:])
		}
		return Matrix[T]{p.bufA, ld, 1}
	}
	pack := p.pack[ceil(p.mr, p.lanes)-1]
	for r := 0; r < mc; r += p.mr {
		rows := min(p.mr, mc-r)
		// Each column takes mr places. The vectors written run on into places that are
		// written later, or that are spare.
		band := p.bufA[r*p.depth : r*p.depth+p.mr*p.depth+unitMax+2]
		src := a.Sub(r, 0)
		if a.RS == 1 {
			_ = src.Data[(p.depth-1)*a.CS+rows-1]
			pack(&band[0], p.size*p.mr, &src.Data[0], p.size*a.CS, p.depth, rows)
			continue
		}
		for q := range rows {
			at := q * a.RS
			for k := q; k < p.mr*p.depth; k += p.mr {
				band[k] = src.Data[at]
				at += a.CS
			}
		}
	}
	return Matrix[T]{p.bufA, p.depth, 0}
}

// block computes rows i to i+mc and columns j to j+nc for this block of k, which starts
// at d. It returns false as soon as it finds that the product is to stop.
func (p *product[T]) block(i, mc, d, j, nc int) bool {
	view := p.a.Sub(i, d)
	step := p.a.CS // from column to column of a
	if p.read != inPlace {
		view = p.packRows(i, mc, d)
		step = view.CS
		if p.read == byColumns {
			step = p.mr
		}
	}
	rs := view.RS // from row to row of a within a band
	if p.read == byColumns {
		rs = 1
	}
	for q := 0; q < nc; {
		if stopped(p.stop) {
			return false
		}
		cols := p.panel(nc - q)
		v := ceil(cols, p.lanes)
		var b []T
		rsB := v * p.lanes
		if p.inPlaceB(cols) {
			b, rsB = p.b.Data[d*p.b.RS+j+q:], p.b.RS
		} else {
			b = p.bufB
			if !p.once {
				b = b[q*p.depth:]
			}
			if i == 0 {
				p.packPanel(b, p.b.Sub(d, j+q), cols)
			}
		}
		for r := 0; r < mc; r += p.mr {
			rows := min(p.mr, mc-r)
			c := p.c[(i+r)*p.ldc+j+q:]
			p.tile[v-1][rows](p.depth, &view.Data[r*view.RS], p.size*rs, p.size*step, &b[0], p.size*rsB, &c[0], p.size*p.ldc, p.alpha, cols, p.add)
		}
		q += cols
	}
	return true
}
