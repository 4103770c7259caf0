package tensor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
)

// Saver is an Engine that can have those who hold its values write them to files, without bringing them here first.
type Saver interface {
	Engine
	// Writers is how many there are, each of which writes a file of its own: 0 when they can't, for instance since they are
	// on a host that doesn't have the files.
	Writers() int
	// Save has each writer write what it has of the values ids, in this order, dense, row-major and little endian, and
	// without gaps, into its file from byte base on, after everything submitted before has run, and waits for it. What
	// several have alike one of them writes. Files are as many as writers; nothing is synced. It returns what each wrote.
	Save(ctx context.Context, files []*os.File, base int64, ids []uint64) ([][]Piece, error)
}

// Piece is a part of a value that somebody wrote to a file.
type Piece struct {
	Index int   // of the value
	Start []int // where the part begins in the value, by dim
	Shape Shape // the part's own
	Sum   Sum   // of its bytes
}

// Sum is a SHA-256.
type Sum [sha256.Size]byte

// Writers is how many files SaveTo takes: one for each who holds values and can write them, else one.
func (s *Session) Writers() int {
	if e, ok := s.eng.(Saver); ok {
		return max(1, e.Writers())
	}
	return 1
}

// SaveTo writes the content of ts in this order, row-major, little endian and without gaps, into files from their byte base
// on, and returns what lies in each; there are Writers files. Where the engine can (Saver), those who hold the values write
// what they have of them; else they are read one by one and written here. It is a sync point. Files are not synced.
//
// It is what package checkpoint is made of. Errors are those of a read, or of the files.
func (s *Session) SaveTo(ctx context.Context, files []*os.File, base int64, ts []*Tensor) ([][]Piece, error) {
	if len(files) != s.Writers() {
		return nil, fmt.Errorf("tensor: save: %d files for %d writers", len(files), s.Writers())
	}
	for _, t := range ts {
		if t.v.err != nil {
			return nil, t.v.err
		}
		if t.v.s != s {
			return nil, &OpError{Op: "save", Inputs: t.v.String(), Site: callSite(), Err: ErrOtherSession}
		}
	}
	if e, ok := s.eng.(Saver); ok && e.Writers() > 0 {
		return s.saveThere(ctx, e, files, base, ts)
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

func (s *Session) saveThere(ctx context.Context, e Saver, files []*os.File, base int64, ts []*Tensor) ([][]Piece, error) {
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
