package cpu

import (
	"math"
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
	neg          bool    // -s
	nan          float32 // the scalar in place of NaN; 0: NaN
}

// stretch is the number of elements of one call where all operands are contiguous and
// nothing goes through scratch. It is far more than a tile, because the core fetches the
// first elements of a call only after it has left the call before. See "Elementwise
// passes over contiguous operands" in docs/decisions.md.
const stretch = 64 * tile

// chainCodes has the operations of the kernel: the code with the accumulator as the first
// operand, and with it as the second.
var chainCodes = map[tensor.Op][2]int{
	tensor.OpNeg:         {kernel.ChainNeg},
	tensor.OpAbs:         {kernel.ChainAbs},
	tensor.OpSign:        {kernel.ChainSign},
	tensor.OpSquare:      {kernel.ChainSquare},
	tensor.OpSqrt:        {kernel.ChainSqrt},
	tensor.OpRsqrt:       {kernel.ChainRsqrt},
	tensor.OpRecip:       {kernel.ChainRecip},
	tensor.OpFloor:       {kernel.ChainFloor},
	tensor.OpCeil:        {kernel.ChainCeil},
	tensor.OpRelu:        {kernel.ChainReLU},
	tensor.OpClamp:       {kernel.ChainMaxS},
	tensor.OpAdd:         {kernel.ChainAdd, kernel.ChainAdd},
	tensor.OpSub:         {kernel.ChainSub, kernel.ChainRSub},
	tensor.OpMul:         {kernel.ChainMul, kernel.ChainMul},
	tensor.OpDiv:         {kernel.ChainDiv, kernel.ChainRDiv},
	tensor.OpMax:         {kernel.ChainMax, kernel.ChainRMax},
	tensor.OpMin:         {kernel.ChainMin, kernel.ChainRMin},
	tensor.OpReluGrad:    {kernel.ChainReLUGrad, kernel.ChainRReLUGrad},
	tensor.OpTanhGrad:    {kernel.ChainTanhGrad, kernel.ChainRTanhGrad},
	tensor.OpSigmoidGrad: {kernel.ChainSigmoidGrad, kernel.ChainRSigmoidGrad},
}

// halfForms are what is added to the code of an operation whose operand has 16 bits.
var halfForms = map[tensor.DType]int{tensor.F16: kernel.ChainLoadF16 - kernel.ChainLoad, tensor.BF16: kernel.ChainLoadBF16 - kernel.ChainLoad}

// setHalf marks a conversion of float32 to or from a type of 16 bits as one for the
// kernel.
func (o *tileOp) setHalf(from, to tensor.DType) {
	switch {
	case from.IsHalf() && to == tensor.F32:
		o.chained, o.widens = true, halfForms[from]
	case from == tensor.F32 && to.IsHalf():
		o.chained, o.narrows = true, halfForms[to]
	}
}

// rowInputs finds the inputs that have one number for a row and that only operations of
// the kernel, or loops with such an operand, read: these take the number in place, and no
// tile is filled with it.
func (p *tileProgram) rowInputs() {
	for k := range p.inputs {
		in := &p.inputs[k]
		if p.rows != 1 || in.scratch < 0 || p.n.innerStride(k+1) != 0 {
			continue
		}
		if in.o.DType == tensor.F32 {
			in.row = !slices.ContainsFunc(p.body, func(o tileOp) bool { return !o.chained && slices.Contains(o.in, k) })
		} else {
			in.row = p.takeRow(k)
		}
		in.fixed = in.fixed && !in.row
	}
}

// takeRow gives the operations that read input k, one number for a row, the loops that
// take it in place. It returns false, and changes nothing, if there is no such loop for
// one of them.
func (p *tileProgram) takeRow(k int) bool {
	for i := range p.body {
		o := &p.body[i]
		if a := slices.Index(o.in, k); a >= 0 && (a > 1 || o.byRow[a] == nil || slices.Contains(o.in[a+1:], k)) {
			return false
		}
	}
	for i := range p.body {
		o := &p.body[i]
		if a := slices.Index(o.in, k); a >= 0 {
			o.f, o.in[a], o.widths[a] = o.byRow[a], p.inPlace(k), 0
			o.byRow = [2]loop{} // of one operand
		}
	}
	return true
}

// readsRow reports whether an operand of o is an input with one number for a row.
func (p *tileProgram) readsRow(o *tileOp) bool {
	return slices.ContainsFunc(o.in, func(k int) bool { return k >= 0 && k < len(p.inputs) && p.inputs[k].row })
}

// inPlace returns the number of the pointer to input k's number for the row.
func (p *tileProgram) inPlace(k int) int { return len(p.inputs) + len(p.body) + k }

// fillRows fills elements first to first+n-1 of a tile of each input that has one number
// for a row, for operations that read them one by one.
func (p *tileProgram) fillRows(r *run, first, n int) {
	for k := range p.inputs {
		if in := &p.inputs[k]; in.row && in.o.DType == tensor.F32 {
			r.table.Fill(elems[float32](shift(r.ptrs[k], 4*first), n), *(*float32)(r.ptrs[p.inPlace(k)]))
		}
	}
}

