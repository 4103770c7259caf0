package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// amx has the tile registers beside the vectors of AVX-512.
var amx = isa{name: "AMX", lanes: 16, wide: true}

const (
	lineBytes = 64             // a row of a tile
	tileBytes = 16 * lineBytes // 16 rows
	stepBytes = 2 * tileBytes  // two tiles: 32 numbers along the sum of a band or a panel
	panelLine = 2 * lineBytes  // a row of two tiles side by side
)

// The tiles of a product: those of c are 0 to 3, row by row.
const (
	leftTile  = 4 // and 5 below it
	rightTile = 6 // and 7 beside it
)

// tileProducts writes the kernels of products of bfloat16 by tiles, and what packs their
// operands.
func tileProducts(s isa) {
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 2; cols++ {
			multiplyTiles(s, rows, cols)
		}
	}
	packTiles(s)
	pairPanels(s)
	turnPanel(s)
	joinTiles(s)
	spill(s, "spill", "float32", "copies", func(v reg.VecVirtual, t tail, i int, dst reg.Register) {
		t.store(i, v, Mem{Base: dst, Disp: lineBytes * i})
	})
	spill(s, "round", "uint16", "rounds to bfloat16, to nearest even,", func(v reg.VecVirtual, t tail, i int, dst reg.Register) {
		VPMOVDW(roundedBF16(s, v), t.k[i], Mem{Base: dst, Disp: lineBytes / 2 * i})
	})
}

// multiplyTiles writes the product of bands of rows tiles of a and a panel of cols tiles
// of b.
func multiplyTiles(s isa, rows, cols int) {
	s.text(fmt.Sprintf("multiply%dx%d", rows, cols), "config *byte, bands int, steps int, a *float32, bandA int, b *float32, from *float32, rsFrom int, to *float32, rsTo int",
		fmt.Sprintf("is to = from + a*b for bands > 0 of %d×16 rows, bandA apart, and %d×16 columns, less where the configuration of the tiles says so; from may be nil, and counts as 0. A band has two tiles of a for each of steps > 0, a panel 16 lines of b. Strides in bytes.", rows, cols))
	configure(Load(Param("config"), GP64()))
	bands := Load(Param("bands"), GP64())
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	from, rsFrom := Load(Param("from"), GP64()), Load(Param("rsFrom"), GP64())
	to, rsTo := Load(Param("to"), GP64()), Load(Param("rsTo"), GP64())
	line, panel := GP64(), GP64()
	MOVQ(U32(lineBytes), line)
	MOVQ(U32(panelLine), panel)
	p, q, left := GP64(), GP64(), GP64()

	Label("band")
	TESTQ(from, from)
	JZ(LabelRef("zero"))
	eachTile(rows, cols, from, rsFrom, "TILELOADD")
	JMP(LabelRef("begin"))
	Label("zero")
	for i := range rows {
		for j := range cols {
			tile("TILEZERO", 2*i+j)
		}
	}
	Label("begin")
	MOVQ(a, p)
	MOVQ(b, q)
	Load(Param("steps"), left)
	Label("step")
	for i := range rows {
		// these pass through the first-level cache, where b stays
		tileAt("TILELOADDT1", Mem{Base: p, Index: line, Scale: 1, Disp: tileBytes * i}, leftTile+i)
	}
	for j := range cols {
		tileAt("TILELOADD", Mem{Base: q, Index: panel, Scale: 1, Disp: lineBytes * j}, rightTile+j)
	}
	for i := range rows {
		for j := range cols {
			Instruction(&ir.Instruction{Opcode: "TDPBF16PS", Operands: []Op{Imm(uint64(rightTile + j)), Imm(uint64(leftTile + i)), Imm(uint64(2*i + j))}})
		}
	}
	ADDQ(U32(stepBytes), p)
	ADDQ(U32(stepBytes), q)
	DECQ(left)
	JNZ(LabelRef("step"))
	eachTile(rows, cols, to, rsTo, "TILESTORED")
	band := GP64()
	Load(Param("bandA"), band)
	ADDQ(band, a)
	DECQ(bands)
	JNZ(LabelRef("band"))
	Instruction(&ir.Instruction{Opcode: "TILERELEASE"})
	s.ret()
}

