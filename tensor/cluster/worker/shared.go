package worker

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// shared is what a worker knows of a session that it runs together with others. Each of them is sent the same messages in
// the same order, and keeps the same books: how every value lies, and what a program becomes. So they need not talk about
// that, only where a plan has a collective.
//
// What only one of them can run into, no memory for its part, must not leave the others waiting. It goes through the motions of
// what is left of the plan, and at the end of a batch they vote: it failed on all of them or on none.
type shared struct {
	*team
	lead
	auto   bool // what nobody says is chosen
	hints  shard.Signals
	of     map[tensor.Signal]int // the stages of signals
	values map[uint64]*placed    // by the client's ids
	next   uint64                // id for the next value in the space, whose ids are our own
	plans  map[string]*carried   // redistributions
	key    []byte                // of the plan that is looked for
	ids    []uint64              // of the plan that is carried out, by shard.Value

	ballotBox []byte // of votes that ride on a value

	calls, moved, rewritten uint64
	took, hidden            time.Duration // of collectives: how long they ran, and of this, while programs did
}

// placed is a value of the client's as this worker has it.
type placed struct {
	dtype  tensor.DType
	shape  tensor.Shape // of the whole
	stage  int          // whose workers have it
	layout shard.Layout
	lies   bool   // stage and layout were decided: by the first program that reads it
	id     uint64 // of this rank's part in the space; 0: it is not there

	whole  *shm.Block // an upload of which no part was made yet, where it lies; nil if it has no bytes
	mine   bool       // whole is this worker's part alone, as it was sent
	own    bool       // the client wants its memory back: what this worker has is a copy
	failed error      // why this worker does not have an upload: whoever reads it fails
}

// share makes s a session of several workers.
func (s *session) share(ctx context.Context, open *wire.OpenSession, reply wire.SessionOpened) error {
	c, err := configOf(open)
	if err != nil {
		return err
	}
	s.shared = &shared{team: newTeam(stagesOf(c), int(open.Rank)), auto: c.AutoShard, hints: c.Hints(), of: c.StageOf(),
		values: map[uint64]*placed{}, plans: map[string]*carried{}, next: 1}
	var theirs *os.File
	if open.Direct {
		s.bound = s.w.o.Bind && s.w.bind(s.rank, s.size())
		if theirs, err = s.offerOwn(ctx); err != nil {
			return err
		}
	}
	s.team.join(s.w, s, append([]byte(nil), open.Key...), reply, theirs)
	return nil
}

