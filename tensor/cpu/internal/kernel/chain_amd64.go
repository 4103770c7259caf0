package kernel

// chainOf returns f over as many whole blocks as there are.
func chainOf(block int, f func(n int, code *int, ops int)) func(n int, ops []ChainOp) int {
	return func(n int, ops []ChainOp) int {
		for _, o := range ops {
			if o.Code < 0 || o.Code >= chainCodes {
				panic("kernel: no such operation of a chain")
			}
		}
		whole := n / block * block
		if whole > 0 && len(ops) > 0 {
			f(whole, &ops[0].Code, len(ops))
		}
		return whole
	}
}