// eachTile loads or stores the tiles of c, and moves at to the next band.
func eachTile(rows, cols int, at, rs reg.Register, opcode string) {
	for i := range rows {
		for j := range cols {
			tileAt(opcode, Mem{Base: at, Index: rs, Scale: 1, Disp: lineBytes * j}, 2*i+j)
		}
		SHLQ(U8(4), rs)
		ADDQ(rs, at)
		SHRQ(U8(4), rs)
	}
}

// The instructions of tiles, which neither avo nor Go's assembler has: encodeTiles
// replaces them. A tile stands as an immediate.
func tile(opcode string, n int) {
	Instruction(&ir.Instruction{Opcode: opcode, Operands: []Op{Imm(uint64(n))}})
}

func configure(config reg.Register) {
	m := Mem{Base: config}
	Instruction(&ir.Instruction{Opcode: "LDTILECFG", Operands: []Op{m}, Inputs: []Op{m}})
}

func tileAt(opcode string, m Mem, n int) {
	operands := []Op{m, Imm(uint64(n))}
	if opcode == "TILESTORED" {
		slices.Reverse(operands)
	}
	Instruction(&ir.Instruction{Opcode: opcode, Operands: operands, Inputs: []Op{m}})
}

var (
	tilesLine = regexp.MustCompile(`(?m)^\t(LDTILECFG|TILERELEASE|TILEZERO|TILELOADD|TILELOADDT1|TILESTORED|TDPBF16PS)\b(.*)$`)
	tilesMem  = regexp.MustCompile(`^(\d*)\((\w+)\)(?:\((\w+)\*1\))?$`)
	tilesImm  = regexp.MustCompile(`^\$0x([0-7]{1,2})$`)
)

// encodeTiles replaces the instructions of tiles in assembly by their bytes.
func encodeTiles(text []byte) ([]byte, error) {
	var err error
	text = tilesLine.ReplaceAllFunc(text, func(line []byte) []byte {
		found := tilesLine.FindSubmatch(line)
		opcode, operands := string(found[1]), strings.Fields(strings.ReplaceAll(string(found[2]), ",", " "))
		code, e := encodeTile(opcode, operands)
		if e != nil {
			err = e
			return line
		}
		var b strings.Builder
		for i, o := range operands {
			operands[i] = tilesImm.ReplaceAllString(o, "TMM$1")
		}
		fmt.Fprintf(&b, "\t// %s\n\t", strings.TrimSpace(opcode+" "+strings.Join(operands, ", ")))
		for i, c := range code {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "BYTE $%#02x", c)
		}
		return []byte(b.String())
	})
	return text, err
}

