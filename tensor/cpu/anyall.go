package cpu

import (
	"bytes"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// anyAll lowers any and all of bools, bytes 0 and 1.
func anyAll(s *compile.Step, g folding) lowered {
	end := func(r *run, i int, yes bool) { r.bufs[s.Out.Buf][i] = truth(yes) }
	if s.Op == tensor.OpAll {
		if g.inRows() {
			return foldRows(s, g, rows[uint8, bool]{func(_ *run, x []uint8) bool { return bytes.IndexByte(x, 0) < 0 }, func(a, b bool) bool { return a && b }, end})
		}
		return lowered{f: folds(s, g, 1, func(yes uint8, x uint8) uint8 { return yes & x }, andBools, func(r *run, i int, yes uint8) { end(r, i, yes != 0) })}
	}
	if g.inRows() {
		return foldRows(s, g, rows[uint8, bool]{func(_ *run, x []uint8) bool { return bytes.IndexByte(x, 1) >= 0 }, func(a, b bool) bool { return a || b }, end})
	}
	return lowered{f: folds(s, g, 0, func(yes uint8, x uint8) uint8 { return yes | x }, orBools, func(r *run, i int, yes uint8) { end(r, i, yes != 0) })}
}
