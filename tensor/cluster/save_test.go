package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// various is tensors that lie in every way that workers know: by rows, by columns, whole,
// as sums not taken yet, and not decided. fill is what they hold.
func various(s *tensor.Session, fill int) []tensor.Named {
	data := make([]float32, 37*50)
	for i := range data {
		data[i] = float32(fill + i)
	}
	var byRows, byColumns *tensor.Tensor
	s.Signal("rows", func() { byRows = tensor.From(s, data, 37, 50) })
	s.Signal("columns", func() { byColumns = tensor.From(s, data, 37, 50) })
	return []tensor.Named{
		{Name: "rows", T: byRows.AddS(1)}, {Name: "columns", T: byColumns.MulS(2)},
		{Name: "sums", T: byRows.Sum(0)}, {Name: "sum", T: byRows.Sum()},
		{Name: "whole", T: tensor.Full(s, tensor.F64, float64(fill), 3, 3)},
		{Name: "upload", T: tensor.From(s, data[:7], 7)}, {Name: "scalar", T: tensor.Scalar(s, int32(fill))},
		{Name: "none", T: tensor.Zeros(s, tensor.F32, 0, 4)},
	}
}

func contents(t *testing.T, ts []tensor.Named) (all [][]byte) {
	t.Helper()
	for _, x := range ts {
		if err := x.T.ViewBytes(func(b []byte) error { all = append(all, bytes.Clone(b)); return nil }); err != nil {
			t.Fatalf("%s: %v", x.Name, err)
		}
	}
	return all
}

// TestSave: the workers write a checkpoint, each what it has, into a file of its own, and
// nothing is brought to the client. Any other number of workers restores it.
func TestSave(t *testing.T) {
	dirs := map[int]string{}
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: n, InProcess: testing.Short()})
			e := dial(t, c, &client.Options{Config: rows(n)})
			s := tensor.NewSession(e, nil)
			dir, err := os.MkdirTemp("", "rs")
			if err != nil {
				t.Fatal(err)
			}
			dirs[n] = dir
			saved := various(s, 100*n)
			if err := checkpoint.Save(t.Context(), s, dir, saved, &checkpoint.Options{Step: uint64(n)}); err != nil {
				t.Fatal(err)
			}
			if st := e.Stats(); st.Fetched != 0 || e.Writers() != n {
				t.Errorf("%d writers, %d values were brought to the client", e.Writers(), st.Fetched)
			}
			k, err := checkpoint.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			slices := map[string]int{}
			for _, x := range k.Tensors {
				slices[x.Name] = len(x.Slices)
			}
			if len(k.Files) != n || slices["rows"] != n || slices["columns"] != n || slices["whole"] != 1 || slices["upload"] != 1 {
				t.Errorf("%d files, %v slices", len(k.Files), slices)
			}
			for other, dir := range dirs {
				k, err := checkpoint.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				got, want := various(s, 7), various(s, 100*other)
				err = k.Restore(t.Context(), got)
				k.Close()
				if err != nil {
					t.Fatalf("%d workers restore what %d saved: %v", n, other, err)
				}
				a, b := contents(t, got), contents(t, want)
				for i := range a {
					if !bytes.Equal(a[i], b[i]) {
						t.Errorf("%d workers restore what %d saved: %s differs", n, other, got[i].Name)
					}
				}
			}
		})
	}
	for _, dir := range dirs {
		os.RemoveAll(dir)
	}
}

// TestSaveBesides: a session that saves much does not hold up another, and both sessions'
// values are right.
func TestSaveBesides(t *testing.T) {
	c := start(t, cluster.Options{Workers: 1, InProcess: true})
	heavy := tensor.NewSession(dial(t, c, nil), nil)
	light := tensor.NewSession(dial(t, c, nil), nil)
	const elems = 8 << 20 // 32 MiB: eight turns
	x := tensor.Arange(heavy, tensor.F32, 0, 1, elems)
	if err := heavy.Sync(); err != nil {
		t.Fatal(err)
	}
	y := tensor.Ones(light, tensor.F32, 4)
	dir := t.TempDir()
	done := make(chan error, 1)
	go func() { done <- checkpoint.Save(t.Context(), heavy, dir, []tensor.Named{{Name: "x", T: x}}, nil) }()
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		default:
		}
		y = y.AddS(1)
		if _, err := y.Sum().Item(); err != nil {
			t.Fatal(err)
		}
	}
	k, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	z := tensor.Zeros(light, tensor.F32, elems)
	if err := k.Restore(t.Context(), []tensor.Named{{Name: "x", T: z}}); err != nil {
		t.Fatal(err)
	}
	v, err := tensor.Data[float32](z.Sub(tensor.Arange(light, tensor.F32, 0, 1, elems)).Abs().Max())
	if err != nil || v[0] != 0 {
		t.Errorf("restored tensors differ by %v: %v", v, err)
	}
}

// TestSaveFails: a worker that cannot write says why, and the session goes on.
func TestSaveFails(t *testing.T) {
	for _, n := range []int{1, 2} {
		c := start(t, cluster.Options{Workers: n, InProcess: true})
		s := tensor.NewSession(dial(t, c, &client.Options{Config: rows(n)}), nil)
		var files []*os.File
		for r := range n {
			name := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if r == n-1 {
				f, err = os.Open(name) // only to read
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files = append(files, f)
		}
		ts := various(s, 5)
		_, err := s.SaveTo(t.Context(), files, 100, []*tensor.Tensor{ts[0].T, ts[1].T})
		if want := fmt.Sprintf("writing file %d of %d: bad file descriptor", n, n); !errors.Is(err, client.ErrRemote) || err.Error() != want {
			t.Errorf("%d workers, a file that cannot be written: %v, expected %s", n, err, want)
		}
		if v, err := ts[6].T.Item(); err != nil || v != 5 {
			t.Errorf("then: %v %v", v, err)
		}
	}
}