// encodeTile returns the code of an instruction: the prefix VEX.128 of map 0F38, the
// opcode, and the operands in the order of Go's assembler.
func encodeTile(opcode string, operands []string) ([]byte, error) {
	const none, prefix66, prefixF3, prefixF2 = 0, 1, 2, 3
	numbers := make([]byte, len(operands))
	for i, o := range operands {
		if m := tilesImm.FindStringSubmatch(o); m != nil {
			n, err := strconv.ParseUint(m[1], 16, 8)
			if err != nil || n > 7 {
				return nil, fmt.Errorf("%s %v: no tile %s", opcode, operands, o)
			}
			numbers[i] = byte(n)
		}
	}
	// X and B, the high bits of an index and a base, and the first source
	vex := func(inverted, other, prefix byte) []byte {
		return []byte{0xc4, ^inverted<<5 | 2, (^other&15)<<3 | prefix}
	}
	switch opcode {
	case "TILERELEASE":
		return append(vex(0, 0, none), 0x49, 0xc0), nil
	case "TILEZERO":
		return append(vex(0, 0, prefixF2), 0x49, 0xc0|numbers[0]<<3), nil
	case "TDPBF16PS":
		return append(vex(0, numbers[0], prefixF3), 0x5c, 0xc0|numbers[2]<<3|numbers[1]), nil
	}
	at, number := 0, byte(0)
	if opcode == "TILESTORED" {
		at, number = 1, numbers[0]
	} else if opcode != "LDTILECFG" {
		number = numbers[1]
	}
	m := tilesMem.FindStringSubmatch(operands[at])
	if m == nil {
		return nil, fmt.Errorf("%s %v: not a base and an index", opcode, operands)
	}
	base, index := registerNumber(m[2]), byte(4) // no index
	if m[3] != "" {
		index = registerNumber(m[3])
	}
	disp := 0
	if m[1] != "" {
		disp, _ = strconv.Atoi(m[1]) // which the expression matched
	}
	prefix := map[string]byte{"LDTILECFG": none, "TILELOADD": prefixF2, "TILELOADDT1": prefix66, "TILESTORED": prefixF3}[opcode]
	op := byte(0x4b)
	if opcode == "LDTILECFG" {
		op = 0x49
	}
	const disp32, sib = 0x80, 4
	code := append(vex(index>>3<<1|base>>3, 0, prefix), op, disp32|number<<3|sib, index&7<<3|base&7)
	return append(code, byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24)), nil
}

// registerNumber returns the number of a general register.
func registerNumber(name string) byte {
	for i, r := range []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"} {
		if r == name {
			return byte(i)
		}
	}
	panic("no register " + name)
}

// packTiles writes the kernel that copies rows of a into tiles.
func packTiles(s isa) {
	s.text("packTiles", "steps int, dst *float32, src *uint16, rs int, rows int, numbers int",
		"copies rows > 0 rows of src to the first of two tiles for each of steps > 0: numbers ≤ 32 of 32 numbers of a row, filled up with zeros. rs is in bytes.")
	steps, dst := Load(Param("steps"), GP64()), Load(Param("dst"), GP64())
	src, rs := Load(Param("src"), GP64()), Load(Param("rs"), GP64())
	rows, k := Load(Param("rows"), GP64()), numberMask()
	p, q, left := GP64(), GP64(), GP64()
	Label("step")
	MOVQ(src, p)
	MOVQ(dst, q)
	MOVQ(rows, left)
	Label("row")
	v := ZMM()
	VMOVDQU16_Z(Mem{Base: p}, k, v)
	VMOVDQU64(v, Mem{Base: q})
	ADDQ(rs, p)
	ADDQ(U8(lineBytes), q)
	DECQ(left)
	JNZ(LabelRef("row"))
	ADDQ(U8(lineBytes), src)
	ADDQ(U32(stepBytes), dst)
	DECQ(steps)
	JNZ(LabelRef("step"))
	s.ret()
}

// numberMask returns the selection of the first of 32 numbers of 16 bits, of which the
// argument numbers has how many.
func numberMask() reg.OpmaskVirtual {
	n, m, k := Load(Param("numbers"), GP64()), GP64(), K()
	MOVL(U32(0xffffffff), m.As32())
	BZHIL(n.(reg.GPVirtual).As32(), m.As32(), m.As32())
	KMOVD(m.As32(), k)
	return k
}

