package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// saveTurn is how many bytes are written before others have their turn: a few milliseconds of hashing and copying.
const saveTurn = 4 << 20

// errAgain says that a message is not done and wants another turn, before any other of its session.
var errAgain = errors.New("not done yet")

// saving is a Save under way. Its values are not changed meanwhile: the session's next message waits for it.
type saving struct {
	m     wire.Save
	file  *os.File // ours to close
	parts []part   // what is ours of the values, in order
	at    int      // the part that is being written
	done  int      // bytes of it
	off   int64    // in the file
	sum   hash.Hash
	reply wire.Saved
}

// part is what this worker writes of a value.
type part struct {
	wire.Piece
	block *shm.Block // nil for no bytes
	bytes int
}

// save does a turn's worth of a Save, and answers it in the end: errAgain before. What goes wrong with the file is the
// answer, and the session goes on.
func (s *session) save(ctx context.Context, m *ipc.Message) error {
	if s.saving == nil {
		x, err := s.beginSave(ctx, m)
		if s.saving = x; err != nil {
			return err
		}
	}
	x := s.saving
	if x.reply.Code == wire.CodeOK {
		if more, err := x.write(saveTurn); errors.Is(err, errProtocol) {
			return err
		} else if err != nil {
			x.fail(wire.CodeEngine, err)
		} else if more {
			return errAgain
		}
	}
	s.endSave()
	x.reply.End = uint64(x.off)
	return s.send(ctx, wire.KindSaved, x.reply.Size(), func(dst []byte) []byte { return wire.AppendSaved(dst, &x.reply) })
}

// endSave gives back what a Save under way has.
func (s *session) endSave() {
	x := s.saving
	s.saving = nil
	if x == nil {
		return
	}
	_ = x.file.Close() // what was written and is not kept shows when the client syncs its own
	for _, p := range x.parts {
		if p.block != nil {
			p.block.Release()
		}
	}
}

// beginSave checks a Save and finds what there is to write.
func (s *session) beginSave(ctx context.Context, m *ipc.Message) (*saving, error) {
	x := &saving{sum: sha256.New()}
	if err := wire.ParseSave(m.Body, &x.m); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	rank, writers := s.writers()
	if len(x.m.Bases) != writers || len(m.Files) != writers {
		return nil, fmt.Errorf("%w: Save with %d places and %d files, expected %d", errProtocol, len(x.m.Bases), len(m.Files), writers)
	}
	// Writing to anything else might wait for whoever reads it.
	f := m.Files[rank]
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: Save to what is no regular file", errProtocol)
	}
	m.Files[rank] = nil
	x.file, x.off = f, int64(x.m.Bases[rank])
	x.reply = wire.Saved{Session: s.id, Seq: x.m.Seq, Rank: uint32(rank)}
	if s.shared != nil {
		if err := s.makeReadable(ctx, x.m.IDs); ends(err) {
			return x, err
		} else if err != nil {
			x.fail(codeOf(err), err)
			return x, nil
		}
	}
	for i, id := range x.m.IDs {
		p, mine, err := s.part(i, id)
		if err != nil {
			x.fail(codeOf(err), err)
			break
		}
		if p.Index = uint32(i); !mine {
			continue
		}
		if p.block != nil {
			p.block.Retain()
		}
		x.parts = append(x.parts, p)
	}
	return x, nil
}

// part is what this worker writes of the i-th value, if anything.
func (s *session) part(i int, id uint64) (p part, mine bool, err error) {
	if s.shared != nil {
		return s.sharedPart(i, id)
	}
	v, ok := s.space.Lookup(id)
	if !ok {
		return p, false, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	p.Start, p.Dims = make([]int64, len(v.Shape)), make([]int64, len(v.Shape))
	for d, n := range v.Shape {
		p.Dims[d] = int64(n)
	}
	p.block, p.bytes = v.Block, v.bytes()
	return p, true, nil
}

// sharedPart is part where several workers have the value: those that have the same part of values take turns in writing it.
func (s *session) sharedPart(i int, id uint64) (p part, mine bool, err error) {
	v := s.values[id]
	if v == nil {
		return p, false, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if v.failed != nil {
		return p, false, v.failed
	}
	if v.stage != s.stage {
		return p, false, nil
	}
	if v.lies {
		if err := s.settle(v); err != nil {
			return p, false, err
		}
	}
	for k := range s.mesh {
		if _, ok := v.layout[k].Sharded(); !ok && s.mesh.Coord(s.place, k) != i%s.mesh[k].Size {
			return p, false, nil
		}
	}
	start, local := s.mesh.Local(v.layout, v.shape, s.place)
	p.Start, p.Dims = make([]int64, len(local)), make([]int64, len(local))
	for d, n := range local {
		p.Start[d], p.Dims[d] = int64(start[d]), int64(n)
	}
	p.block, p.bytes = v.whole, local.Elems()*v.dtype.Size()
	if v.id != 0 {
		x, _ := s.space.Lookup(v.id)
		p.block = x.Block
	}
	return p, true, nil
}

// writers is which of how many workers of the session this one is.
func (s *session) writers() (rank, of int) {
	if s.shared != nil {
		return s.rank, s.size()
	}
	return 0, 1
}

// fail makes err the answer.
func (x *saving) fail(code wire.Code, err error) {
	x.reply.Code, x.reply.Text, x.reply.Pieces = code, wire.CutText(err.Error()), nil
}

// cause is what the system said, without the name of a file that came without one.
func cause(err error) error {
	if of := (*os.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// write writes the next n bytes or what is left, and reports whether more is. A fault in the client's memory costs it the
// session.
func (x *saving) write(n int) (more bool, err error) {
	const piece = 256 << 10 // still in the cache when it is copied after it was hashed
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %w: %v", errProtocol, errInternal, r)
		}
	}()
	for x.at < len(x.parts) {
		p := &x.parts[x.at]
		for x.done < p.bytes {
			if n <= 0 {
				return true, nil
			}
			b := p.block.Bytes()[x.done:min(x.done+piece, p.bytes)]
			x.sum.Write(b)
			if _, err := x.file.WriteAt(b, x.off); err != nil {
				return false, fmt.Errorf("writing file %d of %d: %w", x.reply.Rank+1, len(x.m.Bases), cause(err))
			}
			x.done += len(b)
			x.off += int64(len(b))
			n -= len(b)
		}
		x.sum.Sum(p.Sum[:0])
		x.sum.Reset()
		x.reply.Pieces = append(x.reply.Pieces, p.Piece)
		x.at, x.done = x.at+1, 0
	}
	return false, nil
}
