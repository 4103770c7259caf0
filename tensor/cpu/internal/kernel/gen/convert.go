package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// toBytes writes the conversions to bytes: floats are cut toward zero and clamped,
// integers wrap.
func (p plainSet) toBytes() {
	for _, t := range []numberType{typeF32, typeF64, typeI32, typeI64} {
		goName := fmt.Sprintf("convertGo[uint8, %s]", t.elem)
		if t.float {
			goName = fmt.Sprintf("cutBytesGo[%s]", t.elem)
		}
		group := p.width() / t.size
		if !p.wide {
			group = 32
		}
		p.kernel("bytes"+t.name, t.name+"ToU8", goName, "dst[i] = a[i] as a byte", typeU8, t, false, group, func(dst, a, _ Mem) {
			if p.wide {
				v := p.load(a)
				switch t {
				case typeF32:
					VPMOVDB(p.cutByte(t, v), dst)
				case typeF64:
					w := YMM()
					VCVTTPD2DQ(p.clampByte(t, v), w)
					x := XMM()
					VPMOVDB(w, x)
					VMOVQ(x, dst)
				case typeI32:
					VPMOVDB(v, dst)
				default:
					x := XMM()
					VPMOVQB(v, x)
					VMOVQ(x, dst)
				}
				return
			}
			words := func(i int) vreg { // of 8 numbers, each from 0 to 255
				switch t {
				case typeF32:
					return p.cutByte(t, p.load(a.Offset(32*i)))
				case typeI32:
					return p.and(at("wordByte"), p.load(a.Offset(32*i)))
				case typeF64:
					lo, hi, v := XMM(), XMM(), p.vec()
					VCVTTPD2DQY(p.clampByte(t, p.load(a.Offset(64*i))), lo)
					VCVTTPD2DQY(p.clampByte(t, p.load(a.Offset(64*i+32))), hi)
					VINSERTI128(U8(1), hi, lo.AsY(), v)
					return v
				}
				lo, hi := p.load(a.Offset(64*i)), p.load(a.Offset(64*i+32))
				VSHUFPS(U8(0x88), hi, lo, lo)
				VPERMQ(U8(0xd8), lo, lo)
				return p.and(at("wordByte"), lo)
			}
			lo := p.op(VPACKUSDW, words(1), words(0))
			hi := p.op(VPACKUSDW, words(3), words(2))
			v := p.op(VPACKUSWB, hi, lo)
			order := p.load(at("packed"))
			VPERMD(v, order, v)
			VMOVUPS(v, dst)
		})
	}
}

// clampByte returns v between 0 and 255, 0 for NaN: of two operands of which one is NaN,
// the instruction returns the second, which comes first here.
func (p plainSet) clampByte(t numberType, v vreg) vreg {
	double := t.size == 8
	ins, most := VMAXPS, "byteMost"
	less := VMINPS
	zero := at("zero")
	if double {
		ins, less, most = VMAXPD, VMINPD, "byteMost64"
	}
	return p.op(less, at(most), p.op(ins, zero, v))
}

func (p plainSet) cutByte(t numberType, v vreg) vreg {
	w := p.vec()
	VCVTTPS2DQ(p.clampByte(t, v), w)
	return w
}

// fromBytes writes the conversions of bytes to wider numbers.
func (p plainSet) fromBytes() {
	for _, t := range []numberType{typeI32, typeI64, typeF32, typeF64} {
		group := p.width() / t.size
		p.kernel("wide"+t.name, "U8To"+t.name, fmt.Sprintf("convertGo[%s, uint8]", t.elem), "dst[i] = a[i]", t, typeU8, false, group, func(dst, a, _ Mem) {
			v := p.vec()
			switch t {
			case typeI32, typeF32:
				VPMOVZXBD(a, v)
				if t.float {
					VCVTDQ2PS(v, v)
				}
			case typeI64:
				VPMOVZXBQ(a, v)
			case typeF64:
				if p.wide {
					VPMOVZXBD(a, v.AsY())
					VCVTDQ2PD(v.AsY(), v)
				} else {
					VPMOVZXBD(a, v.AsX())
					VCVTDQ2PD(v.AsX(), v)
				}
			}
			VMOVUPS(v, dst)
		})
	}
}

// betweenIntegers writes the conversions of wider integers, but for those to bytes.
func (p plainSet) betweenIntegers() {
	p.kernel("singleI32", "I32ToF32", "convertGo[float32, int32]", "dst[i] = a[i]", typeF32, typeI32, false, p.width()/4, func(dst, a, _ Mem) {
		v := p.vec()
		VCVTDQ2PS(a, v)
		VMOVUPS(v, dst)
	})
	p.kernel("doubleI32", "I32ToF64", "convertGo[float64, int32]", "dst[i] = a[i]", typeF64, typeI32, false, p.width()/8, func(dst, a, _ Mem) {
		v := p.vec()
		VCVTDQ2PD(a, v)
		VMOVUPS(v, dst)
	})
	p.kernel("longI32", "I32ToI64", "convertGo[int64, int32]", "dst[i] = a[i]", typeI64, typeI32, false, p.width()/8, func(dst, a, _ Mem) {
		v := p.vec()
		VPMOVSXDQ(a, v)
		VMOVUPS(v, dst)
	})
	p.kernel("wordI64", "I64ToI32", "convertGo[int32, int64]", "dst[i] = a[i], wrapped", typeI32, typeI64, false, 8, func(dst, a, _ Mem) {
		v := p.load(a)
		if p.wide {
			VPMOVQD(v, dst)
			return
		}
		VSHUFPS(U8(0x88), a.Offset(32), v, v)
		VPERMQ(U8(0xd8), v, v)
		VMOVUPS(v, dst)
	})
}