// configOf is how the session's tensors are to lie: whole on every worker if nothing is said.
func configOf(open *wire.OpenSession) (*config.Config, error) {
	if len(open.Config) == 0 {
		return &config.Config{NumWorkers: int(open.Workers)}, nil
	}
	c, err := config.Parse("the session's config", open.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	switch {
	case c.Workers() != int(open.Workers):
		return nil, fmt.Errorf("%w: a config for %d workers in a session of %d", errProtocol, c.Workers(), open.Workers)
	case c.AutoShard && len(c.Stages()) > 1:
		return nil, fmt.Errorf("%w: a config with auto_shard, which chooses nothing where there are %d stages: leave it out, or workers of signals",
			errProtocol, len(c.Stages()))
	}
	return c, nil
}

// close frees what lies nowhere yet, and leaves the groups. The space has the rest.
func (h *shared) close(w *Worker) {
	for _, v := range h.values {
		v.drop()
	}
	clear(h.values)
	h.team.close(&w.leaving, &h.lead)
}

// holds says whether a handle is of this worker's memory.
func (s *session) holds(h wire.Handle) bool {
	return s.w.dev.Arena().Has(h.Segment)
}

// drop gives up the whole of an upload.
func (v *placed) drop() {
	if v.whole != nil {
		v.whole.Release()
		v.whole = nil
	}
}

// forgetValue frees a value.
func (s *session) forgetValue(id uint64) {
	if v := s.values[id]; v != nil {
		delete(s.values, id)
		v.drop()
		s.space.Free(v.id)
	}
}

// together does a batch with the session's other workers.
func (s *session) together(ctx context.Context, run *wire.Run, done *wire.Done) (err error) {
	select {
	case <-s.ready:
	default:
		return fmt.Errorf("%w: a run before the session was open", errProtocol)
	}
	p, err := s.lookUp(run)
	if ends(err) {
		return err
	}
	for i := range run.Uploads {
		u := &run.Uploads[i]
		if err2 := s.take(u); ends(err2) {
			return err2
		} else if err == nil {
			err = err2
		}
	}
	outs := 0
	if p != nil {
		outs, err = s.program(ctx, p, run, err)
	}
	if ends(err) {
		return err
	}
	for _, id := range run.Fetch {
		v := s.values[id]
		switch {
		case v == nil || err != nil:
		case v.lies:
			err = s.settle(v)
		default:
			err = v.failed
		}
	}
	moves, agreed, err := s.gather(ctx, run.Fetch, err)
	if ends(err) {
		return err
	}
	if !agreed && (p != nil || len(run.Uploads) > 0 || len(moves) > 0) {
		if err = s.agree(ctx, err); ends(err) {
			return err
		}
	}
	for i := range moves {
		moves[i].end(s, err == nil)
	}
	for i := 0; err == nil && i < len(run.Fetch); i++ {
		err = s.show(run.Fetch[i], s.values[run.Fetch[i]], done)
	}
	if ends(err) {
		return err
	}
	if err != nil {
		for i := range outs {
			s.forgetValue(run.Base + uint64(i))
		}
	}
	for _, id := range run.Frees {
		s.forgetValue(id)
	}
	return err
}

// lookUp finds the program of a run; nil for none.
func (s *session) lookUp(run *wire.Run) (*program, error) {
	if run.Hash == (wire.Hash{}) {
		return nil, nil
	}
	p := s.programs[tensor.Hash(run.Hash)]
	if p == nil {
		return nil, fmt.Errorf("%w: program %x was never sent", errProtocol, run.Hash)
	}
	p.runs++
	if p.err != nil {
		return nil, p.err
	}
	if x := p.parsed; len(run.Inputs) != len(x.Externals) || len(run.Scalars) != x.NumScalars {
		return nil, fmt.Errorf("%w: program %x with %d inputs and %d scalars, expected %d and %d", errProtocol,
			run.Hash, len(run.Inputs), len(run.Scalars), len(x.Externals), x.NumScalars)
	}
	return p, nil
}

// take takes in an upload: this worker's part where the client says how it is to lie, otherwise the whole, until somebody reads it. Errors
// that do not end the session are this worker's alone; the value exists all the same.
func (s *session) take(u *wire.Upload) error {
	d, shape, err := typeOf(u)
	if err != nil {
		return err
	}
	if s.values[u.ID] != nil {
		return fmt.Errorf("%w: upload %d exists", errProtocol, u.ID)
	}
	v := &placed{dtype: d, shape: shape, own: u.Own}
	bytes := shape.Elems() * d.Size()
	switch {
	case u.Lies():
		if v.stage = max(int(u.Stage)-1, 0); (u.Stage > 0) != (len(s.stages) > 1) || v.stage >= len(s.stages) {
			return fmt.Errorf("%w: upload %d on stage %d of %d", errProtocol, u.ID, u.Stage, len(s.stages))
		}
		l, ok := s.stages[v.stage].Mesh.LayoutOf(u.Layout, len(shape))
		if !ok {
			return fmt.Errorf("%w: upload %d, %v%v in layout %#x on a mesh of %v", errProtocol, u.ID, d, shape, u.Layout, s.stages[v.stage].Mesh)
		}
		v.layout, v.lies = l, true
		if v.mine = s.link != nil && u.Inline == nil; v.mine && v.stage != s.stage {
			bytes = 0
		} else if v.mine {
			_, local := s.mesh.Local(l, shape, s.place)
			bytes = local.Elems() * d.Size()
		}
	case u.Own && len(s.stages) == 1 && !s.auto:
		v.lies = true // whole: nobody says otherwise
	}
	s.values[u.ID] = v
	if v.whole, v.failed = s.blockOf(u, bytes); v.failed != nil {
		return v.failed
	}
	if d == tensor.Bool && v.whole != nil {
		if i := slices.IndexFunc(v.whole.Bytes(), func(x byte) bool { return x > 1 }); i >= 0 {
			v.failed = fmt.Errorf("%w: byte %d of a bool is %d; expected 0 or 1", tensor.ErrDType, i, v.whole.Bytes()[i])
			v.drop()
		}
	}
	if v.failed == nil && v.lies {
		return s.settle(v)
	}
	return v.failed
}

// program runs p: it decides how inputs lie that lie nowhere yet, and carries out the plan for that. failed is why this worker can't do
// its part; the others don't know yet. outs is how many ids from run.Base on are those of results.
func (s *session) program(ctx context.Context, p *program, run *wire.Run, failed error) (outs int, err error) {
	ins := make([]*placed, len(run.Inputs))
	for i, id := range run.Inputs {
		v := s.values[id]
		d, shape := p.parsed.TypeOf(tensor.ExternalRef(i))
		if v == nil {
			return 0, fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
		}
		if v.dtype != d || !v.shape.Equal(shape) {
			return 0, fmt.Errorf("%w: input %d is %v%v, id %d is %v%v", tensor.ErrProgram, i, d, shape, id, v.dtype, v.shape)
		}
		ins[i] = v
	}
	defer func() {
		for i, e := range p.parsed.Externals {
			if e.Donated {
				s.forgetValue(run.Inputs[i])
			}
		}
	}()
	plan := s.planOf
	if len(s.stages) > 1 {
		plan = s.stagedPlan
	}
	c, err := plan(p, ins)
	if err != nil {
		return 0, err
	}
	ids := make([]uint64, len(ins))
	for i, v := range ins {
		if err := s.settle(v); err != nil && failed == nil {
			failed = err
		}
		ids[i] = v.id
	}
	outs = len(p.parsed.Instrs)
	for _, o := range c.plan.Outputs {
		if s.values[run.Base+uint64(o.Instr)] != nil {
			return 0, fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, o.Instr, run.Base+uint64(o.Instr))
		}
	}
	made, err := s.carry(ctx, c, ids, run.Scalars, failed)
	if ends(err) {
		return 0, err
	}
	for i, o := range c.plan.Outputs {
		s.values[run.Base+uint64(o.Instr)] = &placed{dtype: o.DType, shape: o.Shape, stage: o.Stage, layout: o.Layout, lies: true, id: made[i]}
	}
	return outs, err
}

