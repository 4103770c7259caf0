package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotColumns is how many columns dotsU8 multiplies by a row at a time.
const dotColumns = 4

// byteProducts writes the kernels of products of a few rows of bytes, which wrap.
func byteProducts(s isa) {
	byteSums{isa: s}.axpys()
	byteSums{isa: s}.dots()
}

// wordProducts writes the kernels of products of a few rows of integers of s's size,
// which wrap.
func wordProducts(s isa) {
	k := &kern{isa: s}
	elem, spread := "int32", VPBROADCASTD
	if s.double {
		elem, spread = "int64", VPBROADCASTQ
	}
	k.text("axpys", fmt.Sprintf("n int, a *%[1]s, csA int, b *%[1]s, rsB int, c *%[1]s", elem),
		fmt.Sprintf("is c += a*b for 1 row of a, %d rows of b and n > 0 columns, a multiple of %d; strides in bytes.", axpyRows, s.lanes))
	n := Load(Param("n"), GP64())
	a, csA := Load(Param("a"), GP64()), Load(Param("csA"), GP64())
	b, rsB := Load(Param("b"), GP64()).(reg.GPVirtual), Load(Param("rsB"), GP64()).(reg.GPVirtual)
	c := Load(Param("c"), GP64())
	var row [axpyRows]vreg
	for i := range row {
		row[i] = k.vec()
		spread(Mem{Base: a}, row[i])
		if i+1 < axpyRows {
			ADDQ(csA, a)
		}
	}
	lines := rowAddress(b, rsB, axpyRows)
	Label("each")
	sum := k.vec()
	VMOVUPS(Mem{Base: c}, sum)
	for i, x := range row {
		v := k.vec()
		VMOVUPS(lines[i], v)
		addIntegers(s, productOfIntegers(s, x, v), sum)
	}
	VMOVUPS(sum, Mem{Base: c})
	ADDQ(U8(s.bytes()), b)
	ADDQ(U8(s.bytes()), c)
	SUBQ(U8(s.lanes), n)
	JNZ(LabelRef("each"))
	k.ret()
	wordDots(k, elem)
}

// wordDots writes the kernel for a right operand that lies by columns.
func wordDots(k *kern, elem string) {
	k.text("dots", fmt.Sprintf("n int, a *%[1]s, b *%[1]s, csB int, c *%[1]s", elem),
		fmt.Sprintf("is c += a*b for 1 row of a and %d columns of b, whose n > 0 numbers lie one after another, a multiple of %d; strides in bytes.", dotColumns, k.lanes))
	n, a := Load(Param("n"), GP64()), Load(Param("a"), GP64())
	b, csB := Load(Param("b"), GP64()).(reg.GPVirtual), Load(Param("csB"), GP64()).(reg.GPVirtual)
	c := Load(Param("c"), GP64())
	lines := rowAddress(b, csB, dotColumns)
	var sums [dotColumns]vreg
	for q := range sums {
		sums[q] = k.zero()
	}
	x := k.vec()
	Label("each")
	VMOVUPS(Mem{Base: a}, x)
	for q, line := range lines {
		v := k.vec()
		VMOVUPS(line, v)
		addIntegers(k.isa, productOfIntegers(k.isa, x, v), sums[q])
	}
	ADDQ(U8(k.bytes()), a)
	ADDQ(U8(k.bytes()), b)
	SUBQ(U8(k.lanes), n)
	JNZ(LabelRef("each"))
	sum := GP64()
	for q, v := range sums {
		v = k.fold(v, func(a, b vreg) vreg { return k.op(k.of(VPADDD, VPADDQ), b, a) })
		to := Mem{Base: c, Disp: q * k.numberBytes()}
		if k.double {
			VMOVQ(v.AsX(), sum)
			ADDQ(sum, to)
		} else {
			VMOVD(v.AsX(), sum.As32())
			ADDL(sum.As32(), to)
		}
	}
	k.ret()
}

// byteSums adds up products of bytes by words: those of even bytes in the lower bytes of
// one vector, those of odd bytes in the upper bytes of another. The other
// byte of a word is 0 or has no meaning.
type byteSums struct {
	isa
	upper vreg // selects the odd bytes
}

// setUpper makes the selection of the odd bytes.
func (p *byteSums) setUpper() {
	p.upper = p.vec()
	VMOVUPS(at("lowByte"), p.upper)
	VPSLLW(U8(8), p.upper, p.upper)
}

