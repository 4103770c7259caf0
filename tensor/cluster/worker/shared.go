package worker

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// shared is a session of several workers. The dispatcher forwards its messages to all of
// them, or it has connections of its own (see lead).
type shared struct {
	ledger
	lead  *lead
	bound bool // the worker's goroutine is bound to a core for it
	freed []uint64
}

// newShared returns the session that open opens, on a worker that is not connected to the
// others yet.
func newShared(ctx context.Context, b *base, open *wire.OpenSession) (*shared, error) {
	c, err := configOf(open)
	if err != nil {
		return nil, err
	}
	rank := int(open.Rank)
	ctx, b.stops.leave = context.WithCancel(ctx)
	return &shared{
		ledger: ledger{carrier: &carrier{base: b, ctx: ctx, team: newTeam(b.env, b.id, stagesOf(c), rank), next: 1},
			parts: c.Exact, auto: c.AutoShard, speed: speedOf(open), hints: c.Hints(), stageOf: c.StageOf(), values: map[uint64]*placed{}},
		lead: newLead(b.env, b.id, rank),
	}, nil
}

// elemBytes is the memory traffic of an element of most operations: two f32 operands and
// a result.
const elemBytes = 12

// speedOf returns the speed by which the session's workers choose layouts: that of the
// slowest of their devices.
func speedOf(open *wire.OpenSession) shard.AutoOptions {
	return shard.AutoOptions{FlopsPerSecond: open.Flops, ElemsPerSecond: open.Bandwidth / elemBytes}
}

// configOf returns the session's config. Without one all tensors are whole on every
// worker.
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

// start connects the session's workers, and offers the session's own connections if open
// asks for them. reply is sent to the client when all are connected.
func (s *shared) start(ctx context.Context, open *wire.OpenSession, reply wire.SessionOpened) error {
	var theirs *os.File
	if open.Direct {
		s.bound = s.binds && s.binding.bind(s.rank, s.team.size(), s.log)
		var err error
		if theirs, err = s.offer(ctx); err != nil {
			return err
		}
	}
	s.join(append([]byte(nil), open.Key...), s.uploads.memory, reply, func(ctx context.Context, err error) []*os.File {
		if theirs == nil {
			return nil
		}
		if err == nil {
			if err = s.lead.connectOthers(ctx, s.team); err == nil {
				return []*os.File{theirs}
			}
			s.log.Warn("no connections of its own for a session: its messages go through the dispatcher", "session", s.id, "err", err)
		}
		theirs.Close()
		return nil
	})
	return nil
}

// offer offers this worker's own connection: the first worker's to the client, for which
// it returns the descriptor, the others' to the first worker, which is told in any case.
func (s *shared) offer(ctx context.Context) (f *os.File, err error) {
	if s.out.conn.Features().Files {
		if f, err = s.lead.in.offer(s.env); err != nil {
			f = nil
		}
	}
	if s.rank == 0 {
		return f, nil
	}
	m := wire.Meet{Session: s.id, Rank: uint32(s.rank), Group: groupLead}
	var files []*os.File
	if f != nil {
		defer f.Close()
		files = []*os.File{f}
	}
	return nil, s.out.send(ctx, wire.KindMeet, &m, files...)
}

// handle handles a message of the client, which all workers have.
func (s *shared) handle(ctx context.Context, m *ipc.Message) error { return s.do(ctx, s, m) }

// handleInlet handles the message that the session's inlet holds. The first worker
// answers over that connection; the others' answers go through the dispatcher.
func (s *shared) handleInlet(ctx context.Context) error {
	in := &s.lead.in
	done, err := s.lead.begin(ctx, &in.msg)
	if done || err != nil {
		return in.finish(err)
	}
	if s.rank == 0 {
		s.replies = in
	}
	err = s.handle(ctx, &in.msg)
	s.replies = &s.out
	if err == nil {
		in.release()
		return s.lead.finish(ctx)
	}
	return in.finish(err)
}

func (s *shared) inlet() *inlet { return &s.lead.in }

func (s *shared) poll() bool { return s.lead.poll() }

func (s *shared) ask(ctx context.Context) error { return s.lead.ask(ctx) }

func (s *shared) lost(ctx context.Context) error { return s.lead.lost(ctx) }

// agreeOn handles a Meet of another of the session's workers, or a Turn of the
// dispatcher.
func (s *shared) agreeOn(ctx context.Context, m *ipc.Message) error {
	if m.Kind == wire.KindMeet {
		return s.meet(m)
	}
	var turn wire.Turn
	if err := wire.Parse(m.Body, &turn); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return s.lead.hear(ctx, turn)
}

// close frees everything but leased results, and leaves the groups.
func (s *shared) close() {
	s.lead.close()
	if s.bound {
		s.binding.unbind()
		s.bound = false
	}
	s.stops.leave()
	s.closeValues()
	s.team.close(s.lead.conns)
	s.free()
}

func (s *shared) compile(_ tensor.Hash, encoded []byte) *program {
	p, err := tensor.ParseProgram(encoded)
	return &program{parsed: p, err: err}
}

