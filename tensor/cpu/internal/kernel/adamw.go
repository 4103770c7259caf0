package kernel

// AdamWStep holds the coefficients of one step of AdamW (Loshchilov and Hutter 2019,
// arXiv:1711.05101), the same for every element:
//
//	m' = Beta1*m + Rest1*g
//	v' = Beta2*v + Rest2*g²
//	p' = Decay*p - Rate * m'/(√v'*Root + Eps)
type AdamWStep[T Float] struct {
	Beta1, Rest1 T // decay of the mean, and 1 minus it
	Beta2, Rest2 T // decay of the mean square, and 1 minus it
	Root         T // 1/√(1-Beta2^step)
	Eps          T
	Decay        T // 1 - lr*weight decay
	Rate         T // lr/(1-Beta1^step)
}

func adamwGo[T Float](pOut, mOut, vOut, p, m, v, g []T, beta1, rest1, beta2, rest2, root, eps, decay, rate T) {
	n := len(pOut)
	mOut, vOut, p, m, v, g = mOut[:n], vOut[:n], p[:n], m[:n], v[:n], g[:n]
	for i, gi := range g {
		mi := T(beta1*m[i]) + T(rest1*gi)
		vi := T(beta2*v[i]) + T(rest2*T(gi*gi))
		d := T(sqrt(vi)*root) + eps
		pOut[i] = T(decay*p[i]) - T(rate*(mi/d))
		mOut[i], vOut[i] = mi, vi
	}
}
