package shard

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// heap is a buffer for uploads.
type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

// worker is one rank: an engine and the tensors that it has.
type worker struct {
	t    *testing.T
	e    tensor.Engine
	next uint64
	ids  map[Var]uint64
}

func (w *worker) submit(b *tensor.Batch) []tensor.Fetched {
	w.t.Helper()
	got, err := w.e.Submit(context.Background(), b)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *worker) put(v Var, a *array) {
	w.t.Helper()
	w.submit(&tensor.Batch{Uploads: []tensor.Upload{{ID: w.next, DType: a.dt, Shape: a.sh, Buf: heap(a.bytes())}}})
	w.ids[v] = w.next
	w.next++
}

func (w *worker) id(v Var) uint64 {
	w.t.Helper()
	id, ok := w.ids[v]
	if !ok {
		w.t.Fatalf("value %d is used and does not exist", v)
	}
	return id
}

func (w *worker) get(v Var) *array {
	w.t.Helper()
	f := w.submit(&tensor.Batch{Fetch: []uint64{w.id(v)}})[0]
	return decode(f.DType, f.Shape, f.Bytes)
}

func (w *worker) run(r *Run, scalars []float64) {
	w.t.Helper()
	encoded := r.Program.Append(nil)
	if _, err := tensor.ParseProgram(encoded); err != nil {
		w.t.Fatalf("%v\n%v", err, r.Program)
	}
	b := &tensor.Batch{Program: r.Program, Encoded: encoded, Base: w.next}
	for _, s := range r.Scalars {
		b.Scalars = append(b.Scalars, s.Of(scalars))
	}
	for _, v := range r.Inputs {
		b.Inputs = append(b.Inputs, w.id(v))
	}
	w.submit(b)
	for i, v := range r.Inputs {
		if r.Program.Externals[i].Donated {
			delete(w.ids, v)
		}
	}
	for _, k := range r.Kept {
		w.ids[k.Var] = w.next + uint64(k.Instr)
	}
	w.next += uint64(len(r.Program.Instrs))
}

// traffic counts the actions of a simulated run.
type traffic struct {
	calls, moves map[protocol.Kind]int
	sent         []int64 // by rank, as a ring would send it
}

// simulate runs p's ranks in turn, each as far as it can, and returns the parts of every
// output. It fails if all ranks wait.
func simulate(t *testing.T, p *Plan, inputs [][]*array, scalars []float64) ([][]*array, traffic) {
	t.Helper()
	n := len(p.Ranks)
	ws, at := make([]*worker, n), make([]int, n)
	for r := range ws {
		ws[r] = &worker{t, enginetest.Reference(), 1, map[Var]uint64{}}
	}
	for v, parts := range inputs {
		for k, r := range p.Stages[p.Inputs[v].Stage].Ranks {
			ws[r].put(Var(v), parts[k])
		}
	}
	tr := traffic{map[protocol.Kind]int{}, map[protocol.Kind]int{}, make([]int64, n)}
	arrived, done := map[string]map[int]*Collective{}, map[string]bool{}
	key := func(c *Collective) string { return fmt.Sprint(c.ID, c.Group) }
	seen := map[int]bool{}
	for {
		moved, ended := false, true
		for r := range n {
			for at[r] < len(p.Ranks[r].Steps) {
				s := p.Ranks[r].Steps[at[r]]
				if s.Kind == RunProgram {
					ws[r].run(s.Run, scalars)
				} else if k := key(s.Collective); s.Kind == Start {
					if arrived[k] == nil {
						arrived[k] = map[int]*Collective{}
					}
					arrived[k][r] = s.Collective
					for _, m := range s.Collective.Moves {
						if s.Collective.Kind != protocol.Recv {
							ws[r].id(m.In)
						}
					}
					if len(arrived[k]) == len(s.Collective.Group) {
						tr.perform(t, arrived[k], ws)
						done[k] = true
						if s.Collective.Dim < 0 {
							tr.calls[protocol.Send]++
						} else if !seen[s.Collective.ID] {
							seen[s.Collective.ID] = true
							tr.calls[s.Collective.Kind]++
							tr.moves[s.Collective.Kind] += len(s.Collective.Moves)
						}
					}
				} else if !done[k] {
					break
				}
				for _, v := range s.Frees {
					ws[r].submit(&tensor.Batch{Frees: []uint64{ws[r].id(v)}})
					delete(ws[r].ids, v)
				}
				at[r]++
				moved = true
			}
			ended = ended && at[r] == len(p.Ranks[r].Steps)
		}
		if ended {
			break
		}
		if !moved {
			t.Fatalf("ranks wait for each other at steps %v\n%v", at, p)
		}
	}
	var outs [][]*array
	wanted := map[Var]bool{}
	for _, o := range p.Outputs {
		var parts []*array
		for _, r := range p.Stages[o.Stage].Ranks {
			parts = append(parts, ws[r].get(o.Var))
		}
		outs = append(outs, parts)
		wanted[o.Var] = true
	}
	for r, w := range ws {
		for v := range inputs {
			if _, ok := w.ids[Var(v)]; !ok && slices.Contains(p.Stages[p.Inputs[v].Stage].Ranks, r) && (p.program == nil || !p.program.Externals[v].Donated) {
				t.Errorf("rank %d freed input %d, which is not the plan's", r, v)
			}
		}
		for v := range w.ids {
			if int(v) >= len(inputs) && wanted[v] && !p.outputOf(v, r) {
				t.Errorf("rank %d has value %d, which is another stage's", r, v)
			}
			if donated := p.program != nil && int(v) < len(inputs) && p.program.Externals[v].Donated; !wanted[v] && (int(v) >= len(inputs) || donated) {
				t.Errorf("rank %d still has value %d, which nobody needs", r, v)
			}
		}
	}
	return outs, tr
}

