package checkpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// split is an engine of n writers. Each holds some rows of a value with dims; the first
// holds all of a value without.
type split struct {
	tensor.Engine
	n, wrong int
}

func (e *split) Writers() int { return e.n }

func (e *split) Save(ctx context.Context, files []*os.File, base int64, ids []uint64) ([][]tensor.Piece, error) {
	got, err := e.Submit(ctx, &tensor.Batch{Base: 1 << 40, Fetch: ids})
	if err != nil {
		return nil, err
	}
	out := make([][]tensor.Piece, e.n)
	for r := range out {
		off := base
		for i, f := range got {
			p := tensor.Piece{Index: i, Start: make([]int, len(f.Shape)), Shape: append(tensor.Shape{}, f.Shape...)}
			part := f.Bytes
			if len(f.Shape) > 0 {
				rows := f.Shape[0]
				from, to := rows*r/e.n, rows*(r+1)/e.n
				p.Start[0], p.Shape[0] = from, to-from+e.wrong
				if rows > 0 {
					part = part[len(part)/rows*from : len(part)/rows*to]
				}
			} else if r > 0 {
				continue
			}
			p.Sum = sha256.Sum256(part)
			if _, err := files[r].WriteAt(part, off); err != nil {
				return nil, err
			}
			off += int64(len(part))
			out[r] = append(out[r], p)
		}
	}
	for _, f := range got {
		if f.Release != nil {
			f.Release()
		}
	}
	return out, nil
}

// TestWriters wants checkpoints that several workers wrote in parts to be restored by any
// other number, and each file to be a safetensors file.
func TestWriters(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		dir := t.TempDir()
		e := session(t).Engine()
		s := tensor.NewSession(&split{Engine: e, n: n}, nil)
		defer s.Close()
		if err := Save(t.Context(), s, dir, state(s, n), nil); err != nil {
			t.Fatal(err)
		}
		c := mustOpen(t, dir)
		if len(c.Files) != n {
			t.Errorf("%d files of %d writers", len(c.Files), n)
		}
		for r := range n {
			files, _ := filepath.Glob(filepath.Join(dir, "data-*", fmt.Sprintf("%d.safetensors", r)))
			f, err := safetensors.Open(files[0])
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		other := session(t)
		got := state(other, 50)
		if err := c.Restore(t.Context(), got); err != nil || !equal(content(t, got), content(t, state(other, n))) {
			t.Errorf("%d writers: %v", n, err)
		}
	}
}

// TestWritersWrong wants an engine that leaves out bytes to be detected before the old
// checkpoint is removed.
func TestWritersWrong(t *testing.T) {
	dir := t.TempDir()
	w := &split{Engine: session(t).Engine(), n: 2}
	s := tensor.NewSession(w, nil)
	defer s.Close()
	if err := Save(t.Context(), s, dir, state(s, 1), &Options{Step: 1}); err != nil {
		t.Fatal(err)
	}
	for _, w.wrong = range []int{1, -1} {
		if err := Save(t.Context(), s, dir, state(s, 2), &Options{Step: 2}); err == nil {
			t.Error("pieces that are wrong were taken")
		}
	}
	if c := mustOpen(t, dir); c.Step != 1 {
		t.Errorf("step %d", c.Step)
	}
}
