package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestMomentum wants the bits of AdamM and then Axpy on every level, also where the
// result lies in the place of an operand.
func TestMomentum(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths() {
			for place := range 4 { // of the result: an operand's, or its own
				var in [4]fenced
				for i := range in {
					in[i] = newFenced(n, r.IntN(17), r.Float32)
				}
				b, g, p, dst := in[0].v, in[1].v, in[2].v, in[place].v
				want := make([]float32, n)
				k.AdamM(want, b, g, 0.9, 0.7)
				k.Axpy(want, p, want, 0.01)
				k.Momentum(dst, b, g, p, 0.9, 0.7, 0.01)
				for i := range dst {
					if !identical(dst[i], want[i]) {
						t.Fatalf("%d numbers in place %d: %v at %d, expected %v", n, place, dst[i], i, want[i])
					}
				}
				for i := range in {
					in[i].intact(t, "Momentum")
				}
			}
		}
	})
}

// TestAdamParts wants the bits of AdamW of its parts, one after another, on every level.
func TestAdamParts(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths() {
			step := newAdamWStep(1e-3, 0.9, 0.999, 1e-8, 0.01, 3)
			var in [4]fenced
			for i := range in {
				in[i] = newFenced(n, r.IntN(17), r.Float32)
			}
			p, m, v, g := in[0].v, in[1].v, in[2].v, in[3].v
			wantP, wantM, wantV := make([]float32, n), make([]float32, n), make([]float32, n)
			k.AdamW(wantP, wantM, wantV, p, m, v, g, step)
			k.AdamM(m, m, g, step.Beta1, step.Rest1)
			k.AdamV(v, v, g, step.Beta2, step.Rest2)
			k.AdamP(p, p, m, v, step.Decay, step.Rate, step.Root, step.Eps)
			for i := range p {
				if !identical(p[i], wantP[i]) || !identical(m[i], wantM[i]) || !identical(v[i], wantV[i]) {
					t.Fatalf("%d numbers: (%v, %v, %v) at %d, expected (%v, %v, %v)", n, p[i], m[i], v[i], i, wantP[i], wantM[i], wantV[i])
				}
			}
			for i := range in {
				in[i].intact(t, "the parts of AdamW")
			}
		}
	})
}
