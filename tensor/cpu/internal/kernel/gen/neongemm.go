package main

import (
	"fmt"
	"strings"
)

const (
	// neonRows is the most rows of a tile: of two vectors, the sums take half of all
	// registers.
	neonRows = 8
	neonVecs = 2
)

// neonGemm writes the inner tiles of a matrix product, the packing of its operands, and
// the transposition of blocks, as gemm. Integers have none.
func neonGemm(s *neonSet, double bool) {
	k := &neon{neonSet: s, double: double}
	lanes := neonLanes(double)
	for vecs := 1; vecs <= neonVecs; vecs++ {
		for mr := 1; mr <= neonRows; mr++ {
			k.tile(mr, vecs, lanes)
		}
	}
	// as wide as a column of a tile is high
	for vecs := 1; vecs <= neonRows/lanes; vecs++ {
		k.pack(vecs, lanes)
	}
	k.transpose(lanes)
}

// tile writes one tile. Registers: V0 on are the sums by rows; b's row lies in V16 and
// V17, numbers of a in V18 to V25, alpha in V31.
func (k *neon) tile(mr, vecs, lanes int) {
	width := vecs * lanes
	elem := k.elem()
	k.function(k.named(fmt.Sprintf("tile%dx%d", mr, width)), fmt.Sprintf("is c = alpha*a*b, or c += alpha*a*b if add is not 0, for %d rows and cols ≤ %d columns.", mr, width),
		fmt.Sprintf("k int, a *%[1]s, rsA, csA int, b *%[1]s, rsB int, c *%[1]s, ldc int, alpha %[1]s, cols int, add int", elem), "", 16*vecs, k.double,
		func(f *neonFunc, at func(string) string) {
			k.neonFunc = f
			for reg, arg := range []string{"k", "a", "csA", "b", "rsB", "c", "ldc", "cols", "add"} {
				f.line("MOVD %s, R%d", at(arg), reg)
			}
			f.line("%s %s, F31", f.move(), at("alpha"))
			// R8+i is the distance of row i of a
			row := func(i int) string {
				if i == 0 {
					return "(R1)"
				}
				return fmt.Sprintf("(R1)(R%d)", 8+i)
			}
			for i := 1; i < mr; i++ {
				if i == 1 {
					f.line("MOVD %s, R9", at("rsA"))
				} else {
					f.line("ADD R9, R%d, R%d", 7+i, 8+i)
				}
			}
			for v := range mr * vecs {
				f.line("VEOR V%[1]d.B16, V%[1]d.B16, V%[1]d.B16", v)
			}
			f.label("depth")
			for j := range vecs {
				f.line("FMOVQ %d(R3), F%d", 16*j, 16+j)
			}
			for i := range mr {
				f.line("%s %s, F%d", f.move(), row(i), 18+i)
			}
			for i := range mr {
				for j := range vecs {
					f.line("%s", byLane(byLaneAdd, k.double, i*vecs+j, 16+j, 18+i))
				}
			}
			f.line("ADD R2, R1")
			f.line("ADD R4, R3")
			f.line("SUB $1, R0")
			f.line("CBNZ R0, depth")
			f.line("CMP $%d, R7", width)
			f.line("BNE part")
			f.line("CBZ R8, set")
			// whole writes the rows of a tile that is as wide as its vectors.
			whole := func(sum func(v, j int) int) {
				for i := range mr {
					for j := range vecs {
						f.line("FMOVQ F%d, %d(R5)", sum(i*vecs+j, j), 16*j)
					}
					if i+1 < mr {
						f.line("ADD R6, R5")
					}
				}
				f.line("RET")
			}
			whole(func(v, j int) int {
				f.line("FMOVQ %d(R5), F16", 16*j)
				f.line("%s", byLane(byLaneAdd, k.double, 16, v, 31))
				return 16
			})
			scaled := func(v, _ int) int { f.line("%s", byLane(byLaneSet, k.double, v, v, 31)); return v }
			f.label("set")
			whole(scaled)
			f.label("part")
			f.line("MOVD $part-%d(SP), R14", 16*vecs)
			k.part(mr, vecs)
		})
}

// part writes the rows of a tile that is narrower than its vectors, through a row on the
// stack, at R14.
func (k *neon) part(mr, vecs int) {
	f := k.neonFunc
	shift := 2
	if k.double {
		shift = 3
	}
	for i := range mr {
		for j := range vecs {
			f.line("FMOVQ F%d, %d(R14)", i*vecs+j, 16*j)
		}
		loop, first, done := fmt.Sprintf("row%d", i), fmt.Sprintf("first%d", i), fmt.Sprintf("done%d", i)
		f.line("MOVD $0, R15")
		f.label(loop)
		f.line("%s (R14)(R15<<%d), F16", f.move(), shift)
		f.line("CBZ R8, %s", first)
		f.line("%s (R5)(R15<<%d), F17", f.move(), shift)
		f.line("%s", byLane(byLaneAdd, k.double, 17, 16, 31))
		f.line("B %s", done)
		f.label(first)
		f.line("%s", byLane(byLaneSet, k.double, 17, 16, 31))
		f.label(done)
		f.line("%s F17, (R5)(R15<<%d)", f.move(), shift)
		f.line("ADD $1, R15")
		f.line("CMP R7, R15")
		f.line("BLT %s", loop)
		if i+1 < mr {
			f.line("ADD R6, R5")
		}
	}
	f.line("RET")
}

