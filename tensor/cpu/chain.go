package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
)

// chain is operations from to to-1 of a tile program, which one call of the Chain kernel
// does: the result of one stays in a register for the next. It is stored too if other
// operations read it.
type chain struct {
	from, to int
	steps    []chainStep
	first    int // of its scalars in the run's memory
}

// chainStep is an operation of the kernel. Its operand is pointer ptr, or scalar s of the
// program where ptr is -1; both are -1 if it has none.
type chainStep struct {
	code, ptr, s int
	neg          bool // -s
}

// stretch is the number of elements of one call where all operands are contiguous and
// nothing goes through scratch. It is far more than a tile, because the core fetches the
// first elements of a call only after it has left the call before. See "Elementwise
// passes over contiguous operands" in docs/decisions.md.
const stretch = 64 * tile

// chainCodes has the operations of the kernel: the code with the accumulator as the first
// operand, and with it as the second.
var chainCodes = map[tensor.Op][2]int{
	tensor.OpNeg:    {kernel.ChainNeg},
	tensor.OpAbs:    {kernel.ChainAbs},
	tensor.OpSquare: {kernel.ChainSquare},
	tensor.OpSqrt:   {kernel.ChainSqrt},
	tensor.OpRelu:   {kernel.ChainReLU},
	tensor.OpAdd:    {kernel.ChainAdd, kernel.ChainAdd},
	tensor.OpSub:    {kernel.ChainSub, kernel.ChainRSub},
	tensor.OpMul:    {kernel.ChainMul, kernel.ChainMul},
	tensor.OpDiv:    {kernel.ChainDiv, kernel.ChainRDiv},
	tensor.OpMax:    {kernel.ChainMax, kernel.ChainRMax},
	tensor.OpMin:    {kernel.ChainMin, kernel.ChainRMin},
}

// chains finds the runs of two operations and more that the kernel can do, block elements
// at a time.
func (p *tileProgram) chains(block int) {
	for i := 0; i < len(p.body); {
		to := i
		for to < len(p.body) && p.body[to].chained {
			to++
		}
		if to-i > 1 {
			p.runs = append(p.runs, p.chain(i, to))
		}
		i = max(to, i+1)
	}
	for i := range p.runs {
		c := &p.runs[i]
		c.first = p.scalars
		for _, s := range c.steps {
			if s.s >= 0 {
				p.scalars++
			}
		}
		p.steps = max(p.steps, len(c.steps))
	}
	p.far = p.goesFar(block)
}

// goesFar reports whether the program is a single operation or one chain that neither
// writes to scratch nor reads it. The chain's kernel then does all of a whole number of
// tiles, so that no elements are left to do operation by operation.
func (p *tileProgram) goesFar(block int) bool {
	if p.fold != nil || p.rows != 1 || slices.ContainsFunc(p.inputs, func(in tileInput) bool { return in.scratch >= 0 }) {
		return false
	}
	if len(p.body) == 1 {
		return len(p.body[0].spread) == 0
	}
	if block == 0 || tile%block != 0 || len(p.runs) != 1 || p.runs[0].to-p.runs[0].from != len(p.body) {
		return false
	}
	for _, c := range p.runs[0].steps {
		if i := c.ptr - len(p.inputs); i >= 0 && p.body[i].out < 0 {
			return false
		}
	}
	return true
}

// chain merges operations from to to-1 into one.
func (p *tileProgram) chain(from, to int) chain {
	c := chain{from: from, to: to}
	stored := map[int]bool{} // pointers whose value is read from memory
	for j := range p.body {
		for a, k := range p.body[j].in {
			carried := j > from && j < to && k == p.body[j-1].dst && !(a > 0 && p.body[j].in[0] == k)
			if k >= 0 && !carried {
				stored[k] = true
			}
		}
	}
	// the accumulator's value: none yet, and never -1, which is a scalar operand
	acc := -2
	for i := from; i < to; i++ {
		o := &p.body[i]
		code, operand := o.code, -1
		rest := o.in
		switch {
		case o.in[0] == acc:
			rest = rest[1:]
		case len(o.in) > 1 && o.in[1] == acc:
			code, rest = o.swapped, rest[:1]
		default:
			c.steps = append(c.steps, chainStep{code: kernel.ChainLoad, ptr: o.in[0], s: -1})
			rest = rest[1:]
		}
		if len(rest) > 0 {
			operand = rest[0]
		}
		c.steps = append(c.steps, chainStep{code: code, ptr: operand, s: o.s, neg: o.neg})
		acc = o.dst
		if o.out >= 0 || stored[o.dst] || p.fold != nil && i == len(p.body)-1 {
			c.steps = append(c.steps, chainStep{code: kernel.ChainStore, ptr: o.dst, s: -1})
		}
	}
	return c
}

// run does the chain for n elements and returns how many it did.
func (c *chain) run(r *run, n int) int {
	ops := r.chain[:len(c.steps)]
	scalar := c.first
	for i := range c.steps {
		s := &c.steps[i]
		ops[i] = kernel.ChainOp{Code: s.code}
		switch {
		case s.ptr >= 0:
			ops[i].P = (*float32)(r.ptrs[s.ptr])
		case s.s >= 0:
			ops[i].P = &r.chainScalars[scalar]
			scalar++
		}
	}
	return r.table.Chain(n, ops)
}

// prepare lays out the chain's scalars.
func (c *chain) prepare(r *run) {
	at := c.first
	for _, s := range c.steps {
		if s.s >= 0 {
			x := float32(r.scalars[s.s])
			if s.neg {
				x = -x
			}
			r.chainScalars[at] = x
			at++
		}
	}
}
