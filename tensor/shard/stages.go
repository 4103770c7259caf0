package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Stage is a set of workers that run a part of a program: rank i of the mesh is worker
// Ranks[i].
type Stage struct {
	Mesh  Mesh
	Ranks []int
}

// StagedLayout is the stage of a tensor and its layout there. A tensor on AnyStage is put
// on the stage of its signal, or else on the first stage that reads it.
type StagedLayout struct {
	Stage  int
	Layout Layout
}

// AnyStage is the stage of a tensor that may be on any.
const AnyStage = -1

// RewriteStages returns the plan by which several stages run p together. Inside a stage
// it works as Rewrite does. The stage of an instruction is, in this order:
//
// 1. the stage of its signal in of, 2. the stage of a parameter among its operands: a
// float input that a signal put on a stage, or a view of one, 3. the stage to which the
// fewest bytes of its operands have to be sent.
//
// A tensor is sent once to each other stage that needs it: rank by rank if both have the
// same mesh, else whole, from the ranks in turn. The ranks of the plan are the numbers of
// workers, up to the highest of any stage.
//
// A stage divides its work into parts: a part ends before an instruction that needs a
// tensor of another stage which has not been received. Each stage runs its parts in the
// program's order, so micro-batches recorded in PipelineOrder run by that schedule.
//
// There is no deadlock. A part waits only for the operands of its first instruction,
// which were made by parts whose first instructions are earlier in the program. So of the
// parts that have not ended, the earliest can run. The worker must ensure that sends do
// not wait for receives: both workers start the transfers between them in one order, each
// direction has a queue, the receiver waits when it needs the tensor, and the sender
// waits when it has received a tensor that was computed from the sent one, or at the end.
//
// It returns the errors of Rewrite, and ErrMesh for stages that share workers.
func RewriteStages(p *tensor.Program, stages []Stage, of map[tensor.Signal]int, inputs []StagedLayout, o *Options) (*Plan, error) {
	s, err := newStager(p, stages, of, inputs, o)
	if err != nil {
		return nil, err
	}
	s.assign()
	s.cut()
	return s.join()
}

// newStager checks the stages and the inputs, which it copies.
func newStager(p *tensor.Program, stages []Stage, of map[tensor.Signal]int, inputs []StagedLayout, o *Options) (*stager, error) {
	if err := checkStages(stages, of); err != nil {
		return nil, err
	}
	if len(inputs) != len(p.Externals) {
		return nil, fmt.Errorf("%w: %d layouts for %d inputs", ErrPlacement, len(inputs), len(p.Externals))
	}
	for i, in := range inputs {
		if in.Stage < AnyStage || in.Stage >= len(stages) {
			return nil, fmt.Errorf("%w: input %d is on stage %d of %d", ErrPlacement, i, in.Stage, len(stages))
		}
	}
	s := &stager{p: p, stages: stages, of: of, inputs: slices.Clone(inputs), o: *cmp.Or(o, &Options{})}
	for i := range s.o.Outputs {
		if i < 0 || i >= len(p.Instrs) || !p.Instrs[i].Keep {
			return nil, fmt.Errorf("%w: a layout for instruction %d, which is not a kept result", ErrPlacement, i)
		}
	}
	return s, nil
}

func checkStages(stages []Stage, of map[tensor.Signal]int) error {
	if len(stages) == 0 || len(stages) > MaxRanks {
		return fmt.Errorf("%w: %d stages, expected 1 to %d", ErrMesh, len(stages), MaxRanks)
	}
	owner := map[int]int{}
	for i, st := range stages {
		if err := st.Mesh.Check(); err != nil {
			return fmt.Errorf("stage %d: %w", i, err)
		}
		if len(st.Ranks) != st.Mesh.Size() {
			return fmt.Errorf("%w: stage %d has %d workers for a mesh of %d", ErrMesh, i, len(st.Ranks), st.Mesh.Size())
		}
		for _, w := range st.Ranks {
			if w < 0 || w >= MaxRanks {
				return fmt.Errorf("%w: stage %d has worker %d, expected 0 to %d", ErrMesh, i, w, MaxRanks-1)
			}
			if j, taken := owner[w]; taken {
				return fmt.Errorf("%w: worker %d is in the stages %d and %d", ErrMesh, w, j, i)
			}
			owner[w] = i
		}
	}
	for g, i := range of {
		if i < 0 || i >= len(stages) {
			return fmt.Errorf("%w: signal %v runs on stage %d of %d", ErrMesh, g, i, len(stages))
		}
	}
	return nil
}

