package tensor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
)

// Saver is an Engine that can have whoever holds its values write them to a file, without bringing them here first.
type Saver interface {
	Engine
	// Save writes the values ids, each in row-major order and little endian, into the file f, the i-th from its byte
	// offs[i] on, after everything submitted before has run, and waits for it. It returns the SHA-256 of each one's
	// bytes. Nothing is synced. What cannot be done at all, for instance because the values are on a host that
	// doesn't have the file, is errors.ErrUnsupported, and nothing was written.
	Save(ctx context.Context, f *os.File, ids []uint64, offs []int64) ([]Sum, error)
}

// Sum is the SHA-256 of a value's bytes.
type Sum [sha256.Size]byte

// SaveTo writes the content of ts, each in row-major order and little endian, into the file f, the i-th from its byte
// offs[i] on, and returns the SHA-256 of each one's bytes. Where the engine can (Saver), those who hold the values write
// them; else they are read one by one and written here. It is a sync point. The file is neither synced nor cut.
//
// It is what package checkpoint is made of, and errors are those of a read, or of the file.
func (s *Session) SaveTo(ctx context.Context, f *os.File, ts []*Tensor, offs []int64) ([]Sum, error) {
	if len(ts) != len(offs) {
		return nil, fmt.Errorf("tensor: save: %d tensors and %d offsets", len(ts), len(offs))
	}
	for _, t := range ts {
		if t.v.err != nil {
			return nil, t.v.err
		}
		if t.v.s != s {
			return nil, &OpError{Op: "save", Inputs: t.v.String(), Site: callSite(), Err: ErrOtherSession}
		}
	}
	if e, ok := s.eng.(Saver); ok {
		sums, err := s.saveThere(ctx, e, f, ts, offs)
		if !errors.Is(err, errors.ErrUnsupported) {
			return sums, err
		}
	}
	sums := make([]Sum, len(ts))
	for i, t := range ts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := t.ViewBytes(func(b []byte) error {
			sums[i] = sha256.Sum256(b)
			_, err := f.WriteAt(b, offs[i])
			return err
		}); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func (s *Session) saveThere(ctx context.Context, e Saver, f *os.File, ts []*Tensor, offs []int64) ([]Sum, error) {
	if err := s.enter("save"); err != nil {
		return nil, err
	}
	defer s.leave()
	ids := make([]uint64, len(ts))
	for _, t := range ts {
		if t.v.refs == 0 {
			return nil, s.fail(&OpError{Op: "save", Inputs: t.v.String(), Site: callSite(), Err: ErrReleased})
		}
	}
	if _, err := s.flush(nil, false); err != nil {
		return nil, err
	}
	for i, t := range ts {
		ids[i] = t.v.id
	}
	sums, err := e.Save(ctx, f, ids, offs)
	if err == nil && len(sums) != len(ids) {
		err = fmt.Errorf("tensor: engine %s returned %d sums for %d values", s.eng.Name(), len(sums), len(ids))
	}
	return sums, err
}

// Random is the state of the session's random numbers: what SetRandom takes to go on with the same ones. Numbers that
// were recorded count as drawn.
func (s *Session) Random() (seed, counter uint64) { return s.seed, s.counter + uint64(s.offset) }

// SetRandom has the session's random numbers go on where Random was asked.
func (s *Session) SetRandom(seed, counter uint64) {
	s.Seed(seed)
	s.counter = counter
}
