package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// forwarded is a session of this worker alone, whose messages the dispatcher forwards.
type forwarded struct{ *base }

// handle does a message that the dispatcher forwards.
func (s *forwarded) handle(ctx context.Context, m *ipc.Message) error { return s.do(ctx, s, m) }

func (s *forwarded) close() { s.free() }

func (s *forwarded) compile(hash tensor.Hash, encoded []byte) *program {
	c, err := s.dev.Compile(hash, encoded)
	if err != nil {
		return &program{err: err}
	}
	return &program{compiled: c, parsed: c.Parsed()}
}

func (s *forwarded) execute(ctx context.Context, run *wire.Run, done *wire.Done) error {
	p, err := s.programs.find(run)
	if ends(err) {
		return err
	}
	for i := range run.Uploads {
		if failed := s.upload(&run.Uploads[i]); ends(failed) {
			return failed
		} else if err == nil {
			err = failed // the other uploads exist all the same
		}
	}
	if p != nil && err == nil {
		s.space.FreeUnread(run.Frees, run.Inputs)
		err = s.runProgram(p.compiled, tensor.Hash(run.Hash), run.Base, run.Inputs, run.Scalars)
	} else if p != nil {
		dropDonated(s.space, p.parsed, run.Inputs)
	}
	if err == nil {
		err = s.fetch(ctx, run, done)
		var f *device.Failure
		switch failed := errors.As(err, &f); {
		case !failed && errors.Is(err, tensor.ErrUnknown): // of a value that is fetched
			err = &device.Failure{Base: run.Base, Err: err, Rest: true}
		case err != nil && p != nil && !(failed && f.Rest):
			dropResults(s.space, p.parsed, run.Base)
		}
	}
	for _, id := range run.Frees {
		s.space.Free(id)
	}
	return err
}

// dropResults frees the results of a program whose batch failed after it.
func dropResults(space device.Space, p *tensor.Program, base uint64) {
	for i, in := range p.Instrs {
		if in.Keep {
			space.Free(base + uint64(i))
		}
	}
}

// upload makes a value of the client's memory.
func (s *forwarded) upload(u *wire.Upload) error {
	d, shape, err := uploadType(u)
	if err != nil {
		return err
	}
	if _, ok := s.space.Lookup(u.ID); ok {
		return fmt.Errorf("%w: upload %d exists", errProtocol, u.ID)
	}
	if u.Lies() {
		return fmt.Errorf("%w: upload %d in layout %#x on stage %d, in a session of one worker", errProtocol, u.ID, u.Layout, u.Stage)
	}
	b, err := s.uploads.open(u, shape.Elems()*d.Size())
	if err != nil {
		return err
	}
	return s.space.Import(u.ID, d, shape, b, u.Own)
}

// fetch adds the values that the client wants to the answer. If that finds that a program
// of an earlier batch has failed, it answers for that batch first.
func (s *forwarded) fetch(ctx context.Context, run *wire.Run, done *wire.Done) error {
	err := s.collect(run, done)
	late := lateFailure(err, run)
	if late == nil {
		return err
	}
	if err := s.answerLate(ctx, late, run); err != nil {
		return err
	}
	s.results.revoke()
	s.results.begin()
	done.Results = done.Results[:0]
	return s.collect(run, done)
}

// collect adds the values that the client wants to the answer. If it wants an answer
// alone, collect waits until all programs have run.
func (s *forwarded) collect(run *wire.Run, done *wire.Done) error {
	for _, id := range run.Fetch {
		v, ok := s.space.Lookup(id)
		if !ok {
			return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
		s.results.next(done, id, v.DType, v.Shape)
		if err := s.results.add(done, s.space, id, v.Bytes(), s.replies.inlineBytes()); err != nil {
			return err
		}
	}
	if err := s.hand(done); err != nil {
		return err
	}
	if run.Flags&wire.RunSync != 0 || len(run.Fetch) > 0 {
		return s.space.Sync()
	}
	return nil
}

func (s *forwarded) answers(*wire.Done) bool { return true }

func (s *forwarded) sign(*wire.Done) {}

func (s *forwarded) writers() (rank, of int) { return 0, 1 }

func (s *forwarded) readable(context.Context, []uint64) error { return nil }

func (s *forwarded) part(_ int, id uint64) (p part, mine bool, err error) {
	v, ok := s.space.Lookup(id)
	if !ok {
		return p, false, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	p.Start, p.Dims = make([]int, len(v.Shape)), v.Shape
	p.id, p.bytes = id, v.Bytes()
	return p, true, nil
}