// stager divides a program into parts by stages.
type stager struct {
	p      *tensor.Program
	stages []Stage
	of     map[tensor.Signal]int
	inputs []StagedLayout
	o      Options

	live  []bool
	draws map[tensor.Ref]bool // inputs that a signal put on a stage, and views of them
	seen  map[at]bool         // tensors that earlier instructions read on a stage
	// where is the stage of each instruction. If several stages need a leaf it is the
	// first of them, and the others make the leaf again.
	where []int
	parts []*part
	// dests has the other stages that need a tensor, in the order of their first use.
	dests map[tensor.Ref][]int
}

// part is a sequence of instructions that one stage runs without receiving anything in
// between. It includes the leaves that it makes for itself.
type part struct {
	stage  int
	instrs []int
	needs  []tensor.Ref // tensors received before, in the order of their use
}

// assign chooses the stage of each instruction that is needed.
func (s *stager) assign() {
	s.live, s.draws, s.seen = s.p.Live(), map[tensor.Ref]bool{}, map[at]bool{}
	s.where = make([]int, len(s.p.Instrs))
	for i := range s.where {
		s.where[i] = AnyStage
		if k, ok := s.said(tensor.Ref(i)); ok {
			s.where[i] = k
		}
	}
	for i := range s.inputs {
		if k, ok := s.said(tensor.ExternalRef(i)); ok {
			s.draws[tensor.ExternalRef(i)] = true
			if s.inputs[i].Stage == AnyStage {
				s.inputs[i].Stage = k
			}
		}
	}
	for i := range s.p.Instrs {
		if !s.live[i] || s.leaf(i) {
			continue
		}
		args := s.p.ArgsOf(i)
		view := s.p.Instrs[i].Op.Info().Class == tensor.ClassView
		if s.where[i] == AnyStage {
			s.where[i] = s.nearest(args)
		}
		if view && s.draws[args[0]] {
			s.draws[tensor.Ref(i)] = true
		}
		if s.where[i] == AnyStage && view {
			// It views a tensor without a stage, and gets the stage of its reader.
			continue
		}
		s.where[i] = max(s.where[i], 0)
		for _, r := range args {
			s.settle(r, s.where[i])
			s.seen[at{s.where[i], r}] = true
		}
	}
	for i := range s.where {
		s.where[i] = max(s.where[i], 0)
	}
	for i := range s.inputs {
		s.inputs[i].Stage = max(s.inputs[i].Stage, 0)
	}
}

// nearest returns the stage of an instruction without a signal, or AnyStage if none of
// its operands is on one.
func (s *stager) nearest(args []tensor.Ref) int {
	best, most, least, drawn := AnyStage, -1, 0, false
	for _, r := range args {
		k := s.home(r)
		if k == AnyStage {
			continue
		}
		d, _ := s.p.TypeOf(r)
		n, c, draws := s.bytes(r), s.coming(args, k), s.draws[r] && d.IsFloat()
		if best == AnyStage || draws && !drawn || draws == drawn && (!draws && c < least || (draws || c == least) && n > most) {
			best, most, least, drawn = k, n, c, draws
		}
	}
	return best
}

// coming returns the bytes of args that stage k lacks.
func (s *stager) coming(args []tensor.Ref, k int) (n int) {
	for i, r := range args {
		if h := s.home(r); h == AnyStage || h == k || s.seen[at{k, r}] || slices.Contains(args[:i], r) {
			continue
		}
		if j, ok := r.Instr(); !ok || !s.leaf(j) {
			n += s.bytes(r)
		}
	}
	return n
}

func (s *stager) bytes(r tensor.Ref) int {
	d, sh := s.p.TypeOf(r)
	return sh.Elems() * d.Size()
}

// settle puts r on stage k, which reads it, if it has no stage yet.
func (s *stager) settle(r tensor.Ref, k int) {
	if j, ok := r.External(); ok && s.inputs[j].Stage == AnyStage {
		s.inputs[j].Stage = k
	} else if j, ok := r.Instr(); ok && s.where[j] == AnyStage {
		s.where[j] = k
		for _, x := range s.p.ArgsOf(j) {
			s.settle(x, k)
		}
	}
}

