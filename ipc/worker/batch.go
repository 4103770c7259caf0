package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
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
	for _, h := range run.Returns {
		if err := s.w.dev.Arena().Unlease(h, s.id); err != nil {
			return fmt.Errorf("%w: given back: %w", errProtocol, err)
		}
	}
	s.w.stats.runs.Add(1)
	*done = wire.Done{Session: s.id, Seq: run.Seq, Results: done.Results[:0], Returned: done.Returned[:0]}
	err := s.execute(run, done)
	if err != nil {
		s.w.stats.errors.Add(1)
		if errors.Is(err, errProtocol) {
			return err
		}
		s.explain(done, err)
	}
	for _, h := range run.Forget {
		s.forget(tensor.Hash(h))
	}
	asked := run.Flags&wire.RunSync != 0 || len(run.Fetch) > 0
	if !asked && err == nil && len(s.returned) < maxReturned && s.returnedB < maxReturnedBytes {
		return nil
	}
	for i := range done.Results {
		if r := &done.Results[i]; r.Inline == nil && s.imports[r.ID] == nil {
			if err := s.announce(ctx, r.Handle); err != nil {
				return err
			}
		}
	}
	return s.answer(ctx, done)
}

// answer sends done, with as much of what is given back as fits.
func (s *session) answer(ctx context.Context, done *wire.Done) error {
	n := min(len(s.returned), wire.MaxReturns/2)
	done.Returned = append(done.Returned, s.returned[:n]...)
	s.returned = s.returned[:copy(s.returned, s.returned[n:])]
	if s.returnedB = 0; len(s.returned) > 0 {
		for _, h := range s.returned {
			s.returnedB += int(h.Len)
		}
	}
	buf, err := s.w.conn.Reserve(ctx, wire.KindDone, done.Size())
	if err != nil {
		return err
	}
	wire.AppendDone(buf[:0], done)
	return s.w.conn.Commit()
}

// explain puts err into done.
func (s *session) explain(done *wire.Done, err error) {
	for i := range done.Results {
		if h := done.Results[i].Handle; h != (wire.Handle{}) && s.imports[done.Results[i].ID] == nil {
			_ = s.w.dev.Arena().Unlease(h, s.id)
		}
	}
	done.Results = done.Results[:0]
	done.Code = codeOf(err)
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
func (s *session) execute(run *wire.Run, done *wire.Done) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.w.log.Error("panic in a session's batch", "session", s.id, "name", s.name, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %w: %v", errProtocol, errInternal, r)
		}
	}()
	var program *Program
	if run.Hash != (wire.Hash{}) {
		if program = s.programs[tensor.Hash(run.Hash)]; program == nil {
			return fmt.Errorf("%w: program %x was never sent", errProtocol, run.Hash)
		}
		if p := program.Parsed; len(run.Inputs) != len(p.Externals) || len(run.Scalars) != p.NumScalars {
			return fmt.Errorf("%w: program %x with %d inputs and %d scalars, expected %d and %d", errProtocol,
				run.Hash, len(run.Inputs), len(run.Scalars), len(p.Externals), p.NumScalars)
		}
	}
	for i := range run.Uploads {
		if err == nil {
			err = s.upload(&run.Uploads[i])
		} else if u := &run.Uploads[i]; u.Inline == nil { // one before it failed
			s.returned = append(s.returned, u.Handle)
		}
	}
	if err == nil && program != nil {
		err = s.space.Run(program, run.Base, run.Inputs, run.Scalars)
	} else if program != nil {
		s.dropDonated(program.Parsed, run.Inputs)
	}
	if err == nil {
		if err = s.fetch(run, done); err != nil && program != nil {
			s.dropResults(program.Parsed, run.Base)
		}
	}
	if err != nil {
		for i := range run.Uploads {
			s.space.Free([]uint64{run.Uploads[i].ID})
		}
	}
	s.space.Free(run.Frees)
	return err
}

// dropResults frees what a program made, whose batch failed afterwards.
func (s *session) dropResults(p *tensor.Program, base uint64) {
	for i, in := range p.Instrs {
		if in.Keep {
			s.space.Free([]uint64{base + uint64(i)})
		}
	}
}

// dropDonated frees what a program that is not run would have freed.
func (s *session) dropDonated(p *tensor.Program, inputs []uint64) {
	for i, e := range p.Externals {
		if e.Donated {
			s.space.Free(inputs[i : i+1])
		}
	}
}

