package cluster_test

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// Three programs in rotation where the worker may keep two: each is sent again every time
// and computes what it did.
func TestProgramsInRotation(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	for _, k := range []struct{ room, forgotten, sent int }{{2, 3*rotations - 2, 3 * rotations}, {3, 0, 3}, {0, 0, 3}} {
		e := dial(t, c, &client.Options{Programs: k.room})
		s := tensor.NewSession(e, nil)
		before := e.Stats()
		for i := range rotations {
			for n := 1; n <= 3; n++ {
				var y *tensor.Tensor
				s.Scope(func(sc *tensor.Scope) {
					x := tensor.Full(s, tensor.F32, float64(i), n)
					for range n {
						x = x.MulS(2).AddS(1)
					}
					y = sc.Keep(x)
				})
				got, err := tensor.Data[float32](y)
				if err != nil {
					t.Fatal(err)
				}
				want := float32(i)
				for range n {
					want = want*2 + 1
				}
				if len(got) != n || got[n-1] != want {
					t.Errorf("room for %d, rotation %d: program %d gave %v, expected %v", k.room, i, n, got, want)
				}
				y.Free()
			}
		}
		st := e.Stats()
		sent, known, forgotten := st.Bodies-before.Bodies, st.Known-before.Known, st.Forgotten-before.Forgotten
		if int(sent) != k.sent || int(known) != 3*rotations-k.sent || int(forgotten) != k.forgotten {
			t.Errorf("room for %d: %d sent, %d known, %d forgotten; expected %d, %d, %d", k.room, sent, known, forgotten, k.sent, 3*rotations-k.sent, k.forgotten)
		}
		if want := 3 - min(k.forgotten, 1); int(st.Programs) != want || st.ProgramBytes == 0 {
			t.Errorf("room for %d: %d programs of %d bytes are kept, expected %d", k.room, st.Programs, st.ProgramBytes, want)
		}
		e.Close()
	}
}

const rotations = 4

// Epochs whose last batch is smaller are two programs sent and two plans compiled,
// however many epochs there are and whatever the scalars; a second session that does the
// same sends two and compiles none.
func TestProgramsOfALastSmallerBatch(t *testing.T) {
	const epochs, rows, batch, columns = 4, 19, 4, 6
	dev, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cluster.Options{InProcess: true, Worker: func(name string) (*worker.Options, error) {
		return &worker.Options{Name: name, Device: dev}, nil
	}})
	var want []float32
	for round := range 2 {
		e := dial(t, c, nil)
		s := tensor.NewSession(e, nil)
		w := tensor.Full(s, tensor.F32, 0.5, columns, 1).RequireGrad()
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		before, plans := e.Stats(), dev.Stats()
		steps := 0
		for range epochs {
			for at := 0; at < rows; at += batch {
				x := make([]float32, min(batch, rows-at)*columns)
				for i := range x {
					x[i] = float32((at*columns+i)*7%11) - 5
				}
				s.Scope(func(*tensor.Scope) {
					g, err := autograd.Grad(tensor.From(s, x, len(x)/columns, columns).Matmul(w).Square().Mean(), w)
					if err != nil {
						t.Fatal(err)
					}
					s.NoGrad(func() {
						if err := w.Assign(w.Sub(g[0].MulS(0.01 / float64(steps+1)))); err != nil {
							t.Fatal(err)
						}
					})
				})
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				steps++
			}
		}
		st, dst := e.Stats(), dev.Stats()
		sent, known := st.Bodies-before.Bodies, st.Known-before.Known
		if sent != 2 || known != uint64(steps-2) || st.Forgotten != 0 {
			t.Errorf("session %d: %d programs sent, %d known, %d forgotten in %d steps; expected 2 and the rest", round, sent, known, st.Forgotten, steps)
		}
		compiled, shared := dst.Misses-plans.Misses, dst.Hits-plans.Hits
		if want := uint64(2 * (1 - round)); compiled != want || shared != 2-want || dst.Evicted != 0 {
			t.Errorf("session %d: %d plans compiled, %d shared, %d evicted; expected %d, %d, 0", round, compiled, shared, dst.Evicted, want, 2-want)
		}
		got, err := tensor.Data[float32](w)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("session %d ends at %v, the first at %v", round, got, want)
		}
		s.Close()
	}
}
