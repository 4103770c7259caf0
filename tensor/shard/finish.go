package shard

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// maxRun is the number of instructions after which a program is cut, well below the limit
// of a program.
const maxRun = tensor.MaxInstrs / 4

// finish turns the nodes into the steps of each rank.
func (b *builder) finish(p *tensor.Program, inputs []Placed, outputs []Output, o Options) (*Plan, error) {
	order := b.order(outputs)
	buckets := b.buckets(order, o)
	items := b.schedule(order, buckets, o)
	out := &Plan{
		Mesh: b.mesh, Stages: []Stage{only(b.mesh)}, Inputs: inputs, Outputs: outputs,
		Ranks: make([]RankPlan, b.ranks), program: p, notes: b.notes,
	}
	for _, g := range buckets {
		t := b.nodes[g.nodes[0]].move
		b.stats.Collectives[t.kind]++
		b.stats.Moves[t.kind] += len(g.nodes)
		if len(g.nodes) > 1 {
			b.stats.Bucketed += len(g.nodes)
		}
	}
	last := b.lastUses(p, items, outputs)
	for r := range out.Ranks {
		s := segmenter{b: b, rank: r, last: last, p: p, inputs: inputs}
		steps, err := s.steps(items)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		out.Ranks[r].Steps = steps
	}
	out.Stats = b.stats
	out.count()
	return out, nil
}

// count fills in the number of programs and bytes.
func (p *Plan) count() {
	for w, r := range p.Ranks {
		runs, bytes := 0, int64(0)
		for _, s := range r.Steps {
			switch s.Kind {
			case RunProgram:
				runs++
			case Start:
				bytes += s.Collective.sent(w)
			}
		}
		p.Stats.Runs, p.Stats.Bytes = max(p.Stats.Runs, runs), max(p.Stats.Bytes, bytes)
	}
}

// sent returns the bytes that a member of the group sends in c.
func (c *Collective) sent(rank int) (bytes int64) {
	size, p := int64(c.DType.Size()), int64(len(c.Group))
	for _, m := range c.Moves {
		in, out := int64(m.InShape.Elems()), int64(m.OutShape.Elems())
		switch c.Kind {
		case protocol.Send:
			bytes += size * in
		case protocol.AllReduce:
			bytes += 2 * size * in * (p - 1) / p
		case protocol.ReduceScatter:
			bytes += size * in * (p - 1) / p
		case protocol.AllGather:
			bytes += size * out * (p - 1) / p
		case protocol.AllToAll:
			bytes += size * (in - int64(m.Send[slices.Index(c.Group, rank)]))
		}
	}
	return bytes
}

// only returns the stage of all ranks.
func only(m Mesh) Stage {
	s := Stage{m, make([]int, m.Size())}
	for i := range s.Ranks {
		s.Ranks[i] = i
	}
	return s
}

// forever is the last use of a var that outlives the plan.
const forever = int(^uint(0) >> 1)

// lastUses returns for each var the item after which no rank needs it, so that all ranks
// free it at the same place.
func (b *builder) lastUses(p *tensor.Program, items []item, outputs []Output) []int {
	last := make([]int, int(b.first)+len(b.nodes))
	for i := range last {
		last[i] = -1
		if i < int(b.first) && (p == nil || !p.Externals[i].Donated) {
			last[i] = forever // belongs to the caller
		}
	}
	for at, it := range items {
		switch {
		case it.group == nil:
			for _, v := range b.nodes[it.node].operands() {
				last[v] = max(last[v], at)
			}
			last[int(b.first)+it.node] = max(last[int(b.first)+it.node], at)
		case it.wait:
			for _, k := range it.group.nodes {
				v := b.nodes[k].move.in
				last[v] = max(last[v], at)
				last[int(b.first)+k] = max(last[int(b.first)+k], at)
			}
		}
	}
	for _, o := range outputs {
		last[o.Var] = forever
	}
	return last
}

// segmenter divides one rank's work into programs and collectives.
type segmenter struct {
	b      *builder
	rank   int
	last   []int
	p      *tensor.Program
	inputs []Placed
}

func (s *segmenter) steps(items []item) ([]Step, error) {
	var out []Step
	flush := func(from, to int) error {
		for ; from < to; from += maxRun {
			end := min(from+maxRun, to)
			run, frees, err := s.program(items, from, end)
			if err != nil {
				return err
			}
			out = append(out, Step{Kind: RunProgram, Run: run, Frees: frees})
		}
		return nil
	}
	begin := 0
	made := map[*bucket]*Collective{}
	for at, it := range items {
		if it.group == nil {
			continue
		}
		if err := flush(begin, at); err != nil {
			return nil, err
		}
		begin = at + 1
		c := made[it.group]
		if c == nil {
			c = s.collective(it.group)
			made[it.group] = c
		}
		step := Step{Kind: Start, Collective: c}
		if it.wait {
			step.Kind = Wait
			for _, m := range c.Moves {
				for _, v := range []Var{m.In, m.Out} {
					if s.last[v] == at {
						step.Frees = append(step.Frees, v)
					}
				}
			}
		}
		out = append(out, step)
	}
	if err := flush(begin, len(items)); err != nil {
		return nil, err
	}
	for v := range s.b.first { // donated, but never read
		if s.last[v] < 0 && len(out) > 0 {
			out[0].Frees = append(out[0].Frees, v)
		}
	}
	return out, nil
}

