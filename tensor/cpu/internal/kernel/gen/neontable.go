package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// neonFiles returns the files of NEON by name.
func neonFiles() map[string]string {
	files := map[string]string{}
	add := func(name string, s *neonSet) {
		files[name+"_neon_arm64.s"] = "#include \"textflag.h\"\n" + s.asm.String()
		files[name+"_neon_arm64.go"] = "package kernel\n" + s.stubs.String()
	}
	gemm, vec := &neonSet{}, &neonSet{}
	neonGemm(gemm, false)
	neonGemm(gemm, true)
	add("gemm", gemm)
	single, double := neonVectors(vec, false), neonVectors(vec, true)
	add("vec", vec)
	files["table_arm64.go"] = neonTable(single, double)
	return files
}

// neonTable returns the Go code that fills a Table with the loops and the products of
// NEON.
func neonTable(single, double []loop) string {
	var b strings.Builder
	b.WriteString("package kernel\n\nimport \"math\"\n")
	for _, k := range []*neon{{}, {double: true}} {
		k.unit(&b)
	}
	for _, k := range []*neon{{}, {double: true}} {
		fmt.Fprintf(&b, "\n// %s sets the kernels that have NEON assembly.\n", k.named("accelerate"))
		fmt.Fprintf(&b, "func %s(t *Table[%s]) {\n", k.named("accelerate"), k.elem())
		lanes := neonLanes(k.double)
		fmt.Fprintf(&b, "t.Gemm, t.Transpose = %s().gemm, transposeBlocks(%d, %d, 1, %s, nil, nil)\n", k.named("gemm"), 16/lanes, lanes, k.named(fmt.Sprint("transpose", lanes)))
		loops := single
		if k.double {
			loops = double
		}
		for _, l := range loops {
			fmt.Fprintf(&b, "t.%s = %s(%s)\n", l.field(), l.wrapper(), k.named(l.name))
		}
		b.WriteString("}\n")
	}
	var seen []string
	for _, l := range append(slices.Clone(single), double...) {
		if w := l.wrapper(); !slices.Contains(seen, w) {
			seen = append(seen, w)
			l.wrap(&b)
		}
	}
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		panic(err)
	}
	return string(text)
}
