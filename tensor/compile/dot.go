package compile

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// DotProgram is p as a Graphviz graph: a node for each instruction and input, an edge for each argument that is a tensor.
func DotProgram(p *tensor.Program) string {
	var b strings.Builder
	b.WriteString("digraph program {\n\tnode [shape=box fontname=monospace];\n")
	for i, e := range p.Externals {
		fmt.Fprintf(&b, "\tin%d [label=%q style=rounded];\n", i, fmt.Sprintf("in%d %v%v", i, e.DType, p.Shapes[e.Shape]))
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		style := ""
		if in.Keep {
			style = " penwidth=2"
		}
		fmt.Fprintf(&b, "\tn%d [label=%q%s];\n", i, fmt.Sprintf("%%%d %v\n%v%v", i, in.Op, in.DType, p.Shapes[in.Shape]), style)
		for _, r := range p.ArgsOf(i) {
			if j, ok := r.Instr(); ok {
				fmt.Fprintf(&b, "\tn%d -> n%d;\n", j, i)
			} else if j, ok := r.External(); ok {
				fmt.Fprintf(&b, "\tin%d -> n%d;\n", j, i)
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// Dot is p as a Graphviz graph: a node for each step, an edge from who wrote what a step reads. Memory that is used
// again has its latest writer.
func (p *Plan) Dot() string {
	var b strings.Builder
	b.WriteString("digraph plan {\n\tnode [shape=box fontname=monospace];\n")
	writer := make([]string, len(p.Buffers))
	for i := range p.Buffers {
		if p.Buffers[i].Place == External {
			writer[i] = fmt.Sprintf("in%d", p.Buffers[i].Index)
			fmt.Fprintf(&b, "\t%s [style=rounded];\n", writer[i])
		}
	}
	for k := range p.Steps {
		s := &p.Steps[k]
		fmt.Fprintf(&b, "\tn%d [label=%q];\n", k, fmt.Sprintf("%s\n%s", s.Name(), p.operand(s.Out)))
		drawn := map[string]bool{}
		for _, o := range s.In {
			if o.Scalar >= 0 || drawn[writer[o.Buf]] {
				continue
			}
			drawn[writer[o.Buf]] = true
			fmt.Fprintf(&b, "\t%s -> n%d;\n", writer[o.Buf], k)
		}
		for _, o := range s.Outs() {
			writer[o.Buf] = fmt.Sprintf("n%d", k)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// Summary is one line about what the plan costs.
func (p *Plan) Summary() string {
	s := &p.Stats
	return fmt.Sprintf("%d instructions in %d steps (%d views, %d dead, %d fused, %d copies), %d in place, %d take an input's memory; temporaries %d bytes, %.2f of the most that live at once",
		s.Instrs, s.Steps, s.Views, s.Dead, s.Fused, s.Copies, s.InPlace, s.Taken, s.TempBytes, s.OverLowerBound())
}

// OverLowerBound is the size of the arena over the most bytes of temporaries that are alive at one step, which no
// assignment of memory can undercut; 1 without temporaries.
func (s *Stats) OverLowerBound() float64 {
	if s.LowerBound == 0 {
		return 1
	}
	return float64(s.TempBytes) / float64(s.LowerBound)
}