// Products of a vector and the first number of another.
var (
	byLaneAdd = neonWord{"fmla", 0x4f801000, false} // added to the target
	byLaneSet = neonWord{"fmul", 0x4f809000, false}
)

func byLane(w neonWord, double bool, dst, a, b int) string {
	text := encode(w, double, dst, a, b)
	return text[:len(text)-len(fmt.Sprintf("v%d", b))] + fmt.Sprintf("v%d[0]", b)
}

// pack writes the copy of rows of up to vecs vectors.
func (k *neon) pack(vecs, lanes int) {
	width := vecs * lanes
	k.function(k.named(fmt.Sprintf("pack%d", width)), fmt.Sprintf("copies rows of cols ≤ %d numbers, filling each up to %d with zeros; rows > 0, strides in bytes.", width, width),
		fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, rows, cols int", k.elem()), "", 0, k.double,
		func(f *neonFunc, at func(string) string) {
			for reg, arg := range []string{"dst", "ds", "src", "ss", "rows", "cols"} {
				f.line("MOVD %s, R%d", at(arg), reg)
			}
			f.line("VEOR V0.B16, V0.B16, V0.B16")
			f.label("row")
			f.line("MOVD R0, R6")
			f.line("MOVD R2, R7")
			f.line("MOVD R5, R8")
			for j := range vecs {
				f.line("FMOVQ F0, %d(R0)", 16*j)
			}
			f.label("whole")
			f.line("CMP $%d, R8", lanes)
			f.line("BLT one")
			f.line("FMOVQ (R7), F1")
			f.line("FMOVQ F1, (R6)")
			f.line("ADD $16, R7")
			f.line("ADD $16, R6")
			f.line("SUB $%d, R8", lanes)
			f.line("B whole")
			f.label("one")
			f.line("CBZ R8, next")
			f.line("%s (R7), F1", f.move())
			f.line("%s F1, (R6)", f.move())
			f.line("ADD $%d, R7", f.size())
			f.line("ADD $%d, R6", f.size())
			f.line("SUB $1, R8")
			f.line("B one")
			f.label("next")
			f.line("ADD R3, R2")
			f.line("ADD R1, R0")
			f.line("SUB $1, R4")
			f.line("CBNZ R4, row")
			f.line("RET")
		})
}

// transpose writes the transposition of blocks.
func (k *neon) transpose(lanes int) {
	k.function(k.named(fmt.Sprintf("transpose%d", lanes)), fmt.Sprintf("transposes blocks > 0 blocks of %d×%[1]d numbers, side by side in src, one below the other in dst; strides in bytes.", lanes),
		fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, blocks int", k.elem()), "", 0, k.double,
		func(f *neonFunc, at func(string) string) {
			k.neonFunc = f
			for reg, arg := range []string{"dst", "ds", "src", "ss", "blocks"} {
				f.line("MOVD %s, R%d", at(arg), reg)
			}
			f.label("block")
			f.line("MOVD R2, R5")
			for i := range lanes {
				f.line("FMOVQ (R5), F%d", i)
				f.line("ADD R3, R5")
			}
			pair := func(w neonWord, double bool, dst, a, b int) { f.line("%s", encode(w, double, dst, a, b)) }
			columns := []int{4, 5}
			if !k.double {
				for i := 0; i < 4; i += 2 {
					pair(trn1, false, 4+i, i, i+1)
					pair(trn2, false, 5+i, i, i+1)
				}
				for j := range 2 {
					pair(trn1, true, 16+j, 4+j, 6+j)
					pair(trn2, true, 18+j, 4+j, 6+j)
				}
				columns = []int{16, 17, 18, 19}
			} else {
				pair(trn1, true, 4, 0, 1)
				pair(trn2, true, 5, 0, 1)
			}
			for _, v := range columns {
				f.line("FMOVQ F%d, (R0)", v)
				f.line("ADD R1, R0")
			}
			f.line("ADD $16, R2")
			f.line("SUB $1, R4")
			f.line("CBNZ R4, block")
			f.line("RET")
		})
}

// unit writes the function that returns the unit of products.
func (k *neon) unit(b *strings.Builder) {
	lanes := neonLanes(k.double)
	size := 16 / lanes
	fmt.Fprintf(b, "\n// %s returns the unit that computes products out of tiles.\n", k.named("gemm"))
	fmt.Fprintf(b, "func %s() *gemmUnit[%[2]s] {\nreturn newGemm(%d, %d, [][]tileFunc[%[2]s]{", k.named("gemm"), k.elem(), size, lanes)
	for vecs := 1; vecs <= neonVecs; vecs++ {
		b.WriteString("\n{nil")
		for mr := 1; mr <= neonRows; mr++ {
			fmt.Fprintf(b, ", %s", k.named(fmt.Sprintf("tile%dx%d", mr, vecs*lanes)))
		}
		b.WriteString("},")
	}
	fmt.Fprintf(b, "\n}, []packFunc[%s]{", k.elem())
	for vecs := 1; vecs <= neonRows/lanes; vecs++ {
		fmt.Fprintf(b, "%s, ", k.named(fmt.Sprintf("pack%d", vecs*lanes)))
	}
	fmt.Fprintf(b, "}, %s)\n}\n", k.named(fmt.Sprintf("transpose%d", lanes)))
}