// chains finds the runs of two operations and more that the kernel can do, block elements
// at a time. One operation is a run if it reads an input with one number for a row.
func (p *tileProgram) chains(block int) {
	for i := 0; i < len(p.body); {
		to := i
		for to < len(p.body) && p.body[to].chained {
			to++
		}
		if to-i > 1 || to-i == 1 && p.readsRow(&p.body[i]) {
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
	if p.fold != nil || p.rows != 1 || slices.ContainsFunc(p.inputs, func(in tileInput) bool { return in.scratch >= 0 && !in.row }) {
		return false
	}
	if len(p.body) == 1 && len(p.runs) == 0 {
		return len(p.body[0].spread) == 0
	}
	if block == 0 || tile%block != 0 || len(p.runs) != 1 || p.runs[0].to-p.runs[0].from != len(p.body) {
		return false
	}
	for _, c := range p.runs[0].steps {
		if i := c.ptr - len(p.inputs); i >= 0 && i < len(p.body) && p.body[i].out < 0 {
			return false
		}
	}
	return true
}

// chain merges operations from to to-1 into one.
func (p *tileProgram) chain(from, to int) chain {
	c := chaining{p: p, direct: map[int]narrowOperand{}, stored: map[int]bool{}}
	for i := range p.body {
		if i < from || i >= to {
			for _, k := range p.body[i].in {
				c.stored[k] = true
			}
		} else if o := &p.body[i]; o.widens > 0 && p.readsDirectly(i, to) {
			c.direct[o.dst] = narrowOperand{o.in[0], o.widens}
		}
	}
	if p.fold != nil {
		c.stored[p.body[len(p.body)-1].dst] = true
	}
	for range 2 { // the first finds out which values the steps read from memory
		c.steps, c.acc, c.rounded = nil, none, none
		for i := from; i < to; i++ {
			c.add(&p.body[i])
		}
	}
	return chain{from: from, to: to, steps: c.steps}
}

// readsDirectly reports whether the operations that read the result of body[w], which
// widens numbers of 16 bits, can read those numbers instead: all are in a chain that ends
// before to, and nothing is written to memory, which may be that of the numbers, before
// the last of them.
func (p *tileProgram) readsDirectly(w, to int) bool {
	o := &p.body[w]
	if o.in[0] >= len(p.inputs) || o.out >= 0 || p.fold != nil && w == len(p.body)-1 {
		return false
	}
	last := w
	for i := w + 1; i < len(p.body); i++ {
		if slices.Contains(p.body[i].in, o.dst) {
			last = i
		}
	}
	return last < to && !slices.ContainsFunc(p.body[w:last], func(o tileOp) bool { return o.out >= 0 })
}

// none is no value. It is not -1, which is a scalar operand.
const none = -2

// narrowOperand is an operand of 16 bits, and what it adds to the code of an operation.
type narrowOperand struct{ ptr, form int }

// chaining makes the steps of a chain.
type chaining struct {
	p       *tileProgram
	direct  map[int]narrowOperand // operands that are read in place of widened values
	stored  map[int]bool          // pointers whose value is read from memory
	steps   []chainStep
	acc     int // the accumulator's value
	rounded int // the value of 16 bits that it would be, if any
}

func (c *chaining) step(s chainStep) { c.steps = append(c.steps, s) }

// operand returns where the operand numbered k is read, and what that adds to a code.
func (c *chaining) operand(k int) (ptr, form int) {
	if h, ok := c.direct[k]; ok {
		return h.ptr, h.form
	}
	if k < len(c.p.inputs) && c.p.inputs[k].row {
		return c.p.inPlace(k), kernel.ChainLoadS - kernel.ChainLoad
	}
	c.stored[k] = true
	return k, 0
}

// load makes k the accumulator's value.
func (c *chaining) load(k int) {
	ptr, form := c.operand(k)
	c.step(chainStep{code: kernel.ChainLoad + form, ptr: ptr, s: -1})
	c.acc, c.rounded = k, none
}

// add appends the steps of an operation.
func (c *chaining) add(o *tileOp) {
	if _, ok := c.direct[o.dst]; ok {
		return
	}
	if o.narrows > 0 {
		if c.acc != o.in[0] {
			c.load(o.in[0])
		}
		if c.rounded = o.dst; o.out >= 0 || c.stored[o.dst] {
			c.step(chainStep{code: kernel.ChainStore + o.narrows - halfForms[tensor.F16] + 1, ptr: o.dst, s: -1})
		}
		return
	}
	switch {
	case o.widens > 0 && o.in[0] == c.rounded:
		c.step(chainStep{code: kernel.ChainRoundF16 + o.widens - halfForms[tensor.F16], ptr: -1, s: -1})
	case o.widens > 0:
		c.stored[o.in[0]] = true
		c.step(chainStep{code: kernel.ChainLoad + o.widens, ptr: o.in[0], s: -1})
	default:
		c.compute(o)
	}
	c.acc, c.rounded = o.dst, none
	if o.out >= 0 || c.stored[o.dst] {
		c.step(chainStep{code: kernel.ChainStore, ptr: o.dst, s: -1})
	}
}

// compute appends the steps of an operation of float32.
func (c *chaining) compute(o *tileOp) {
	code, rest := o.code, o.in
	switch {
	case o.in[0] == c.acc:
		rest = rest[1:]
	case len(o.in) > 1 && o.in[1] == c.acc:
		code, rest = o.swapped, rest[:1]
	default:
		c.load(o.in[0])
		rest = rest[1:]
	}
	if len(o.own) == 2 { // the bounds of clamp, as clampBy
		inf := float32(math.Inf(1))
		c.step(chainStep{code: kernel.ChainMaxS, ptr: -1, s: o.own[0], nan: -inf})
		c.step(chainStep{code: kernel.ChainMinS, ptr: -1, s: o.own[1], nan: inf})
		return
	}
	operand, form := -1, 0
	if len(rest) > 0 && rest[0] >= 0 {
		operand, form = c.operand(rest[0])
	}
	c.step(chainStep{code: code + form, ptr: operand, s: o.s, neg: o.neg})
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
			switch {
			case s.neg:
				x = -x
			case x != x && s.nan != 0:
				x = s.nan
			}
			r.chainScalars[at] = x
			at++
		}
	}
}