// add adds the products of the bytes at m to even and odd: even bytes times the lower
// bytes of x, odd ones times the lower bytes of y.
func (p byteSums) add(m Mem, x, y, even, odd vreg) {
	low, high := p.vec(), p.vec()
	VPMULLW(m, x, low)
	VPADDW(low, even, even)
	VANDPS(m, p.upper, high)
	VPMULLW(y, high, high)
	VPADDW(high, odd, odd)
}

// join sets even to the bytes of both sums.
func (p byteSums) join(even, odd vreg) {
	VANDPS(at("lowByte"), even, even)
	VPADDB(odd, even, even)
}

// axpys writes the kernel for a right operand that lies by rows.
func (p byteSums) axpys() {
	p.text("axpysU8", "n int, a *uint8, csA int, b *uint8, rsB int, c *uint8",
		fmt.Sprintf("is c += a*b for 1 row of a, %d rows of b and n > 0 columns, a multiple of %d; strides in bytes.", axpyRows, 4*p.lanes))
	n := Load(Param("n"), GP64())
	a, csA := Load(Param("a"), GP64()), Load(Param("csA"), GP64())
	b, rsB := Load(Param("b"), GP64()).(reg.GPVirtual), Load(Param("rsB"), GP64()).(reg.GPVirtual)
	c := Load(Param("c"), GP64())
	p.setUpper()
	var row [axpyRows]vreg
	for i := range row {
		row[i] = p.vec()
		VPBROADCASTB(Mem{Base: a}, row[i])
		if i+1 < axpyRows {
			ADDQ(csA, a)
		}
	}
	lines := rowAddress(b, rsB, axpyRows)
	even, odd := p.vec(), p.vec()
	Label("each")
	p.clear(even)
	p.clear(odd)
	for i, x := range row {
		p.add(lines[i], x, x, even, odd)
	}
	p.join(even, odd)
	VPADDB(Mem{Base: c}, even, even)
	VMOVUPS(even, Mem{Base: c})
	ADDQ(U8(p.bytes()), b)
	ADDQ(U8(p.bytes()), c)
	SUBQ(U8(p.bytes()), n)
	JNZ(LabelRef("each"))
	p.ret()
}

// dots writes the kernel for a right operand that lies by columns.
func (p byteSums) dots() {
	p.text("dotsU8", "n int, a *uint8, b *uint8, csB int, c *uint8",
		fmt.Sprintf("is c += a*b for 1 row of a and %d columns of b, whose n > 0 numbers lie one after another, a multiple of %d; strides in bytes.", dotColumns, 4*p.lanes))
	n, a := Load(Param("n"), GP64()), Load(Param("a"), GP64())
	b, csB := Load(Param("b"), GP64()).(reg.GPVirtual), Load(Param("csB"), GP64()).(reg.GPVirtual)
	c := Load(Param("c"), GP64())
	p.setUpper()
	lines := rowAddress(b, csB, dotColumns)
	var even, odd [dotColumns]vreg
	for q := range even {
		even[q], odd[q] = p.zero(), p.zero()
	}
	x, y := p.vec(), p.vec()
	Label("each")
	VMOVUPS(Mem{Base: a}, x)
	VPSRLW(U8(8), x, y)
	for q, line := range lines {
		p.add(line, x, y, even[q], odd[q])
	}
	ADDQ(U8(p.bytes()), a)
	ADDQ(U8(p.bytes()), b)
	SUBQ(U8(p.bytes()), n)
	JNZ(LabelRef("each"))
	zero, sum := p.zero(), GP64()
	for q, v := range even {
		p.join(v, odd[q])
		VPSADBW(zero, v, v) // sums of eight bytes
		y, half := v.AsY(), XMM()
		if p.wide {
			h := YMM()
			VEXTRACTI64X4(U8(1), v, h)
			VPADDQ(h, y, y)
		}
		VEXTRACTI128(U8(1), y, half)
		VPADDQ(half, v.AsX(), half)
		other := XMM()
		VPSRLDQ(U8(8), half, other)
		VPADDQ(other, half, half)
		VMOVQ(half, sum)
		ADDB(sum.As8(), Mem{Base: c, Disp: q})
	}
	p.ret()
}
