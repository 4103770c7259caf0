package explain

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// DotProgram returns the program as a Graphviz graph: a node for each instruction and
// input, and an edge for each argument that is a tensor.
func (p Plan) DotProgram() string {
	b := &strings.Builder{}
	b.WriteString("digraph program {\n\tnode [shape=box fontname=monospace];\n")
	prog := p.plan.Program
	for i, e := range prog.Externals {
		label := fmt.Sprintf("in%d %v%v", i, e.DType, prog.Shapes[e.Shape])
		fmt.Fprintf(b, "\tin%d [label=%q style=rounded];\n", i, label)
	}
	for i := range prog.Instrs {
		in := &prog.Instrs[i]
		style := ""
		if in.Keep {
			style = " penwidth=2"
		}
		label := fmt.Sprintf("%%%d %v\n%v%v", i, in.Op, in.DType, prog.Shapes[in.Shape])
		fmt.Fprintf(b, "\tn%d [label=%q%s];\n", i, label, style)
		for _, r := range prog.ArgsOf(i) {
			if j, ok := r.Instr(); ok {
				fmt.Fprintf(b, "\tn%d -> n%d;\n", j, i)
			} else if j, ok := r.External(); ok {
				fmt.Fprintf(b, "\tin%d -> n%d;\n", j, i)
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// Dot returns the plan as a Graphviz graph: a node for each step, and an edge from the
// step that wrote an operand to the step that reads it. Where memory is used again, the
// edge leaves the latest writer.
func (p Plan) Dot() string {
	b := &strings.Builder{}
	b.WriteString("digraph plan {\n\tnode [shape=box fontname=monospace];\n")
	writer := make([]string, len(p.plan.Buffers))
	for i, buf := range p.plan.Buffers {
		if buf.Place == compile.External {
			writer[i] = fmt.Sprintf("in%d", buf.Index)
			fmt.Fprintf(b, "\t%s [style=rounded];\n", writer[i])
		}
	}
	for k := range p.plan.Steps {
		s := &p.plan.Steps[k]
		label := fmt.Sprintf("%s\n%s", s.Name(), p.plan.OperandString(s.Out))
		fmt.Fprintf(b, "\tn%d [label=%q];\n", k, label)
		drawn := map[string]bool{}
		for _, o := range s.In {
			if o.Scalar >= 0 || drawn[writer[o.Buf]] {
				continue
			}
			drawn[writer[o.Buf]] = true
			fmt.Fprintf(b, "\t%s -> n%d;\n", writer[o.Buf], k)
		}
		for _, o := range s.Outs() {
			writer[o.Buf] = fmt.Sprintf("n%d", k)
		}
	}
	b.WriteString("}\n")
	return b.String()
}
