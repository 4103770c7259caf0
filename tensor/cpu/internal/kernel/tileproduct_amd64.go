package kernel

import "sync/atomic"

// A band is 32 rows of a, a panel 32 columns of b, a step 32 numbers of each along the
// sum: two tiles, whose numbers lie in scratch as pairs, float32.
const (
	tileRows  = 16
	bandRows  = 2 * tileRows
	stepDepth = 32
	tilePairs = tileRows * stepDepth / 2
	stepPairs = 2 * tilePairs
	panelLine = bandRows // pairs, or results, in a line of a panel

	// nearSteps is the depth of a panel that stays in the first-level cache while bands
	// pass.
	nearSteps = 16
	// farSteps is the depth at which operands are packed: tallRows rows of a stay in the
	// second-level cache while panels pass.
	farSteps = TilesDepth / stepDepth
	tallRows = 256
	// widePairs is how much of b is packed at a time: 4 MiB.
	widePairs = 1 << 20
	// together is how many panels are packed at a time, which read whole rows of b for
	// longer.
	together = 4
)

// tileSteps returns the depth, in steps, at which operands of k numbers are packed.
func tileSteps(k int) int {
	steps := ceil(k, stepDepth)
	return ceil(steps, max(ceil(steps, farSteps), 1))
}

// tileColumns returns how many of n columns are packed at a time.
func tileColumns(m, n, k int) int {
	most := widePairs / (stepPairs * max(tileSteps(k), 1))
	if m <= tallRows {
		most = together // no later rows read them
	}
	return max(min(ceil(n, panelLine), most), 1) * panelLine
}

// tilesScratch is [BrainProducts].TilesScratch.
func tilesScratch(m, n, k int) int {
	rows := min(ceil(m, bandRows)*bandRows, tallRows)
	pairs := tileSteps(k) * stepDepth / 2
	return rows*pairs + tileColumns(m, n, k)*pairs + rows*panelLine
}

// tilesPay is [BrainProducts].TilesPay. A step takes as long for fewer numbers, and a
// tile for fewer rows. See "Tiles of bfloat16" in docs/decisions.md.
func tilesPay(m, n, k int) bool { return m >= 8 && n >= 8 && k >= stepDepth }

// tileProduct is the state of one product.
type tileProduct struct {
	a, b    Halves
	m, n, k int
	c       []float32
	half    []uint16 // in place of c: the results rounded to bfloat16
	ldc     int

	bufA, bufB, results []float32
	// an edge of an operand, beside zeros
	stage [stepDepth * stepDepth]uint16
}

// multiplyTiles is [BrainProducts].Tiles.
func multiplyTiles(m, n, k int, a, b Halves, c []float32, ldc int, scratch []float32, stop *atomic.Bool) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		zeroUnless(false, m, n, c, ldc)
		return
	}
	_ = c[(m-1)*ldc+n-1]
	p := &tileProduct{a: a, b: b, m: m, n: n, k: k, c: c, ldc: ldc}
	p.run(scratch, stop)
}

// roundTiles is [BrainProducts].TilesRounded.
func roundTiles(m, n, k int, a, b Halves, c []uint16, ldc int, scratch []float32, stop *atomic.Bool) {
	if m == 0 || n == 0 {
		return
	}
	_ = c[(m-1)*ldc+n-1]
	p := &tileProduct{a: a, b: b, m: m, n: n, k: k, half: c, ldc: ldc}
	p.run(scratch, stop)
}

// run computes the product, of which no dim is 0.
func (p *tileProduct) run(scratch []float32, stop *atomic.Bool) {
	m, n, k := p.m, p.n, p.k
	_, _ = p.a.Data[(m-1)*p.a.RS+(k-1)*p.a.CS], p.b.Data[(k-1)*p.b.RS+(n-1)*p.b.CS]
	most, wide := tileSteps(k), tileColumns(m, n, k)
	rows := min(ceil(m, bandRows)*bandRows, tallRows)
	sizeA, sizeB := rows*most*stepDepth/2, wide*most*stepDepth/2
	p.bufA, p.bufB, p.results = scratch[:sizeA], scratch[sizeA:sizeA+sizeB], scratch[sizeA+sizeB:][:rows*panelLine]
	once := m <= tallRows
	if once {
		wide = n
	}
	for j := 0; j < n; j += wide {
		for d := 0; d < k; d += most * stepDepth {
			steps := min(most, ceil(k-d, stepDepth))
			for i := 0; i < m; i += tallRows {
				mc := min(tallRows, m-i)
				p.packA(i, mc, d, steps)
				for q := j; q < min(j+wide, n); q += panelLine {
					if stopped(stop) {
						return
					}
					at := (q - j) / panelLine
					if once {
						at %= together
					}
					if i == 0 && at%together == 0 {
						p.packB(p.bufB[at*steps*stepPairs:], q, min(together*panelLine, min(j+wide, n)-q), d, steps)
					}
					p.panel(i, mc, q, d, steps, p.bufB[at*steps*stepPairs:])
				}
			}
		}
	}
}

