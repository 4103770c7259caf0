package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// batch does a Run: leases that come back, uploads, the program, what is fetched, what is freed;
// and answers if the client asked for it, if something went wrong, or if enough of its memory is
// to be given back.
func (s *session) batch(ctx context.Context, m *ipc.Message) error {
	run, done := &s.w.run, &s.w.done
	if err := wire.ParseRun(m.Body, run, &s.history); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	s.history.Record(run)
	if run.Flags&wire.RunTurn != 0 && !s.stopped { // one that was stopped is let go on in any case
		if err := s.flow(ctx, false); err != nil {
			return err
		}
	}
	for _, h := range run.Returns {
		if s.shared != nil && !s.holds(h) {
			continue // another worker's
		}
		if err := s.w.dev.Arena().Unlease(h, s.id); err != nil {
			return fmt.Errorf("%w: given back: %w", errProtocol, err)
		}
	}
	s.w.stats.runs.Add(1)
	s.seen.runs++
	s.leased, s.inlined = s.leased[:0], s.inlined[:0]
	*done = wire.Done{Session: s.id, Seq: run.Seq, Results: done.Results[:0], Returned: done.Returned[:0]}
	err := s.execute(ctx, run, done)
	if err != nil {
		s.w.stats.errors.Add(1)
		if ends(err) {
			return err
		}
		s.explain(done, err)
	}
	for _, h := range run.Forget {
		s.forget(tensor.Hash(h))
	}
	asked := run.Flags&wire.RunSync != 0 || len(run.Fetch) > 0 && (s.shared == nil || s.shows(done))
	if !asked && err == nil && len(s.returned) < maxReturned && s.returnedB < maxReturnedBytes {
		return nil
	}
	for _, h := range s.leased {
		if err := s.announce(ctx, h); err != nil {
			return err
		}
	}
	return s.answer(ctx, done)
}

// answer sends done, with as much of what is given back as fits.
func (s *session) answer(ctx context.Context, done *wire.Done) error {
	if s.shared != nil {
		done.Rank, done.Calls, done.Moved, done.Plans = uint32(s.team.rank), s.calls, s.moved, s.rewritten
		done.Took, done.Hidden = uint64(s.took), uint64(s.hidden)
	}
	n := min(len(s.returned), wire.MaxReturns/2)
	done.Returned = append(done.Returned, s.returned[:n]...)
	s.returned = s.returned[:copy(s.returned, s.returned[n:])]
	if s.returnedB = 0; len(s.returned) > 0 {
		for _, h := range s.returned {
			s.returnedB += int(h.Len)
		}
	}
	return s.send(ctx, wire.KindDone, done.Size(), func(dst []byte) []byte { return wire.AppendDone(dst, done) })
}

// explain puts err into done.
func (s *session) explain(done *wire.Done, err error) {
	for _, h := range s.leased {
		_ = s.w.dev.Arena().Unlease(h, s.id)
	}
	s.leased = s.leased[:0]
	done.Results = done.Results[:0]
	done.Code = codeOf(err)
	var agreed *agreedError
	if errors.As(err, &agreed) {
		done.Code, done.Text, done.At, done.Op, done.Inputs = agreed.Code, agreed.Text, agreed.At, agreed.Op, agreed.Inputs
		return
	}
	var at *tensor.RunError
	if errors.As(err, &at) {
		done.At, done.Op, done.Inputs = uint32(at.Instr)+1, at.Op[:min(len(at.Op), wire.MaxName)], wire.CutText(at.Inputs)
		err = at.Err
	}
	done.Text = wire.CutText(err.Error())
}

// codes are the errors that keep their identity on the way to the client.
var codes = []struct {
	err  error
	code wire.Code
}{
	{errQuota, wire.CodeQuota},
	{tensor.ErrIndex, wire.CodeIndex},
	{tensor.ErrUnknown, wire.CodeUnknownID},
	{tensor.ErrNoSpace, wire.CodeNoMemory},
	{shm.ErrNoSpace, wire.CodeNoMemory},
	{tensor.ErrShape, wire.CodeShape},
	{tensor.ErrDType, wire.CodeDType},
	{tensor.ErrProgram, wire.CodeBadProgram},
}

