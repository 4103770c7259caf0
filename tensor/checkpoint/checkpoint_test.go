package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

func session(t testing.TB) *tensor.Session {
	t.Helper()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// state returns tensors of all kinds whose content follows from step.
func state(s *tensor.Session, step int) []tensor.Named {
	x := make([]float32, 6)
	for i := range x {
		x[i] = float32(step*100 + i)
	}
	w := tensor.From(s, x, 2, 3)
	return []tensor.Named{
		{Name: "w", T: w},
		{Name: "w.computed", T: w.AddS(0.5)},
		{Name: "count", T: tensor.Scalar(s, int64(step))},
		{Name: "double", T: tensor.From(s, []float64{float64(step), -1})},
		{Name: "mask", T: tensor.From(s, []bool{true, step%2 == 0})},
		{Name: "bytes", T: tensor.From(s, []uint8{uint8(step), 7, 8})},
		{Name: "int", T: tensor.From(s, []int32{int32(step)})},
		{Name: "half", T: w.Cast(tensor.F16)},
		{Name: "none", T: tensor.Zeros(s, tensor.F32, 0, 4)},
	}
}

func content(t testing.TB, ts []tensor.Named) (all [][]byte) {
	t.Helper()
	for _, x := range ts {
		if err := x.T.ViewBytes(func(b []byte) error { all = append(all, bytes.Clone(b)); return nil }); err != nil {
			t.Fatalf("%s: %v", x.Name, err)
		}
	}
	return all
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

func mustOpen(t testing.TB, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRoundTrip wants a session of another time to restore what was saved, and a folder
// to hold one checkpoint.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := session(t)
	for step := range 3 {
		if err := Save(t.Context(), s, dir, state(s, step), &Options{Step: uint64(step), Notes: map[string]string{"k": "v"}}); err != nil {
			t.Fatal(err)
		}
		c := mustOpen(t, dir)
		if c.Step != uint64(step) || c.Notes["k"] != "v" || len(c.Tensors) != len(state(s, step)) {
			t.Errorf("step %d, notes %v, %d tensors", c.Step, c.Notes, len(c.Tensors))
		}
		other := session(t)
		got := state(other, 77)
		if err := c.Restore(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if want := content(t, state(s, step)); !equal(content(t, got), want) {
			t.Errorf("restored %v, expected %v", content(t, got), want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v in the folder, %v; expected the manifest and one folder", entries, err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "data-*", "*.safetensors"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	f, err := safetensors.Open(files[0]) // others read it too
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := len(f.Names()); got != 9 {
		t.Errorf("%d tensors in the file", got)
	}
}

// TestRestoreOwns wants restored tensors to keep their identity, leaves included, and to
// be readable while they change.
func TestRestoreOwns(t *testing.T) {
	dir := t.TempDir()
	s := session(t)
	w := tensor.From(s, []float32{1, 2}).RequireGrad()
	named := []tensor.Named{{Name: "w", T: w}}
	if err := Save(t.Context(), s, dir, named, nil); err != nil {
		t.Fatal(err)
	}
	old := w.MulS(10)
	s.NoGrad(func() {
		if err := w.Assign(tensor.From(s, []float32{5, 6})); err != nil {
			t.Fatal(err)
		}
	})
	if err := mustOpen(t, dir).Restore(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	x, err := tensor.Data[float32](w)
	y, err2 := tensor.Data[float32](old)
	if err != nil || err2 != nil || !slices.Equal(x, []float32{1, 2}) || !slices.Equal(y, []float32{10, 20}) || !w.RequiresGrad() {
		t.Errorf("%v %v, %v %v, leaf %v", x, err, y, err2, w.RequiresGrad())
	}
}

// cut returns a random partition of a shape into at most n boxes, by cutting boxes along
// random dims.
func cut(r *rand.Rand, shape []int, n int) []Slice {
	out := []Slice{{Start: make([]int, len(shape)), Shape: slices.Clone(shape)}}
	for len(out) < n && len(shape) > 0 {
		i, d := r.IntN(len(out)), r.IntN(len(shape))
		a := &out[i]
		at := r.IntN(a.Shape[d] + 1)
		b := Slice{Start: slices.Clone(a.Start), Shape: slices.Clone(a.Shape)}
		b.Start[d] += at
		b.Shape[d] -= at
		a.Shape[d] = at
		out = append(out, b)
	}
	return out
}

// each calls f with every index of a box.
func each(s *Slice, f func(at []int)) {
	at := slices.Clone(s.Start)
	for _, n := range s.Shape {
		if n == 0 {
			return
		}
	}
	for {
		f(at)
		d := len(at) - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < s.Start[d]+s.Shape[d] {
				break
			}
			at[d] = s.Start[d]
		}
		if d < 0 {
			return
		}
	}
}

// TestSlices wants tensors that several workers wrote in parts to be joined, however they
// were cut.
func TestSlices(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 100 {
		dir := t.TempDir()
		files := 1 + r.IntN(5)
		shape := make([]int, r.IntN(5))
		for d := range shape {
			shape[d] = r.IntN(6)
		}
		whole := &Slice{Start: make([]int, len(shape)), Shape: shape}
		var want []byte
		index := map[string]byte{}
		each(whole, func(at []int) {
			index[fmt.Sprint(at)] = byte(r.Uint32())
			want = append(want, index[fmt.Sprint(at)])
		})
		tt := Tensor{Name: "x", DType: safetensors.U8, Shape: shape, Slices: cut(r, shape, files)}
		m := &Manifest{Format: formatName, Version: Version}
		for i := range tt.Slices {
			s := &tt.Slices[i]
			var data []byte
			each(s, func(at []int) { data = append(data, index[fmt.Sprint(at)]) })
			shape64 := make([]int64, len(shape))
			for d, n := range s.Shape {
				shape64[d] = int64(n)
			}
			list := []safetensors.Tensor{{Name: "x", DType: safetensors.U8, Shape: shape64, Data: data}}
			head, _, err := safetensors.Place(list, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%d.safetensors", i)
			if err := safetensors.WriteFile(filepath.Join(dir, name), list, nil); err != nil {
				t.Fatal(err)
			}
			m.Files = append(m.Files, File{Path: name, Bytes: int64(len(head) + len(data))})
			sum := sha256.Sum256(data)
			s.File, s.Offset, s.Sum = i, int64(len(head)), hex.EncodeToString(sum[:])
		}
		m.Tensors = []Tensor{tt}
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifestName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		c := mustOpen(t, dir)
		got := bytes.Repeat([]byte{0xCC}, len(want))
		if err := c.Read(&c.Tensors[0], got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: shape %v in %+v: %v\n%v, expected\n%v", round, shape, tt.Slices, err, got, want)
		}
	}
}

// TestMismatch wants an error to name a tensor that does not fit, before any tensor
// changes.
func TestMismatch(t *testing.T) {
	dir := t.TempDir()
	s := session(t)
	if err := Save(t.Context(), s, dir, []tensor.Named{{Name: "a", T: tensor.Ones(s, tensor.F32, 2)}, {Name: "b", T: tensor.Ones(s, tensor.F32, 3)},
		{Name: "c", T: tensor.Ones(s, tensor.F32)}}, nil); err != nil {
		t.Fatal(err)
	}
	a := tensor.Zeros(s, tensor.F32, 2)
	err := mustOpen(t, dir).Restore(t.Context(), []tensor.Named{{Name: "a", T: a}, {Name: "b", T: tensor.Zeros(s, tensor.I64, 3)}, {Name: "d", T: a}})
	if !errors.Is(err, ErrMismatch) {
		t.Fatal(err)
	}
	for _, want := range []string{dir, "missing d", "unexpected c", "b is F32[3], expected I64[3]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected %q", err, want)
		}
	}
	if x, err := tensor.Data[float32](a); err != nil || x[0] != 0 {
		t.Errorf("%v %v", x, err)
	}
	if err := mustOpen(t, dir).RestorePart(t.Context(), []tensor.Named{{Name: "a", T: a}}); err != nil {
		t.Errorf("a part: %v", err)
	}
	if x, err := tensor.Data[float32](a); err != nil || x[0] != 1 {
		t.Errorf("a part: %v %v", x, err)
	}
	if err := mustOpen(t, dir).RestorePart(t.Context(), []tensor.Named{{Name: "a", T: a}, {Name: "d", T: a}}); !errors.Is(err, ErrMismatch) {
		t.Errorf("a part that is not there: %v", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestDamage changes each byte and wants an error that names the place, and no tensor
// changed.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := session(t)
	if err := Save(t.Context(), s, dir, state(s, 1), nil); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "data-*", "*.safetensors"))
	for _, path := range []string{files[0], filepath.Join(dir, manifestName)} {
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := 0; i < len(was); i += 1 + len(was)/150 {
			now := bytes.Clone(was)
			now[i] ^= 1
			if err := os.WriteFile(path, now, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Open(dir)
			if err == nil {
				got := state(s, 9)
				if err = c.Restore(t.Context(), got); err != nil && !equal(content(t, got), content(t, state(s, 9))) {
					t.Errorf("byte %d: tensors changed", i)
				}
				c.Close()
			}
			if err == nil && !harmless(was, i) {
				t.Fatalf("%s: byte %d of %d changed, and no error", path, i, len(was))
			}
			if err != nil {
				found++
				if s.Err() != nil {
					t.Fatalf("byte %d: the session is left with %v", i, s.Err())
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: nothing was found", path)
		}
		for n := 0; n < len(was); n += 1 + len(was)/25 {
			if err := os.WriteFile(path, was[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := Open(dir); err == nil {
				c.Close()
				t.Errorf("%s: cut to %d of %d bytes, and no error", path, n, len(was))
			}
		}
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, dir)
}

// harmless reports whether a change is one of white space in JSON: a blank for a tab, or
// the line break at the end.
func harmless(src []byte, i int) bool { return src[i] == ' ' || src[i] == '\n' }
