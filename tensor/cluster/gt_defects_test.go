package cluster_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestSignalsAreASessions: two sessions of the same workers, whose tensors have the same
// ids and signals, lie as each one's config says, and not as another's.
func TestSignalsAreASessions(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 2})
	engines := []*client.Engine{dial(t, c, &client.Options{Name: "same", Config: cutInputs(2)}), dial(t, c, &client.Options{Name: "same", Workers: 2})}
	var xs []*tensor.Tensor
	for i, e := range engines {
		s := tensor.NewSession(e, nil)
		s.Signal("first", func() { xs = append(xs, tensor.From(s, []float32{1, 2, 3, float32(100 * i)})) })
	}
	const rounds = 50
	for range rounds {
		for i, x := range xs {
			y := x.Sum()
			if v, err := y.Item(); err != nil || v != float64(6+100*i) {
				t.Fatalf("session %d: %v, %v", i, v, err)
			}
			y.Free()
		}
	}
	cut, whole := engines[0].Stats(), engines[1].Stats()
	if cut.Calls != rounds || cut.Moved == 0 || whole.Calls != 0 || whole.Moved != 0 {
		t.Errorf("%d collectives of %d bytes in the session with a config, %d of %d in the other", cut.Calls, cut.Moved, whole.Calls, whole.Moved)
	}
}

// TestWiredOtherwise: programs of the same operations with other operands, or other
// shapes to reshape to, are other programs, cut or not.
func TestWiredOtherwise(t *testing.T) {
	for n := 1; n <= 4; n++ {
		c := start(t, cluster.Options{InProcess: true, Workers: n})
		e := dial(t, c, &client.Options{Config: cutInputs(n)})
		s := tensor.NewSession(e, nil)
		var a, b, wide *tensor.Tensor
		s.Signal("first", func() {
			a, b = tensor.From(s, []float32{1, 1, 1, 1}), tensor.From(s, []float32{10, 10, 10, 10})
			wide = tensor.From(s, numbers(12, 1), 12)
		})
		wirings := []struct {
			of   func() *tensor.Tensor
			want float64
		}{
			{func() *tensor.Tensor { return a.Add(b).Mul(a).Sum() }, 4 * 11},
			{func() *tensor.Tensor { return a.Add(b).Mul(b).Sum() }, 4 * 110},
			{func() *tensor.Tensor { return a.Add(a).Mul(b).Sum() }, 4 * 20},
			{func() *tensor.Tensor { return b.Add(b).Mul(a).Sum() }, 4 * 20},
		}
		for round := range 3 {
			for i, w := range wirings {
				y := w.of()
				if v, err := y.Item(); err != nil || v != w.want {
					t.Errorf("%d workers, round %d: wiring %d is %v, %v; expected %v", n, round, i, v, err, w.want)
				}
				y.Free()
			}
			for _, rows := range []int{2, 3, 4, 6} {
				y := wide.Reshape(rows, -1).Sum(0)
				got, err := tensor.Data[float32](y)
				if err != nil || len(got) != 12/rows {
					t.Fatalf("%d workers: %v, %v", n, got, err)
				}
				y.Free()
				for k := range got {
					want := float32(0)
					for r := range rows {
						want += numbers(12, 1)[r*12/rows+k]
					}
					if d := got[k] - want; d > 1e-5 || d < -1e-5 {
						t.Errorf("%d workers, %d rows: column %d is %v, expected %v", n, rows, k, got[k], want)
					}
				}
			}
			if bodies := e.Stats().Bodies; round > 0 && bodies > uint64(2+len(wirings)+4) {
				t.Errorf("%d workers, round %d: %d programs were sent", n, round, bodies)
			}
		}
	}
}

// childSharer sums a tensor that two workers have in parts, again and again until it is
// killed.
func childSharer(ctx context.Context, args []string) error { // ADDR
	e, err := client.Dial(ctx, args[0], &client.Options{Name: "same", Config: cutInputs(2)})
	if err != nil {
		return err
	}
	defer e.Close()
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	var x *tensor.Tensor
	s.Signal("first", func() { x = tensor.From(s, make([]float32, 1<<16), 1<<8, 1<<8) })
	for i := 0; ; i++ {
		y := x.Tanh().Sum()
		if _, err := y.Item(); err != nil {
			return err
		}
		y.Free()
		if i == 0 {
			fmt.Println("summing")
		}
	}
}

// TestKilledBesideOthers: clients with sessions of several workers are killed in the
// middle of it, and sessions of the same workers, alone and together, never notice.
func TestKilledBesideOthers(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 2})
	type other struct {
		e    *client.Engine
		sum  *tensor.Tensor
		want float64
	}
	var others []*other
	for i, o := range []client.Options{{Name: "same"}, {Name: "same", Config: cutInputs(2)}} {
		e := dial(t, c, &o)
		s := tensor.NewSession(e, nil)
		var x *tensor.Tensor
		s.Signal("first", func() { x = tensor.From(s, []float32{1, 2, 3, float32(i)}) })
		others = append(others, &other{e, x, float64(6 + i)})
	}
	ctx := testContext(t)
	for range 3 {
		p := run(t, "sharer", c.Addr())
		if line, err := p.out.ReadString('\n'); err != nil || line != "summing\n" {
			t.Fatalf("%q, %v", line, err)
		}
		for round := range 20 {
			if round == 10 {
				kill(t, p.Process.Pid)
			}
			for i, o := range others {
				y := o.sum.Sum()
				if v, err := y.Item(); err != nil || v != o.want {
					t.Fatalf("session %d beside one whose client is killed: %v, %v", i, v, err)
				}
				y.Free()
			}
		}
		status(t, ctx, c, "sessions", uint64(len(others)))
	}
	if st := others[1].e.Stats(); st.Calls != 60 {
		t.Errorf("%d collectives of 60 sums", st.Calls)
	}
}
