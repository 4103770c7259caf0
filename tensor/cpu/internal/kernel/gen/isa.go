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
	name   string
	lanes  int // numbers in a vector
	wide   bool
	double bool // the numbers are float64; products alone know them
	pairs  bool // a number of a and b of a product is two of bfloat16
	ints   bool // the numbers of a product are integers; Go calls them floats
}

var (
	avx512 = isa{name: "AVX512", lanes: 16, wide: true}
	avx2   = isa{name: "AVX2", lanes: 8}
)

// doubles returns the same instruction set for products of float64.
func (s isa) doubles() isa {
	return isa{name: "F64" + s.name, lanes: s.lanes / 2, wide: s.wide, double: true}
}

// brain returns the same instruction set for products of pairs of bfloat16, as
// AVX512_BF16 has them.
func (s isa) brain() isa {
	return isa{name: "BF16" + s.name, lanes: s.lanes, wide: s.wide, pairs: true}
}

// integers returns the same instruction set for products of integers of s's size, which
// wrap.
func (s isa) integers() isa {
	s.name, s.ints = map[bool]string{false: "I32", true: "I64"}[s.double]+strings.TrimPrefix(s.name, "F64"), true
	return s
}

// moverOf returns the set whose kernels copy and transpose numbers of s's size.
func moverOf(s isa) string {
	name := strings.TrimPrefix(strings.TrimPrefix(s.name, "BF16"), "I32")
	if rest, ok := strings.CutPrefix(name, "I64"); ok {
		return "F64" + rest
	}
	return name
}

// elem returns the type of a number.
func (s isa) elem() string {
	if s.double {
		return "float64"
	}
	return "float32"
}

// numberBytes returns the size of a number.
func (s isa) numberBytes() int {
	if s.double {
		return 8
	}
	return 4
}

// broadcast sets all lanes of v to the number at m.
func (s isa) broadcast(m Mem, v reg.VecVirtual) {
	if s.double {
		VBROADCASTSD(m, v)
	} else {
		VBROADCASTSS(m, v)
	}
}

// addProduct adds a*b to sum.
func (s isa) addProduct(a, b, sum reg.VecVirtual) {
	if s.ints {
		addIntegers(s, productOfIntegers(s, a, b), sum)
	} else if s.double {
		VFMADD231PD(a, b, sum)
	} else {
		VFMADD231PS(a, b, sum)
	}
}

// addIntegers adds x to sum.
func addIntegers(s isa, x, sum reg.VecVirtual) { s.of(VPADDD, VPADDQ)(x, sum, sum) }

// productOfIntegers returns the lower halves of products.
func productOfIntegers(s isa, a, b reg.VecVirtual) reg.VecVirtual {
	low := s.vec()
	if !s.double {
		VPMULLD(b, a, low)
		return low
	}
	if s.wide {
		VPMULLQ(b, a, low)
		return low
	}
	// a.lo*b.lo + (a.hi*b.lo + a.lo*b.hi)<<32
	ah, bh := s.vec(), s.vec()
	VPSRLQ(U8(32), a, ah)
	VPSRLQ(U8(32), b, bh)
	VPMULUDQ(b, ah, ah)
	VPMULUDQ(a, bh, bh)
	VPADDQ(bh, ah, ah)
	VPSLLQ(U8(32), ah, ah)
	VPMULUDQ(b, a, low)
	VPADDQ(ah, low, low)
	return low
}

// scale multiplies v by a.
func (s isa) scale(a, v reg.VecVirtual) {
	if s.double {
		VMULPD(a, v, v)
	} else {
		VMULPS(a, v, v)
	}
}

func (s isa) vec() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// bytes returns the size of a vector.
func (s isa) bytes() int { return s.numberBytes() * s.lanes }

// zero returns a vector of zeros.
func (s isa) zero() reg.VecVirtual {
	v := s.vec()
	s.clear(v)
	return v
}

// clear sets v to zeros.
func (s isa) clear(v reg.VecVirtual) {
	if s.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// scalar returns a vector whose lanes are all the named argument, a number.
func (s isa) scalar(arg string) reg.VecVirtual {
	a, err := Param(arg).Resolve()
	if err != nil {
		panic(err)
	}
	v := s.vec()
	s.broadcast(a.Addr, v)
	return v
}

// tail selects the first n lanes of count consecutive vectors.
type tail struct {
	s isa
	k []reg.OpmaskVirtual // wide
	v []reg.VecVirtual    // otherwise
}

// newTail makes the masks for n lanes, 0 ≤ n ≤ count*lanes; it destroys n. Vectors are
// three at most, or two if not wide. A lane of float64 is selected as two of float32.
func (s isa) newTail(n reg.GPVirtual, count int) tail {
	t := tail{s: s}
	if s.double {
		SHLQ(U8(1), n)
	}
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