func codeOf(err error) wire.Code {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return wire.CodeEngine
}

// execute does the batch itself. A panic, be it of the engine or by a fault in the client's
// memory, costs the session.
func (s *session) execute(ctx context.Context, run *wire.Run, done *wire.Done) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.w.log.Error("panic in a session's batch", "session", s.id, "name", s.name, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %w: %v", errProtocol, errInternal, r)
		}
	}()
	if s.shared != nil {
		return s.together(ctx, run, done)
	}
	var p Program
	if run.Hash != (wire.Hash{}) {
		known, ok := s.programs[tensor.Hash(run.Hash)]
		if !ok {
			return fmt.Errorf("%w: program %x was never sent", errProtocol, run.Hash)
		}
		known.runs++
		if p, err = known.Program, known.err; err == nil {
			if x := p.Parsed(); len(run.Inputs) != len(x.Externals) || len(run.Scalars) != x.NumScalars {
				return fmt.Errorf("%w: program %x with %d inputs and %d scalars, expected %d and %d", errProtocol,
					run.Hash, len(run.Inputs), len(run.Scalars), len(x.Externals), x.NumScalars)
			}
		}
	}
	for i := range run.Uploads {
		if err2 := s.upload(&run.Uploads[i]); ends(err2) {
			return err2
		} else if err == nil {
			err = err2 // the others exist all the same
		}
	}
	if p != nil && err == nil {
		err = s.runProgram(p, tensor.Hash(run.Hash), run.Base, run.Inputs, run.Scalars)
	} else if p != nil {
		dropDonated(s.space, p.Parsed(), run.Inputs)
	}
	if err == nil {
		if err = s.fetch(run, done); err != nil && p != nil {
			s.dropResults(p.Parsed(), run.Base)
		}
	}
	for _, id := range run.Frees {
		s.space.Free(id)
	}
	return err
}

// dropResults frees what a program made, whose batch failed afterwards.
func (s *session) dropResults(p *tensor.Program, base uint64) {
	for i, in := range p.Instrs {
		if in.Keep {
			s.space.Free(base + uint64(i))
		}
	}
}

// upload makes a value of the client's memory.
func (s *session) upload(u *wire.Upload) error {
	d, shape, err := typeOf(u)
	if err != nil {
		return err
	}
	if _, ok := s.space.Lookup(u.ID); ok {
		return fmt.Errorf("%w: upload %d exists", errProtocol, u.ID)
	}
	if u.Lies() {
		return fmt.Errorf("%w: upload %d in layout %#x on stage %d, in a session of one worker", errProtocol, u.ID, u.Layout, u.Stage)
	}
	b, err := s.blockOf(u, shape.Elems()*d.Size())
	if err == nil && u.Own {
		b, err = s.copied(b)
	}
	if err != nil {
		return err
	}
	return s.space.Import(u.ID, d, shape, b)
}

// copied is b, or if that lies in the client's memory a copy of it.
func (s *session) copied(b *shm.Block) (*shm.Block, error) {
	if b == nil || !b.ReadOnly() {
		return b, nil
	}
	defer b.Release()
	c, err := s.w.dev.Arena().Alloc(b.Len())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
	}
	copy(c.Bytes(), b.Bytes())
	return c, nil
}

// typeOf is an upload's dtype and shape.
func typeOf(u *wire.Upload) (tensor.DType, tensor.Shape, error) {
	d, shape := tensor.DType(u.DType), make(tensor.Shape, len(u.Dims))
	for i, n := range u.Dims {
		shape[i] = int(n)
	}
	if !d.Valid() {
		return d, nil, fmt.Errorf("%w: upload %d has dtype %d", errProtocol, u.ID, u.DType)
	}
	if err := shape.Check(d); err != nil {
		return d, nil, fmt.Errorf("%w: upload %d: %w", errProtocol, u.ID, err)
	}
	return d, shape, nil
}