// panel computes rows i to i+mc of the panel of columns that begins at q, for steps from
// d on.
func (p *tileProduct) panel(i, mc, q, d, steps int, b []float32) {
	cols := min(panelLine, p.n-q)
	whole, last := mc/bandRows, mc%bandRows
	for s := 0; s < steps; s += nearSteps {
		now := min(nearSteps, steps-s)
		p.bands(i, q, d, s, 0, whole, bandRows, cols, now, steps, b)
		if last > 0 {
			p.bands(i, q, d, s, whole, 1, last, cols, now, steps, b)
		}
	}
	if p.half != nil {
		roundAMX(mc, &p.half[i*p.ldc+q], 2*p.ldc, &p.results[0], cols)
		return
	}
	spillAMX(mc, &p.c[i*p.ldc+q], 4*p.ldc, &p.results[0], cols)
}

// bands multiplies bands of rows rows from the first one on, for now steps from s on. The
// results of earlier steps are in c or, of these rows and columns, in results.
func (p *tileProduct) bands(i, q, d, s, first, bands, rows, cols, now, steps int, b []float32) {
	if bands == 0 {
		return
	}
	to := &p.results[first*bandRows*panelLine]
	from, rsFrom := to, 4*panelLine
	switch {
	case d+s == 0:
		from = nil
	case s == 0:
		from, rsFrom = &p.c[(i+first*bandRows)*p.ldc+q], 4*p.ldc
	}
	config := tileConfig(rows, cols)
	a, apart, right := &p.bufA[(first*steps+s)*stepPairs], 4*steps*stepPairs, &b[s*stepPairs]
	const rsTo = 4 * panelLine
	switch tall, wide := rows > tileRows, cols > tileRows; {
	case tall && wide:
		multiply2x2AMX(&config[0], bands, now, a, apart, right, from, rsFrom, to, rsTo)
	case tall:
		multiply2x1AMX(&config[0], bands, now, a, apart, right, from, rsFrom, to, rsTo)
	case wide:
		multiply1x2AMX(&config[0], bands, now, a, apart, right, from, rsFrom, to, rsTo)
	default:
		multiply1x1AMX(&config[0], bands, now, a, apart, right, from, rsFrom, to, rsTo)
	}
}

// tileConfig returns the configuration of tiles for bands of rows ≤ 32 rows and panels of
// cols ≤ 32 columns: palette 1, then the bytes of a row of each tile, and their rows.
func tileConfig(rows, cols int) (c [64]byte) {
	c[0] = 1
	const line = 64
	for t, shape := range [8][2]int{
		{rows, cols}, {rows, cols - tileRows}, {rows - tileRows, cols}, {rows - tileRows, cols - tileRows},
		{rows, tileRows}, {rows - tileRows, tileRows}, {tileRows, cols}, {tileRows, cols - tileRows},
	} {
		if r, n := min(shape[0], tileRows), min(4*shape[1], line); r > 0 && n > 0 {
			c[16+2*t], c[48+t] = byte(n), byte(r)
		}
	}
	return c
}