// execute does a batch with the session's other workers.
func (s *shared) execute(_ context.Context, run *wire.Run, done *wire.Done) error {
	if !s.open() {
		return fmt.Errorf("%w: a run before the session was open", errProtocol)
	}
	p, err := s.programs.find(run)
	if ends(err) {
		return err
	}
	for i := range run.Uploads {
		if failed := s.take(&run.Uploads[i]); ends(failed) {
			return failed
		} else if err == nil {
			err = failed // the other uploads exist all the same
		}
	}
	if p != nil {
		err = s.runAndComplete(p, run, err)
	} else {
		err = s.complete(s.ctx, run, false, err)
	}
	if ends(err) {
		return err
	}
	if err == nil {
		err = s.show(run, done) // an error of this worker alone, which changes no books
	}
	for _, id := range run.Frees {
		s.forget(id)
	}
	return err
}

// complete ends a batch: it gathers the values that are fetched, and agrees with the
// other workers whether the batch failed. ran reports whether the batch had a program;
// failed is this worker's failure.
func (s *shared) complete(ctx context.Context, run *wire.Run, ran bool, failed error) error {
	for _, id := range run.Fetch {
		v := s.values[id]
		switch {
		case v == nil || failed != nil:
		case v.lies:
			failed = s.settle(v)
		default:
			failed = v.failed
		}
	}
	changes, agreed, err := s.gather(ctx, run.Fetch, failed)
	if ends(err) {
		return err
	}
	if !agreed && (ran || len(run.Uploads) > 0 || len(changes) > 0) {
		if err = s.agree(ctx, err); ends(err) {
			return err
		}
	}
	for i := range changes {
		s.end(&changes[i], err == nil)
	}
	return err
}

// show adds this worker's parts of the values that the client wants to the answer.
func (s *shared) show(run *wire.Run, done *wire.Done) error {
	for _, id := range run.Fetch {
		if err := s.fetch(id, s.values[id], done); err != nil {
			return err
		}
	}
	return s.hand(done)
}

// program runs p: it decides the layouts of inputs that have none, and carries out the
// plan for the layouts. failed is the failure of this worker, which the others do not
// know yet. outs is the number of ids from run.Base on that belong to results.
func (s *shared) program(ctx context.Context, p *program, run *wire.Run, failed error) (outs int, err error) {
	ins, err := s.inputs(p, run)
	if err != nil {
		return 0, err
	}
	began, rewritten := s.monitor.now(), s.traffic.rewritten
	r, err := s.planOf(p, ins)
	if err != nil {
		return 0, err
	}
	if s.traffic.rewritten > rewritten {
		s.monitor.compiled(s.id, began, tensor.Hash(run.Hash), len(p.parsed.Instrs))
	}
	ids := make([]uint64, len(ins))
	for i, v := range ins {
		if err := s.settle(v); err != nil && failed == nil {
			failed = err
		}
		ids[i] = v.id
	}
	for _, o := range r.plan.Outputs {
		if id := run.Base + uint64(o.Instr); s.values[id] != nil {
			return 0, fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, o.Instr, id)
		}
	}
	s.space.FreeUnread(s.partsOf(run.Frees), ids)
	made, err := s.carry(ctx, r, ids, run.Scalars, failed)
	if ends(err) {
		return 0, err
	}
	if some, ok := err.(*someFailed); ok {
		gone := some.dependents(p.parsed)
		for i, o := range r.plan.Outputs {
			if made[i] == 0 && o.Stage == s.stage && !gone[o.Instr] {
				err = some.all[0] // no result can be told from the others
			}
		}
	}
	for i, o := range r.plan.Outputs {
		s.values[run.Base+uint64(o.Instr)] = &placed{dtype: o.DType, shape: o.Shape, stage: o.Stage, layout: o.Layout, lies: true, id: made[i]}
	}
	return len(p.parsed.Instrs), err
}

// partsOf returns the ids in the space of this worker's parts of values, until its next
// call.
func (s *shared) partsOf(values []uint64) []uint64 {
	s.freed = s.freed[:0]
	for _, id := range values {
		if v := s.values[id]; v != nil && v.id != 0 {
			s.freed = append(s.freed, v.id)
		}
	}
	return s.freed
}

// inputs returns the inputs of a run, which must be as the program has them.
func (s *shared) inputs(p *program, run *wire.Run) ([]*placed, error) {
	ins := make([]*placed, len(run.Inputs))
	for i, id := range run.Inputs {
		v := s.values[id]
		d, shape := p.parsed.TypeOf(tensor.ExternalRef(i))
		if v == nil {
			return nil, fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
		}
		if v.dtype != d || !v.shape.Equal(shape) {
			return nil, fmt.Errorf("%w: input %d is %v%v, id %d is %v%v", tensor.ErrProgram, i, d, shape, id, v.dtype, v.shape)
		}
		ins[i] = v
	}
	return ins, nil
}

// answers reports whether this worker has a part of a result, or is the first one, which
// answers in any case.
func (s *shared) answers(done *wire.Done) bool {
	return s.rank == 0 || slices.ContainsFunc(done.Results, func(r wire.Result) bool { return !r.Elsewhere })
}

func (s *shared) sign(done *wire.Done) {
	done.Rank, done.Calls, done.Moved, done.Plans = uint32(s.rank), s.traffic.calls, s.traffic.moved, s.traffic.rewritten
	done.Took, done.Hidden = uint64(s.took), uint64(s.hidden)
}

func (s *shared) writers() (rank, of int) { return s.rank, s.team.size() }
