package main

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one instruction set. The differences between the two are here; most instructions
// have the same name for both widths.
type isa struct {
	name  string
	lanes int // float32 in a vector
	wide  bool
}

var (
	avx512 = isa{"AVX512", 16, true}
	avx2   = isa{"AVX2", 8, false}
)

func (s isa) vec() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// bytes returns the size of a vector.
func (s isa) bytes() int { return 4 * s.lanes }

// zero returns a vector of zeros.
func (s isa) zero() reg.VecVirtual {
	v := s.vec()
	if s.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
	return v
}

// scalar returns a vector whose lanes are all the named float32 argument.
func (s isa) scalar(arg string) reg.VecVirtual {
	a, err := Param(arg).Resolve()
	if err != nil {
		panic(err)
	}
	v := s.vec()
	VBROADCASTSS(a.Addr, v)
	return v
}

// tail selects the first n lanes of count consecutive vectors.
type tail struct {
	s isa
	k []reg.OpmaskVirtual // wide
	v []reg.VecVirtual    // otherwise
}

// newTail makes the masks for n lanes, 0 ≤ n ≤ count*lanes; it destroys n. Vectors are
// three at most, or two if not wide.
func (s isa) newTail(n reg.GPVirtual, count int) tail {
	t := tail{s: s}
	if s.wide {
		m := GP64()
		if count > 2 {
			MOVQ(I32(-1), m)
			BZHIQ(n, m, m)
		} else {
			MOVL(U32(math.MaxUint32), m.As32())
			BZHIL(n.As32(), m.As32(), m.As32())
		}
		for i := range count {
			if i > 0 {
				if count > 2 {
					SHRQ(U8(16), m)
				} else {
					SHRL(U8(16), m.As32())
				}
			}
			k := K()
			KMOVW(m.As32(), k)
			t.k = append(t.k, k)
		}
		return t
	}
	p := GP64()
	LEAQ(at("lanes").Offset(4*16), p)
	SHLQ(U8(2), n)
	SUBQ(n, p)
	for i := range count {
		v := YMM()
		VMOVUPS(Mem{Base: p, Disp: 32 * i}, v)
		t.v = append(t.v, v)
	}
	return t
}

// mask returns the selection of the first vector.
func (t tail) mask() mask {
	if t.s.wide {
		return mask{k: t.k[0]}
	}
	return mask{v: t.v[0]}
}

// load reads the selected lanes of m into v, zeros elsewhere.
func (t tail) load(i int, m Mem, v reg.VecVirtual) {
	if t.s.wide {
		VMOVUPS_Z(m, t.k[i], v)
	} else {
		VMASKMOVPS(m, t.v[i], v)
	}
}

// store writes the selected lanes of v.
func (t tail) store(i int, v reg.VecVirtual, m Mem) {
	if t.s.wide {
		VMOVUPS(v, t.k[i], m)
	} else {
		VMASKMOVPS(v, t.v[i], m)
	}
}

// text starts a function; args and results follow Go syntax. Each begins on a cache line:
// where its loops lie on lines, and with that their speed, does not depend on the code
// that the linker places before it.
func (s isa) text(name, args, doc string, results ...string) {
	TEXT(name+s.name, NOSPLIT, fmt.Sprintf("func(%s) (%s)", args, strings.Join(results, ", ")))
	Pragma("noescape")
	Doc(wrapped(fmt.Sprintf("%s%s %s", name, s.name, doc))...)
	Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(64)}})
}

// wrapped returns the lines of a comment.
func wrapped(text string) []string {
	const columns = 87
	lines := []string{""}
	for _, w := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = w
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(w) > columns:
			lines = append(lines, w)
		default:
			*last += " " + w
		}
	}
	return lines
}

func (s isa) ret() {
	VZEROUPPER()
	RET()
}
