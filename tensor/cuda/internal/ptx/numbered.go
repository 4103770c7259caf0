package ptx

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Numbered reports whether op is not elementwise but has a kernel like one: an element of
// its result is a function of the element's number and of that element of the operand.
func Numbered(op tensor.Op) bool {
	switch op {
	case tensor.OpArange, tensor.OpRand, tensor.OpRandN, tensor.OpTril, tensor.OpTriu, tensor.OpOneHot:
		return true
	}
	return false
}

// numbered returns what adds element j of the thread by an operation that depends on the
// element's number, out of the elements x of its operands. It is nil for another
// operation. scalars are those of the operation.
func (t *tiler) numbered(in *compile.Inst, scalars []int) func(j int, x []reg) reg {
	d := in.DType
	switch in.Op {
	case tensor.OpArange:
		start, step := t.given(tensor.F64, scalars[0]), t.given(tensor.F64, scalars[1])
		return func(j int, _ []reg) reg {
			n := t.op(f64, "cvt.rn.f64.u32", t.number(j))
			return t.cast(tensor.F64, d, t.op(f64, "add.rn.f64", start, t.op(f64, "mul.rn.f64", n, step)))
		}
	case tensor.OpTril, tensor.OpTriu:
		return t.triangle(in)
	case tensor.OpOneHot:
		classes := t.s.Out.Shape[len(t.s.Out.Shape)-1]
		return func(j int, x []reg) reg {
			class := t.op(b32, "rem.u32", t.number(j), whole(classes))
			return t.cast(tensor.Bool, d, t.truth(t.op(pred, "setp.eq.u32", class, x[0])))
		}
	case tensor.OpRand:
		s := t.source(scalars, in.Ints[1])
		if d == tensor.F64 {
			return func(j int, _ []reg) reg { return t.uniform64(s, j) }
		}
		return func(j int, _ []reg) reg { return t.uniform(t.word(s, j)) }
	case tensor.OpRandN:
		return t.normal(d, t.source(scalars, in.Ints[1]))
	case tensor.OpDropout:
		return t.dropout(in, scalars)
	}
	return nil
}

// given returns the register of one of the run's scalars as a d.
func (t *tiler) given(d tensor.DType, n int) reg {
	return t.scalar(fmt.Sprint(d, n), d, func(s []float64) float64 { return s[n] })
}

// number returns the number of element j of the thread.
func (t *tiler) number(j int) reg {
	if j == 0 {
		return t.first
	}
	return t.op(b32, "add.u32", t.first, whole(j))
}

// triangle keeps the elements on one side of a diagonal.
func (t *tiler) triangle(in *compile.Inst) func(j int, x []reg) reg {
	shape := t.s.Out.Shape
	rows, columns := shape[len(shape)-2], shape[len(shape)-1]
	k := whole(int(min(max(in.Ints[0], int64(-rows-1)), int64(columns+1))))
	comparison := "setp.le.s32"
	if in.Op == tensor.OpTriu {
		comparison = "setp.ge.s32"
	}
	return func(j int, x []reg) reg {
		n := t.number(j)
		row := t.op(b32, "rem.u32", t.op(b32, "div.u32", n, whole(columns)), whole(rows))
		right := t.op(b32, "sub.s32", t.op(b32, "rem.u32", n, whole(columns)), row)
		return t.choose(in.DType, x[0], constant(in.DType, 0), t.op(pred, comparison, right, k))
	}
}

// source are the random words of an operation: its seed is the key, its number the upper
// half of the counter.
type source struct {
	key, number [2]reg
	blocks      map[int][4]reg // by their place after the first of the thread
}

// source reads the seed and the counter, which are the last two of scalars.
func (t *tiler) source(scalars []int, offset int64) *source {
	n := len(scalars)
	counter := scalars[n-1]
	seed := t.given(tensor.I64, scalars[n-2])
	number := t.fromPage(fmt.Sprint("number", counter, offset), Scalar{tensor.I64, func(s []float64) uint64 {
		return uint64(s[counter]) + uint64(offset) // in integers: it may be above 2^53
	}})
	return &source{key: t.halves(seed), number: t.halves(number), blocks: map[int][4]reg{}}
}

// block returns four words by Philox4x32-10: those of the block that has the thread's
// first element, where a block has 1<<shift of them, or the n-th after it.
func (t *tiler) block(s *source, shift, n int) [4]reg {
	if b, ok := s.blocks[n]; ok {
		return b
	}
	at := t.op(b32, "shr.u32", t.first, whole(shift))
	if n > 0 {
		at = t.op(b32, "add.u32", at, whole(n))
	}
	c, key := [4]reg{at, t.op(b32, "mov.u32", "0"), s.number[0], s.number[1]}, s.key
	for round := range 10 {
		if round > 0 {
			key[0] = t.op(b32, "add.u32", key[0], whole(0x9E3779B9))
			key[1] = t.op(b32, "add.u32", key[1], whole(0xBB67AE85))
		}
		product := func(x reg, by int) (hi, lo reg) {
			return t.op(b32, "mul.hi.u32", x, whole(by)), t.op(b32, "mul.lo.u32", x, whole(by))
		}
		xor := func(a, b, c reg) reg { return t.op(b32, "xor.b32", t.op(b32, "xor.b32", a, b), c) }
		h0, l0 := product(c[0], 0xD2511F53)
		h1, l1 := product(c[2], 0xCD9E8D57)
		c = [4]reg{xor(h1, c[1], key[0]), l1, xor(h0, c[3], key[1]), l0}
	}
	s.blocks[n] = c
	return c
}