// upload makes a value of the client's memory.
func (s *session) upload(u *wire.Upload) error {
	d, shape := tensor.DType(u.DType), make(tensor.Shape, len(u.Dims))
	for i, n := range u.Dims {
		shape[i] = int(n)
	}
	if !d.Valid() {
		return fmt.Errorf("%w: upload %d has dtype %d", errProtocol, u.ID, u.DType)
	}
	if err := shape.Check(d); err != nil {
		return fmt.Errorf("%w: upload %d: %w", errProtocol, u.ID, err)
	}
	want := shape.Elems() * d.Size()
	if u.Inline != nil {
		if len(u.Inline) != want {
			return fmt.Errorf("%w: upload %d of %v%v has %d bytes, expected %d", errProtocol, u.ID, d, shape, len(u.Inline), want)
		}
		mem := append(make([]byte, 0, want), u.Inline...)
		if d == tensor.Bool {
			mem = truth(mem)
		}
		return s.space.Import(u.ID, d, shape, mem, func() {})
	}
	b, err := s.w.table.Open(s.id, u.Handle)
	if err != nil {
		return fmt.Errorf("%w: upload %d: %w", errProtocol, u.ID, err)
	}
	if b.Len() != want || u.Handle.Off%tensorAlign != 0 {
		b.Release()
		return fmt.Errorf("%w: upload %d of %v%v at %v, expected %d bytes, %d-byte aligned", errProtocol, u.ID, d, shape, u.Handle, want, tensorAlign)
	}
	if s.imports[u.ID] != nil {
		b.Release()
		return fmt.Errorf("%w: upload %d exists", errProtocol, u.ID)
	}
	if d == tensor.Bool && !zeroOne(b.Bytes()) {
		mem := truth(b.Bytes())
		s.returned = append(s.returned, b.Handle())
		b.Release()
		return s.space.Import(u.ID, d, shape, mem, func() {})
	}
	id := u.ID // u is used again for the next run
	s.imports[id] = b
	if err := s.space.Import(id, d, shape, b.Bytes(), func() { s.giveBack(id, b) }); err != nil {
		s.giveBack(id, b)
		return err
	}
	s.w.stats.imports.Add(1)
	return nil
}

// zeroOne says whether b holds bools as everybody here may expect them.
func zeroOne(b []byte) bool {
	for _, x := range b {
		if x > 1 {
			return false
		}
	}
	return true
}

// truth is a copy of b with 1 for everything but 0.
func truth(b []byte) []byte {
	mem := make([]byte, len(b))
	for i, x := range b {
		if x != 0 {
			mem[i] = 1
		}
	}
	return mem
}

// tensorAlign is what an arena gives, and what kernels may count on.
const tensorAlign = 64

// fetch leases the values that the client wants, and puts them into done.
func (s *session) fetch(run *wire.Run, done *wire.Done) error {
	for _, id := range run.Fetch {
		v, err := s.space.Lookup(id)
		if err != nil {
			return err
		}
		r := s.result(done)
		r.ID, r.DType, r.Dims = id, uint8(v.DType), r.Dims[:0]
		for _, n := range v.Shape {
			r.Dims = append(r.Dims, int64(n))
		}
		r.Inline, r.Handle = nil, wire.Handle{}
		switch theirs := s.imports[id]; {
		case len(v.Bytes) == 0:
			r.Inline = []byte{}
		case theirs != nil:
			r.Handle = theirs.Handle() // the client's own memory, which it holds itself
		default:
			if err := s.lease(r, &v); err != nil {
				done.Results = done.Results[:len(done.Results)-1]
				return err
			}
		}
		s.w.stats.results.Add(1)
	}
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

// lease has the value's memory stay as it is for the client. A value that does not lie in the
// arena is copied there.
func (s *session) lease(r *wire.Result, v *Value) error {
	arena := s.w.dev.Arena()
	b := v.Block
	if b == nil {
		var err error
		if b, err = arena.Alloc(len(v.Bytes)); err != nil {
			return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		defer b.Release()
		copy(b.Bytes(), v.Bytes)
	}
	if err := arena.Lease(b, s.id); err != nil {
		return fmt.Errorf("%w: %w", errInternal, err)
	}
	r.Handle = b.Handle()
	r.Handle.Len = uint64(len(v.Bytes))
	return nil
}
