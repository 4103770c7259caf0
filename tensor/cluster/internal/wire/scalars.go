package wire

import (
	"math"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// The scalars of a Run are encoded as a bit for each, lowest first, which says whether it
// differs from the program's last run, and then those that do, float64 each. Most do not:
// of an optimizer's step only the learning rate and the bias corrections change. Without
// a last run with as many scalars all of them differ.

// lastScalars returns the scalars that n new ones are predicted from, nil if there are
// none.
func (r *pastRun) lastScalars(n int) []float64 {
	if len(r.scalars) != n {
		return nil
	}
	return r.scalars
}

// differs compares bits, so that NaN equals itself and 0 differs from -0.
func differs(last, now []float64, i int) bool {
	return last == nil || math.Float64bits(last[i]) != math.Float64bits(now[i])
}

// walkScalars visits the scalars now, predicted from last.
func walkScalars(w *encoding.Walk, last, now []float64) {
	if w.Parses() {
		parseScalars(w, last, now)
		return
	}
	for i := 0; i < len(now); i += 8 {
		var mask uint8
		for j := i; j < min(i+8, len(now)); j++ {
			if differs(last, now, j) {
				mask |= 1 << (j - i)
			}
		}
		w.U8("Scalars", &mask)
	}
	for i := range now {
		if differs(last, now, i) {
			w.F64("Scalars", &now[i])
		}
	}
}

func parseScalars(w *encoding.Walk, last, now []float64) {
	n := len(now)
	mask := w.Take("Scalars", (n+7)/8)
	if w.Err() != nil {
		return
	}
	if n%8 != 0 && mask[n/8]>>(n%8) != 0 {
		w.Fail("Scalars", "bits beyond the last of %d scalars", n)
		return
	}
	for i := range now {
		switch {
		case mask[i/8]>>(i%8)&1 != 0:
			w.F64("Scalars", &now[i])
		case last == nil:
			w.Fail("Scalars", "scalar %d is as in the last run, which had another number of them", i)
			return
		default:
			now[i] = last[i]
		}
	}
}
