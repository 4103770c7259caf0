package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// loop is a kernel of vectors as the Go code calls it.
type loop struct {
	name string // of the assembly, without the instruction set
	shape
	results int
	start   string // the constant that its results begin with
}

// The kernels written for one instruction set, in order: the other has the same.
var (
	loops       []loop
	doubleLoops []loop // of float64
	conversions []string
	rowNames    []string
)

// parts are the loops whose fields in Table are not exported.
var parts = []string{"expTotal", "dlogsm", "plain", "shifted", "scaled", "normSums", "normSums1", "normGrad", "normGrad1", "addGrad", "adamw", "absMax"}

var initials = strings.NewReplacer("relu", "ReLU", "silu", "SiLU", "gelu", "GELU", "rsubS", "RSubS", "rdivS", "RDivS")

// field returns the name that a loop has in Table.
func (l loop) field() string {
	if slices.Contains(parts, l.name) {
		return l.name
	}
	return title(initials.Replace(l.name))
}

func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// tables returns the files of Go that fill a Table with assembly: one for each
// instruction set, and the loops around its kernels that both use.
func tables() map[string]string {
	vectors(avx2)
	functions(avx2)
	doubleVectors(avx2)
	doubleFunctions(avx2)
	halves(avx2)
	rowSet(avx2)
	files := map[string]string{}
	for _, s := range []isa{avx512, avx2} {
		b := begun("")
		s.accelerate(b)
		plain(s)
		s.plainTable(b)
		files["table_"+strings.ToLower(s.name)+"_amd64.go"] = formatted(b)
	}
	b := begun("import \"math\"\n")
	var seen []string
	for _, l := range append(slices.Clone(loops), doubleLoops...) {
		if w := l.wrapper(); !slices.Contains(seen, w) {
			seen = append(seen, w)
			l.wrap(b)
		}
	}
	files["wrap_amd64.go"] = formatted(b)
	return files
}

// begun begins a file of Go.
func begun(imports string) *strings.Builder {
	b := &strings.Builder{}
	b.WriteString("package kernel\n\n" + imports)
	return b
}