// outputOf reports whether rank keeps v.
func (p *Plan) outputOf(v Var, rank int) bool {
	for _, o := range p.Outputs {
		if o.Var == v && slices.Contains(p.Stages[o.Stage].Ranks, rank) {
			return true
		}
	}
	return false
}

// perform runs a collective that all members of its group have started.
func (tr *traffic) perform(t *testing.T, cs map[int]*Collective, ws []*worker) {
	t.Helper()
	var group []int
	for _, c := range cs {
		group = c.Group
	}
	if from, to := cs[group[0]], cs[group[len(group)-1]]; from.Kind == protocol.Send {
		a, b := from.Moves[0], to.Moves[0]
		x := ws[group[0]].get(a.In)
		if len(group) != 2 || to.Kind != protocol.Recv || from.DType != to.DType || !x.sh.Equal(a.InShape) || !x.sh.Equal(b.OutShape) {
			t.Fatalf("transfer %d between %v: %v of %v to %v of %v", from.ID, group, from.Kind, a.InShape, to.Kind, b.OutShape)
		}
		ws[group[1]].put(b.Out, x)
		tr.sent[group[0]] += int64(x.dt.Size() * x.len())
		return
	}
	for m := range cs[group[0]].Moves {
		ins := make([]*array, len(group))
		for i, r := range group {
			c, first := cs[r], cs[group[0]]
			if c.Kind != first.Kind || c.Op != first.Op || c.DType != first.DType || c.Scale != first.Scale || len(c.Moves) != len(first.Moves) {
				t.Fatalf("ranks disagree about collective %d", c.ID)
			}
			if ins[i] = ws[r].get(c.Moves[m].In); !ins[i].sh.Equal(c.Moves[m].InShape) {
				t.Fatalf("collective %d has %v, expected %v", c.ID, ins[i].sh, c.Moves[m].InShape)
			}
		}
		for i, r := range group {
			c := cs[r]
			mv := c.Moves[m]
			out := newArray(c.DType, mv.OutShape)
			size, p := int64(c.DType.Size()), int64(len(group))
			put := func(at int, from *array, off, n int) int {
				for k := range n {
					out.set(at+k, from, off+k)
				}
				return at + n
			}
			sum := func(l []int, n int) (s int) {
				for _, x := range l[:n] {
					s += x
				}
				return s
			}
			switch c.Kind {
			case protocol.AllReduce:
				out = fold(c.Op, c.Scale, ins)
				tr.sent[r] += 2 * size * int64(out.len()) * (p - 1) / p
			case protocol.ReduceScatter:
				whole := fold(c.Op, c.Scale, ins)
				if end := put(0, whole, sum(mv.Send, i), mv.Send[i]); end != out.len() || sum(mv.Send, len(group)) != whole.len() {
					t.Fatalf("reduce-scatter %d: blocks %v of %v to %v", c.ID, mv.Send, mv.InShape, mv.OutShape)
				}
				tr.sent[r] += size * int64(whole.len()) * (p - 1) / p
			case protocol.AllGather:
				end := 0
				for j := range group {
					if mv.Recv[j] != ins[j].len() {
						t.Fatalf("all-gather %d: blocks %v, rank %d has %d", c.ID, mv.Recv, j, ins[j].len())
					}
					end = put(end, ins[j], 0, mv.Recv[j])
				}
				if end != out.len() {
					t.Fatalf("all-gather %d: blocks %v to %v", c.ID, mv.Recv, mv.OutShape)
				}
				tr.sent[r] += size * int64(out.len()) * (p - 1) / p
			case protocol.AllToAll:
				end := 0
				for j, q := range group {
					send := cs[q].Moves[m].Send
					if send[i] != mv.Recv[j] || sum(send, len(group)) != ins[j].len() {
						t.Fatalf("all-to-all %d: rank %d sends %v of %d, rank %d wants %v", c.ID, q, send, ins[j].len(), r, mv.Recv)
					}
					end = put(end, ins[j], sum(send, i), send[i])
					if j != i {
						tr.sent[r] += size * int64(mv.Send[j])
					}
				}
				if end != out.len() {
					t.Fatalf("all-to-all %d: %v to %v", c.ID, mv.Recv, mv.OutShape)
				}
			}
			ws[r].put(mv.Out, out)
		}
	}
}
