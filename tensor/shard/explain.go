package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// kindOrder is the order in which kinds are listed.
var kindOrder = []protocol.Kind{protocol.AllReduce, protocol.ReduceScatter, protocol.AllGather, protocol.AllToAll}

// Explain describes in words how the tensors lie, which move and why, and what that
// costs. It begins with the program, and lists every result with its layout.
func (p *Plan) Explain() string {
	var b strings.Builder
	n := len(p.Mesh)
	if p.where == nil {
		fmt.Fprintf(&b, "mesh %v\n", p.Mesh)
	} else {
		n = len(p.Stages[0].Mesh)
		for k, s := range p.Stages {
			fmt.Fprintf(&b, "stage %d: workers %s, mesh %v\n", k, strings.Trim(fmt.Sprint(s.Ranks), "[]"), s.Mesh)
			n = max(n, len(s.Mesh))
		}
	}
	for i, in := range p.Inputs {
		fmt.Fprintf(&b, "in%d %v%v %s%s\n", i, in.DType, in.Shape, in.Layout.show(n), p.stage(in.Stage))
	}
	if p.program != nil {
		live := p.program.Live()
		for i, in := range p.program.Instrs {
			fmt.Fprintf(&b, "%%%d = %v %v%v", i, in.Op, in.DType, p.program.Shapes[in.Shape])
			for _, r := range p.program.ArgsOf(i) {
				fmt.Fprintf(&b, " %v", r)
			}
			if live[i] {
				if fmt.Fprintf(&b, " %s", p.results[i].show(n)); p.where != nil {
					b.WriteString(p.stage(p.where[i]))
				}
				b.WriteString("\n")
			} else {
				b.WriteString(" not needed\n")
			}
		}
	}
	for _, m := range p.notes {
		fmt.Fprintf(&b, "%v along %s: %s, %s to %s, for %s; %d bytes/rank%s\n",
			m.kind, p.Stages[m.stage].Mesh[m.dim].Name, m.value,
			m.from.words(), m.to.words(), p.reader(m.reader), m.bytes, p.stage(m.stage))
	}
	for _, s := range p.sends {
		what := s.ref.String()
		if i, ok := s.ref.Instr(); ok {
			what += " " + p.program.Instrs[i].Op.String()
		}
		fmt.Fprintf(&b, "send %s from stage %d to stage %d; %d bytes/rank\n", what, s.from, s.to, s.bytes)
	}
	for _, o := range p.Outputs {
		if p.program != nil {
			fmt.Fprintf(&b, "%%%d is kept %s%s\n", o.Instr, o.Layout.show(n), p.stage(o.Stage))
		}
	}
	fmt.Fprintf(&b, "%v\n", p.Stats)
	return b.String()
}

// stage returns the name of a stage, or "" if there is only one.
func (p *Plan) stage(k int) string {
	if p.where == nil {
		return ""
	}
	return fmt.Sprintf(" on stage %d", k)
}

func (p *Plan) reader(i int) string {
	if i < 0 {
		return "readers"
	}
	return fmt.Sprintf("%%%d %v", i, p.program.Instrs[i].Op)
}

// words returns the placement in words.
func (p Placement) words() string {
	switch p.kind {
	case sharded:
		return fmt.Sprintf("sharded in dim %d", p.dim)
	case partial:
		return fmt.Sprintf("partial %v", p.fold)
	}
	return "whole"
}

// String returns text like "1 all-reduce of 3 tensors, 2 all-gather; bytes sent by a
// rank: 4096; programs: 2; local changes of layout: 1".
func (s Stats) String() string {
	var l []string
	for _, k := range kindOrder {
		if n := s.Collectives[k]; n > 0 {
			l = append(l, fmt.Sprintf("%d %v", n, k))
			if m := s.Moves[k]; m > n {
				l[len(l)-1] += fmt.Sprintf(" of %d tensors", m)
			}
		}
	}
	if n := s.Collectives[protocol.Send]; n > 0 {
		l = append(l, fmt.Sprintf("%d sent to another stage", n))
	}
	if l == nil {
		l = []string{"no collectives"}
	}
	return fmt.Sprintf("%s; bytes sent by a rank: %d; programs: %d; local changes of layout: %d",
		strings.Join(l, ", "), s.Bytes, s.Runs, s.Slices)
}

// String lists the steps of every rank. Ranks with equal steps are listed once.
func (p *Plan) String() string {
	var texts []string
	who := map[string][]int{}
	for r := range p.Ranks {
		t := p.steps(r)
		if who[t] == nil {
			texts = append(texts, t)
		}
		who[t] = append(who[t], r)
	}
	var b strings.Builder
	for _, t := range texts {
		fmt.Fprintf(&b, "rank %s\n%s", strings.Trim(fmt.Sprint(who[t]), "[]"), t)
	}
	return b.String()
}

func (p *Plan) steps(rank int) string {
	var b strings.Builder
	for _, s := range p.Ranks[rank].Steps {
		switch s.Kind {
		case RunProgram:
			fmt.Fprintf(&b, "  run of %v\n", s.Run.Inputs)
			for line := range strings.Lines(s.Run.Program.String()) {
				b.WriteString("    " + line)
			}
			for _, k := range s.Run.Kept {
				fmt.Fprintf(&b, "    %%%d is value %d\n", k.Instr, k.Var)
			}
		case Start:
			b.WriteString("  start " + s.Collective.String() + "\n")
		case Wait:
			fmt.Fprintf(&b, "  wait for %v %d\n", s.Collective.Kind, s.Collective.ID)
		}
		if len(s.Frees) > 0 {
			frees := slices.Clone(s.Frees)
			slices.Sort(frees)
			fmt.Fprintf(&b, "  free %v\n", frees)
		}
	}
	return b.String()
}

// String returns text like "all-reduce 3 sum f32 along dim 0 of the mesh: 7[4 4] to 9[4
// 4]".
func (c *Collective) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %d", c.Kind, c.ID)
	if c.Op != element.None {
		fmt.Fprintf(&b, " %v", c.Op)
	}
	if c.Scale != 1 {
		fmt.Fprintf(&b, "*%g", c.Scale)
	}
	fmt.Fprintf(&b, " %v along dim %d of the mesh:", c.DType, c.Dim)
	for i, m := range c.Moves {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %d%v to %d%v", m.In, m.InShape, m.Out, m.OutShape)
	}
	return b.String()
}
