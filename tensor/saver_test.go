package tensor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// writer is an engine that can write values itself, unless told otherwise.
type writer struct {
	recorder
	writers int
	wrote   []uint64
}

func (w *writer) Writers() int { return w.writers }

func (w *writer) Save(_ context.Context, files []*os.File, base int64, ids []uint64) ([][]Piece, error) {
	w.wrote = append(w.wrote, ids...)
	for _, f := range files {
		if _, err := f.WriteAt([]byte("there"), base); err != nil {
			return nil, err
		}
	}
	return make([][]Piece, len(files)), nil
}

// TestSaveTo: the engine writes the values after the recorded program has run; an engine
// that can't write has them read and written here.
func TestSaveTo(t *testing.T) {
	w := &writer{writers: 2}
	s := NewSession(w, nil)
	var files []*os.File
	for _, name := range []string{"a", "b"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	x := From(s, []uint8{1, 2, 3, 4, 5})
	y := x.AddS(1)
	pieces, err := s.SaveTo(t.Context(), files, 8, []*Tensor{y, x})
	if err != nil || s.Writers() != 2 || len(w.batches) != 1 || len(w.wrote) != 2 || len(pieces) != 2 {
		t.Fatalf("%v: %d batches, %v written, %d files", err, len(w.batches), w.wrote, len(pieces))
	}
	if b := w.last(); w.wrote[0] != b.Base || w.wrote[1] != b.Uploads[0].ID {
		t.Errorf("wrote %v of results from %d on and upload %d", w.wrote, b.Base, b.Uploads[0].ID)
	}
	if _, err := s.SaveTo(t.Context(), files[:1], 8, []*Tensor{x}); err == nil {
		t.Error("one file for two writers")
	}
	w.writers = 0
	pieces, err = s.SaveTo(t.Context(), files[:1], 20, []*Tensor{x, x})
	if err != nil || s.Writers() != 1 || len(w.wrote) != 2 || len(w.last().Fetch) != 1 || len(pieces) != 1 || len(pieces[0]) != 2 {
		t.Fatalf("%v: %v written there, %v fetched, %v", err, w.wrote, w.last().Fetch, pieces)
	}
	all, err := os.ReadFile(files[0].Name())
	if err != nil || len(all) != 30 || !bytes.HasPrefix(all[8:], []byte("there")) {
		t.Errorf("%q %v", all, err)
	}
	if p := pieces[0][1]; p.Index != 1 || p.Sum != sha256.Sum256(all[25:]) || len(p.Start) != 1 || p.Start[0] != 0 || p.Shape[0] != 5 {
		t.Errorf("%+v", p)
	}
	other := From(NewSession(&recorder{}, nil), []uint8{1})
	if _, err := s.SaveTo(t.Context(), files[:1], 0, []*Tensor{other}); !errors.Is(err, ErrOtherSession) {
		t.Error(err)
	}
	w.writers = 2
	x.Free()
	if _, err := s.SaveTo(t.Context(), files, 0, []*Tensor{x}); !errors.Is(err, ErrReleased) {
		t.Error(err)
	}
}

// TestFromFill: a filled tensor is an upload like any other, and a fill that fails leaves
// nothing behind.
func TestFromFill(t *testing.T) {
	s, r := newRecorded(t)
	x, err := FromFill(s, I32, func(dst []byte) error { copy(dst, "abcdefgh"); return nil }, 2)
	if err != nil || s.Sync() != nil || len(r.last().Uploads) != 1 || x.DType() != I32 || x.Elems() != 2 {
		t.Errorf("%v: %v", err, x)
	}
	broken := errors.New("broken")
	if _, err := FromFill(s, I32, func([]byte) error { return broken }, 2); !errors.Is(err, broken) || s.Err() != nil {
		t.Errorf("%v, the session has %v", err, s.Err())
	}
	if _, err := FromFill(s, F32, func([]byte) error { return broken }, -1); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
}

// TestRandomState: a session continues another's random numbers, even in the middle of a
// program.
func TestRandomState(t *testing.T) {
	a, _ := newRecorded(t)
	b, r := newRecorded(t)
	a.Seed(5)
	Rand(a, F32, 1)
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	Rand(a, F32, 1)
	seed, n := a.Random()
	if seed != 5 || n != 2 {
		t.Errorf("seed %d, counter %d", seed, n)
	}
	b.SetRandom(seed, n)
	keep := Rand(b, F32, 1)
	if err := b.Sync(); err != nil || keep.Err() != nil {
		t.Fatal(err)
	}
	if got := r.last().Scalars; len(got) != 2 || got[0] != 5 || got[1] != 2 {
		t.Errorf("scalars %v, expected seed 5 and counter 2", got)
	}
}