// bit returns whether a bit of the number of the thread's first element is set.
func (t *tiler) bit(mask int) reg {
	return t.op(pred, "setp.ne.u32", t.op(b32, "and.b32", t.first, whole(mask)), "0")
}

// pair returns the two words of a block that are of element j or, for elements with a
// word each, of element j and the one that it forms a pair with.
func (t *tiler) pair(s *source, shift, j int) [2]reg {
	if t.k.Vector >= 1<<shift {
		b, half := t.block(s, shift, j>>shift), j>>(shift-1)&1
		return [2]reg{b[2*half], b[2*half+1]}
	}
	b, second := t.block(s, shift, 0), t.bit(1<<(shift-1))
	return [2]reg{t.op(b32, "selp.b32", b[2], b[0], second), t.op(b32, "selp.b32", b[3], b[1], second)}
}

// word returns the word of element j, of which a block has four.
func (t *tiler) word(s *source, j int) reg {
	p := t.pair(s, 2, j)
	if t.k.Vector > 1 {
		return p[j%2]
	}
	return t.op(b32, "selp.b32", p[1], p[0], t.bit(1))
}

// uniform returns the upper 24 bits of a word as a number in [0, 1).
func (t *tiler) uniform(word reg) reg {
	return t.op(f32, "mul.rn.f32", t.op(f32, "cvt.rn.f32.u32", t.op(b32, "shr.u32", word, "8")), single(0x1p-24))
}

// uniform64 returns 53 bits of the words of element j as a number in [0, 1).
func (t *tiler) uniform64(s *source, j int) reg {
	p := t.pair(s, 1, j)
	return t.wide(p[0], p[1])
}

// wide returns 53 bits of two words as a number in [0, 1).
func (t *tiler) wide(low, high reg) reg {
	bits := t.new(b64)
	t.line("mov.b64 %s, {%s, %s}", bits, low, high)
	return t.op(f64, "mul.rn.f64", t.op(f64, "cvt.rn.f64.u64", t.op(b64, "shr.u64", bits, "11")), double(0x1p-53))
}

// normal returns normal numbers by Box and Muller: elements 2i and 2i+1 of uniforms 2i
// and 2i+1, the first moved from [0, 1) to (0, 1]. The angle is computed in f64.
func (t *tiler) normal(d tensor.DType, s *source) func(j int, x []reg) reg {
	w := t.real(d)
	var radius, angle reg // of the pair
	return func(j int, _ []reg) reg {
		if j%2 == 0 {
			step := 0x1p-24
			var u, turn reg // of the radius, and of the angle in f64
			if d == tensor.F64 {
				b := t.block(s, 1, j>>1)
				u, turn, step = t.wide(b[0], b[1]), t.wide(b[2], b[3]), 0x1p-53
			} else {
				p := t.pair(s, 2, j)
				u, turn = t.uniform(p[0]), t.op(f64, "cvt.f64.f32", t.uniform(p[1]))
			}
			radius = w.do("sqrt.rn", w.mul(w.log(w.add(u, w.num(step))), w.num(-2)))
			angle = t.op(f64, "mul.rn.f64", turn, double(2*math.Pi))
		}
		quarter := whole(1 - j%2)
		if t.k.Vector == 1 {
			quarter = t.op(b32, "xor.b32", t.op(b32, "and.b32", t.first, "1"), "1")
		}
		return w.mul(radius, w.turn(angle, quarter))
	}
}

// dropout keeps an element if its uniform number is p or more, which is so if the upper
// 24 bits of its word are p·2²⁴ or more.
func (t *tiler) dropout(in *compile.Inst, scalars []int) func(j int, x []reg) reg {
	n := scalars[0]
	least := t.scalar(fmt.Sprint("least", n), tensor.I32, func(s []float64) float64 { return math.Ceil(s[n] * 0x1p24) })
	scale := t.scalar(fmt.Sprint("scale", n), in.DType, func(s []float64) float64 { return 1 / (1 - s[n]) })
	src := t.source(scalars, in.Ints[0])
	f := forms[in.DType]
	return func(j int, x []reg) reg {
		kept := t.op(pred, "setp.ge.u32", t.op(b32, "shr.u32", t.word(src, j), "8"), least)
		return t.choose(in.DType, t.op(f.class, "mul.rn."+f.suffix, x[0], scale), constant(in.DType, 0), kept)
	}
}
