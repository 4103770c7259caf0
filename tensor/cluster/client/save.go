package client

import (
	"context"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// save is a Save under way, as the answers to it come.
type save struct {
	seq    uint64
	ids    int
	left   int              // answers to come
	pieces [][]tensor.Piece // by rank
	ends   []uint64         // of their files
	err    error
}

// saver is the state of Saves.
type saver struct {
	saves  uint64 // number of those sent
	saving *save  // the one that is waited for
}

var _ tensor.Saver = (*Engine)(nil)

// Writers implements tensor.Saver. Each worker of the session is a writer, where all of
// them take descriptors; else there is none.
func (e *Engine) Writers() int {
	if n := len(e.workers); !e.apart && n <= wire.MaxSavers {
		return n
	}
	return 0
}

// Save implements tensor.Saver. The workers write through the descriptors of files.
func (e *Engine) Save(ctx context.Context, files []*os.File, base int64, ids []uint64) ([][]tensor.Piece, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Load() {
		return nil, fmt.Errorf("client: %w", tensor.ErrClosed)
	}
	if e.err != nil {
		return nil, e.err
	}
	if len(files) != e.Writers() {
		return nil, fmt.Errorf("client: save to %d files, expected %d", len(files), e.Writers())
	}
	bases := make([]uint64, len(files))
	for r := range bases {
		bases[r] = uint64(base)
	}
	all := make([][]tensor.Piece, len(files))
	for first := 0; first < len(ids); first += wire.MaxSaves {
		part, err := e.savePart(ctx, files, bases, ids[first:min(first+wire.MaxSaves, len(ids))])
		if err != nil {
			return nil, err
		}
		for r, pieces := range part {
			for _, p := range pieces {
				p.Index += first
				all[r] = append(all[r], p)
			}
		}
	}
	return all, nil
}

// savePart has as many values written as one message names, and moves bases on.
func (e *Engine) savePart(ctx context.Context, files []*os.File, bases, ids []uint64) ([][]tensor.Piece, error) {
	e.saves++
	m := wire.Save{Seq: e.saves, Bases: bases, IDs: ids}
	if err := e.send(ctx, wire.KindSave, &m, files...); err != nil {
		return nil, err
	}
	e.stats.roundTrips.Add(1)
	x := &save{seq: m.Seq, ids: len(ids), left: len(files), pieces: make([][]tensor.Piece, len(files)), ends: make([]uint64, len(files))}
	e.saving = x
	// later answers to this Save are ignored
	defer func() { e.saving = nil }()
	for x.left > 0 {
		if err := e.receive(ctx); err != nil {
			return nil, err
		}
	}
	if x.err != nil {
		return nil, x.err
	}
	copy(bases, x.ends)
	return x.pieces, nil
}

// saved takes one worker's answer to a Save.
func (s *saver) saved(src []byte) error {
	var m wire.Saved
	if err := wire.Parse(src, &m); err != nil {
		return err
	}
	x := s.saving
	if x == nil || m.Seq != x.seq {
		if m.Seq > s.saves {
			return fmt.Errorf("answer to Save %d of %d", m.Seq, s.saves)
		}
		return nil // no caller waits for it
	}
	r := int(m.Rank)
	if r >= len(x.pieces) || x.pieces[r] != nil {
		return fmt.Errorf("worker %d of %d answers Save %d, out of turn", r, len(x.pieces), m.Seq)
	}
	x.left--
	x.pieces[r], x.ends[r] = make([]tensor.Piece, 0, len(m.Pieces)), m.End
	if m.Code != wire.CodeOK && x.err == nil {
		x.err = failure(&wire.Done{Code: m.Code, Text: m.Text})
	}
	for i := range m.Pieces {
		p := &m.Pieces[i]
		if int(p.Index) >= x.ids {
			return fmt.Errorf("worker %d wrote value %d of %d", r, p.Index, x.ids)
		}
		x.pieces[r] = append(x.pieces[r], tensor.Piece{Index: int(p.Index), Start: p.Start, Shape: p.Dims, Sum: p.Sum})
	}
	return nil
}
