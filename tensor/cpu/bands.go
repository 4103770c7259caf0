package cpu

// An operand that is contiguous along the last but one dim of a tile program's nest, or
// nearly so, and not along the last, is read by bands. A band has enough rows to use
// whole cache lines of the operand. Its elements are transposed to scratch, where the
// tiles of these rows read them.

const (
	// bandRows is the most rows of a band: a cache line of the smallest elements.
	bandRows = 64
	// leastBand is the fewest rows that are worth a band.
	leastBand = 8
	// bandBytes bounds the scratch of all operands of a band, which is to stay in the
	// second-level cache beside the results.
	bandBytes = 256 << 10
)

// turns reports whether input k is read by bands.
func (p *tileProgram) turns(k int) bool {
	st := p.n.strides[k+1]
	last := len(st) - 1
	row, col := max(st[last-1], -st[last-1]), max(st[last], -st[last])
	return row != 0 && row < col && p.n.dims[last-1] >= leastBand
}

// bands sets the size of a band, and gives scratch to the inputs that are read by bands.
// Tiles of a row that is folded follow one another, so bands have all of such a row.
func (p *tileProgram) bands() {
	p.band, p.wide = p.rows, p.size
	width := 0 // of an element of all such inputs
	for _, in := range p.inputs {
		if in.turned {
			width += in.width
		}
	}
	if width == 0 {
		return
	}
	wide := p.n.inner()
	if p.fold == nil && p.rows == 1 {
		wide = min(wide, tile)
	}
	band := min(bandBytes/(width*wide), bandRows)
	if band < leastBand {
		for k := range p.inputs {
			if in := &p.inputs[k]; in.turned {
				in.turned, in.scratch = false, p.room(in.width)
			}
		}
		return
	}
	p.band, p.wide, p.turning = max(band/p.rows, 1)*p.rows, wide, true
	for k := range p.inputs {
		in := &p.inputs[k]
		in.fixed = in.fixed && p.n.inner() <= wide
		if in.turned {
			in.scratch = p.words
			p.words += (p.band*p.wide*in.width + 7) / 8
		}
	}
}

// columns returns how many of the columns that are left are done at once.
func (p *tileProgram) columns(left int) int {
	if p.far {
		return max(min(p.size, left), min(stretch, left/p.size*p.size))
	}
	return min(p.wide, left)
}

// runBand computes rows from row i on, m columns from j on, as columns returns them.
func (p *tileProgram) runBand(r *run, odo *odometer, i, rows, j, m int) {
	piece := m
	if p.wide > p.size {
		piece = p.size
	}
	if p.turning {
		p.turn(r, odo, i, rows, j, m)
	}
	for k := 0; k < rows; k += p.rows {
		for c := 0; c < m; c += piece {
			p.tile(r, odo, i+k, min(p.rows, rows-k), j+c, min(piece, m-c))
		}
	}
}

// turn transposes to scratch what the band reads of the inputs that are read by bands.
func (p *tileProgram) turn(r *run, odo *odometer, i, rows, j, m int) {
	r.bandRow, r.bandCol, r.bandWide = i, j, m
	last := len(p.n.dims) - 1
	for k := range p.inputs {
		in := &p.inputs[k]
		if !in.turned {
			continue
		}
		rs, cs := p.n.strides[k+1][last-1], p.n.strides[k+1][last]
		src := at(r.bufs[in.o.Buf], (in.o.Off+odo.off[k+1]+i*rs+j*cs)*in.width)
		switch in.width {
		case 1:
			turnRows[uint8](r, r.scratch(in.scratch), src, rs, cs, rows, m)
		case 2:
			turnRows[uint16](r, r.scratch(in.scratch), src, rs, cs, rows, m)
		case 4:
			turnRows[uint32](r, r.scratch(in.scratch), src, rs, cs, rows, m)
		default:
			turnRows[uint64](r, r.scratch(in.scratch), src, rs, cs, rows, m)
		}
	}
}

// placeOf returns the place of row i and column j of input in within the band.
func (in *tileInput) placeOf(r *run, i, j int) pointer {
	return shift(r.scratch(in.scratch), ((i-r.bandRow)*r.bandWide+j-r.bandCol)*in.width)
}

// turnRows copies rows of m elements that lie rs apart, their elements cs apart, one
// after another; rs is the smaller. It goes by squares, whose lines stay in the cache.
func turnRows[T any](r *run, dst, src pointer, rs, cs, rows, m int) {
	if rs == 1 && cs >= rows {
		transpose(r, elems[T](dst, rows*m), m, elems[T](src, (m-1)*cs+rows), cs, rows, m)
		return
	}
	size := sizeOf[T]()
	d := elems[T](dst, rows*m)
	for j0 := 0; j0 < m; j0 += squareSide {
		for i := range rows {
			from := shift(src, i*rs*size)
			for j := j0; j < min(j0+squareSide, m); j++ {
				d[i*m+j] = *(*T)(shift(from, j*cs*size))
			}
		}
	}
}