// blockOf finds the bytes of an upload, of which there must be as many as are wanted; nil for none. What comes over a link may be a part
// of it. The caller has a reference.
func (s *session) blockOf(u *wire.Upload, want int) (b *shm.Block, err error) {
	switch {
	case len(u.Inline) > 0:
		if b, err = s.w.dev.Arena().Alloc(len(u.Inline)); err != nil {
			return nil, fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		copy(b.Bytes(), u.Inline)
	case u.Inline == nil && s.link != nil:
		if h := u.Handle; !u.Lies() || want > 0 {
			if u.Lies() {
				h.Len = uint64(want)
			}
			if b, err = s.link.arrived(h); ends(err) {
				return nil, fmt.Errorf("upload %d: %w", u.ID, err)
			}
		}
		s.giveBack(u.Handle) // the client's memory is not needed any more
		if err != nil {
			return nil, fmt.Errorf("upload %d: %w", u.ID, err)
		}
	case u.Inline == nil:
		if b, err = s.w.table.Open(s.id, u.Handle); err != nil {
			return nil, fmt.Errorf("%w: upload %d: %w", errProtocol, u.ID, err)
		}
		if u.Handle.Off%alignment != 0 {
			b.Release()
			return nil, fmt.Errorf("%w: upload %d at %v is not %d-byte aligned", errProtocol, u.ID, u.Handle, alignment)
		}
		s.w.stats.imports.Add(1)
	}
	if have := size(b); have != want {
		if b != nil {
			b.Release()
		}
		return nil, fmt.Errorf("%w: upload %d has %d bytes, expected %d", errProtocol, u.ID, have, want)
	}
	return b, nil
}

func size(b *shm.Block) int {
	if b == nil {
		return 0
	}
	return b.Len()
}

// alignment is what an arena gives, and what kernels may count on.
const alignment = 64

// fetch leases the values that the client wants, and puts them into done.
func (s *session) fetch(run *wire.Run, done *wire.Done) error {
	for _, id := range run.Fetch {
		v, ok := s.space.Lookup(id)
		if !ok {
			return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
		r := s.result(done)
		r.ID, r.DType, r.Dims = id, uint8(v.DType), r.Dims[:0]
		for _, n := range v.Shape {
			r.Dims = append(r.Dims, int64(n))
		}
		r.Inline, r.Handle, r.Layout, r.Elsewhere = nil, wire.Handle{}, 0, false
		if err := s.lend(&r.Value, v.Block, v.bytes()); err != nil {
			return err
		}
	}
	return nil
}

const (
	// inlineBytes is up to what size a result travels in an answer over the session's own conn, which the dispatcher does not
	// see: no more than its handle, the lease of it and the word that gives that back, and a line less to read.
	inlineBytes = 64

	// maxInlined bounds what of an answer does.
	maxInlined = 4 << 10
)

// lend puts the n bytes that a value has in b into the answer, or leases them to the client.
func (s *session) lend(r *wire.Value, b *shm.Block, n int) error {
	if b == nil || n == 0 {
		r.Inline = []byte{}
		return nil
	}
	if n <= inlineBytes && len(s.inlined)+n <= maxInlined && s.answersOwn() {
		at := len(s.inlined)
		s.inlined = append(s.inlined, b.Bytes()[:n]...)
		r.Inline = s.inlined[at:]
		return nil
	}
	// What lies in the client's memory it keeps itself.
	if !b.ReadOnly() {
		if err := s.w.dev.Arena().Lease(b, s.id); err != nil {
			return fmt.Errorf("%w: %w: %w", errProtocol, errInternal, err)
		}
		s.leased = append(s.leased, b.Handle())
	}
	r.Handle = b.Handle()
	r.Handle.Len = uint64(n)
	s.w.stats.results.Add(1)
	return nil
}

// result is one more element of done.Results, with the memory of an older one.
func (s *session) result(done *wire.Done) *wire.Result {
	if n := len(done.Results); n < cap(done.Results) {
		done.Results = done.Results[:n+1]
	} else {
		done.Results = append(done.Results, wire.Result{})
	}
	return &done.Results[len(done.Results)-1]
}
