package tensor

// sized is a shape that values of a session share.
type sized struct {
	shape   Shape
	elems   int
	program uint32 // epoch of index
	index   uint32 // in Program.Shapes
}

// unsized is the shape of values that stand for an error.
var unsized = &sized{elems: 1}

// shapes holds each shape of a session once, so that a result of a known shape allocates
// none.
type shapes struct {
	known map[shapeKey]*sized
	// hints has the shape that was last found for each hash. Comparing with it is quicker
	// than a look into the map. If it is another shape, the map is asked.
	hints [hints]*sized
}

type shapeKey struct {
	rank int
	dims [MaxRank]int
}

// hints is the number of shapes that are guessed, more than most programs have.
const hints = 64

// mostShapes bounds the shapes that a session remembers. A shape that it meets again
// after it forgot it is another sized, which does no harm.
const mostShapes = 1 << 12

// of returns the sized of the shape s, which it copies. s has at most MaxRank dims.
func (t *shapes) of(s Shape) *sized {
	h := uint64(len(s))
	for _, d := range s {
		h = h*0x9e3779b97f4a7c15 + uint64(d)
	}
	hint := &t.hints[hashOf(h, 0)%hints]
	if x := *hint; x != nil && x.shape.Equal(s) {
		return x
	}
	k := shapeKey{rank: len(s)}
	copy(k.dims[:], s)
	x := t.known[k]
	if x == nil {
		if len(t.known) >= mostShapes || t.known == nil {
			t.known = map[shapeKey]*sized{}
		}
		x = &sized{shape: append(Shape{}, s...), elems: s.Elems()}
		t.known[k] = x
	}
	*hint = x
	return x
}

// shapeIndex returns the place of x in the table of shapes of the program.
func (r *recording) shapeIndex(x *sized) uint32 {
	if x.program == r.epoch {
		return x.index
	}
	p := &r.prog
	if y := r.shapes.of(x.shape); y != x { // x was forgotten
		x.program, x.index = r.epoch, r.shapeIndex(y)
		return x.index
	}
	x.program, x.index = r.epoch, uint32(len(p.Shapes))
	p.Shapes = append(p.Shapes, x.shape)
	return x.index
}