// packA makes tiles of rows i to i+mc of a, for steps from number d on.
func (p *tileProduct) packA(i, mc, d, steps int) {
	whole, last := min(steps, (p.k-d)/stepDepth), (p.k-d)%stepDepth
	rows := 0
	for r := 0; r < mc; r += rows {
		rows = min(tileRows, mc-r)
		if p.a.CS != 1 && r%bandRows == 0 && mc-r >= bandRows {
			rows = bandRows
		}
		dst := p.bufA[r/bandRows*steps*stepPairs+r%bandRows/tileRows*tilePairs:]
		src := p.a.Data[(i+r)*p.a.RS+d*p.a.CS:]
		switch {
		case p.a.CS == 1:
			if whole > 0 {
				packTilesAMX(whole, &dst[0], &src[0], 2*p.a.RS, rows, stepDepth)
			}
			if whole < steps {
				packTilesAMX(1, &dst[whole*stepPairs], &src[whole*stepDepth], 2*p.a.RS, rows, last)
			}
		case p.a.RS == 1 && rows%tileRows == 0:
			for s := range whole {
				joinTilesAMX(rows/tileRows, &dst[s*stepPairs], &src[s*stepDepth*p.a.CS], 2*p.a.CS)
			}
			if whole < steps {
				p.staged(src[whole*stepDepth*p.a.CS:], p.a.CS, 1, last, rows)
				joinTilesAMX(rows/tileRows, &dst[whole*stepPairs], &p.stage[0], 2*stepDepth)
			}
		default:
			for s := range steps {
				p.staged(src[s*stepDepth*p.a.CS:], p.a.RS, p.a.CS, rows, min(stepDepth, p.k-d-s*stepDepth))
				packTilesAMX(1, &dst[s*stepPairs], &p.stage[0], 2*stepDepth, rows, stepDepth)
			}
		}
	}
}

// packB makes panels of cols columns of b from q on, for steps from number d on.
func (p *tileProduct) packB(dst []float32, q, cols, d, steps int) {
	size := steps * stepPairs
	if p.b.CS != 1 {
		for c := 0; c < cols; c += panelLine {
			p.turnB(dst[c/panelLine*size:], q+c, min(panelLine, cols-c), d, steps)
		}
		return
	}
	whole := cols / panelLine
	if whole > 0 {
		p.pairB(dst, q, whole, panelLine, d, steps)
	}
	if rest := cols % panelLine; rest > 0 {
		p.pairB(dst[whole*size:], q+whole*panelLine, 1, rest, d, steps)
	}
}

// pairB makes panels of cols columns of b, whose rows are contiguous.
func (p *tileProduct) pairB(dst []float32, q, panels, cols, d, steps int) {
	src, size := p.b.Data[d*p.b.RS+q:], steps*stepPairs
	numbers := min(p.k-d, steps*stepDepth)
	if lines := numbers / 2; lines > 0 {
		pairPanelsAMX(lines, panels, &dst[0], 4*size, &src[0], &src[p.b.RS], 4*p.b.RS, cols)
	}
	if numbers == steps*stepDepth {
		return
	}
	for c := range panels {
		rest := dst[c*size+numbers/2*panelLine : (c+1)*size]
		clear(rest)
		if numbers%2 > 0 {
			clear(p.stage[:panelLine])
			pairPanelsAMX(1, 1, &rest[0], 0, &src[(numbers-1)*p.b.RS+c*panelLine], &p.stage[0], 0, cols)
		}
	}
}

// turnB makes a panel of cols columns of b, which are contiguous or lie anyhow.
func (p *tileProduct) turnB(dst []float32, q, cols, d, steps int) {
	src := p.b.Data[d*p.b.RS+q*p.b.CS:]
	whole, last := min(steps, (p.k-d)/stepDepth), (p.k-d)%stepDepth
	for c := 0; c < cols; c += tileRows {
		to, from, some := dst[c:], src[c*p.b.CS:], min(tileRows, cols-c)
		s := 0
		if p.b.RS == 1 && some == tileRows && whole > 0 {
			turnPanelAMX(whole, &to[0], &from[0], 2*p.b.CS)
			s = whole
		}
		for ; s < steps; s++ {
			numbers := stepDepth
			if s == whole {
				numbers = last
			}
			p.staged(from[s*stepDepth*p.b.RS:], p.b.CS, p.b.RS, some, numbers)
			turnPanelAMX(1, &to[s*stepPairs], &p.stage[0], 2*stepDepth)
		}
	}
}

// staged copies rows of numbers to stage, a line of 32 each, and fills it with zeros.
func (p *tileProduct) staged(src []uint16, rs, cs, rows, numbers int) {
	clear(p.stage[:])
	for r := range rows {
		line := p.stage[r*stepDepth:][:numbers]
		if cs == 1 {
			copy(line, src[r*rs:])
			continue
		}
		for l := range line {
			line[l] = src[r*rs+l*cs]
		}
	}
}
