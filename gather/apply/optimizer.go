package apply

// Optimizer makes new weights of old ones and an update, which points downhill: it is
// subtracted. Products are rounded before they are added, so that all processors give the
// same bits.
type Optimizer struct {
	LR       float64 // 0: 1
	Momentum float64 // 0: plain SGD
	Nesterov bool
	Sign     bool // of the update only the signs are taken
}

// step updates w by g. m is the momentum, which has w's length if there is any.
func (o *Optimizer) step(w, g, m []float32) {
	lr, mu := float32(o.LR), float32(o.Momentum)
	if o.LR == 0 {
		lr = 1
	}
	w = w[:len(g)]
	if m == nil && !o.Sign {
		for i, x := range g {
			w[i] -= float32(lr * x)
		}
		return
	}
	for i, x := range g {
		if o.Sign {
			x = sign(x)
		}
		if m != nil {
			m[i] = float32(mu*m[i]) + x
			if o.Nesterov {
				x += float32(mu * m[i])
			} else {
				x = m[i]
			}
		}
		w[i] -= float32(lr * x)
	}
}

func sign(x float32) float32 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
