package kernel

import "math"

// AdamWStep holds the coefficients of one step of AdamW (Loshchilov and Hutter 2019,
// arXiv:1711.05101), the same for every element:
//
//	m' = Beta1*m + Rest1*g
//	v' = Beta2*v + Rest2*g²
//	p' = Decay*p - Rate * m'/(√v'*Root + Eps)
type AdamWStep struct {
	Beta1, Rest1 float32 // decay of the mean, and 1 minus it
	Beta2, Rest2 float32 // decay of the mean square, and 1 minus it
	Root         float32 // 1/√(1-Beta2^step)
	Eps          float32
	Decay        float32 // 1 - lr*weight decay
	Rate         float32 // lr/(1-Beta1^step)
}

func adamwGo(pOut, mOut, vOut, p, m, v, g []float32, s AdamWStep) {
	n := len(pOut)
	mOut, vOut, p, m, v, g = mOut[:n], vOut[:n], p[:n], m[:n], v[:n], g[:n]
	for i, gi := range g {
		mi := s.Beta1*m[i] + s.Rest1*gi
		vi := s.Beta2*v[i] + s.Rest2*(gi*gi)
		d := float32(math.Sqrt(float64(vi)))*s.Root + s.Eps
		pOut[i] = s.Decay*p[i] - s.Rate*(mi/d)
		mOut[i], vOut[i] = mi, vi
	}
}
