package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// predicate is a comparison.
type predicate struct {
	name, sign     string
	integer, float uint8 // of VPCMP and VCMPPS
}

var predicates = []predicate{{"Eq", "==", 0, 0}, {"Ne", "!=", 4, 4}, {"Lt", "<", 1, 17}, {"Le", "<=", 2, 18}}

// comparisons writes the comparisons of numbers, which make bytes 0 and 1.
func (p plainSet) comparisons(t numberType) {
	for _, c := range predicates {
		group := p.width() / t.size
		if !p.wide {
			group = 32
		}
		p.kernel(strings.ToLower(c.name)+t.name, t.name+"."+c.name, fmt.Sprintf("%sGo[%s]", strings.ToLower(c.name), t.elem), "dst[i] = a[i] "+c.sign+" b[i]", typeU8, t, true, group, func(dst, a, b Mem) {
			if p.wide {
				k := K()
				p.compare(t, c, b, p.load(a), k)
				p.storeTruths(k, group, dst)
				return
			}
			p.storeMasks(t, c.name == "Ne" || c.name == "Lt" && t.size == 1 || c.name == "Le" && t.signed, dst, func(i int) vreg {
				return p.masks(t, c, p.load(a.Offset(32*i)), p.load(b.Offset(32*i)))
			})
		})
	}
}

// compare sets k where a is as c says of b.
func (p plainSet) compare(t numberType, c predicate, b Op, a vreg, k reg.OpmaskVirtual) {
	switch {
	case t.float && t.size == 4:
		VCMPPS(U8(c.float), b, a, k)
	case t.float:
		VCMPPD(U8(c.float), b, a, k)
	case t.size == 1:
		VPCMPUB(U8(c.integer), b, a, k)
	case t.size == 4:
		VPCMPD(U8(c.integer), b, a, k)
	default:
		VPCMPQ(U8(c.integer), b, a, k)
	}
}

// storeTruths writes a byte 1 for each lane of k and 0 for the others.
func (p plainSet) storeTruths(k reg.OpmaskVirtual, lanes int, dst Mem) {
	switch lanes {
	case 64:
		v := ZMM()
		VMOVDQU8_Z(at("byteOne"), k, v)
		VMOVDQU8(v, dst)
	case 32:
		v := YMM()
		VMOVDQU8_Z(at("byteOne"), k, v)
		VMOVDQU8(v, dst)
	default:
		v := XMM()
		VMOVDQU8_Z(at("byteOne"), k, v)
		if lanes == 16 {
			VMOVDQU8(v, dst)
		} else {
			VMOVQ(v, dst)
		}
	}
}

// masks returns lanes of ones where a is as c says of b, or of zeros where storeMasks
// turns them over.
func (p plainSet) masks(t numberType, c predicate, a, b vreg) vreg {
	if t.float {
		v := p.vec()
		if t.size == 4 {
			VCMPPS(U8(c.float), b, a, v)
		} else {
			VCMPPD(U8(c.float), b, a, v)
		}
		return v
	}
	same := map[int]func(...Op){1: VPCMPEQB, 4: VPCMPEQD, 8: VPCMPEQQ}[t.size]
	above := map[int]func(...Op){4: VPCMPGTD, 8: VPCMPGTQ}[t.size]
	switch {
	case c.name == "Eq" || c.name == "Ne":
		return p.op(same, b, a)
	case t.size == 1 && c.name == "Le": // max(a, b) is b
		return p.op(same, b, p.op(VPMAXUB, b, a))
	case t.size == 1: // not b <= a
		return p.op(same, a, p.op(VPMAXUB, b, a))
	case c.name == "Lt": // b > a
		return p.op(above, a, b)
	}
	return p.op(above, b, a) // not a > b
}

// storeMasks writes 32 bytes: 1 where lanes of masks have ones, or zeros if inverted.
// masks returns vector i of those of 32 numbers.
func (p plainSet) storeMasks(t numberType, inverted bool, dst Mem, masks func(i int) vreg) {
	inverted = inverted && !t.float
	var words func(i int) vreg // masks of 8 numbers
	switch t.size {
	case 8:
		words = func(i int) vreg {
			lo, hi := masks(2*i), masks(2*i+1)
			VSHUFPS(U8(0x88), hi, lo, lo)
			VPERMQ(U8(0xd8), lo, lo)
			return lo
		}
	default:
		words = masks
	}
	v := p.vec()
	switch t.size {
	case 1:
		v = masks(0)
	case 2:
		v = p.op(VPACKSSWB, masks(1), masks(0))
		VPERMQ(U8(0xd8), v, v)
	default:
		lo := p.op(VPACKSSDW, words(1), words(0))
		hi := p.op(VPACKSSDW, words(3), words(2))
		VPACKSSWB(hi, lo, v)
		// The four numbers of each half of a vector lie one after another.
		order := p.load(at("packed"))
		VPERMD(v, order, v)
	}
	if inverted {
		VPANDN(at("byteOne"), v, v)
	} else {
		VANDPS(at("byteOne"), v, v)
	}
	VMOVUPS(v, dst)
}

// truths writes the conversions to bools.
func (p plainSet) truths(t numberType) {
	group := p.width() / t.size
	if !p.wide {
		group = 32
	}
	goName := fmt.Sprintf("truthsGo[%s]", t.elem)
	if t == typeHalf {
		goName = "halfTruthsGo"
	}
	p.kernel("truths"+t.name, t.name+"ToBool", goName, "dst[i] = a[i] != 0", typeU8, t, false, group, func(dst, a, _ Mem) {
		ne := predicates[1]
		if !p.wide {
			zero := p.zero()
			p.storeMasks(t, true, dst, func(i int) vreg {
				if t == typeHalf {
					return p.op(VPCMPEQW, zero, p.and(at("halfAbs"), p.load(a.Offset(32*i))))
				}
				return p.masks(t, ne, p.load(a.Offset(32*i)), zero)
			})
			return
		}
		k, v := K(), p.load(a)
		switch {
		case t == typeHalf:
			VPTESTMW(at("halfAbs"), v, k)
		case t.float:
			p.compare(t, ne, at("zero"), v, k)
		case t.size == 1:
			VPTESTMB(v, v, k)
		case t.size == 4:
			VPTESTMD(v, v, k)
		default:
			VPTESTMQ(v, v, k)
		}
		p.storeTruths(k, group, dst)
	})
}
