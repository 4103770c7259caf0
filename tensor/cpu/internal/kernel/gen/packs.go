package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// packSizes are the bytes of the elements that packs copies.
var packSizes = []int{1, 2, 4, 8}

// packs writes the kernels that copy elements which lie apart, one after another, by
// vectors of AVX2: those of AVX-512 move no more bytes a cycle.
func packs(s isa) {
	for _, vectors := range []int{1, 2} {
		width := vectors * s.bytes()
		packRows(s, fmt.Sprint("pack", width), "uint8",
			fmt.Sprintf("copies rows > 0 rows of n > 0 bytes, stride bytes apart in x, one after another. It reads and writes %d bytes for each.", width),
			func(dst, x Mem) {
				for i := range vectors {
					v := s.vec()
					VMOVUPS(x.Offset(i*s.bytes()), v)
					VMOVUPS(v, dst.Offset(i*s.bytes()))
				}
			})
		for _, size := range packSizes {
			load := map[int]func(...Op){1: VPBROADCASTB, 2: VPBROADCASTW, 4: VPBROADCASTD, 8: VPBROADCASTQ}[size]
			packRows(s, fmt.Sprintf("spread%dto%d", 8*size, width), fmt.Sprintf("uint%d", 8*size),
				fmt.Sprintf("copies the elements of rows > 0 rows, stride bytes apart in x, to n > 0 bytes each, one row after another. It writes %d bytes for each.", width),
				func(dst, x Mem) {
					v := s.vec()
					load(x, v)
					for i := range vectors {
						VMOVUPS(v, dst.Offset(i*s.bytes()))
					}
				})
		}
	}
	for _, size := range packSizes {
		evens(s, size)
	}
}

// packRows writes a kernel that copies row by row.
func packRows(s isa, name, elem, doc string, row func(dst, x Mem)) {
	s.text(name, fmt.Sprintf("rows int, n int, dst *%[1]s, x *%[1]s, stride int", elem), doc)
	rows, n := Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	dst, x := Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	stride := Load(Param("stride"), GP64())
	Label("row")
	row(Mem{Base: dst}, Mem{Base: x})
	ADDQ(n, dst)
	ADDQ(stride, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	s.ret()
}

// evens writes the kernel that copies every second element of size bytes.
func evens(s isa, size int) {
	lanes := s.bytes() / size
	elem := fmt.Sprintf("uint%d", 8*size)
	s.text(fmt.Sprint("evens", 8*size), fmt.Sprintf("n int, dst *%[1]s, x *%[1]s", elem),
		fmt.Sprintf("is dst[i] = x[2*i] for 0 <= i < n, a multiple of %d above 0.", lanes))
	n, dst, x := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	zero := s.zero()
	Label("each")
	a, b := s.vec(), s.vec()
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Disp: s.bytes()}, b)
	switch size { // within the 128-bit lanes of both
	case 1:
		VANDPS(at("lowByte"), a, a)
		VANDPS(at("lowByte"), b, b)
		VPACKUSWB(b, a, a)
	case 2:
		VPBLENDW(U8(0xaa), zero, a, a)
		VPBLENDW(U8(0xaa), zero, b, b)
		VPACKUSDW(b, a, a)
	case 4:
		VSHUFPS(U8(0x88), b, a, a)
	default:
		VUNPCKLPD(b, a, a)
	}
	VPERMQ(U8(0xd8), a, a)
	VMOVUPS(a, Mem{Base: dst})
	ADDQ(U8(2*s.bytes()), x)
	ADDQ(U8(s.bytes()), dst)
	SUBQ(U8(lanes), n)
	JNZ(LabelRef("each"))
	s.ret()
}

// setPacks writes the assignments of the kernels of s to a Table.
func setPacks(s isa, b *strings.Builder) {
	width := s.bytes()
	fmt.Fprintf(b, "t.Packs = Packs{\nRows: packBy(pack%d%s, pack%d%s),\n", width, s.name, 2*width, s.name)
	for _, size := range packSizes {
		fmt.Fprintf(b, "Spread%[1]d: spreadBy(%[2]d, spread%[1]dto%[3]d%[5]s, spread%[1]dto%[4]d%[5]s),\n", 8*size, size, width, 2*width, s.name)
	}
	for _, size := range packSizes {
		fmt.Fprintf(b, "Evens%[1]d: evensBy(%[2]d, evens%[1]d%[3]s),\n", 8*size, width/size, s.name)
	}
	b.WriteString("}\n")
}