// decide says how inputs are to lie that lie nowhere yet.
func (s *session) decide(p *program, ins []*placed) error {
	for i, v := range ins {
		if v.lies {
			continue
		}
		if p.chosen == nil {
			var err error
			if p.chosen, err = s.choose(p.parsed); err != nil {
				return fmt.Errorf("%w: %w", tensor.ErrProgram, err)
			}
		}
		v.layout, v.lies = p.chosen[i], true
	}
	return nil
}

// choose says how the inputs of p are to lie: as the config says, or else as is best for p if the config wants that.
func (s *session) choose(p *tensor.Program) ([]shard.Layout, error) {
	out, err := shard.Place(p, s.mesh, s.hints)
	if err != nil || !s.auto {
		return out, err
	}
	best, err := shard.Auto(p, s.mesh, &shard.AutoOptions{Signals: s.hints})
	if err != nil {
		return nil, err
	}
	return best.Inputs, nil
}

// settle makes this rank's part of an upload whose layout was decided.
func (s *session) settle(v *placed) error {
	if v.stage != s.stage {
		v.drop()
		return nil
	}
	if v.id != 0 || v.failed != nil {
		return v.failed
	}
	start, local := s.mesh.Local(v.layout, v.shape, s.place)
	part := v.whole
	switch {
	case local.Elems() == 0:
		part = nil
	case v.mine || local.Elems() == v.shape.Elems() && !(v.own && part.ReadOnly()):
		part.Retain()
	default:
		var err error
		size := v.dtype.Size()
		if part, err = s.w.dev.Arena().Alloc(local.Elems() * size); err != nil {
			return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		shard.CopyOut(part.Bytes(), v.whole.Bytes(), size, v.shape, start, local)
	}
	id := s.next
	if err := s.space.Import(id, v.dtype, local, part); err != nil {
		return err
	}
	s.next++
	v.id = id
	v.drop()
	return nil
}

// planOf decides how inputs lie that lie nowhere yet, and finds the plan for inputs that lie as these then do, or makes it.
func (s *session) planOf(p *program, ins []*placed) (*carried, error) {
	if err := s.decide(p, ins); err != nil {
		return nil, err
	}
	s.key = s.key[:0]
	for _, v := range ins {
		s.key = appendLayout(s.key, v.layout)
	}
	if c := p.plans[string(s.key)]; c != nil {
		return c, nil
	}
	layouts := make([]shard.Layout, len(ins))
	for i, v := range ins {
		layouts[i] = v.layout
	}
	plan, err := shard.Rewrite(p.parsed, s.mesh, layouts, &shard.Options{Signals: s.hints})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tensor.ErrProgram, err)
	}
	return s.plan(p, plan, s.place, 0), nil
}

// plan prepares a plan for inputs that lie as s.key says. rank and stage are this worker's in it.
func (s *session) plan(p *program, plan *shard.Plan, rank, stage int) *carried {
	s.rewritten++
	if len(p.plans) >= maxPlans {
		clear(p.plans)
	}
	c := s.prepare(plan, rank, stage)
	p.plans[string(s.key)] = c
	return c
}

// maxPlans bounds the plans of one program, and of redistributions.
const maxPlans = 64

func appendLayout(b []byte, l shard.Layout) []byte {
	for _, p := range l {
		x := byte(0)
		if d, ok := p.Sharded(); ok {
			x = 1 + byte(d)
		} else if f, ok := p.Partial(); ok {
			x = 128 + byte(f)
		}
		b = append(b, x)
	}
	return b
}