func (s *segmenter) collective(g *bucket) *Collective {
	var c *Collective
	for _, k := range g.nodes {
		t := s.b.nodes[k].move
		if c == nil {
			c = &Collective{ID: g.id, Kind: t.kind, Op: t.op, DType: t.dt, Scale: t.scale, Dim: t.dim, Group: s.b.mesh.Group(s.rank, t.dim)}
		}
		m := t.moves[s.rank]
		m.Out = s.b.first + Var(k)
		c.Moves = append(c.Moves, m)
	}
	return c
}

// program makes one program of items from to end. It also returns the vars that no later
// item needs and that the program does not free itself.
func (s *segmenter) program(items []item, from, end int) (*Run, []Var, error) {
	b := newRunBuilder(s)
	for at := from; at < end; at++ {
		b.add(items[at].node, end)
	}
	run, p := b.run, b.run.Program
	p.NumScalars = len(run.Scalars)
	for i, v := range run.Inputs {
		p.Externals[i].Donated = s.last[v] < end
	}
	// Another rank reads this var here, so this one frees it here too.
	var frees []Var
	for at := from; at < end; at++ {
		for _, v := range s.b.nodes[items[at].node].operands() {
			if _, mine := b.refs[v]; s.last[v] == at && !mine && !slices.Contains(frees, v) {
				frees = append(frees, v)
			}
		}
	}
	n := p.EncodedSize()
	if n > tensor.MaxProgramBytes || len(run.Inputs) > tensor.MaxExternals || p.NumScalars > tensor.MaxScalars {
		return nil, nil, fmt.Errorf("%w: a part of it has %d bytes, %d inputs and %d scalars; at most %d, %d and %d",
			ErrProgram, n, len(run.Inputs), p.NumScalars,
			tensor.MaxProgramBytes, tensor.MaxExternals, tensor.MaxScalars)
	}
	return run, frees, nil
}

// runBuilder builds the program of a Run.
type runBuilder struct {
	s       *segmenter
	run     *Run
	refs    map[Var]tensor.Ref // inputs and results
	scalars map[Scalar]tensor.Ref
	shapes  map[string]uint32
}

func newRunBuilder(s *segmenter) *runBuilder {
	return &runBuilder{
		s: s, run: &Run{Program: &tensor.Program{}},
		refs: map[Var]tensor.Ref{}, scalars: map[Scalar]tensor.Ref{}, shapes: map[string]uint32{},
	}
}

// add appends the instruction of node k. Its result is kept if an item from end on needs
// it.
func (b *runBuilder) add(k, end int) {
	s, p := b.s, b.run.Program
	l := s.b.nodes[k].local[s.rank]
	v := s.b.first + Var(k)
	in := tensor.Instr{
		Op: l.op, DType: l.dt, Shape: b.shape(l.shape),
		NArg: uint16(len(l.args)), NInt: uint16(len(l.ints)),
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints)),
	}
	for _, a := range l.args {
		p.Args = append(p.Args, b.ref(a))
	}
	p.Ints = append(p.Ints, l.ints...)
	if s.last[v] >= end {
		in.Keep = true
		b.run.Kept = append(b.run.Kept, Kept{len(p.Instrs), v})
	}
	b.refs[v] = tensor.Ref(len(p.Instrs))
	p.Instrs = append(p.Instrs, in)
	b.run.Origin = append(b.run.Origin, s.b.nodes[k].origin)
}

// ref returns the argument a, which becomes an input or a scalar of the program if
// needed.
func (b *runBuilder) ref(a arg) tensor.Ref {
	if a.scalar {
		r, ok := b.scalars[a.s]
		if !ok {
			r = tensor.ScalarRef(len(b.run.Scalars))
			b.scalars[a.s] = r
			b.run.Scalars = append(b.run.Scalars, a.s)
		}
		return r
	}
	r, ok := b.refs[a.value]
	if !ok {
		d, sh := b.s.typeOf(a.value)
		r = tensor.ExternalRef(len(b.run.Inputs))
		b.refs[a.value] = r
		b.run.Inputs = append(b.run.Inputs, a.value)
		p := b.run.Program
		p.Externals = append(p.Externals, tensor.External{DType: d, Shape: b.shape(sh)})
	}
	return r
}

// shape returns the index of sh in the program's table.
func (b *runBuilder) shape(sh tensor.Shape) uint32 {
	key := sh.String()
	i, ok := b.shapes[key]
	if !ok {
		p := b.run.Program
		i = uint32(len(p.Shapes))
		b.shapes[key] = i
		p.Shapes = append(p.Shapes, sh)
	}
	return i
}

// typeOf returns the dtype and the shape of v on this rank.
func (s *segmenter) typeOf(v Var) (tensor.DType, tensor.Shape) {
	if v < s.b.first {
		in := s.inputs[v]
		return in.DType, s.b.mesh.shape(in.Layout, in.Shape, s.rank)
	}
	n := &s.b.nodes[v-s.b.first]
	if n.move != nil {
		return n.move.dt, n.move.moves[s.rank].OutShape
	}
	return n.local[s.rank].dt, n.local[s.rank].shape
}
