package kernel

import "math"

// AdamWStep holds the coefficients of one step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), the same for
// every element:
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

// NewAdamWStep returns the coefficients of the given step, counted from 1, in the convention of PyTorch's AdamW. They
// are computed in double precision and rounded once.
func NewAdamWStep(lr, beta1, beta2, eps, weightDecay float64, step int) AdamWStep {
	t := float64(step)
	return AdamWStep{
		Beta1: float32(beta1), Rest1: float32(1 - beta1),
		Beta2: float32(beta2), Rest2: float32(1 - beta2),
		Root:  float32(1 / math.Sqrt(1-math.Pow(beta2, t))),
		Eps:   float32(eps),
		Decay: float32(1 - lr*weightDecay),
		Rate:  float32(lr / (1 - math.Pow(beta1, t))),
	}
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