// pairPanels writes the kernel that makes lines of panels of two rows of b each.
func pairPanels(s isa) {
	s.text("pairPanels", "lines int, panels int, dst *float32, size int, x *uint16, y *uint16, apart int, numbers int",
		"stores lines > 0 lines of pairs in each of panels > 0, size bytes apart: numbers ≤ 32 of x below those of y, filled up with zeros. From panel to panel x and y move by 32 numbers, from line to line by apart bytes.")
	lines, dst := Load(Param("lines"), GP64()), Load(Param("dst"), GP64())
	x, y := Load(Param("x"), GP64()), Load(Param("y"), GP64())
	apart, k := Load(Param("apart"), GP64()), numberMask()
	size := Load(Param("size"), GP64())
	low, high := pairOrder()
	at, to, left := GP64(), GP64(), GP64()
	Label("line")
	XORQ(at, at)
	MOVQ(dst, to)
	Load(Param("panels"), left)
	Label("panel")
	v, w := ZMM(), ZMM()
	VMOVDQU16_Z(Mem{Base: x, Index: at, Scale: 1}, k, v)
	VMOVDQU16_Z(Mem{Base: y, Index: at, Scale: 1}, k, w)
	l, h := pair(v, w, low, high)
	VMOVDQU64(l, Mem{Base: to})
	VMOVDQU64(h, Mem{Base: to, Disp: lineBytes})
	ADDQ(U8(lineBytes), at)
	ADDQ(size, to)
	DECQ(left)
	JNZ(LabelRef("panel"))
	ADDQ(apart, x)
	ADDQ(apart, y)
	ADDQ(U32(panelLine), dst)
	DECQ(lines)
	JNZ(LabelRef("line"))
	s.ret()
}

// turnPanel writes the kernel that makes half of a panel of columns of b whose numbers
// lie one after another.
func turnPanel(s isa) {
	s.text("turnPanel", "steps int, dst *float32, src *uint16, cs int",
		"stores 16 columns of 32 numbers, cs bytes apart in src, as 16 lines of pairs, for each of steps > 0.")
	steps, dst := Load(Param("steps"), GP64()), Load(Param("dst"), GP64())
	src, cs := Load(Param("src"), GP64()), Load(Param("cs"), GP64())
	Label("step")
	p := GP64()
	MOVQ(src, p)
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		s.join(rows[i], p, cs, 4, 1)
	}
	for i, v := range turn(s, rows) {
		VMOVUPS(v, Mem{Base: dst, Disp: panelLine * i})
	}
	ADDQ(U8(lineBytes), src)
	ADDQ(U32(stepBytes), dst)
	DECQ(steps)
	JNZ(LabelRef("step"))
	s.ret()
}

// joinTiles writes the kernel that makes tiles of rows of a whose numbers lie apart.
func joinTiles(s isa) {
	s.text("joinTiles", "tiles int, dst *float32, src *uint16, cs int",
		"stores 16 neighbours in each of 32 lines of src, cs bytes apart, as 16 rows of 32 numbers; tiles > 0 lie one after another in dst, their numbers side by side in src.")
	tiles, dst := Load(Param("tiles"), GP64()), Load(Param("dst"), GP64())
	src, cs := Load(Param("src"), GP64()), Load(Param("cs"), GP64())
	Label("tile")
	p := GP64()
	MOVQ(src, p)
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		s.join(rows[i], p, cs, 2, 2)
	}
	for i, v := range turn(s, rows) {
		VMOVUPS(v, Mem{Base: dst, Disp: lineBytes * i})
	}
	ADDQ(U8(32), src)
	ADDQ(U32(tileBytes), dst)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	s.ret()
}

// spill writes the kernel that copies lines of results to where they belong, or rounds
// them to bfloat16.
func spill(s isa, name, kind, does string, store func(v reg.VecVirtual, t tail, i int, dst reg.Register)) {
	s.text(name, fmt.Sprintf("rows int, dst *%s, rs int, src *float32, cols int", kind),
		does+" cols ≤ 32 numbers of each of rows > 0 lines of 32; rs is in bytes.")
	rows, dst := Load(Param("rows"), GP64()), Load(Param("dst"), GP64())
	rs, src := Load(Param("rs"), GP64()), Load(Param("src"), GP64())
	t := s.newTail(Load(Param("cols"), GP64()).(reg.GPVirtual), 2)
	Label("row")
	for i := range 2 {
		v := s.vec()
		VMOVUPS(Mem{Base: src, Disp: lineBytes * i}, v)
		store(v, t, i, dst)
	}
	ADDQ(U32(panelLine), src)
	ADDQ(rs, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	s.ret()
}
