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

// writer is an engine that writes values itself, unless it is told that it can't.
type writer struct {
	recorder
	cannot bool
	wrote  []uint64
}

func (w *writer) Save(_ context.Context, f *os.File, ids []uint64, offs []int64) ([]Sum, error) {
	if w.cannot {
		return nil, errors.ErrUnsupported
	}
	w.wrote = append(w.wrote, ids...)
	sums := make([]Sum, len(ids))
	for i, off := range offs {
		if _, err := f.WriteAt([]byte("there"), off); err != nil {
			return nil, err
		}
		sums[i] = sha256.Sum256([]byte("there"))
	}
	return sums, nil
}

// TestSaveTo: the engine writes what it can, after what was recorded; else the values are read and written here.
func TestSaveTo(t *testing.T) {
	w := &writer{}
	s := NewSession(w, nil)
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x := From(s, []uint8{1, 2, 3, 4, 5})
	y := x.AddS(1)
	sums, err := s.SaveTo(t.Context(), f, []*Tensor{y, x}, []int64{8, 0})
	if err != nil || len(w.batches) != 1 || len(w.wrote) != 2 || len(sums) != 2 {
		t.Fatalf("%v: %d batches, %v written, %d sums", err, len(w.batches), w.wrote, len(sums))
	}
	if b := w.last(); w.wrote[0] != b.Base || w.wrote[1] != b.Uploads[0].ID {
		t.Errorf("wrote %v of results from %d on and upload %d", w.wrote, b.Base, b.Uploads[0].ID)
	}
	w.cannot = true
	sums, err = s.SaveTo(t.Context(), f, []*Tensor{x}, []int64{20})
	if err != nil || len(w.wrote) != 2 || len(w.last().Fetch) != 1 {
		t.Fatalf("%v: %v written there, %v fetched", err, w.wrote, w.last().Fetch)
	}
	all, err := os.ReadFile(f.Name())
	if err != nil || !bytes.HasPrefix(all, []byte("there\x00\x00\x00there")) || sums[0] != sha256.Sum256(all[20:]) {
		t.Errorf("%q %v", all, err)
	}
	other := From(NewSession(&recorder{}, nil), []uint8{1})
	if _, err := s.SaveTo(t.Context(), f, []*Tensor{other}, []int64{0}); !errors.Is(err, ErrOtherSession) {
		t.Error(err)
	}
	w.cannot = false
	x.Free()
	if _, err := s.SaveTo(t.Context(), f, []*Tensor{x}, []int64{0}); !errors.Is(err, ErrReleased) {
		t.Error(err)
	}
}

// TestFromFill: a filled tensor is an upload like any other, and a failure to fill costs nothing.
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

// TestRandomState: a session goes on with another's random numbers, also in the middle of a program.
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
