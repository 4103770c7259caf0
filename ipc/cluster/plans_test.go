package cluster_test

import (
	"testing"

	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/ipc/cluster"
	"github.com/ringside-go/ringside/tensor"
)

// Three programs in rotation where the worker may keep two: each is sent again every time and computes what it did.
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
