package tensor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
)

// Saver is an Engine whose workers can write the values that they hold to files, without
// moving them to the client first.
type Saver interface {
	Engine
	// Writers returns the number of workers that can write, each into a file of its own,
	// or 0 if they can't, for example because their host has no access to the files.
	Writers() int
	// Save writes the values ids after everything submitted before has run, and waits for
	// it. Each worker writes the parts that it holds, in the order of ids, without gaps,
	// into its file from byte base on; parts are dense, row-major and little endian. One
	// worker writes a part that several hold. There are Writers files, and they are not
	// synced. Save returns the pieces in each file.
	Save(ctx context.Context, files []*os.File, base int64, ids []uint64) ([][]Piece, error)
}

// Piece is a part of a value in a file.
type Piece struct {
	Index int   // index of the value
	Start []int // where the part begins in the value, by dim
	Shape Shape // shape of the part
	Sum   Sum   // of the part's bytes
}

// Sum is a SHA-256 checksum.
type Sum [sha256.Size]byte

// Writers returns the number of files that SaveTo takes: one for each worker that can
// write values, else one.
func (s *Session) Writers() int {
	if e, ok := s.eng.(Saver); ok {
		return max(1, e.Writers())
	}
	return 1
}

// SaveTo writes the content of ts in order, row-major, little endian and without gaps,
// into Writers files from byte base on, and returns the pieces in each file. With a Saver
// the workers write the parts that they hold; otherwise SaveTo reads the tensors one by
// one and writes them itself. It is a sync point. It does not sync the files.
//
// Package checkpoint uses it. Errors are those of a read, or of the files.
func (s *Session) SaveTo(ctx context.Context, files []*os.File, base int64, ts []*Tensor) ([][]Piece, error) {
	if len(files) != s.Writers() {
		return nil, fmt.Errorf("tensor: save: %d files for %d writers", len(files), s.Writers())
	}
	for _, t := range ts {
		if t.v.failed() != nil {
			return nil, t.v.failed()
		}
		if t.v.s != s {
			return nil, &OpError{Op: "save", Inputs: t.v.String(), Site: callSite(), Err: ErrOtherSession}
		}
	}
	if e, ok := s.eng.(Saver); ok && e.Writers() > 0 {
		return saveBy(ctx, e, s, files, base, ts)
	}
	pieces := make([]Piece, len(ts))
	for i, t := range ts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pieces[i] = Piece{Index: i, Start: make([]int, t.Rank()), Shape: t.Shape()}
		if err := t.ViewBytes(func(b []byte) error {
			pieces[i].Sum = sha256.Sum256(b)
			_, err := files[0].WriteAt(b, base)
			base += int64(len(b))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return [][]Piece{pieces}, nil
}

// saveBy has e, the engine of s, write the tensors.
func saveBy(ctx context.Context, e Saver, s *Session, files []*os.File, base int64, ts []*Tensor) ([][]Piece, error) {
	if err := s.enter("save"); err != nil {
		return nil, err
	}
	defer s.leave()
	for _, t := range ts {
		if t.v.refs == 0 {
			return nil, s.fail(&OpError{Op: "save", Inputs: t.v.String(), Site: callSite(), Err: ErrReleased})
		}
	}
	if _, err := s.flush(nil, false); err != nil {
		return nil, err
	}
	ids := make([]uint64, len(ts))
	for i, t := range ts {
		ids[i] = t.v.id
	}
	pieces, err := e.Save(ctx, files, base, ids)
	if err == nil && len(pieces) != len(files) {
		err = fmt.Errorf("tensor: engine %s wrote %d files of %d", s.eng.Name(), len(pieces), len(files))
	}
	return pieces, err
}