// said returns the stage of r's signal: of the result's own name if it has one.
func (s *stager) said(r tensor.Ref) (stage int, ok bool) {
	if i, instr := r.Instr(); instr {
		if sig, ok := s.p.NameOf(i); ok {
			if k, ok := For(s.of, sig); ok {
				return k, true
			}
		}
	}
	sig, ok := s.p.SignalOf(r)
	if !ok {
		return 0, false
	}
	return For(s.of, sig)
}

// For returns the value for a signal in of, whose names may be patterns. A name with a
// slash that has no entry gets the value of its right side.
func For[V any](of map[tensor.Signal]V, sig tensor.Signal) (v V, ok bool) {
	if v, ok := find(of, sig); ok {
		return v, true
	}
	_, name, _ := strings.Cut(sig.Name, "/")
	return find(of, tensor.Signal{Name: name, Backward: sig.Backward})
}

func (s *stager) leaf(i int) bool { return s.p.Instrs[i].Op.Info().Class == tensor.ClassLeaf }

// home returns the stage of r.
func (s *stager) home(r tensor.Ref) int {
	if i, ok := r.Instr(); ok {
		return s.where[i]
	}
	if i, ok := r.External(); ok {
		return s.inputs[i].Stage
	}
	return AnyStage
}

// cut makes the parts, in the order of their first instructions. A part ends before an
// instruction that needs a tensor of another stage, and after one whose result another
// stage needs, so that it is sent at once.
func (s *stager) cut() {
	s.findDests()
	open := make([]*part, len(s.stages))
	has := make([]map[tensor.Ref]bool, len(s.stages)) // tensors of other stages
	for k := range has {
		has[k] = map[tensor.Ref]bool{}
	}
	add := func(k, i int) {
		if open[k] == nil {
			open[k] = &part{stage: k}
			s.parts = append(s.parts, open[k])
		}
		open[k].instrs = append(open[k].instrs, i)
	}
	for i := range s.p.Instrs {
		if !s.live[i] {
			continue
		}
		k := s.where[i]
		if s.leaf(i) {
			if s.p.Instrs[i].Keep {
				add(k, i)
				has[k][tensor.Ref(i)] = true
			}
			continue
		}
		var needs []tensor.Ref
		var leaves []int // every stage that needs a leaf makes it
		for _, r := range s.p.ArgsOf(i) {
			if _, scalar := r.Scalar(); scalar || has[k][r] {
				continue
			}
			if j, ok := r.Instr(); ok && s.leaf(j) {
				leaves = append(leaves, j)
				has[k][r] = true
			} else if s.home(r) != k {
				needs = append(needs, r)
				has[k][r] = true
			}
		}
		if needs != nil {
			open[k] = &part{stage: k, needs: needs}
			s.parts = append(s.parts, open[k])
		}
		for _, j := range leaves {
			add(k, j)
		}
		add(k, i)
		if s.dests[tensor.Ref(i)] != nil {
			open[k] = nil
		}
	}
}

// findDests finds the tensors that have to be sent.
func (s *stager) findDests() {
	s.dests = map[tensor.Ref][]int{}
	for i := range s.p.Instrs {
		if !s.live[i] || s.leaf(i) {
			continue
		}
		for _, r := range s.p.ArgsOf(i) {
			if j, ok := r.Instr(); ok && s.leaf(j) {
				continue
			}
			if k := s.where[i]; s.home(r) != AnyStage && s.home(r) != k && !slices.Contains(s.dests[r], k) {
				s.dests[r] = append(s.dests[r], k)
			}
		}
	}
}

// PlaceStages is RewriteStages for a program with inputs on AnyStage. It puts them on the
// stage of their signal, or on the first stage that reads them, in the layout of the hint
// for their signal; their given layout is ignored. Plan.Inputs has the result. With nil
// inputs all are on AnyStage.
func PlaceStages(p *tensor.Program, stages []Stage, of map[tensor.Signal]int, inputs []StagedLayout, o *Options) (*Plan, error) {
	if inputs == nil {
		inputs = make([]StagedLayout, len(p.Externals))
		for i := range inputs {
			inputs[i].Stage = AnyStage
		}
	}
	s, err := newStager(p, stages, of, inputs, o)
	if err != nil {
		return nil, err
	}
	s.assign()
	for k, st := range stages {
		all, err := Place(p, st.Mesh, s.o.Signals)
		if err != nil {
			return nil, err
		}
		for i := range inputs {
			if inputs[i].Stage == AnyStage && s.inputs[i].Stage == k {
				s.inputs[i].Layout = all[i]
			}
		}
	}
	s.cut()
	return s.join()
}