// formatted returns a file as gofmt writes it.
func formatted(b *strings.Builder) string {
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// accelerate writes the functions that set the fields of a Table to the kernels of s.
func (s isa) accelerate(b *strings.Builder) {
	s.unit(b)
	s.doubles().unit(b)
	s.integers().unit(b)
	s.doubles().integers().unit(b)
	if s.wide {
		s.brain().unit(b)
		s.brain().brainUnit(b)
	}
	fmt.Fprintf(b, "\n// taps%s returns the unit that computes products of taps.\n", s.name)
	fmt.Fprintf(b, "func taps%s() *tapsUnit {\nreturn &tapsUnit{lanes: %d, tile: [2][]tapsFunc{", s.name, s.lanes)
	for vecs := 1; vecs <= 2; vecs++ {
		s.list(b, "taps", vecs, s.tallestTaps())
	}
	fmt.Fprintf(b, "\n}, line: line%d%s, wide: %d, window: []windowFunc{", lineVectors*s.lanes, s.name, lineVectors*s.lanes)
	for vecs := 1; vecs <= s.windowVectors(); vecs++ {
		fmt.Fprintf(b, "window%d%s, ", vecs*s.lanes, s.name)
	}
	fmt.Fprintf(b, "}, windowDots: windowDots%s}\n}\n", s.name)
	s.fewUnit(b)
	for _, t := range []numberType{typeU8, typeI32, typeI64} {
		most := "fewWords"
		if t.size == 1 {
			most = "fewInts"
		}
		fmt.Fprintf(b, "\n// few%s%s returns the kernels of products of a few rows of %s.\n", t.name, s.name, t.elem)
		fmt.Fprintf(b, "func few%[1]s%[2]s() *fewProducts[%[3]s] {\nreturn &fewProducts[%[3]s]{most: %[4]s, lanes: %[5]d, size: %[6]d, axpys: axpys%[1]s%[2]s, dots: dots%[1]s%[2]s}\n}\n",
			t.name, s.name, t.elem, most, 4*s.lanes/t.size, t.size)
	}
	fmt.Fprintf(b, "\n// accelerate%s sets the kernels that have %s assembly.\n", s.name, s.name)
	fmt.Fprintf(b, "func accelerate%s(t *Table[float32]) {\n", s.name)
	fmt.Fprintf(b, "taps, unit := taps%[1]s(), gemm%[1]s()\nunit.few = few%[1]s()\n", s.name)
	fmt.Fprintf(b, "t.Gemm, t.GemmTaps, t.Windows, t.WindowDots = unit.gemm, taps.gemm, taps.windows, taps.dots\n")
	fmt.Fprintf(b, "t.Transpose = transposeBlocks(4, %[1]d, 1, transpose%[1]d%[2]s, narrow%[1]d%[2]s, flat%[1]d%[2]s)\n", s.lanes, s.name)
	fmt.Fprintf(b, "t.Transpose16 = transposeBlocks(2, %d, 2, transposeUint16%[2]s, narrowUint16%[2]s, nil)\n", s.lanes, s.name)
	fmt.Fprintf(b, "t.Transpose8 = transposeBlocks(1, %d, 4, transposeUint8%[2]s, narrowUint8%[2]s, nil)\n", s.lanes, s.name)
	s.setCuts(b)
	block := s.chained() * s.lanes
	fmt.Fprintf(b, "t.Chain, t.ChainBlock = chainOf(%d, chain%s), %d\n", block, s.name, block)
	// AVX-512 has these by half vectors, too
	b.WriteString("t.Normals = normalsBy(4, normalsAVX2)\n")
	setPacks(avx2, b)
	fmt.Fprintf(b, "t.Philox = philoxBy(%d, philox%s)\n", s.doubles().lanes, s.name)
	for _, name := range conversions {
		fmt.Fprintf(b, "t.%s = convertBy(%d, %s%s, %sGo)\n", title(name), s.lanes, name, s.name, name)
	}
	for _, l := range loops {
		l.set(b, s)
	}
	b.WriteString("t.blocks = blocks[float32]{\n")
	for _, name := range rowNames {
		fmt.Fprintf(b, "%s: %s%s,\n", strings.TrimSuffix(name, "Rows"), name, s.name)
	}
	b.WriteString("}\n}\n")
	fmt.Fprintf(b, "\n// accelerate%[1]s sets the kernels that have %[1]s assembly.\n", s.doubles().name)
	fmt.Fprintf(b, "func accelerate%s(t *Table[float64]) {\n", s.doubles().name)
	fmt.Fprintf(b, "t.Gemm = gemm%s().gemm\n", s.doubles().name)
	fmt.Fprintf(b, "t.Transpose = transposeBlocks(8, %[1]d, 1, transpose%[1]d%[2]s, narrow%[1]d%[2]s, flat%[1]d%[2]s)\n", s.doubles().lanes, s.doubles().name)
	s.doubles().setCuts(b)
	for _, l := range doubleLoops {
		l.set(b, s.doubles())
	}
	b.WriteString("}\n")
	s.setFolds(b)
}

// setCuts writes the assignments of the conversions to integers.
func (s isa) setCuts(b *strings.Builder) {
	for _, name := range []string{"toI32", "toI64"} {
		fmt.Fprintf(b, "t.%s = cutBy(%d, %s%s, %sGo[%s])\n", title(name), s.lanes, name, s.name, name, s.elem())
	}
}

// set writes the assignment of the loop's assembly to its field.
func (l loop) set(b *strings.Builder, s isa) {
	call := fmt.Sprintf("%s(%s%s)", l.wrapper(), l.name, s.name)
	if l.within != "" {
		call = fmt.Sprintf("within(%s, t.absMax, %s, t.%s)", l.within, call, l.field())
	}
	fmt.Fprintf(b, "t.%s = %s\n", l.field(), call)
}

// fewUnit writes the function that returns the unit of products of a few rows.
func (s isa) fewUnit(b *strings.Builder) {
	fmt.Fprintf(b, "\n// few%s returns the unit that computes products of a few rows.\n", s.name)
	fmt.Fprintf(b, "func few%s() *fewUnit[float32] {\nreturn &fewUnit[float32]{axpys: axpys%d%s, axpy: axpys1%s, turned: []turnedFunc[float32]{", s.name, axpyRows, s.name, s.name)
	if s.wide {
		for rows := 1; rows <= turnedRows; rows++ {
			fmt.Fprintf(b, "turned%d%s, ", rows, s.name)
		}
	}
	b.WriteString("}}\n}\n")
}

// unit writes the function that returns the unit of products.
func (s isa) unit(b *strings.Builder) {
	fmt.Fprintf(b, "\n// gemm%s returns the unit that computes products out of tiles.\n", s.name)
	fmt.Fprintf(b, "func gemm%[1]s() *gemmUnit[%[2]s] {\nreturn newGemm(%[3]d, %[4]d, [][]tileFunc[%[2]s]{", s.name, s.elem(), s.numberBytes(), s.lanes)
	for i, rows := range s.tallest() {
		s.list(b, "tile", i+1, rows)
	}
	fmt.Fprintf(b, "\n}, []packFunc[%s]{", s.elem())
	for i := range s.tallest() {
		fmt.Fprintf(b, "pack%d%s, ", (i+1)*s.lanes, moverOf(s))
	}
	fmt.Fprintf(b, "}, transpose%d%s)\n}\n", s.lanes, moverOf(s))
}

// list writes the tiles of vecs vectors, by rows.
func (s isa) list(b *strings.Builder, kind string, vecs, rows int) {
	b.WriteString("\n{nil")
	for mr := 1; mr <= rows; mr++ {
		sep := ", "
		if mr%5 == 0 {
			sep = ",\n"
		}
		fmt.Fprintf(b, "%s%s%dx%d%s", sep, kind, mr, vecs*s.lanes, s.name)
	}
	b.WriteString("},")
}

// wrapper returns the name of the function that cuts the slices of such a loop.
func (l loop) wrapper() string {
	kind := "each"
	switch {
	case l.results > 0 && l.start == "zero":
		kind = "sum"
	case l.results > 0:
		kind = l.pick()
	}
	name := fmt.Sprintf("%s%d%d%d", kind, l.outs, l.ins, l.scalars)
	if l.results > 1 {
		name += fmt.Sprintf("to%d", l.results)
	}
	return name
}

// pick returns the builtin that chooses among the extremes of pieces: it keeps NaN.
func (l loop) pick() string { return map[string]string{"inf": "min", "minusInf": "max"}[l.start] }

// wrap writes the function that checks lengths and cuts long slices, as the assembly does
// neither.
func (l loop) wrap(b *strings.Builder) {
	var slices, firsts, numbers, rest []string
	add := func(n int, name string) {
		for i := range n {
			v := fmt.Sprint(name, i)
			slices, firsts, rest = append(slices, v), append(firsts, "&"+v+"[0]"), append(rest, v+"[n:]")
		}
	}
	add(l.outs, "out")
	add(l.ins, "in")
	for i := range l.scalars {
		numbers = append(numbers, fmt.Sprint("s", i))
	}
	join := func(list ...string) string { return strings.Join(list, ", ") }
	params := func(kind string) string {
		p := join(slices...) + " " + kind
		if l.scalars > 0 {
			p += ", " + join(numbers...) + " T"
		}
		return p
	}
	result := [...]string{"", "T", "(r0, r1 T)"}[l.results]
	fmt.Fprintf(b, "\n// %s returns f over whole slices: %d out, %d in, and %d numbers.\n", l.wrapper(), l.outs, l.ins, l.scalars)
	fmt.Fprintf(b, "func %s[T Float](f func(n int, %s) %s) func(%s) %s {\n", l.wrapper(), params("*T"), result, params("[]T"), result)
	fmt.Fprintf(b, "return func(%s) %s {\n", params("[]T"), result)
	if len(slices) > 1 {
		var cut []string
		for _, v := range slices[1:] {
			cut = append(cut, v+"[:len("+slices[0]+")]")
		}
		fmt.Fprintf(b, "%s = %s\n", join(slices[1:]...), join(cut...))
	}
	call := fmt.Sprintf("f(n, %s)", join(append(firsts, numbers...)...))
	most, before, after := "chunk", "", ""
	switch {
	case l.results == 0:
	case l.start != "zero":
		sign := map[string]string{"min": "1", "max": "-1"}[l.pick()]
		before, call, after = "r := T(math.Inf("+sign+"))\n", "r = "+l.pick()+"(r, "+call+")", "return r\n"
	case l.results == 1:
		before, call, after = "var sum float64\n", "sum += float64("+call+")", "return T(sum)\n"
		most = "sumChunk"
	default:
		before = "var sum0, sum1 float64\n"
		call = "r0, r1 := " + call + "\nsum0, sum1 = sum0+float64(r0), sum1+float64(r1)"
		after = "return T(sum0), T(sum1)\n"
		most = "sumChunk"
	}
	fmt.Fprintf(b, "%sfor len(%s) > 0 {\nn := min(len(%s), %s)\n%s\n%s = %s\n}\n%s}\n}\n",
		before, slices[0], slices[0], most, call, join(slices...), join(rest...), after)
}
