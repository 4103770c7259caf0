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
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

const (
	// saveSlice is how many bytes of a Save are written before messages of other sessions
	// are handled.
	saveSlice = 4 << 20

	// savePiece is how many bytes are hashed and then written: few enough that the second
	// pass finds them in the cache.
	savePiece = 256 << 10
)

// saving is a Save under way. Its values do not change meanwhile: the session's next
// message waits for it.
type saving struct {
	m     wire.Save
	file  *os.File // owned
	space device.Space
	parts []part // that this worker writes, in order
	at    int    // the part that is being written
	done  int    // bytes of it
	off   int64  // in the file
	sum   hash.Hash
	reply wire.Saved
}

// part is the bytes that a worker writes of one value.
type part struct {
	wire.Piece
	id    uint64     // of the value in the space; 0 if block has the bytes
	block *shm.Block // of an upload that is no value yet; nil for none
	bytes int
}

// save does a part of a Save and returns errAgain, or completes and answers it. An error
// of the file is the answer, and the session goes on.
func (b *base) save(ctx context.Context, r runner, m *ipc.Message) error {
	if b.saving == nil {
		x, err := b.beginSave(ctx, r, m)
		if b.saving = x; err != nil {
			return err
		}
	}
	x := b.saving
	if x.reply.Code == wire.CodeOK {
		if more, err := x.write(saveSlice); errors.Is(err, errProtocol) {
			return err
		} else if err != nil {
			x.fail(codeOf(err), err)
		} else if more {
			return errAgain
		}
	}
	b.endSave()
	x.reply.End = uint64(x.off)
	return b.replies.send(ctx, wire.KindSaved, &x.reply)
}

// endSave releases the file and the blocks of the Save under way, if there is one.
func (b *base) endSave() {
	x := b.saving
	b.saving = nil
	if x == nil {
		return
	}
	ipc.CloseFiles([]*os.File{x.file}) // the client finds errors when it syncs the file
	for _, p := range x.parts {
		if p.block != nil {
			p.block.Release()
		}
	}
}

// beginSave checks a Save and finds the parts to write.
func (b *base) beginSave(ctx context.Context, r runner, m *ipc.Message) (*saving, error) {
	x := &saving{sum: sha256.New(), space: b.space}
	if err := wire.Parse(m.Body, &x.m); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	rank, writers := r.writers()
	if len(x.m.Bases) != writers || len(m.Files) != writers {
		return nil, fmt.Errorf("%w: Save with %d places and %d files, expected %d", errProtocol, len(x.m.Bases), len(m.Files), writers)
	}
	// A write to anything but a regular file might wait for its reader.
	f := m.Files[rank]
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: Save to what is no regular file", errProtocol)
	}
	m.Files[rank] = nil
	x.file, x.off = f, int64(x.m.Bases[rank])
	x.reply = wire.Saved{Session: b.id, Seq: x.m.Seq, Rank: uint32(rank)}
	if err := r.readable(ctx, x.m.IDs); ends(err) {
		return x, err
	} else if err != nil {
		x.fail(codeOf(err), err)
		return x, nil
	}
	for i, id := range x.m.IDs {
		p, mine, err := r.part(i, id)
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

// fail makes err the answer.
func (x *saving) fail(code wire.Code, err error) {
	x.reply.Code, x.reply.Text, x.reply.Pieces = code, wire.CutText(err.Error()), nil
}

// write writes the next n bytes or the rest, and reports whether there are more. A fault
// in the client's memory ends the session.
func (x *saving) write(n int) (more bool, err error) {
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
			b, err := x.read(p, min(savePiece, p.bytes-x.done))
			if err != nil {
				return false, err
			}
			x.sum.Write(b)
			if _, err := x.file.WriteAt(b, x.off); err != nil {
				return false, fmt.Errorf("writing file %d of %d: %w", x.reply.Rank+1, len(x.m.Bases), limits.Written(fmt.Sprint("/proc/self/fd/", x.file.Fd()), fileError(err)))
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

// read returns the next n bytes of a part.
func (x *saving) read(p *part, n int) ([]byte, error) {
	if p.block != nil {
		return p.block.Bytes()[x.done:][:n], nil
	}
	return x.space.Read(p.id, x.done, n)
}

// fileError returns the system's error without the operation and the name of the file,
// which came as a descriptor and has no name here.
func fileError(err error) error {
	if of := (*os.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}
